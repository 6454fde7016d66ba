//! Rows of other applications, in each of the layouts that are known, read into messages.
//!
//! A row is the JSON object of its columns. Values may be JSON themselves, or a text that is JSON, as where a column is
//! text.

mod blocks;
mod langchain;
mod openai;
mod pocketbase;
pub mod vapi;

use serde_json::value::RawValue;
use tw_core::imported::{
    ForeignCall, ForeignCallRef, ForeignMessage, ForeignPart, ForeignRole, ForeignStatus, Repair,
};
use tw_core::json::Literal;
use tw_core::time::Timestamp;

use crate::openai_chat::raw::{self, ObjectFields};
use tw_core::shape::Shape;

/// A row that is a message, or several.
#[derive(Clone, Copy, Debug)]
pub struct MessageRowText<'a> {
    pub id: &'a str,
    pub at: Timestamp,
    /// The JSON object of its columns.
    pub row: &'a str,
    /// The list of the rows of its calls, where those have a table of their own.
    pub calls: Option<&'a str>,
}

/// Reads a row; what had to be repaired goes to `repairs`. At least one message, each without rows; `None` for a row
/// that is no object.
pub fn read_messages(
    shape: Shape,
    row: MessageRowText<'_>,
    repairs: &mut Vec<Repair>,
) -> Option<Vec<ForeignMessage>> {
    let fields = ObjectFields::parse(row.row).ok()?;
    let said = match shape {
        Shape::LangChain => langchain::read(&fields, repairs),
        Shape::OpenAi => openai::read(row.id, &fields, repairs),
        Shape::Blocks => blocks::read(&fields, repairs),
        Shape::PocketBase => pocketbase::read(&fields, row.calls, repairs),
    };
    let message = |(role, parts)| ForeignMessage {
        id: row.id.to_owned(),
        role,
        parts,
        at: row.at,
        rows: Vec::new(),
    };
    Some(said.into_iter().map(message).collect())
}

/// The text in a field of a row, such as the user's id of a conversation's; of a number its digits. Of several fields,
/// the first that has one.
pub fn text_field(row: &str, names: &[&str]) -> Option<String> {
    let fields = ObjectFields::parse(row).ok()?;
    let text = |name: &&str| {
        let raw = fields.get(name)?;
        let is_number = raw
            .get()
            .starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let text = text_of(raw).or_else(|| is_number.then(|| raw.get().to_owned()));
        text.filter(|text| !text.is_empty())
    };
    names.iter().find_map(text)
}

/// What somebody says, in order.
type Said = Vec<(ForeignRole, Vec<ForeignPart>)>;

/// The role of a row by its column; that of a user where it is another word.
fn role_of(role: Option<&RawValue>, repairs: &mut Vec<Repair>) -> ForeignRole {
    match role.and_then(text_of).as_deref() {
        Some("user" | "human") => ForeignRole::User,
        Some("system" | "developer") => ForeignRole::System,
        Some("assistant" | "ai") => ForeignRole::Assistant,
        Some("tool" | "function") => ForeignRole::Tool,
        Some(_) | None => {
            repairs.push(Repair::UnknownRole);
            ForeignRole::User
        }
    }
}

/// The call of the id that a result names.
fn answered(id: Option<&RawValue>, repairs: &mut Vec<Repair>) -> ForeignCallRef {
    let id = id.map(text_or_json).unwrap_or_default();
    if id.is_empty() {
        repairs.push(Repair::CallWithoutId);
    }
    ForeignCallRef::Id(id)
}

/// The status of a result, by the words of a layout.
fn status_of(
    status: Option<&RawValue>,
    known: impl Fn(&str) -> Option<ForeignStatus>,
    repairs: &mut Vec<Repair>,
) -> ForeignStatus {
    let Some(status) = status else {
        return ForeignStatus::Success;
    };
    text_of(status)
        .and_then(|word| known(&word))
        .unwrap_or_else(|| {
            repairs.push(Repair::UnknownStatus);
            ForeignStatus::Success
        })
}

/// Calls as LangChain or as OpenAI's chat completions list them.
fn read_calls(calls: &RawValue, repairs: &mut Vec<Repair>) -> Vec<ForeignPart> {
    let listed = inner(calls, |text| {
        let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        items.into_iter().map(read_call).collect::<Option<Vec<_>>>()
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

fn read_call(item: &RawValue) -> Option<ForeignCall> {
    let fields = ObjectFields::parse(item.get()).ok()?;
    let function = fields.get("function").map(RawValue::get);
    let function = function.map(ObjectFields::parse).transpose().ok()?;
    let within = |name| function.as_ref().and_then(|fields| fields.get(name));
    let name = fields.get("name").or_else(|| within("name"));
    let arguments = fields.get("args").or_else(|| within("arguments"));
    Some(ForeignCall {
        id: fields.get("id").map(text_or_json).unwrap_or_default(),
        name: name.map(text_or_json).unwrap_or_default(),
        arguments: arguments.map_or_else(|| "{}".to_owned(), text_or_json),
    })
}

/// Reads JSON that stands there itself, or in a string as where a column is text.
fn inner<T>(raw: &RawValue, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    match text_of(raw) {
        Some(text) => read(&text),
        None => read(raw.get()),
    }
}

fn text_of(raw: &RawValue) -> Option<String> {
    raw::string(raw).map(std::borrow::Cow::into_owned)
}

/// The text of a string, or the JSON of another value.
fn text_or_json(raw: &RawValue) -> String {
    text_of(raw).unwrap_or_else(|| raw.get().to_owned())
}

fn said_text(raw: &RawValue) -> ForeignPart {
    ForeignPart::Text(Literal::of_raw(raw).unwrap_or_else(|| Literal::from_text(raw.get())))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

#[cfg(test)]
mod tests;
