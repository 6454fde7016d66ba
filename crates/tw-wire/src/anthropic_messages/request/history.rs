//! Writing the messages of a request.
//!
//! The API knows users and assistants. All results of one assistant message stand in one message of the user directly
//! behind it, before anything else that the user says.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use tw_core::accepts::Accepts;
use tw_core::call_ids::CallIdRule;
use tw_core::json::{Json, Literal};
use tw_core::native::AnswerOrigin;
use tw_core::request::{Block, Message, ModelRequest, ResultBlock, Role, RoundSent};
use tw_core::request_changes::RequestChanges;

use super::blocks::{self, Home, SentBlock};
use super::cache_marks::MarkBudget;
use super::overlay;
use crate::anthropic_messages::FORMAT;
use crate::fitting::{FittedIds, is_foreign};
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// The first words of a history that has none of a user, which the API demands.
const OPENING: &str = "(The conversation begins.)";
/// What stands for a last message of the user that says nothing.
const NOTHING_SAID: &str = "(An empty message.)";

/// A message as it is sent.
#[derive(Debug)]
struct SentMessage {
    role: SentRole,
    content: SentContent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentRole {
    User,
    Assistant,
}

#[derive(Debug)]
enum SentContent {
    /// The message as the client wrote it.
    Whole(Json),
    Blocks(Vec<SentBlock>),
}

/// The messages of a request.
#[derive(Debug, Default)]
pub struct WrittenHistory {
    messages: Vec<SentMessage>,
    /// What cannot be said of it, or is said otherwise.
    pub changes: RequestChanges,
}

/// Writes the history of a request, and its rounds.
pub fn history(
    request: &ModelRequest<'_>,
    accepts: &Accepts,
    marks: &mut MarkBudget,
) -> WrittenHistory {
    let is_native = request.input.format == FORMAT;
    let rules = Accepts {
        // The API takes no other ids; its own clients' are theirs to choose.
        unknown_call_ids: if is_native {
            CallIdRule::AsSent
        } else {
            CallIdRule::Plain
        },
        ..accepts.clone()
    };
    let mut writing = Writing {
        to: request.to,
        is_native,
        ids: FittedIds::new(request.to, &rules),
        unique: UniqueIds::default(),
        marks,
        sent: WrittenHistory::default(),
    };
    for message in &request.messages {
        writing.message(message);
    }
    for round in &request.rounds {
        writing.round(round);
    }
    let last = request
        .messages
        .last()
        .filter(|_| request.rounds.is_empty());
    let ends_with_user = last.is_some_and(|message| message.role == Role::User);
    writing.sent.complete(ends_with_user);
    writing.sent
}

/// Whether something of the messages of a client of this format may have to be written otherwise than it was.
pub fn may_change(request: &ModelRequest<'_>) -> bool {
    let begins_with_user = request
        .messages
        .first()
        .is_some_and(|message| matches!(message.role, Role::User | Role::Tool));
    !begins_with_user
        || request.messages.iter().any(|message| {
            message.blocks.is_empty()
                || has_blank_text(&message.blocks)
                || unsigned_thoughts(message) > 0
        })
}

struct Writing<'a> {
    to: &'a AnswerOrigin,
    /// The client wrote its request in this format.
    is_native: bool,
    ids: FittedIds<'a>,
    unique: UniqueIds,
    /// Marks of a request of another format.
    marks: &'a mut MarkBudget,
    sent: WrittenHistory,
}

