//! Items as they were written, and what of them has to become otherwise.

use tw_core::json::{Json, Literal};

use super::ids;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// The type of an item; empty for what is none. That of a message may be left out.
pub fn kind(item: &Json) -> String {
    let Ok(fields) = ObjectFields::parse(item.as_str()) else {
        return String::new();
    };
    match raw::filled_string(fields.get("type")) {
        Some(kind) => kind.into_owned(),
        None if fields.get("role").is_some() => "message".to_owned(),
        None => String::new(),
    }
}

/// Fields of an item that stand for those it was written with.
#[derive(Default)]
pub struct ItemChanges<'a> {
    pub call_id: Option<&'a str>,
    /// The name and the value of the text.
    pub text: Option<(&'a str, &'a Literal)>,
}

/// Writes an item for an upstream: without an id of ours, which it does not know.
pub fn write_sent(out: &mut Vec<u8>, item: &Json, changes: &ItemChanges<'_>) {
    write::separate(out);
    let Ok(fields) = ObjectFields::parse(item.as_str()) else {
        write::raw(out, item);
        return;
    };
    let of = |name| fields.get(name).and_then(raw::string);
    let has_own_id = of("id").is_some_and(|id| ids::is_own(&id));
    let new_id = changes
        .call_id
        .filter(|id| of("call_id").as_deref() != Some(*id));
    let new_text = changes.text.filter(|(name, text)| {
        let have = fields.get(name).and_then(raw::literal);
        have.as_ref() != Some(*text)
    });
    if !has_own_id && new_id.is_none() && new_text.is_none() {
        write::raw(out, item);
        return;
    }
    out.push(b'{');
    for (name, value) in &fields.0 {
        match (&**name, new_id, new_text) {
            ("id", ..) if has_own_id => {}
            ("call_id", Some(id), _) => {
                write::key(out, name);
                write::string(out, id);
            }
            (name, _, Some((changed, text))) if name == changed => {
                write::key(out, name);
                write::literal(out, text);
            }
            _ => {
                write::foreign_key(out, name);
                out.extend_from_slice(value.get().as_bytes());
            }
        }
    }
    if let Some((name, text)) = new_text.filter(|(name, _)| fields.written(name).is_none()) {
        write::key(out, name);
        write::literal(out, text);
    }
    out.push(b'}');
}

/// Whether reasoning can go back to an upstream that keeps nothing: only what it says in full or encrypted.
pub fn is_sendable_reasoning(item: &Json) -> bool {
    let Ok(fields) = ObjectFields::parse(item.as_str()) else {
        return false;
    };
    let has_parts = |name| {
        let parts = fields.get(name).and_then(raw::array);
        parts.is_some_and(|parts| !parts.is_empty())
    };
    raw::filled_string(fields.get("encrypted_content")).is_some() || has_parts("content")
}
