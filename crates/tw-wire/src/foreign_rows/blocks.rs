//! An application that keeps a message as a list of blocks.
//!
//! Follows the table `messages` of seed document 002: `role` `user` or `assistant`, and `content` a list of `text`,
//! `tool_use` and `tool_result` blocks. Text, calls, their results and the text behind them are in one row.
//!
//! Known differences: `is_error` of a result is read, which that document lacks, and a content that is a text.

use serde_json::value::RawValue;
use tw_core::imported::{
    ForeignCall, ForeignPart, ForeignResult, ForeignRole, ForeignStatus, Repair,
};

use super::{Said, answered, inner, role_of, said_text, text_of, text_or_json};
use crate::openai_chat::raw::{self, ObjectFields};

pub fn read(fields: &ObjectFields<'_>, repairs: &mut Vec<Repair>) -> Said {
    let role = role_of(fields.get("role"), repairs);
    let mut said: Said = Vec::new();
    match fields.get("content") {
        None => {}
        Some(content) => match list_of(content) {
            Some(blocks) => {
                for block in blocks {
                    add(&mut said, role, &block, repairs);
                }
            }
            None => {
                if text_of(content).is_none() {
                    repairs.push(Repair::JsonUnreadable);
                }
                said.push((role, vec![said_text(content)]));
            }
        },
    }
    if said.is_empty() {
        said.push((role, Vec::new()));
    }
    said
}

fn list_of(content: &RawValue) -> Option<Vec<Box<RawValue>>> {
    inner(content, |text| serde_json::from_str(text).ok())
}

/// A block goes to the message before it, unless results are between what the assistant says: each answer of the model
/// is a message of its own.
fn add(said: &mut Said, role: ForeignRole, block: &RawValue, repairs: &mut Vec<Repair>) {
    let Ok(fields) = ObjectFields::parse(block.get()) else {
        repairs.push(Repair::UnknownBlock);
        return;
    };
    let kind = fields.get("type").and_then(text_of);
    let (role, part) = match kind.as_deref() {
        Some("text") => {
            let Some(text) = fields.get("text") else {
                return repairs.push(Repair::UnknownBlock);
            };
            (role, said_text(text))
        }
        Some("tool_use") => (role, call_of(&fields, repairs)),
        Some("tool_result") => {
            let is_error = fields.get("is_error").and_then(raw::boolean) == Some(true);
            let result = ForeignResult {
                answers: answered(fields.get("tool_use_id"), repairs),
                content: fields.get("content").map(text_or_json).unwrap_or_default(),
                status: match is_error {
                    true => ForeignStatus::Error,
                    false => ForeignStatus::Success,
                },
            };
            (ForeignRole::Tool, ForeignPart::Result(result))
        }
        Some(_) | None => return repairs.push(Repair::UnknownBlock),
    };
    match said.last_mut() {
        Some((last, parts)) if *last == role => parts.push(part),
        Some(_) | None => said.push((role, vec![part])),
    }
}

fn call_of(fields: &ObjectFields<'_>, repairs: &mut Vec<Repair>) -> ForeignPart {
    let id = fields.get("id").map(text_or_json).unwrap_or_default();
    if id.is_empty() {
        repairs.push(Repair::CallWithoutId);
    }
    let input = fields.get("input");
    ForeignPart::Call(ForeignCall {
        id,
        name: fields.get("name").map(text_or_json).unwrap_or_default(),
        arguments: input.map_or_else(|| "{}".to_owned(), text_or_json),
    })
}