impl Writing<'_> {
    fn message(&mut self, message: &Message) {
        let mut fitted = Cow::Borrowed(message);
        self.ids.fit(&mut fitted);
        self.unique.fit(&mut fitted);
        let message = &*fitted;
        let raw = message.raw.as_ref().filter(|_| self.is_native);
        match (message.role, raw) {
            (Role::System | Role::Developer, Some(raw)) => {
                self.sent.push_whole(SentRole::User, raw)
            }
            // It stands in `system`.
            (Role::System | Role::Developer, None) => {}
            (Role::User, Some(raw)) => self.user(message, raw),
            (Role::User, None) => self.unwritten(SentRole::User, message),
            (Role::Tool, raw) => self.results(message, raw),
            (Role::Assistant, Some(raw)) => self.assistant(message, raw),
            (Role::Assistant, None) => self.unwritten(SentRole::Assistant, message),
        }
    }

    /// A message that was not written in this format.
    fn unwritten(&mut self, role: SentRole, message: &Message) {
        let marks = if self.is_native {
            Vec::new()
        } else {
            self.marks.of_message(message)
        };
        self.blocks(role, message, &marks);
    }

    fn blocks(&mut self, role: SentRole, message: &Message, marks: &[Option<Json>]) {
        let origin = message.origin.as_deref();
        let home = if origin.is_some() && !is_foreign(origin, self.to) {
            Home::Own
        } else {
            Home::Other
        };
        let sent = blocks::sent(&message.blocks, marks, home);
        self.sent.changes.add_all(&sent.changes);
        for block in sent.blocks {
            self.sent.push(role, block);
        }
    }

    /// A message of the user as it was written, but for its results, which stand before it, and for texts that say
    /// nothing, which the API refuses.
    fn user(&mut self, message: &Message, raw: &Json) {
        let has_blank = message.blocks.is_empty() || has_blank_text(&message.blocks);
        let has_results = has_results(raw);
        if !has_blank && !has_results {
            return self.sent.push_whole(SentRole::User, raw);
        }
        let fields = ObjectFields::parse(raw.as_str()).ok();
        let content = fields.as_ref().and_then(|fields| fields.get("content"));
        let parts = content.and_then(raw::array).unwrap_or_default();
        for part in parts {
            let fields = ObjectFields::parse(part.get()).ok();
            let kind = fields.as_ref().and_then(|fields| fields.get("type"));
            match kind.and_then(raw::string).as_deref() {
                Some("tool_result") => {}
                Some("text") if fields.as_ref().is_some_and(is_blank) => {}
                Some(_) | None => {
                    let block = SentBlock::of(part.get().as_bytes().to_vec());
                    self.sent.push(SentRole::User, block);
                }
            }
        }
        self.sent
            .changes
            .add_times("empty_text", u32::from(has_blank));
    }

    fn results(&mut self, message: &Message, raw: Option<&Json>) {
        for block in &message.blocks {
            let Block::Result(result) = block else {
                continue;
            };
            let is_changed = message.is_changed || has_blank_text(&result.content);
            let written = raw.and_then(|raw| written_result(raw, result, is_changed));
            let json = written.unwrap_or_else(|| {
                let marks = if self.is_native {
                    Vec::new()
                } else {
                    self.marks.of_message(message)
                };
                let (json, changes) = blocks::result(result, &marks);
                self.sent.changes.add_all(&changes);
                json
            });
            self.sent.push(SentRole::User, SentBlock::of(json));
        }
    }

    fn assistant(&mut self, message: &Message, raw: &Json) {
        let is_foreign = is_foreign(message.origin.as_deref(), self.to);
        let unsigned = unsigned_thoughts(message);
        let has_blank = message.blocks.is_empty() || has_blank_text(&message.blocks);
        if !message.is_changed && !is_foreign && unsigned == 0 && !has_blank {
            return self.sent.push_whole(SentRole::Assistant, raw);
        }
        self.sent.changes.add_times("reasoning", unsigned);
        self.sent
            .changes
            .add_times("empty_text", u32::from(has_blank));
        let home = if is_foreign { Home::Other } else { Home::Own };
        match overlay::written(raw, &message.blocks, home) {
            Some(written) => {
                for (role, block) in written {
                    self.sent.push(role, block);
                }
            }
            None => self.blocks(SentRole::Assistant, message, &[]),
        }
    }

    fn round(&mut self, round: &RoundSent<'_>) {
        let fitted = self.ids.of_blocks(round.assistant, round.origin);
        let blocks = fitted.blocks(round.assistant);
        let mut message = Cow::Owned(Message::made(Role::Assistant, blocks.into_owned()));
        self.unique.fit(&mut message);
        let home = if round.origin.is_some_and(|origin| origin == self.to) {
            Home::Own
        } else {
            Home::Other
        };
        let sent = blocks::sent(&message.blocks, &[], home);
        for block in sent.blocks {
            self.sent.push(SentRole::Assistant, block);
        }
        for (id, shown) in &round.results {
            let json = blocks::shown_result(self.unique.id(fitted.id(id)), shown);
            self.sent.push(SentRole::User, SentBlock::of(json));
        }
    }
}

