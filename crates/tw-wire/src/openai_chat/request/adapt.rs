//! Messages for an upstream that takes them otherwise than they are.
//!
//! Only what has to differ is written anew; every other member of a message keeps its bytes.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tw_core::accepts::{Accepts, ReasoningSent, SystemRole};
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::native::AnswerOrigin;
use tw_core::request::{Block, Message, ModelRequest, ReasoningBlock, Role, RoundSent};

use super::{overlay, render};
use crate::fitting::{FittedIds, is_foreign, neutral};
use crate::openai_chat::content::{self, TextPart};
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::{REASONING_DETAILS, THINKING_PART, write};

/// What of results had to be written otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdaptedResults {
    /// Parts that stand elsewhere.
    pub moved_parts: u32,
    /// Results that became one text, with no part moved.
    pub joined_results: u32,
}

/// Writes all messages of a request and says what of the results had to be written otherwise.
pub fn messages(
    out: &mut Vec<u8>,
    request: &ModelRequest<'_>,
    accepts: &Accepts,
) -> AdaptedResults {
    let mut moved = Moved::default();
    let mut ids = FittedIds::new(request.to, accepts);
    for message in &request.messages {
        if message.role != Role::Tool {
            moved.write(out);
        }
        let sent = sent_form(message, request.to, accepts, &mut ids);
        self::message(out, &sent, accepts, &mut moved);
    }
    moved.write(out);
    for round in &request.rounds {
        self::round(out, round, request.to, accepts, &mut ids);
    }
    moved.counts
}

/// The message as this upstream may have it: the model's own words go back whole to where they came from.
fn sent_form<'a>(
    message: &'a Message,
    to: &AnswerOrigin,
    accepts: &Accepts,
    ids: &mut FittedIds<'_>,
) -> Cow<'a, Message> {
    let mut sent = if is_foreign(message.origin.as_deref(), to) {
        let blocks = neutral(&message.blocks, accepts);
        Cow::Owned(Message {
            origin: message.origin.clone(),
            ..Message::made(message.role, blocks)
        })
    } else {
        Cow::Borrowed(message)
    };
    ids.fit(&mut sent);
    sent
}

fn round(
    out: &mut Vec<u8>,
    round: &RoundSent<'_>,
    to: &AnswerOrigin,
    accepts: &Accepts,
    ids: &mut FittedIds<'_>,
) {
    let blocks = if is_foreign(round.origin, to) {
        Cow::Owned(neutral(round.assistant, accepts))
    } else {
        of_round(round.assistant, accepts)
    };
    let fitted = ids.of_blocks(&blocks, round.origin);
    let results = round.results.iter();
    let results = results.map(|(id, shown)| (fitted.id(id), *shown)).collect();
    let blocks = fitted.blocks(&blocks);
    render::round(
        out,
        &RoundSent {
            assistant: &blocks,
            origin: round.origin,
            results,
        },
    );
}

/// Parts of results that go into a message of the user behind them.
#[derive(Default)]
struct Moved {
    parts: Vec<u8>,
    counts: AdaptedResults,
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
        self.counts.moved_parts += 1;
    }
}

fn message(out: &mut Vec<u8>, message: &Message, accepts: &Accepts, moved: &mut Moved) {
    let raw = match &message.raw {
        Some(raw) if !message.is_changed => Cow::Borrowed(raw),
        Some(raw) => match overlay::written(raw, &message.blocks) {
            Some(raw) => Cow::Owned(raw),
            None => return render::message(out, message),
        },
        None if accepts.all_messages() => return render::message(out, message),
        None => match rendered(message) {
            Some(raw) => Cow::Owned(raw),
            None => return render::message(out, message),
        },
    };
    let done = !accepts.all_messages() && adapted(out, &raw, message, accepts, moved);
    if !done {
        write::separate(out);
        write::raw(out, &raw);
    }
}

/// Writes the message otherwise, if it has to be.
fn adapted(
    out: &mut Vec<u8>,
    raw: &Json,
    message: &Message,
    accepts: &Accepts,
    moved: &mut Moved,
) -> bool {
    let Ok(fields) = ObjectFields::parse(raw.as_str()) else {
        return false;
    };
    match message.role {
        Role::System | Role::Developer => system(out, &fields, message.role, accepts.system_role),
        Role::Assistant => assistant(out, &fields, message, accepts.reasoning),
        Role::Tool if !accepts.images_in_results => result(out, &fields, message, moved),
        Role::User | Role::Tool => false,
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
    let mut place = None;
    let mut all = LiteralBuf::default();
    for block in blocks {
        // Some clients send the same text under two names.
        if let Block::Reasoning(reasoning) = block
            && *place.get_or_insert(reasoning.place) == reasoning.place
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
    let has_details = fields.get(REASONING_DETAILS).is_some();
    let thought = thought(&message.blocks);
    let wanted = match wanted {
        ReasoningSent::AsSent => return false,
        ReasoningSent::Never if thought.is_some() || has_details => None,
        ReasoningSent::Field(field) if thought.is_some() => Some(field),
        ReasoningSent::Never | ReasoningSent::Field(_) => return false,
    };
    let thought = thought.unwrap_or_default();
    let as_part = wanted == Some(THINKING_PART);
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
    if let Some(place) = wanted.filter(|_| !as_part) {
        write::key(out, place.as_str());
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
        matches!(kind.as_deref(), Some("text" | "input_text" | "output_text"))
    };
    let (texts, others): (Vec<&RawValue>, Vec<&RawValue>) = parts.into_iter().partition(is_text);
    if others.is_empty() {
        moved.counts.joined_results += 1;
    } else {
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
    let place = match accepts.reasoning {
        ReasoningSent::AsSent => return Cow::Borrowed(blocks),
        ReasoningSent::Field(place) => Some(place),
        ReasoningSent::Never => None,
    };
    let adapted = blocks.iter().filter_map(|block| match block {
        Block::Reasoning(reasoning) => place.map(|place| {
            Block::Reasoning(ReasoningBlock {
                place,
                ..reasoning.clone()
            })
        }),
        Block::Native(part) if place.is_none() => {
            overlay::without_field(part, REASONING_DETAILS).map(Block::Native)
        }
        Block::Native(_)
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
