//! What of a request only this format can say.

use tw_core::request::{Block, ModelRequest, Role};

use crate::openai_chat::raw::{self, ObjectFields};
use crate::unshared::{self, Unshared, fields_in, kind, objects};

const TOOL: [&str; 5] = ["type", "name", "description", "input_schema", "strict"];

pub fn read(request: &ModelRequest<'_>, unshared: &mut Unshared) {
    let fields = request.input.fields.iter();
    for (_, system) in fields.filter(|(name, _)| &**name == "system") {
        let parts: Vec<&serde_json::value::RawValue> =
            serde_json::from_str(system.as_str()).unwrap_or_default();
        for part in parts.into_iter().filter_map(unshared::fields_of) {
            unshared.fields(&part, &["type", "text"]);
        }
    }
    for message in &request.messages {
        let Some(fields) = message.raw.as_ref().and_then(fields_in) else {
            continue;
        };
        // A result is a block alone, and the rest of its message follows it.
        if message
            .blocks
            .iter()
            .any(|block| matches!(block, Block::Result(_)))
        {
            result(&fields, unshared);
        } else {
            unshared.fields(&fields, &["role", "content"]);
            for part in objects(&fields, "content") {
                self::part(&part, message.role, unshared);
            }
        }
    }
    for entry in unshared::client_tools(request) {
        if let Some(fields) = fields_in(&entry.raw) {
            unshared.fields(&fields, &TOOL);
        }
    }
}

fn result(fields: &ObjectFields<'_>, unshared: &mut Unshared) {
    unshared.fields(fields, &["type", "tool_use_id", "content", "is_error"]);
    for part in objects(fields, "content") {
        self::part(&part, Role::Tool, unshared);
    }
}

fn part(fields: &ObjectFields<'_>, role: Role, unshared: &mut Unshared) {
    match &*kind(fields) {
        "text" => unshared.fields(fields, &["type", "text"]),
        // Counted where it is written.
        "thinking" => {}
        "redacted_thinking" => unshared.changes.add("reasoning"),
        "tool_use" => unshared.fields(fields, &["type", "id", "name", "input"]),
        "image" => unshared.fields(fields, &["type", "source"]),
        "document" => {
            unshared.fields(fields, &["type", "source", "title", "citations"]);
            let citations = fields.get("citations").and_then(unshared::fields_of);
            let enabled = citations.and_then(|citations| citations.get("enabled"));
            if enabled.and_then(raw::boolean) == Some(true) {
                unshared.changes.add("citations");
            }
        }
        // A message of its own, before the rest of this one.
        "tool_result" => {}
        other if role == Role::Assistant => unshared.changes.add(other.to_owned()),
        // A note stands for it, and counts.
        _ => {}
    }
}