/// Thoughts without a signature: the model of another upstream had them, and the API refuses them.
fn unsigned_thoughts(message: &Message) -> u32 {
    let unsigned = message.blocks.iter().filter(|block| match block {
        Block::Reasoning(reasoning) => reasoning.signature.as_ref().is_none_or(Literal::is_empty),
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => false,
    });
    u32::try_from(unsigned.count()).unwrap_or(u32::MAX)
}

/// Whether there is a text that says nothing.
fn has_blank_text(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| match block {
        Block::Text(text) => blocks::is_blank(text),
        Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => false,
    })
}

/// Whether a part is a text that says nothing.
fn is_blank(part: &ObjectFields<'_>) -> bool {
    let text = part.get("text").and_then(raw::literal);
    text.is_some_and(|text| blocks::is_blank(&text))
}

/// Whether a message holds results.
fn has_results(raw: &Json) -> bool {
    if !raw.as_str().contains("tool_result") {
        return false;
    }
    let fields = ObjectFields::parse(raw.as_str()).ok();
    let content = fields.and_then(|fields| fields.get("content"));
    let parts = content.and_then(raw::array).unwrap_or_default();
    parts.into_iter().any(|part| {
        let fields = ObjectFields::parse(part.get()).ok();
        let kind = fields.and_then(|fields| fields.get("type").and_then(raw::string));
        kind.as_deref() == Some("tool_result")
    })
}

/// A result as it was written, under the id of its call.
fn written_result(raw: &Json, result: &ResultBlock, is_changed: bool) -> Option<Vec<u8>> {
    if !is_changed {
        return Some(raw.as_str().as_bytes().to_vec());
    }
    let fields = ObjectFields::parse(raw.as_str()).ok()?;
    let mut json = vec![b'{'];
    for (name, value) in &fields.0 {
        write::foreign_key(&mut json, name);
        match (&**name, raw::array(value)) {
            ("tool_use_id", _) => write::string(&mut json, &result.call_id),
            ("content", Some(parts)) => {
                json.push(b'[');
                for part in parts {
                    let fields = ObjectFields::parse(part.get()).ok();
                    if !fields.as_ref().is_some_and(is_blank) {
                        write::separate(&mut json);
                        json.extend_from_slice(part.get().as_bytes());
                    }
                }
                json.push(b']');
            }
            _ => json.extend_from_slice(value.get().as_bytes()),
        }
    }
    json.push(b'}');
    Some(json)
}

impl WrittenHistory {
    fn push_whole(&mut self, role: SentRole, raw: &Json) {
        self.messages.push(SentMessage {
            role,
            content: SentContent::Whole(raw.clone()),
        });
    }

    fn push(&mut self, role: SentRole, block: SentBlock) {
        if let Some(SentMessage {
            role: last,
            content: SentContent::Blocks(blocks),
        }) = self.messages.last_mut()
            && *last == role
        {
            return blocks.push(block);
        }
        self.messages.push(SentMessage {
            role,
            content: SentContent::Blocks(vec![block]),
        });
    }

