//! What of a request only this format can say.

use tw_core::request::{Block, ModelRequest};

use crate::openai_chat::raw::ObjectFields;
use crate::openai_responses::FORMAT;
use crate::unshared::{self, Unshared, fields_in, kind, objects};

const TOOL: [&str; 6] = [
    "type",
    "name",
    "description",
    "parameters",
    "strict",
    "format",
];

pub fn read(request: &ModelRequest<'_>, unshared: &mut Unshared) {
    for message in &request.messages {
        let natives = message.blocks.iter().filter_map(|block| match block {
            Block::Native(part) if part.format == FORMAT => Some(&part.json),
            Block::Native(_)
            | Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Part(_) => None,
        });
        let raw = message.raw.as_ref();
        // An item that only the provider knows the use of is both.
        let natives = natives.filter(|json| Some(*json) != raw);
        for fields in natives.chain(raw).filter_map(fields_in) {
            item(&fields, unshared);
        }
    }
    for entry in unshared::client_tools(request) {
        if let Some(fields) = fields_in(&entry.raw) {
            unshared.fields(&fields, &TOOL);
        }
    }
}

fn item(fields: &ObjectFields<'_>, unshared: &mut Unshared) {
    let known = ["type", "id", "status"];
    let with = |more: &[&'static str]| [&known, more].concat();
    match &*kind(fields) {
        "message" | "" if fields.get("role").is_some() => {
            unshared.fields(fields, &with(&["role", "content"]));
            parts(fields, "content", unshared);
        }
        "function_call" => unshared.fields(fields, &with(&["call_id", "name", "arguments"])),
        "custom_tool_call" => unshared.fields(fields, &with(&["call_id", "name", "input"])),
        "function_call_output" | "custom_tool_call_output" => {
            unshared.fields(fields, &with(&["call_id", "output"]));
            parts(fields, "output", unshared);
        }
        // Thoughts are counted where they are written.
        "reasoning" => {}
        other => unshared.changes.add(other.to_owned()),
    }
}

fn parts(fields: &ObjectFields<'_>, name: &str, unshared: &mut Unshared) {
    // The model's own words are not marked anywhere else.
    let is_answer = fields
        .get("role")
        .is_some_and(|role| role.get() == "\"assistant\"");
    for part in objects(fields, name) {
        if is_answer {
            unshared.lost_mark(&part);
        }
        match &*kind(&part) {
            "input_text" | "output_text" | "text" => {
                unshared.fields(&part, &["type", "text", "logprobs"]);
            }
            "refusal" => unshared.fields(&part, &["type", "refusal"]),
            "input_image" => {
                unshared.fields(&part, &["type", "image_url", "file_id", "detail"]);
            }
            "input_file" => {
                let known = ["type", "filename", "file_data", "file_url", "file_id"];
                unshared.fields(&part, &known);
            }
            "input_audio" => unshared.fields(&part, &["type", "input_audio"]),
            // A note stands for it, and counts.
            _ => {}
        }
    }
}
