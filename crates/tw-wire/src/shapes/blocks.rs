//! Messages of blocks: `text`, `tool_use` and `tool_result`, in order, in one message of the assistant.

use tw_core::request::{Block, PartKind, Role};
use tw_core::request_settings::MediaSource;
use tw_core::time::Timestamp;

use super::ShapeRow;
use super::said::{AnswerStatus, CallAnswer, SaidEntry, SaidTurn};
use super::write::{
    ObjectWriter, arguments_of, list, quoted, row, row_id, text_of, time, value_of,
};
use crate::native_words;

/// A message that is being put together.
struct OpenMessage<'a> {
    place: &'a str,
    role: &'static str,
    at: Timestamp,
    blocks: Vec<String>,
}

pub fn rows(turn: &SaidTurn) -> Vec<ShapeRow> {
    let mut messages: Vec<OpenMessage<'_>> = Vec::new();
    for said in &turn.said {
        let (role, at, blocks) = match said {
            SaidEntry::Message(message) => {
                let role = match message.role {
                    // Such an application keeps what it tells its model elsewhere.
                    Role::System | Role::Developer => continue,
                    Role::User | Role::Tool => "user",
                    Role::Assistant => "assistant",
                };
                let blocks: Vec<String> = message.blocks.iter().filter_map(block).collect();
                (role, message.at, blocks)
            }
            SaidEntry::Answer(answer) => {
                let blocks: Vec<String> = result(answer).into_iter().collect();
                ("assistant", answer.at, blocks)
            }
        };
        match messages.last_mut() {
            Some(last) if role == "assistant" && last.role == role => last.blocks.extend(blocks),
            _ => messages.push(OpenMessage {
                place: said.place(),
                role,
                at,
                blocks,
            }),
        }
    }
    let rows = messages
        .into_iter()
        .filter(|message| !message.blocks.is_empty());
    let rows = rows.map(|message| {
        let id = row_id(turn, message.place);
        let fields = ObjectWriter::new()
            .text("id", &id)
            .text("conversation_id", &turn.conversation)
            .text("role", message.role)
            .json("content", &list(&message.blocks))
            .text("created_at", &time(message.at));
        row(id, fields)
    });
    rows.collect()
}

fn block(block: &Block) -> Option<String> {
    Some(match block {
        Block::Text(text) | Block::Refusal(text) => ObjectWriter::new()
            .text("type", "text")
            .literal("text", text)
            .end(),
        Block::Reasoning(thought) if !thought.text.is_empty() => ObjectWriter::new()
            .text("type", "thinking")
            .literal("thinking", &thought.text)
            .end(),
        Block::Call(call) => {
            let input = arguments_of(call)
                .unwrap_or_else(|text| ObjectWriter::new().text("invalid_arguments", &text).end());
            ObjectWriter::new()
                .text("type", "tool_use")
                .text("id", &call.id)
                .text("name", &call.name)
                .json("input", &input)
                .end()
        }
        Block::Part(part) => {
            let Some(media) = native_words::media(part) else {
                return Some(part.json.as_str().to_owned());
            };
            let source = match &media.source {
                MediaSource::Url(url) => ObjectWriter::new().text("type", "url").text("url", url),
                MediaSource::Data { media_type, base64 } => ObjectWriter::new()
                    .text("type", "base64")
                    .text("media_type", media_type)
                    .text("data", base64),
                MediaSource::Text(text) => ObjectWriter::new()
                    .text("type", "text")
                    .text("media_type", "text/plain")
                    .text("data", text),
                MediaSource::FileId(id) => {
                    ObjectWriter::new().text("type", "file").text("file_id", id)
                }
            };
            let kind = match media.kind {
                PartKind::Image => "image",
                PartKind::File | PartKind::Other => "document",
                PartKind::Audio => "audio",
            };
            ObjectWriter::new()
                .text("type", kind)
                .json("source", &source.end())
                .end()
        }
        Block::Reasoning(_) | Block::Result(_) | Block::Native(_) => return None,
    })
}

/// A result is its JSON where it is JSON; while there is none, there is no block.
fn result(answer: &CallAnswer) -> Option<String> {
    let fields = ObjectWriter::new()
        .text("type", "tool_result")
        .text("tool_use_id", &answer.tool_call_id);
    let content = match (&answer.whole, &answer.content[..]) {
        (Some(whole), _) => value_of(whole),
        (None, [Block::Text(text)]) => value_of(&text.to_text()),
        (None, blocks) if super::write::has_parts(blocks) => {
            list(&blocks.iter().filter_map(block).collect::<Vec<_>>())
        }
        (None, blocks) => quoted(&text_of(blocks)),
    };
    match answer.status {
        AnswerStatus::Pending => None,
        AnswerStatus::Success => Some(fields.json("content", &content).end()),
        AnswerStatus::Error => Some(
            fields
                .json("content", &content)
                .json("is_error", "true")
                .end(),
        ),
    }
}
