//! An application that keeps messages of OpenAI's chat completions in SQLite.
//!
//! Follows the table `messages` of seed document 003: `role`, `content`, and the texts of JSON `tool_calls`,
//! `function_call` and `content_json`.
//!
//! Known differences: the document names no column for the id of a result's call; it is read from `tool_call_id`, and
//! where that is missing the result is the next call's. Of the time of `function_call` a result has the role `function`
//! and the tool's `name`. `status` is of a message where it is none of a result's, as `final`.

use serde_json::value::RawValue;
use tw_core::imported::{
    ForeignCall, ForeignCallRef, ForeignPart, ForeignResult, ForeignRole, ForeignStatus, Repair,
};
use tw_core::json::Literal;

use super::{Said, inner, read_calls, role_of, said_text, status_of, text_of, text_or_json};
use crate::openai_chat::raw::ObjectFields;

pub fn read(id: &str, fields: &ObjectFields<'_>, repairs: &mut Vec<Repair>) -> Said {
    let role = role_of(fields.get("role"), repairs);
    let structured = fields.get("content_json").filter(|raw| !is_blank(raw));
    let structured = structured.and_then(|raw| {
        let read = inner(raw, |text| {
            serde_json::from_str::<&RawValue>(text)
                .ok()
                .map(ToOwned::to_owned)
        });
        if read.is_none() {
            repairs.push(Repair::JsonUnreadable);
        }
        read
    });
    let content = fields.get("content");
    if role == ForeignRole::Tool {
        let shown = content.map(text_or_json).filter(|text| !text.is_empty());
        let content = structured.map(|json| text_or_json(&json)).or(shown);
        let result = ForeignResult {
            answers: call_of(fields, repairs),
            content: content.unwrap_or_default(),
            status: status_of(fields.get("status"), word, repairs),
        };
        return vec![(role, vec![ForeignPart::Result(result)])];
    }
    let mut parts = match structured.as_deref().map(texts_of) {
        Some(texts) if !texts.is_empty() => texts,
        Some(_) | None => content.map(said_text).into_iter().collect(),
    };
    if let Some(calls) = fields.get("tool_calls").filter(|raw| !is_blank(raw)) {
        parts.extend(read_calls(calls, repairs));
    }
    if let Some(call) = fields.get("function_call").filter(|raw| !is_blank(raw)) {
        match inner(call, |text| function_call(id, text)) {
            Some(call) => parts.push(ForeignPart::Call(call)),
            None => repairs.push(Repair::CallsUnreadable),
        }
    }
    vec![(role, parts)]
}

/// A column that the application fills with nothing: an empty text, or `null` or an empty list as a text.
fn is_blank(raw: &RawValue) -> bool {
    text_of(raw).is_some_and(|text| matches!(text.trim(), "" | "null" | "[]"))
}

fn call_of(fields: &ObjectFields<'_>, repairs: &mut Vec<Repair>) -> ForeignCallRef {
    let text = |name| fields.get(name).map(text_or_json);
    let filled = |text: &String| !text.is_empty();
    if let Some(id) = text("tool_call_id").filter(filled) {
        return ForeignCallRef::Id(id);
    }
    if let Some(name) = text("name").or(text("tool_name")).filter(filled) {
        return ForeignCallRef::OfTool(name);
    }
    repairs.push(Repair::ResultByOrder);
    ForeignCallRef::Next
}

fn word(status: &str) -> Option<ForeignStatus> {
    match status {
        "success" | "final" | "complete" | "completed" => Some(ForeignStatus::Success),
        "error" | "failed" => Some(ForeignStatus::Error),
        "pending" | "streaming" => Some(ForeignStatus::Pending),
        _ => None,
    }
}

/// The texts among the parts of a content.
fn texts_of(content: &RawValue) -> Vec<ForeignPart> {
    if let Some(text) = Literal::of_raw(content) {
        return vec![ForeignPart::Text(text)];
    }
    let parts: Vec<&RawValue> = serde_json::from_str(content.get()).unwrap_or_default();
    let text = |part: &&RawValue| {
        let fields = ObjectFields::parse(part.get()).ok()?;
        let text = fields.get("text").and_then(Literal::of_raw)?;
        Some(ForeignPart::Text(text))
    };
    parts.iter().filter_map(text).collect()
}

/// It had no id: that of its row stands for it.
fn function_call(id: &str, text: &str) -> Option<ForeignCall> {
    let fields = ObjectFields::parse(text).ok()?;
    let arguments = fields.get("arguments");
    Some(ForeignCall {
        id: format!("call_of_{id}"),
        name: fields.get("name").map(text_or_json)?,
        arguments: arguments.map_or_else(|| "{}".to_owned(), text_or_json),
    })
}
