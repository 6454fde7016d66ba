//! Messages of chat completions, as an application keeps them that stores what it sends and gets.
//!
//! `role`, `content` (or `content_json`, where there is more than text), `tool_calls` and `tool_call_id` are the message.

use tw_core::request::Role;

use super::ShapeRow;
use super::said::{SaidEntry, SaidMessage, SaidTurn};
use super::write::{
    ObjectWriter, calls_of, chat_parts, has_parts, list, row, row_id, text_of, time,
};

pub fn rows(turn: &SaidTurn) -> Vec<ShapeRow> {
    let said = turn.said.iter();
    let rows = said.map(|said| {
        let id = row_id(turn, said.place());
        let fields = ObjectWriter::new()
            .text("id", &id)
            .text("conversation_id", &turn.conversation);
        let (fields, at) = match said {
            SaidEntry::Message(message) => (message_fields(fields, message), message.at),
            SaidEntry::Answer(answer) => {
                let fields = fields.text("role", "tool");
                let fields = fields.text("content", &text_of(&answer.content));
                let fields = match has_parts(&answer.content) {
                    true => fields.json("content_json", &chat_parts(&answer.content)),
                    false => fields.json("content_json", "null"),
                };
                let fields = fields
                    .json("tool_calls", "null")
                    .json("function_call", "null")
                    .text("tool_call_id", &answer.tool_call_id)
                    .maybe("name", answer.tool_name.as_deref())
                    .text("status", answer.status.as_str());
                (fields, answer.at)
            }
        };
        row(id, fields.text("created_at", &time(at)))
    });
    rows.collect()
}

fn message_fields(fields: ObjectWriter, message: &SaidMessage) -> ObjectWriter {
    let role = match message.role {
        Role::System | Role::Developer => "system",
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let calls: Vec<String> = calls_of(&message.blocks)
        .map(|call| {
            let function = ObjectWriter::new()
                .text("name", &call.name)
                .literal("arguments", &call.arguments)
                .end();
            ObjectWriter::new()
                .text("id", &call.id)
                .text("type", "function")
                .json("function", &function)
                .end()
        })
        .collect();
    let text = text_of(&message.blocks);
    let is_call_alone = text.is_empty() && !calls.is_empty();
    let fields = fields
        .text("role", role)
        .maybe("content", (!is_call_alone).then_some(&text));
    let fields = match has_parts(&message.blocks) {
        true => fields.json("content_json", &chat_parts(&message.blocks)),
        false => fields.json("content_json", "null"),
    };
    let fields = match calls.is_empty() {
        true => fields.json("tool_calls", "null"),
        false => fields.json("tool_calls", &list(&calls)),
    };
    fields
        .json("function_call", "null")
        .json("tool_call_id", "null")
        .json("name", "null")
        .json("status", "null")
}
