//! Messages for an upstream that takes them otherwise than they are.
//!
//! Only what has to differ is written anew; every other member of a message keeps its bytes.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tw_core::accepts::{Accepts, ReasoningSent, SystemRole};
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::model::{ReasoningField, ReasoningText};
use tw_core::request::{Block, Message, ModelRequest, Role, RoundSent};

use super::render;
use crate::openai_chat::content::{self, TextPart};
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// Writes all messages of a request and says how many parts had to stand elsewhere.
pub fn messages(out: &mut Vec<u8>, request: &ModelRequest<'_>, accepts: &Accepts) -> u32 {
    let mut moved = Moved::default();
    for message in &request.messages {
        if message.role != Role::Tool {
            moved.write(out);
        }
        self::message(out, message, accepts, &mut moved);
    }
    moved.write(out);
    for round in &request.rounds {
        let assistant = of_round(round.assistant, accepts);
        let round = RoundSent {
            assistant: &assistant,
            results: round.results.clone(),
        };
        render::round(out, &round);
    }
    moved.count
}

/// Parts of results that go into a message of the user behind them.
#[derive(Default)]
struct Moved {
    parts: Vec<u8>,
    count: u32,
}

impl Moved {
    fn write(&mut self, out: &mut Vec<u8>) {
        if self.parts.is_empty() {
            return;
        }
        write::separate(out);
        out.extend_from_slice(b"{\"role\":\"user\",\"content\":[");
        out.append(&mut self.parts);
        out.extend_from_slice(b"]}");
    }

    fn begin(&mut self, call_id: &str) {
        write::separate(&mut self.parts);
        self.parts
            .extend_from_slice(b"{\"type\":\"text\",\"text\":");
        let said = format!("This belongs to the result of the tool call {call_id}:");
        write::string(&mut self.parts, &said);
        self.parts.push(b'}');
    }

    fn add(&mut self, part: &RawValue) {
        write::separate(&mut self.parts);
        self.parts.extend_from_slice(part.get().as_bytes());
        self.count += 1;
    }
}

fn message(out: &mut Vec<u8>, message: &Message, accepts: &Accepts, moved: &mut Moved) {
    let raw = match &message.raw {
        Some(raw) => Cow::Borrowed(raw),
        None => match rendered(message) {
            Some(raw) => Cow::Owned(raw),
            None => return render::message(out, message),
        },
    };
    let Ok(fields) = ObjectFields::parse(raw.as_str()) else {
        return render::message(out, message);
    };
    let done = match message.role {
        Role::System | Role::Developer => system(out, &fields, message.role, accepts.system_role),
        Role::Assistant => assistant(out, &fields, message, accepts.reasoning),
        Role::Tool if !accepts.images_in_results => result(out, &fields, message, moved),
        Role::User | Role::Tool => false,
    };
    if !done {
        write::separate(out);
        write::raw(out, &raw);
    }
}

/// A message that we made, as it would be written.
fn rendered(message: &Message) -> Option<Json> {
    let mut written = Vec::new();
    render::message(&mut written, message);
    Json::parse(std::str::from_utf8(&written).ok()?).ok()
}

