//! Rows of LangChain's three kinds of messages: `user`, `assistant` and `tool`.
//!
//! `content` is text. What a row has no column for stands in `metadata`: the parts of a content that is more than text
//! (`content`, as LangChain writes them), thoughts (`reasoning`), and calls whose arguments are no object
//! (`invalid_tool_calls`). There is no row for what a system said.

use tw_core::request::Role;

use super::ShapeRow;
use super::said::{SaidEntry, SaidMessage, SaidTurn};
use super::write::{
    ObjectWriter, arguments_of, calls_of, chat_parts, has_parts, list, reasoning_of, row, row_id,
    text_of, time,
};

pub fn rows(turn: &SaidTurn) -> Vec<ShapeRow> {
    let said = turn.said.iter();
    let rows = said.filter_map(|said| {
        let id = row_id(turn, said.place());
        let begin = |at| {
            ObjectWriter::new()
                .text("id", &id)
                .text("created_at", &time(at))
                .text("conversation_id", &turn.conversation)
        };
        let metadata = ObjectWriter::new().text("turn", &turn.id.to_string());
        let fields = match said {
            SaidEntry::Message(message) => of_message(begin(message.at), metadata, turn, message)?,
            SaidEntry::Answer(answer) => {
                let metadata = match has_parts(&answer.content) {
                    true => metadata.json("content", &chat_parts(&answer.content)),
                    false => metadata,
                };
                begin(answer.at)
                    .text("content", &text_of(&answer.content))
                    .text("role", "tool")
                    .json("tool_calls", "null")
                    .text("tool_call_id", &answer.tool_call_id)
                    .maybe("tool_name", answer.tool_name.as_deref())
                    .text("status", answer.status.as_str())
                    .json("metadata", &metadata.end())
            }
        };
        Some(row(id.clone(), fields))
    });
    rows.collect()
}

fn of_message(
    fields: ObjectWriter,
    metadata: ObjectWriter,
    turn: &SaidTurn,
    message: &SaidMessage,
) -> Option<ObjectWriter> {
    let role = match message.role {
        Role::System | Role::Developer => return None,
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let mut metadata = metadata;
    if message.role == Role::Assistant && !turn.model.is_empty() {
        metadata = metadata.text("model", &turn.model);
    }
    if has_parts(&message.blocks) {
        metadata = metadata.json("content", &chat_parts(&message.blocks));
    }
    if let Some(reasoning) = reasoning_of(&message.blocks) {
        metadata = metadata.text("reasoning", &reasoning);
    }
    let (mut calls, mut invalid) = (Vec::new(), Vec::new());
    for call in calls_of(&message.blocks) {
        let fields = ObjectWriter::new()
            .text("id", &call.id)
            .text("name", &call.name);
        match arguments_of(call) {
            Ok(arguments) => calls.push(fields.json("args", &arguments).end()),
            Err(text) => invalid.push(fields.text("args", &text).end()),
        }
    }
    if !invalid.is_empty() {
        metadata = metadata.json("invalid_tool_calls", &list(&invalid));
    }
    let fields = fields
        .text("content", &text_of(&message.blocks))
        .text("role", role);
    let fields = match calls.is_empty() {
        true => fields.json("tool_calls", "null"),
        false => fields.json("tool_calls", &list(&calls)),
    };
    Some(
        fields
            .json("tool_call_id", "null")
            .json("tool_name", "null")
            .json("status", "null")
            .json("metadata", &metadata.end()),
    )
}
