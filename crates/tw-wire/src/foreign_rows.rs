//! Rows of an application that keeps LangChain's messages in tables of its own.
//!
//! Follows the table `messages` of seed document 001: one row for each message, `role` `user`, `assistant` or `tool`,
//! `tool_calls` as LangChain has them. Rows of the time before its migration have no such columns, and the same names
//! in `metadata`.
//!
//! Known differences: LangChain's own words for roles (`human`, `ai`) and OpenAI's form of calls are read, too.

use serde::Deserialize;
use serde_json::value::RawValue;
use tw_core::imported::{
    ForeignCall, ForeignMessage, ForeignPart, ForeignResult, ForeignRole, ForeignStatus, Repair,
};
use tw_core::json::{Json, Literal};
use tw_core::time::Timestamp;

/// The word by which imported rows are known.
pub const SHAPE: &str = "langchain";

#[derive(Deserialize)]
struct MessageRow<'a> {
    #[serde(borrow, default)]
    role: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

/// What stood in `metadata` before it had columns of its own.
#[derive(Default, Deserialize)]
struct ToolFields {
    #[serde(default)]
    tool_calls: Option<Box<RawValue>>,
    #[serde(default)]
    tool_call_id: Option<Box<RawValue>>,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct CallFields<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function: Option<FunctionFields<'a>>,
}

#[derive(Deserialize)]
struct FunctionFields<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Reads a row, whose id and time are known; what had to be repaired goes to `repairs`. `None` for a row that is no
/// object.
pub fn read_message(
    id: &str,
    at: Timestamp,
    row: &str,
    repairs: &mut Vec<Repair>,
) -> Option<ForeignMessage> {
    // A list would be read, too, as the fields in order.
    if !row.trim_start().starts_with('{') {
        return None;
    }
    let fields: MessageRow<'_> = serde_json::from_str(row).ok()?;
    let moved: ToolFields = fields
        .metadata
        .and_then(|metadata| inner(metadata, |text| serde_json::from_str(text).ok()))
        .unwrap_or_default();
    let call_id = fields.tool_call_id.or(moved.tool_call_id.as_deref());
    let calls = fields.tool_calls.or(moved.tool_calls.as_deref());
    let status = fields.status.or(moved.status.as_deref());
    let role = match fields.role.and_then(text_of).as_deref() {
        Some("user" | "human") => ForeignRole::User,
        Some("system") => ForeignRole::System,
        // Before the migration there was no role for results.
        Some("assistant" | "ai") if call_id.is_some() => ForeignRole::Tool,
        Some("assistant" | "ai") => ForeignRole::Assistant,
        Some("tool") => ForeignRole::Tool,
        Some(_) | None => {
            repairs.push(Repair::UnknownRole);
            ForeignRole::User
        }
    };
    let mut parts = Vec::new();
    if role == ForeignRole::Tool {
        if call_id.is_none() {
            repairs.push(Repair::CallWithoutId);
        }
        parts.push(ForeignPart::Result(ForeignResult {
            call_id: call_id.map(text_or_json).unwrap_or_default(),
            content: fields.content.map(text_or_json).unwrap_or_default(),
            status: status_of(status, repairs),
        }));
    } else {
        parts.extend(fields.content.map(|text| ForeignPart::Text(literal(text))));
        parts.extend(
            calls
                .into_iter()
                .flat_map(|calls| read_calls(calls, repairs)),
        );
    }
    Some(ForeignMessage {
        id: id.to_owned(),
        role,
        parts,
        at,
        row: Json::of_read(row.trim()),
    })
}

/// The text in a field of a row, such as the user's id of a conversation's.
pub fn text_field(row: &str, name: &str) -> Option<String> {
    let fields: std::collections::HashMap<String, &RawValue> = serde_json::from_str(row).ok()?;
    fields.get(name).copied().and_then(text_of)
}

fn status_of(status: Option<&RawValue>, repairs: &mut Vec<Repair>) -> ForeignStatus {
    let Some(status) = status else {
        return ForeignStatus::Success;
    };
    match text_of(status).as_deref() {
        Some("success") => ForeignStatus::Success,
        Some("error") => ForeignStatus::Error,
        Some("pending") => ForeignStatus::Pending,
        Some(_) | None => {
            repairs.push(Repair::UnknownStatus);
            ForeignStatus::Success
        }
    }
}

fn read_calls(calls: &RawValue, repairs: &mut Vec<Repair>) -> Vec<ForeignPart> {
    let listed = inner(calls, |text| {
        let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        let read: Option<Vec<CallFields<'_>>> = items.into_iter().map(read_call).collect();
        read.map(|calls| calls.iter().map(call_of).collect::<Vec<_>>())
    });
    let Some(listed) = listed else {
        repairs.push(Repair::CallsUnreadable);
        return Vec::new();
    };
    if listed.iter().any(|call| call.id.is_empty()) {
        repairs.push(Repair::CallWithoutId);
    }
    listed.into_iter().map(ForeignPart::Call).collect()
}

fn read_call(item: &RawValue) -> Option<CallFields<'_>> {
    serde_json::from_str(item.get()).ok()
}

fn call_of(fields: &CallFields<'_>) -> ForeignCall {
    let function = fields.function.as_ref();
    let name = fields.name.or(function.and_then(|function| function.name));
    let arguments = fields
        .args
        .or(function.and_then(|function| function.arguments));
    ForeignCall {
        id: fields.id.map(text_or_json).unwrap_or_default(),
        name: name.map(text_or_json).unwrap_or_default(),
        arguments: arguments.map_or_else(|| "{}".to_owned(), text_or_json),
    }
}

/// Reads JSON that stands there itself, or in a string as where a column is text.
fn inner<T>(raw: &RawValue, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    match text_of(raw) {
        Some(text) => read(&text),
        None => read(raw.get()),
    }
}

fn text_of(raw: &RawValue) -> Option<String> {
    Literal::of_raw(raw).map(|text| text.to_text())
}

/// The text of a string, or the JSON of another value.
fn text_or_json(raw: &RawValue) -> String {
    text_of(raw).unwrap_or_else(|| raw.get().to_owned())
}

fn literal(raw: &RawValue) -> Literal {
    Literal::of_raw(raw).unwrap_or_else(|| Literal::from_text(raw.get()))
}

#[cfg(test)]
mod tests;
