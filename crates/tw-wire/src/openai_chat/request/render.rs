//! Messages and tools that we write ourselves.

use serde_json::value::RawValue;
use tw_core::history::sendable_arguments;
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::model::CallForm;
use tw_core::native::{NativeFields, NativeLabel, NativePart};
use tw_core::request::{Block, CallBlock, Message, ResultBlock, Role, RoundSent};
use tw_core::tool::Tool;

use crate::openai_chat::raw::ObjectFields;
use crate::openai_chat::{FORMAT, REASONING, REASONING_CONTENT, THINKING_PART, write};

/// Writes a message from its blocks.
pub fn message(out: &mut Vec<u8>, message: &Message) {
    match message.role {
        Role::System => said(out, "system", &message.blocks),
        Role::Developer => said(out, "developer", &message.blocks),
        Role::User => said(out, "user", &message.blocks),
        Role::Assistant => assistant(out, &message.blocks),
        Role::Tool => {
            for block in &message.blocks {
                if let Block::Result(ResultBlock {
                    call_id,
                    content: blocks,
                    ..
                }) = block
                {
                    result(out, CallForm::Function, call_id, |out| {
                        contents(out, blocks)
                    });
                }
            }
        }
    }
}

/// Writes a round of this turn: the model's message and a result for each of its calls.
pub fn round(out: &mut Vec<u8>, round: &RoundSent<'_>) {
    assistant(out, round.assistant);
    let calls: Vec<&CallBlock> = calls(round.assistant).collect();
    for (at, (id, shown)) in round.results.iter().enumerate() {
        match calls.get(at) {
            Some(call) if call.form == CallForm::ByName => {
                result(out, CallForm::ByName, &call.name, |out| {
                    write::string(out, shown)
                });
            }
            Some(_) | None => result(out, CallForm::Function, id, |out| write::string(out, shown)),
        }
    }
}

/// Whether a function is marked `strict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictMark {
    Said,
    Unsaid,
}

/// An entry of `tools`; `parameters` are the tool's own or what stands for them.
pub fn tool(out: &mut Vec<u8>, tool: &Tool, parameters: &Json, strict: StrictMark) {
    out.extend_from_slice(b"{\"type\":\"function\",\"function\":");
    function(out, tool, parameters, strict);
    out.push(b'}');
}

/// An entry of the old `functions`.
pub fn function(out: &mut Vec<u8>, tool: &Tool, parameters: &Json, strict: StrictMark) {
    out.push(b'{');
    write::key(out, "name");
    write::string(out, &tool.name);
    write::key(out, "description");
    write::string(out, &tool.description);
    write::key(out, "parameters");
    write::raw(out, parameters);
    if strict == StrictMark::Said {
        write::key(out, "strict");
        out.extend_from_slice(b"true");
    }
    out.push(b'}');
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

fn begin(out: &mut Vec<u8>, role: &str) {
    write::separate(out);
    out.push(b'{');
    write::key(out, "role");
    write::quoted(out, role);
}

fn said(out: &mut Vec<u8>, role: &str, blocks: &[Block]) {
    begin(out, role);
    content(out, blocks);
    out.push(b'}');
}

fn result(out: &mut Vec<u8>, form: CallForm, id: &str, content: impl FnOnce(&mut Vec<u8>)) {
    let (role, id_key) = match form {
        CallForm::ByName => ("function", "name"),
        CallForm::Function | CallForm::Custom => ("tool", "tool_call_id"),
    };
    begin(out, role);
    write::key(out, id_key);
    write::string(out, id);
    write::key(out, "content");
    content(out);
    out.push(b'}');
}

fn assistant(out: &mut Vec<u8>, blocks: &[Block]) {
    begin(out, "assistant");
    content(out, blocks);
    let refusals = blocks.iter().filter_map(|block| {
        if let Block::Refusal(text) = block {
            Some(text)
        } else {
            None
        }
    });
    joined(out, "refusal", refusals);
    for place in [REASONING_CONTENT, REASONING] {
        joined(out, place.as_str(), reasoning(blocks, place));
    }
    if calls(blocks).any(|call| call.form != CallForm::ByName) {
        write::key(out, "tool_calls");
        out.push(b'[');
        calls(blocks)
            .filter(|call| call.form != CallForm::ByName)
            .for_each(|made| call(out, made));
        out.push(b']');
    }
    if let Some(old) = calls(blocks).find(|call| call.form == CallForm::ByName) {
        write::key(out, "function_call");
        out.push(b'{');
        named(out, &old.name, "arguments", &arguments(&old.arguments));
        out.push(b'}');
    }
    for (key, value) in native_fields(blocks) {
        match &*key {
            // It stands in the content.
            "content" => {}
            "audio" => audio(out, &value),
            _ => {
                write::foreign_key(out, &key);
                write::raw(out, &value);
            }
        }
    }
    out.push(b'}');
}

/// Fields of a message that only this format knows.
pub fn native_fields(blocks: &[Block]) -> NativeFields {
    let natives = blocks.iter().filter_map(|block| match block {
        Block::Native(NativePart { format, json }) if *format == FORMAT => Some(json),
        _ => None,
    });
    let mut all = NativeFields::new();
    for json in natives {
        let Ok(fields) = ObjectFields::parse(json.as_str()) else {
            continue;
        };
        for (key, value) in fields.0 {
            all.push((Box::from(&*key), Json::from_raw(value)));
        }
    }
    all
}

/// Sound that the model made goes back by its id.
fn audio(out: &mut Vec<u8>, value: &Json) {
    let fields = ObjectFields::parse(value.as_str()).ok();
    let Some(id) = fields.as_ref().and_then(|fields| fields.get("id")) else {
        return;
    };
    write::key(out, "audio");
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(id.get().as_bytes());
    out.push(b'}');
}

fn reasoning(blocks: &[Block], place: NativeLabel) -> impl Iterator<Item = &Literal> {
    blocks.iter().filter_map(move |block| match block {
        Block::Reasoning(reasoning) if reasoning.place == place => Some(&reasoning.text),
        _ => None,
    })
}

fn joined<'a>(out: &mut Vec<u8>, name: &str, texts: impl Iterator<Item = &'a Literal>) {
    let mut texts = texts.peekable();
    // What was there and empty is there and empty: some upstreams insist on it.
    if texts.peek().is_none() {
        return;
    }
    let mut all = LiteralBuf::default();
    texts.for_each(|text| all.push(text));
    write::key(out, name);
    write::quoted(out, all.as_str());
}

