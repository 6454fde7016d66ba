//! The items of a conversation: those of a turn's request, under ids that tell where they stand.
//!
//! Follows `types/conversations/` of openai-python 3.3.1. Known difference: an id that a client gives an item is not
//! kept, since two items of one conversation may have the same.

use tw_core::id::TurnId;
use tw_core::json::shared::SharedText;
use tw_core::json::{Json, Literal};
use tw_core::model::CallForm;
use tw_core::request::{Block, CallBlock, Message, PartBlock, ReasoningBlock, ResultBlock, Role};

use super::content;
use super::input_items::{self, IdsOf};
use crate::openai_chat::write;

/// The model that a body of items names, for whoever reads it as a request. No such request is made.
const NO_MODEL: &str = "-";

/// A body of a request whose input these items are.
pub fn body_of<'a>(items: impl IntoIterator<Item = &'a Json>) -> SharedText {
    let mut out = vec![b'{'];
    write::key(&mut out, "model");
    write::quoted(&mut out, NO_MODEL);
    write::key(&mut out, "input");
    out.push(b'[');
    for item in items {
        write::separate(&mut out);
        write::raw(&mut out, item);
    }
    out.extend_from_slice(b"]}");
    SharedText::new(String::from_utf8(out).unwrap_or_default())
}

/// The items of a turn's request, whose body is in this format.
pub fn of_body(body: &SharedText, turn: TurnId) -> Vec<(String, Json)> {
    input_items::read_as(body, turn, IdsOf::Place)
}

/// The items that say the same as messages of a turn's request, which may be of any format.
pub fn of_messages(messages: &[Message], turn: TurnId) -> Vec<(String, Json)> {
    of_body(&body_of_messages(messages), turn)
}

/// A body of a request whose input says what these messages say.
pub fn body_of_messages(messages: &[Message]) -> SharedText {
    let items = messages.iter().flat_map(items_of).collect::<Vec<_>>();
    body_of(&items)
}

fn items_of(message: &Message) -> Vec<Json> {
    let mut items = Vec::new();
    let mut said: Vec<&Block> = Vec::new();
    let role = match message.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let say = |said: &mut Vec<&Block>, items: &mut Vec<Json>| {
        if !said.is_empty() {
            items.push(message_item(role, said));
            said.clear();
        }
    };
    for block in &message.blocks {
        let item = match block {
            Block::Text(_) | Block::Refusal(_) | Block::Part(_) => {
                said.push(block);
                continue;
            }
            Block::Reasoning(thought) => reasoning_item(thought),
            Block::Call(call) => Some(call_item(call)),
            Block::Result(result) => Some(result_item(result)),
            // What it stands for was read as a block of its own.
            Block::Native(_) => None,
        };
        if let Some(item) = item {
            say(&mut said, &mut items);
            items.push(item);
        }
    }
    say(&mut said, &mut items);
    items
}

fn message_item(role: &str, said: &[&Block]) -> Json {
    let mut out = vec![b'{'];
    write::key(&mut out, "type");
    write::quoted(&mut out, "message");
    write::key(&mut out, "role");
    write::quoted(&mut out, role);
    write::key(&mut out, "content");
    let by = if role == "assistant" {
        SaidBy::Model
    } else {
        SaidBy::Client
    };
    parts(&mut out, said.iter().copied(), by);
    out.push(b'}');
    json(out)
}

/// Who says something, which decides what its parts are called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SaidBy {
    Model,
    Client,
}

fn parts<'a>(out: &mut Vec<u8>, blocks: impl Iterator<Item = &'a Block>, by: SaidBy) {
    out.push(b'[');
    for block in blocks {
        match block {
            Block::Text(text) if by == SaidBy::Model => {
                text_part(out, "output_text", "text", text, ",\"annotations\":[]");
            }
            Block::Text(text) => text_part(out, "input_text", "text", text, ""),
            Block::Refusal(text) => text_part(out, "refusal", "refusal", text, ""),
            Block::Part(part) => media_part(out, part),
            Block::Reasoning(_) | Block::Call(_) | Block::Result(_) | Block::Native(_) => {}
        }
    }
    out.push(b']');
}

/// A part that this format has no word for is as its own format wrote it.
fn media_part(out: &mut Vec<u8>, part: &PartBlock) {
    if !content::write_part(out, part) {
        write::separate(out);
        write::raw(out, &part.json);
    }
}

fn text_part(out: &mut Vec<u8>, kind: &str, name: &str, text: &Literal, more: &str) {
    write::separate(out);
    out.push(b'{');
    write::key(out, "type");
    write::quoted(out, kind);
    write::key(out, name);
    write::literal(out, text);
    out.extend_from_slice(more.as_bytes());
    out.push(b'}');
}

fn reasoning_item(thought: &ReasoningBlock) -> Option<Json> {
    if thought.text.is_empty() {
        return None;
    }
    let mut out = b"{\"type\":\"reasoning\",\"summary\":[".to_vec();
    text_part(&mut out, "summary_text", "text", &thought.text, "");
    out.extend_from_slice(b"]}");
    Some(json(out))
}

fn call_item(call: &CallBlock) -> Json {
    let (kind, name) = match call.form {
        CallForm::Custom => ("custom_tool_call", "input"),
        CallForm::Function | CallForm::ByName => ("function_call", "arguments"),
    };
    let mut out = vec![b'{'];
    write::key(&mut out, "type");
    write::quoted(&mut out, kind);
    write::key(&mut out, "call_id");
    write::string(&mut out, &call.id);
    write::key(&mut out, "name");
    write::string(&mut out, &call.name);
    write::key(&mut out, name);
    write::literal(&mut out, &call.arguments);
    out.push(b'}');
    json(out)
}

fn result_item(result: &ResultBlock) -> Json {
    let mut out = vec![b'{'];
    write::key(&mut out, "type");
    write::quoted(&mut out, "function_call_output");
    write::key(&mut out, "call_id");
    write::string(&mut out, &result.call_id);
    write::key(&mut out, "output");
    match result.content.as_slice() {
        [] => write::quoted(&mut out, ""),
        [Block::Text(text)] => write::literal(&mut out, text),
        blocks => parts(&mut out, blocks.iter(), SaidBy::Client),
    }
    out.push(b'}');
    json(out)
}

/// What was written here is JSON.
fn json(out: Vec<u8>) -> Json {
    Json::of_read(&String::from_utf8(out).unwrap_or_default())
}
