//! An application whose record is in collections of PocketBase.
//!
//! Follows the collections `turns` and `tool_calls` of seed document 000. It leaves open how a turn holds what was said:
//! read are `role` and `content`, as for messages, and `prompt` and `answer`, as for a whole turn.
//!
//! Known differences: other names that such columns have are read, too ([`PROMPTS`], [`ANSWERS`]).

use serde_json::value::RawValue;
use tw_core::imported::{
    ForeignCall, ForeignCallRef, ForeignPart, ForeignResult, ForeignRole, ForeignStatus, Repair,
};
use tw_core::json::Literal;

use super::{Said, answered, is_json, role_of, said_text, status_of, text_of, text_or_json};
use crate::openai_chat::raw::ObjectFields;

/// Columns that hold what the user said, and what the model did.
const PROMPTS: [&str; 5] = ["prompt", "question", "user_message", "input", "message"];
const ANSWERS: [&str; 5] = ["answer", "response", "assistant_message", "output", "reply"];

pub fn read(fields: &ObjectFields<'_>, calls: Option<&str>, repairs: &mut Vec<Repair>) -> Said {
    let first_of = |names: &[&str]| {
        let texts = names.iter().filter_map(|name| fields.get(name));
        let mut filled = texts.filter(|raw| raw.get() != "\"\"");
        filled.next()
    };
    let (role, before, behind) = match fields.get("role") {
        Some(_) => {
            let content = first_of(&["content", "text"]);
            match role_of(fields.get("role"), repairs) {
                // Calls stand before what was made of their results.
                ForeignRole::Assistant => (ForeignRole::Assistant, None, content),
                role => (role, content, None),
            }
        }
        None => (ForeignRole::User, first_of(&PROMPTS), first_of(&ANSWERS)),
    };
    let mut said: Said = Vec::new();
    if let Some(text) = before {
        said.push((role, vec![said_text(text)]));
    }
    let (made, results) = read_calls(calls, repairs);
    if !made.is_empty() {
        said.push((ForeignRole::Assistant, made));
        said.push((ForeignRole::Tool, results));
    }
    if let Some(text) = behind {
        said.push((ForeignRole::Assistant, vec![said_text(text)]));
    }
    if said.is_empty() {
        said.push((role, Vec::new()));
    }
    said
}

/// The calls, and what came of each.
fn read_calls(
    calls: Option<&str>,
    repairs: &mut Vec<Repair>,
) -> (Vec<ForeignPart>, Vec<ForeignPart>) {
    let rows: Vec<&RawValue> = match calls {
        None => Vec::new(),
        Some(rows) => serde_json::from_str(rows).unwrap_or_default(),
    };
    let (mut made, mut results) = (Vec::new(), Vec::new());
    for row in rows {
        let Ok(fields) = ObjectFields::parse(row.get()) else {
            repairs.push(Repair::CallsUnreadable);
            continue;
        };
        let json = |name| {
            let text = fields.get(name).map(text_or_json).unwrap_or_default();
            (!text.is_empty()).then_some(text)
        };
        let arguments = json("arguments").unwrap_or_else(|| "{}".to_owned());
        let result = json("result").filter(|text| text.trim() != "null");
        for text in [Some(&arguments), result.as_ref()].into_iter().flatten() {
            if !is_json(text) {
                repairs.push(Repair::JsonUnreadable);
            }
        }
        let answers = answered(fields.get("tool_call_id"), repairs);
        let id = match &answers {
            ForeignCallRef::Id(id) => id.clone(),
            ForeignCallRef::OfTool(_) | ForeignCallRef::Next => String::new(),
        };
        made.push(ForeignPart::Call(ForeignCall {
            id,
            name: fields
                .get("tool_name")
                .map(text_or_json)
                .unwrap_or_default(),
            arguments,
        }));
        let status = status_of(fields.get("status"), word, repairs);
        let error = fields.get("error").and_then(text_of);
        let error = error.filter(|error| !error.is_empty());
        let content = match status {
            ForeignStatus::Error => error.or(result),
            ForeignStatus::Success | ForeignStatus::Pending => result.map(|result| shown(&result)),
        };
        results.push(ForeignPart::Result(ForeignResult {
            answers,
            content: content.unwrap_or_default(),
            status,
        }));
    }
    (made, results)
}

/// A result that is one text, without its quotes.
fn shown(json: &str) -> String {
    let raw = serde_json::from_str::<&RawValue>(json);
    let text = raw.ok().and_then(Literal::of_raw);
    text.map_or_else(|| json.to_owned(), |text| text.to_text())
}

fn word(status: &str) -> Option<ForeignStatus> {
    match status {
        "completed" => Some(ForeignStatus::Success),
        "failed" => Some(ForeignStatus::Error),
        "pending" | "processing" => Some(ForeignStatus::Pending),
        _ => None,
    }
}