/// A string if there is only text, null if there is nothing, else parts.
fn content(out: &mut Vec<u8>, blocks: &[Block]) {
    write::key(out, "content");
    contents(out, blocks);
}

fn contents(out: &mut Vec<u8>, blocks: &[Block]) {
    let needs_parts = blocks.iter().any(|block| match block {
        Block::Part(_) => true,
        Block::Reasoning(reasoning) => reasoning.place == THINKING_PART,
        Block::Native(native) => native.format == FORMAT && native.json.as_str().contains(PARTS),
        Block::Text(_) | Block::Refusal(_) | Block::Call(_) | Block::Result(_) => false,
    });
    if needs_parts {
        parts(out, blocks);
        return;
    }
    let mut all = LiteralBuf::default();
    let mut has_text = false;
    for block in blocks {
        if let Block::Text(text) = block {
            has_text = true;
            all.push(text);
        }
    }
    if has_text {
        write::quoted(out, all.as_str());
    } else {
        out.extend_from_slice(b"null");
    }
}

fn parts(out: &mut Vec<u8>, blocks: &[Block]) {
    out.push(b'[');
    let mut thinking = LiteralBuf::default();
    for block in blocks {
        if let Block::Reasoning(reasoning) = block
            && reasoning.place == THINKING_PART
        {
            thinking.push(&reasoning.text);
            continue;
        }
        think(out, &mut thinking);
        match block {
            Block::Text(text) => {
                write::separate(out);
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                write::literal(out, text);
                out.push(b'}');
            }
            Block::Part(part) => {
                write::separate(out);
                write::raw(out, &part.json);
            }
            Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Native(_) => {}
        }
    }
    think(out, &mut thinking);
    for (key, value) in native_fields(blocks) {
        if &*key == "content" {
            for part in raw_items(&value) {
                write::separate(out);
                out.extend_from_slice(part.as_bytes());
            }
        }
    }
    out.push(b']');
}

/// The field of a message that holds parts.
const PARTS: &str = "\"content\":";

fn raw_items(list: &Json) -> Vec<String> {
    let items = serde_json::from_str::<Vec<&RawValue>>(list.as_str());
    let items = items.unwrap_or_default().into_iter();
    items.map(|item| item.get().to_owned()).collect()
}

/// Writes the pieces of a thought that were streamed one by one as the one part they were.
pub fn think(out: &mut Vec<u8>, thinking: &mut LiteralBuf) {
    if thinking.is_empty() {
        return;
    }
    write::separate(out);
    out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":");
    write::quoted(out, thinking.as_str());
    out.extend_from_slice(b"}]}");
    *thinking = LiteralBuf::default();
}

fn call(out: &mut Vec<u8>, made: &CallBlock) {
    write::separate(out);
    out.push(b'{');
    write::key(out, "id");
    write::string(out, &made.id);
    write::key(out, "type");
    let (kind, text_key) = match made.form {
        CallForm::Custom => ("custom", "input"),
        CallForm::Function | CallForm::ByName => ("function", "arguments"),
    };
    write::quoted(out, kind);
    write::key(out, kind);
    out.push(b'{');
    match made.form {
        CallForm::Custom => named(out, &made.name, text_key, &made.arguments),
        CallForm::Function | CallForm::ByName => {
            named(out, &made.name, text_key, &arguments(&made.arguments))
        }
    }
    write::fields(out, made.native.as_deref().map(|native| &native.inside));
    out.push(b'}');
    write::fields(out, made.native.as_deref().map(|native| &native.beside));
    out.push(b'}');
}

fn named(out: &mut Vec<u8>, name: &str, text_key: &str, text: &Literal) {
    write::key(out, "name");
    write::string(out, name);
    write::key(out, text_key);
    write::literal(out, text);
}

/// Arguments as they go back.
fn arguments(written: &Literal) -> Literal {
    sendable_arguments(written).unwrap_or_else(|| written.clone())
}