    /// Gives the messages the form that the API demands, where they do not have it.
    fn complete(&mut self, ends_with_user: bool) {
        let text = |text: &str| blocks::said(&Literal::from_text(text), None, None);
        let is_user = |message: Option<&SentMessage>| {
            message.is_some_and(|message| message.role == SentRole::User)
        };
        let lacks_last = ends_with_user && !self.messages.is_empty();
        if lacks_last
            && !is_user(self.messages.last())
            && let Some(block) = text(NOTHING_SAID)
        {
            self.changes.add("added_text");
            self.push(SentRole::User, block);
        }
        if !is_user(self.messages.first()) {
            self.changes.add("added_text");
            let opening = SentMessage {
                role: SentRole::User,
                content: SentContent::Blocks(text(OPENING).into_iter().collect()),
            };
            self.messages.insert(0, opening);
        }
        // The beginning of an answer may not end with white space.
        if let Some(SentMessage {
            role: SentRole::Assistant,
            content: SentContent::Blocks(blocks),
        }) = self.messages.last_mut()
            && let Some(last) = blocks.last_mut()
            && let Some(said) = &last.text
            && said.trim_end().len() < said.len()
            && let Some(trimmed) = text(said.trim_end())
        {
            self.changes.add("trimmed_text");
            *last = trimmed;
        }
    }

    /// Whether the model's last message, whose calls were answered, does not begin with the thought that came with
    /// it. With `thinking` on, the API refuses that.
    pub fn lacks_thought(&self) -> bool {
        let [.., answer, results] = self.messages.as_slice() else {
            return false;
        };
        let SentContent::Blocks(blocks) = &answer.content else {
            return false;
        };
        results.role == SentRole::User
            && answer.role == SentRole::Assistant
            && blocks.iter().any(|block| block.is_call)
            && !blocks.first().is_some_and(|block| block.is_thinking)
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        for message in &self.messages {
            write::separate(out);
            let blocks = match &message.content {
                SentContent::Whole(raw) => {
                    write::raw(out, raw);
                    continue;
                }
                SentContent::Blocks(blocks) => blocks,
            };
            out.extend_from_slice(match message.role {
                SentRole::User => b"{\"role\":\"user\",\"content\":[",
                SentRole::Assistant => b"{\"role\":\"assistant\",\"content\":[",
            });
            for block in blocks {
                write::separate(out);
                out.extend_from_slice(&block.json);
            }
            out.extend_from_slice(b"]}");
        }
    }
}

/// Ids of calls, of which the API takes each only once in a request; other formats know them by their message.
#[derive(Debug, Default)]
struct UniqueIds {
    used: HashSet<String>,
    /// The ids of the last message's calls that had to become others.
    changed: BTreeMap<String, String>,
}

impl UniqueIds {
    fn fit(&mut self, message: &mut Cow<'_, Message>) {
        if message.role != Role::Tool {
            self.changed.clear();
        }
        let mut renamed = Vec::new();
        for (at, block) in message.blocks.iter().enumerate() {
            let id = match block {
                Block::Call(call) => {
                    if self.used.insert(call.id.clone()) {
                        continue;
                    }
                    let other = self.unused(&call.id);
                    self.used.insert(other.clone());
                    self.changed.insert(call.id.clone(), other.clone());
                    other
                }
                Block::Result(result) => match self.changed.get(&result.call_id) {
                    Some(other) => other.clone(),
                    None => continue,
                },
                Block::Text(_)
                | Block::Refusal(_)
                | Block::Reasoning(_)
                | Block::Part(_)
                | Block::Native(_) => continue,
            };
            renamed.push((at, id));
        }
        if renamed.is_empty() {
            return;
        }
        let message = message.to_mut();
        message.is_changed = true;
        for (at, other) in renamed {
            match &mut message.blocks[at] {
                Block::Call(call) => call.id = other,
                Block::Result(result) => result.call_id = other,
                Block::Text(_)
                | Block::Refusal(_)
                | Block::Reasoning(_)
                | Block::Part(_)
                | Block::Native(_) => {}
            }
        }
    }

    fn unused(&self, id: &str) -> String {
        let mut others = (2u32..).map(|number| format!("{id}_{number}"));
        let free = others.find(|other| !self.used.contains(other));
        free.unwrap_or_else(|| id.to_owned())
    }

    /// The id under which the result of a call of the last message goes.
    fn id<'a>(&'a self, id: &'a str) -> &'a str {
        self.changed.get(id).map_or(id, String::as_str)
    }
}
