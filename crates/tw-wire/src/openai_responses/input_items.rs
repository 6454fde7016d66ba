//! The items of a request as they are listed: each whole, and with an id.
//!
//! Follows `ResponseItemList` of openai-python 3.3.1, whose messages have parts and a status.

use serde_json::value::RawValue;
use tw_core::id::TurnId;
use tw_core::json::Json;
use tw_core::json::shared::SharedText;

use super::ids;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// The round of what a request brought.
const OF_REQUEST: u32 = 0;

/// The ids under which items are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdsOf {
    /// Those that the client gave them; their places where it gave none.
    Client,
    /// The places of all of them.
    Place,
}

/// The items of a turn's request, in its order; none of a body that is no request.
pub fn read(body: &SharedText, turn: TurnId) -> Vec<(String, Json)> {
    read_as(body, turn, IdsOf::Client)
}

/// [`read`], with ids of a kind.
pub fn read_as(body: &SharedText, turn: TurnId, named: IdsOf) -> Vec<(String, Json)> {
    let Ok(fields) = ObjectFields::parse(body.as_str()) else {
        return Vec::new();
    };
    let Some(input) = fields.get("input") else {
        return Vec::new();
    };
    if raw::literal(input).is_some() {
        let id = ids::item_id(ids::MESSAGE, turn, OF_REQUEST, 0);
        let mut out = Vec::new();
        message(&mut out, &id, "user", input, &[]);
        return vec![(id, json(out))];
    }
    let items = raw::array(input).unwrap_or_default();
    (0..)
        .zip(items)
        .map(|(place, item)| listed(item, turn, place, named))
        .collect()
}

fn listed(item: &RawValue, turn: TurnId, place: u32, named: IdsOf) -> (String, Json) {
    let fields = ObjectFields::parse(item.get()).unwrap_or_default();
    let kind = match fields.get("type").and_then(raw::string) {
        Some(kind) => kind.into_owned(),
        None => "message".to_owned(),
    };
    let own = raw::filled_string(fields.get("id")).filter(|_| named == IdsOf::Client);
    let id = match own {
        Some(id) => id.into_owned(),
        None => ids::item_id(prefix(&kind), turn, OF_REQUEST, place),
    };
    let mut out = Vec::new();
    let role = raw::filled_string(fields.get("role"));
    if let ("message", Some(role), Some(content)) = (&*kind, role, fields.get("content")) {
        message(&mut out, &id, &role, content, &fields.0);
    } else {
        out.push(b'{');
        write::key(&mut out, "id");
        write::string(&mut out, &id);
        for (name, value) in fields.0.iter().filter(|(name, _)| name != "id") {
            write::foreign_key(&mut out, name);
            out.extend_from_slice(value.get().as_bytes());
        }
        let has_status = ["function_call", "function_call_output"].contains(&&*kind);
        if has_status && fields.written("status").is_none() {
            write::key(&mut out, "status");
            write::quoted(&mut out, "completed");
        }
        out.push(b'}');
    }
    (id, json(out))
}

fn prefix(kind: &str) -> &'static str {
    match kind {
        "message" => ids::MESSAGE,
        "reasoning" => ids::REASONING,
        "function_call" => ids::FUNCTION_CALL,
        "function_call_output" => ids::FUNCTION_OUTPUT,
        "custom_tool_call" => ids::CUSTOM_CALL,
        _ => ids::OTHER_ITEM,
    }
}

/// Writes a message; a content that is one text becomes a part.
fn message(
    out: &mut Vec<u8>,
    id: &str,
    role: &str,
    content: &RawValue,
    fields: &[(std::borrow::Cow<'_, str>, &RawValue)],
) {
    out.push(b'{');
    write::key(out, "id");
    write::string(out, id);
    write::key(out, "type");
    write::quoted(out, "message");
    write::key(out, "role");
    write::string(out, role);
    write::key(out, "status");
    write::quoted(out, "completed");
    write::key(out, "content");
    match raw::literal(content) {
        Some(text) => {
            out.extend_from_slice(b"[{");
            write::key(out, "type");
            let is_answer = role == "assistant";
            write::quoted(
                out,
                if is_answer {
                    "output_text"
                } else {
                    "input_text"
                },
            );
            write::key(out, "text");
            write::literal(out, &text);
            if is_answer {
                write::key(out, "annotations");
                out.extend_from_slice(b"[]");
            }
            out.extend_from_slice(b"}]");
        }
        None => out.extend_from_slice(content.get().as_bytes()),
    }
    let written = ["id", "type", "role", "status", "content"];
    for (name, value) in fields
        .iter()
        .filter(|(name, _)| !written.contains(&&**name))
    {
        write::foreign_key(out, name);
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
}

/// What was written here is JSON.
fn json(out: Vec<u8>) -> Json {
    Json::of_read(&String::from_utf8(out).unwrap_or_default())
}