/// Writes the members as they are, but for those that `instead` says it has dealt with; the object
/// stays open.
fn object(
    out: &mut Vec<u8>,
    fields: &ObjectFields<'_>,
    mut instead: impl FnMut(&mut Vec<u8>, &str, &RawValue) -> bool,
) {
    write::separate(out);
    out.push(b'{');
    for (name, value) in &fields.0 {
        if !instead(out, name, value) {
            write::foreign_key(out, name);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
}

fn system(out: &mut Vec<u8>, fields: &ObjectFields<'_>, role: Role, wanted: SystemRole) -> bool {
    let word = match (wanted, role) {
        (SystemRole::System, Role::Developer) => "system",
        (SystemRole::Developer, Role::System) => "developer",
        (SystemRole::AsSent | SystemRole::System | SystemRole::Developer, _) => return false,
    };
    object(out, fields, |out, name, _| {
        if name == "role" {
            write::key(out, "role");
            write::quoted(out, word);
        }
        name == "role"
    });
    out.push(b'}');
    true
}

/// The reasoning of a message under the wanted name; `None` if it has none.
fn thought(blocks: &[Block]) -> Option<LiteralBuf> {
    let mut field = None;
    let mut all = LiteralBuf::default();
    for block in blocks {
        // Some clients send the same text under two names.
        if let Block::Reasoning(reasoning) = block
            && *field.get_or_insert(reasoning.field) == reasoning.field
        {
            all.push(&reasoning.text);
        }
    }
    (!all.is_empty()).then_some(all)
}

fn assistant(
    out: &mut Vec<u8>,
    fields: &ObjectFields<'_>,
    message: &Message,
    wanted: ReasoningSent,
) -> bool {
    let has_details = message
        .blocks
        .iter()
        .any(|block| matches!(block, Block::ReasoningDetails(_)));
    let thought = thought(&message.blocks);
    let wanted = match wanted {
        ReasoningSent::AsSent => return false,
        ReasoningSent::Never if thought.is_some() || has_details => None,
        ReasoningSent::Field(field) if thought.is_some() => Some(field),
        ReasoningSent::Never | ReasoningSent::Field(_) => return false,
    };
    let thought = thought.unwrap_or_default();
    let as_part = wanted == Some(ReasoningField::ThinkingPart);
    let mut has_content = false;
    object(out, fields, |out, name, value| match name {
        "reasoning" | "reasoning_content" => true,
        "reasoning_details" => wanted.is_none(),
        "content" => {
            has_content = true;
            said(out, value, as_part.then_some(&thought))
        }
        _ => false,
    });
    if as_part && !has_content {
        write::key(out, "content");
        out.push(b'[');
        render::think(out, &mut thought.clone());
        out.push(b']');
    }
    let name = match wanted {
        Some(ReasoningField::ReasoningContent) => Some("reasoning_content"),
        Some(ReasoningField::Reasoning) => Some("reasoning"),
        Some(ReasoningField::ThinkingPart) | None => None,
    };
    if let Some(name) = name {
        write::key(out, name);
        write::quoted(out, thought.as_str());
    }
    out.push(b'}');
    true
}

/// Writes the content with its thought, or without any.
fn said(out: &mut Vec<u8>, content: &RawValue, thought: Option<&LiteralBuf>) -> bool {
    let parts = raw::array(content);
    if parts.is_none() && thought.is_none() {
        return false;
    }
    let kept = parts.iter().flatten().filter(|part| {
        let read = content::read_part(part);
        !matches!(read, Some(TextPart::Thinking(_)))
    });
    let kept: Vec<&&RawValue> = kept.collect();
    write::key(out, "content");
    if kept.is_empty() && parts.is_some() && thought.is_none() {
        out.extend_from_slice(b"\"\"");
        return true;
    }
    out.push(b'[');
    if let Some(thought) = thought {
        render::think(out, &mut thought.clone());
    }
    if let Some(text) = raw::literal(content).filter(|text| !text.is_empty()) {
        write::separate(out);
        out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        write::literal(out, &text);
        out.push(b'}');
    }
    for part in kept {
        write::separate(out);
        out.extend_from_slice(part.get().as_bytes());
    }
    out.push(b']');
    true
}

/// The texts of parts, each on lines of its own: who takes only text takes no list of it either.
fn joined_texts(parts: &[&RawValue]) -> LiteralBuf {
    let mut joined = LiteralBuf::default();
    for part in parts {
        let fields = ObjectFields::parse(part.get()).ok();
        let text = fields.and_then(|fields| fields.get("text").and_then(raw::literal));
        if let Some(text) = text {
            if !joined.is_empty() {
                joined.push(&Literal::from_text("\n"));
            }
            joined.push(&text);
        }
    }
    joined
}

/// A result becomes one text, and one whose parts are not all text loses the others to a message behind it.
fn result(
    out: &mut Vec<u8>,
    fields: &ObjectFields<'_>,
    message: &Message,
    moved: &mut Moved,
) -> bool {
    let Some(parts) = fields.get("content").and_then(raw::array) else {
        return false;
    };
    let is_text = |part: &&RawValue| {
        let fields = ObjectFields::parse(part.get()).ok();
        let kind = fields.and_then(|fields| fields.get("type").and_then(raw::string));
        kind.as_deref() == Some("text")
    };
    let (texts, others): (Vec<&RawValue>, Vec<&RawValue>) = parts.into_iter().partition(is_text);
    if !others.is_empty() {
        let call_id = message
            .result()
            .map_or("", |result| result.call_id.as_str());
        moved.begin(call_id);
        others.iter().for_each(|part| moved.add(part));
    }
    object(out, fields, |out, name, _| {
        if name != "content" {
            return false;
        }
        write::key(out, "content");
        if texts.is_empty() && !others.is_empty() {
            out.extend_from_slice(RESULT_BELOW);
        } else {
            write::quoted(out, joined_texts(&texts).as_str());
        }
        true
    });
    out.push(b'}');
    true
}

/// The content of a result of which every part was moved.
const RESULT_BELOW: &[u8] = b"\"The result is in the next message of the user.\"";

/// The model's own message of this turn.
fn of_round<'a>(blocks: &'a [Block], accepts: &Accepts) -> Cow<'a, [Block]> {
    let field = match accepts.reasoning {
        ReasoningSent::AsSent => return Cow::Borrowed(blocks),
        ReasoningSent::Field(field) => Some(field),
        ReasoningSent::Never => None,
    };
    let adapted = blocks.iter().filter_map(|block| match block {
        Block::Reasoning(reasoning) => field.map(|field| {
            Block::Reasoning(ReasoningText {
                field,
                text: reasoning.text.clone(),
            })
        }),
        Block::ReasoningDetails(_) if field.is_none() => None,
        Block::ReasoningDetails(_)
        | Block::Text(_)
        | Block::Refusal(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_) => Some(block.clone()),
    });
    Cow::Owned(adapted.collect())
}

#[cfg(test)]
mod tests;
