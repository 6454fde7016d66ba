//! Messages and tools that we write ourselves.

use tw_core::history::sendable_arguments;
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::model::{CallForm, ReasoningField};
use tw_core::request::{Block, CallBlock, Message, ResultBlock, Role, RoundSent};
use tw_core::tool::Tool;

use crate::openai_chat::write;

/// Writes a message, as the client wrote it if it did.
pub fn message(out: &mut Vec<u8>, message: &Message) {
    if let Some(raw) = &message.raw {
        write::separate(out);
        write::raw(out, raw);
        return;
    }
    match message.role {
        Role::System => said(out, "system", &message.blocks),
        Role::Developer => said(out, "developer", &message.blocks),
        Role::User => said(out, "user", &message.blocks),
        Role::Assistant => assistant(out, &message.blocks),
        Role::Tool => {
            for block in &message.blocks {
                if let Block::Result(ResultBlock { call_id, content }) = block {
                    result(out, CallForm::Function, call_id, |out| {
                        write::raw(out, content)
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
            Some(call) if call.form == CallForm::Legacy => {
                result(out, CallForm::Legacy, &call.name, |out| {
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
        | Block::ReasoningDetails(_)
        | Block::Result(_)
        | Block::Part(_) => None,
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
        CallForm::Legacy => ("function", "name"),
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
    for (field, name) in [
        (ReasoningField::ReasoningContent, "reasoning_content"),
        (ReasoningField::Reasoning, "reasoning"),
    ] {
        joined(out, name, reasoning(blocks, field));
    }
    let details: Vec<&Json> = blocks
        .iter()
        .filter_map(|block| {
            if let Block::ReasoningDetails(details) = block {
                Some(details)
            } else {
                None
            }
        })
        .collect();
    if !details.is_empty() {
        write::key(out, "reasoning_details");
        write::joined_arrays(out, details);
    }
    if calls(blocks).any(|call| call.form != CallForm::Legacy) {
        write::key(out, "tool_calls");
        out.push(b'[');
        calls(blocks)
            .filter(|call| call.form != CallForm::Legacy)
            .for_each(|made| call(out, made));
        out.push(b']');
    }
    if let Some(old) = calls(blocks).find(|call| call.form == CallForm::Legacy) {
        write::key(out, "function_call");
        out.push(b'{');
        named(out, &old.name, "arguments", &arguments(&old.arguments));
        out.push(b'}');
    }
    out.push(b'}');
}

fn reasoning(blocks: &[Block], field: ReasoningField) -> impl Iterator<Item = &Literal> {
    blocks.iter().filter_map(move |block| match block {
        Block::Reasoning(reasoning) if reasoning.field == field => Some(&reasoning.text),
        _ => None,
    })
}

fn joined<'a>(out: &mut Vec<u8>, name: &str, texts: impl Iterator<Item = &'a Literal>) {
    let mut all = LiteralBuf::default();
    texts.for_each(|text| all.push(text));
    if !all.is_empty() {
        write::key(out, name);
        write::quoted(out, all.as_str());
    }
}

/// A string if there is only text, null if there is nothing, else parts.
fn content(out: &mut Vec<u8>, blocks: &[Block]) {
    write::key(out, "content");
    let needs_parts = blocks.iter().any(|block| match block {
        Block::Part(_) => true,
        Block::Reasoning(reasoning) => reasoning.field == ReasoningField::ThinkingPart,
        Block::Text(_)
        | Block::Refusal(_)
        | Block::ReasoningDetails(_)
        | Block::Call(_)
        | Block::Result(_) => false,
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
            && reasoning.field == ReasoningField::ThinkingPart
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
                write::raw(out, part);
            }
            Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::ReasoningDetails(_)
            | Block::Call(_)
            | Block::Result(_) => {}
        }
    }
    think(out, &mut thinking);
    out.push(b']');
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
        CallForm::Function | CallForm::Legacy => ("function", "arguments"),
    };
    write::quoted(out, kind);
    write::key(out, kind);
    out.push(b'{');
    match made.form {
        CallForm::Custom => named(out, &made.name, text_key, &made.arguments),
        CallForm::Function | CallForm::Legacy => {
            named(out, &made.name, text_key, &arguments(&made.arguments))
        }
    }
    out.extend_from_slice(b"}}");
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
