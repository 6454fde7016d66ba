//! An application that keeps LangChain's messages in tables of its own.
//!
//! Follows the table `messages` of seed document 001: one row for each message, `role` `user`, `assistant` or `tool`,
//! `tool_calls` as LangChain has them. Rows of the time before its migration have no such columns, and the same names
//! in `metadata`.
//!
//! Known differences: LangChain's own words for roles (`human`, `ai`) and OpenAI's form of calls are read, too.

use tw_core::imported::{ForeignPart, ForeignResult, ForeignRole, ForeignStatus, Repair};

use super::{Said, answered, inner, read_calls, role_of, said_text, status_of, text_or_json};
use crate::openai_chat::raw::ObjectFields;

pub fn read(fields: &ObjectFields<'_>, repairs: &mut Vec<Repair>) -> Said {
    // What stood there before it had columns of its own.
    let moved = fields.get("metadata").and_then(|metadata| {
        inner(metadata, |text| {
            let fields = ObjectFields::parse(text).ok()?;
            let moved = |name| fields.get(name).map(ToOwned::to_owned);
            Some(["tool_call_id", "tool_calls", "status"].map(moved))
        })
    });
    let [moved_id, moved_calls, moved_status] = moved.unwrap_or_default();
    let call_id = fields.get("tool_call_id").or(moved_id.as_deref());
    let calls = fields.get("tool_calls").or(moved_calls.as_deref());
    let status = fields.get("status").or(moved_status.as_deref());
    let role = match role_of(fields.get("role"), repairs) {
        // Before the migration there was no role for results.
        ForeignRole::Assistant if call_id.is_some() => ForeignRole::Tool,
        role => role,
    };
    let content = fields.get("content");
    let parts = if role == ForeignRole::Tool {
        vec![ForeignPart::Result(ForeignResult {
            answers: answered(call_id, repairs),
            content: content.map(text_or_json).unwrap_or_default(),
            status: status_of(status, word, repairs),
        })]
    } else {
        let mut parts: Vec<ForeignPart> = content.map(said_text).into_iter().collect();
        parts.extend(
            calls
                .into_iter()
                .flat_map(|calls| read_calls(calls, repairs)),
        );
        parts
    };
    vec![(role, parts)]
}

fn word(status: &str) -> Option<ForeignStatus> {
    match status {
        "success" => Some(ForeignStatus::Success),
        "error" => Some(ForeignStatus::Error),
        "pending" => Some(ForeignStatus::Pending),
        _ => None,
    }
}
