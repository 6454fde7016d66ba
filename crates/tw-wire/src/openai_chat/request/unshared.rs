//! What of a request only this format can say.

use tw_core::request::ModelRequest;

use crate::openai_chat::raw::ObjectFields;
use crate::unshared::{self, Unshared, fields_in, kind, objects};

const MESSAGE: [&str; 9] = [
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    // Thoughts are counted where they are written.
    "reasoning",
    "reasoning_content",
    "reasoning_details",
];

pub fn read(request: &ModelRequest<'_>, unshared: &mut Unshared) {
    for message in &request.messages {
        if let Some(fields) = message.raw.as_ref().and_then(fields_in) {
            self::message(&fields, unshared);
        }
    }
    for entry in unshared::client_tools(request) {
        let Some(fields) = fields_in(&entry.raw) else {
            continue;
        };
        let known = ["name", "description", "parameters", "strict", "format"];
        match &*kind(&fields) {
            named @ ("function" | "custom") => {
                unshared.fields(&fields, &["type", named]);
                unshared.inside(&fields, named, &known);
            }
            // The old form is the function alone.
            _ => unshared.fields(&fields, &known),
        }
    }
}

fn message(fields: &ObjectFields<'_>, unshared: &mut Unshared) {
    // The old form of a result names its call so.
    let named: &[&str] = if is_old_result(fields) {
        &["name"]
    } else {
        &[]
    };
    unshared.fields(fields, &[&MESSAGE, named].concat());
    for part in objects(fields, "content") {
        let kind = kind(&part);
        unshared.fields(&part, &["type", &kind, "text"]);
        match &*kind {
            "image_url" => unshared.inside(&part, &kind, &["url", "detail"]),
            "file" => unshared.inside(&part, &kind, &["filename", "file_data", "file_id"]),
            "input_audio" => unshared.inside(&part, &kind, &["data", "format"]),
            _ => {}
        }
    }
    for call in objects(fields, "tool_calls") {
        unshared.fields(&call, &["id", "type", "index", "function", "custom"]);
        unshared.lost_mark(&call);
        unshared.inside(&call, "function", &["name", "arguments"]);
        unshared.inside(&call, "custom", &["name", "input"]);
    }
}

fn is_old_result(fields: &ObjectFields<'_>) -> bool {
    fields
        .get("role")
        .is_some_and(|role| role.get() == "\"function\"")
}
