//! A client's message of which something had to change: everything else keeps its bytes.

use serde_json::value::RawValue;
use tw_core::json::Json;
use tw_core::model::CallForm;
use tw_core::native::{NativeFields, NativePart};
use tw_core::request::{Block, CallBlock, ResultBlock};

use super::render;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::{REASONING, REASONING_CONTENT, THINKING_PART, write};

/// The message as it was written, with the ids, arguments and native fields of its blocks; `None` where it has to be
/// written anew.
pub fn written(raw: &Json, blocks: &[Block]) -> Option<Json> {
    let fields = ObjectFields::parse(raw.as_str()).ok()?;
    let mut out = vec![b'{'];
    for (name, value) in &fields.0 {
        match &**name {
            "tool_calls" if !raw::is_null(value) => tool_calls(&mut out, value, blocks)?,
            "function_call" if raw::is_object(value) => {
                let call = calls(blocks).find(|call| call.form == CallForm::ByName)?;
                write::key(&mut out, name);
                object_of_call(&mut out, value, call, "arguments")?;
            }
            "tool_call_id" => match result(blocks) {
                Some(result) => {
                    write::key(&mut out, name);
                    write::string(&mut out, &result.call_id);
                }
                None => untouched(&mut out, name, value),
            },
            _ => untouched(&mut out, name, value),
        }
    }
    added(&mut out, &fields, blocks);
    out.push(b'}');
    Json::parse(std::str::from_utf8(&out).ok()?).ok()
}

/// The fields of a message without one of them; `None` if there are no others.
pub fn without_field(part: &NativePart, name: &str) -> Option<NativePart> {
    let fields = ObjectFields::parse(part.json.as_str()).ok()?;
    let kept = fields.0.iter().filter(|(key, _)| key != name);
    let kept: NativeFields = kept
        .map(|(key, value)| (Box::from(&**key), Json::from_raw(value)))
        .collect();
    (!kept.is_empty()).then(|| NativePart {
        format: part.format,
        json: Json::of_fields(&kept),
    })
}

fn untouched(out: &mut Vec<u8>, name: &str, value: &RawValue) {
    write::foreign_key(out, name);
    out.extend_from_slice(value.get().as_bytes());
}

fn calls(blocks: &[Block]) -> impl Iterator<Item = &CallBlock> {
    blocks.iter().filter_map(|block| match block {
        Block::Call(call) => Some(call),
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    })
}

fn result(blocks: &[Block]) -> Option<&ResultBlock> {
    blocks.iter().find_map(|block| match block {
        Block::Result(result) => Some(result),
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    })
}

/// Writes the list of calls; an empty one is left out.
fn tool_calls(out: &mut Vec<u8>, list: &RawValue, blocks: &[Block]) -> Option<()> {
    let written = raw::array(list)?;
    let made: Vec<&CallBlock> = calls(blocks)
        .filter(|call| call.form != CallForm::ByName)
        .collect();
    if written.len() != made.len() {
        return None;
    }
    if made.is_empty() {
        return Some(());
    }
    write::key(out, "tool_calls");
    out.push(b'[');
    for (raw, call) in written.into_iter().zip(made) {
        write::separate(out);
        tool_call(out, raw, call)?;
    }
    out.push(b']');
    Some(())
}

fn tool_call(out: &mut Vec<u8>, raw: &RawValue, call: &CallBlock) -> Option<()> {
    let fields = ObjectFields::parse(raw.get()).ok()?;
    out.push(b'{');
    for (name, value) in &fields.0 {
        match &**name {
            "id" => {
                write::key(out, name);
                write::string(out, &call.id);
            }
            "function" | "custom" if raw::is_object(value) => {
                let text = if call.form == CallForm::Custom {
                    "input"
                } else {
                    "arguments"
                };
                write::key(out, name);
                object_of_call(out, value, call, text)?;
            }
            _ => untouched(out, name, value),
        }
    }
    if let Some(native) = &call.native {
        missing(out, &fields, &native.beside);
    }
    out.push(b'}');
    Some(())
}

/// The object that holds a call's name and text.
fn object_of_call(out: &mut Vec<u8>, raw: &RawValue, call: &CallBlock, text: &str) -> Option<()> {
    let fields = ObjectFields::parse(raw.get()).ok()?;
    out.push(b'{');
    for (name, value) in &fields.0 {
        if name == text {
            write::key(out, name);
            write::literal(out, &call.arguments);
        } else {
            untouched(out, name, value);
        }
    }
    if fields.get(text).is_none() {
        write::key(out, text);
        write::literal(out, &call.arguments);
    }
    if let Some(native) = &call.native {
        missing(out, &fields, &native.inside);
    }
    out.push(b'}');
    Some(())
}

/// Adds the fields that are not there.
fn missing(out: &mut Vec<u8>, have: &ObjectFields<'_>, fields: &NativeFields) {
    for (name, value) in fields {
        if have.written(name).is_none() {
            write::foreign_key(out, name);
            write::raw(out, value);
        }
    }
}

/// Adds what the client left out of the model's own message.
fn added(out: &mut Vec<u8>, have: &ObjectFields<'_>, blocks: &[Block]) {
    for block in blocks {
        match block {
            Block::Reasoning(reasoning) if reasoning.place != THINKING_PART => {
                let places = [REASONING_CONTENT, REASONING];
                if places
                    .iter()
                    .all(|place| have.get(place.as_str()).is_none())
                {
                    write::key(out, reasoning.place.as_str());
                    write::literal(out, &reasoning.text);
                }
            }
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Part(_)
            | Block::Native(_) => {}
        }
    }
    let mut natives = render::native_fields(blocks);
    // What stands in the content is the client's to send.
    natives.retain(|(name, _)| &**name != "content");
    missing(out, have, &natives);
}

#[cfg(test)]
mod tests;
