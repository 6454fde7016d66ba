//! Reading the items of a request's `input` as messages.
//!
//! Items of the model that follow one another are one message of the assistant. Each item stands as it was written
//! behind the blocks that were read from it. A result is a message of its own, as is an item that only the provider
//! knows the use of and that the client made.

mod own_calls;

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::model::CallForm;
use tw_core::request::{Block, CallBlock, Message, MessageEnds, ReasoningBlock, ResultBlock, Role};

use crate::client_request::RequestError;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::request::{HISTORY_CALLS_MAX, Place, Reading, check_result, object};
use crate::openai_responses::options::ApprovalAnswer;
use crate::openai_responses::{REASONING_TEXT, SUMMARY, content, ids, native};

use own_calls::{AskedCalls, is_ours};

/// The input as messages.
pub struct ReadItems {
    pub messages: Vec<Message>,
    pub ends: MessageEnds,
    pub approvals: Vec<ApprovalAnswer>,
    /// Ids of the calls that this server ran.
    pub shown_calls: BTreeSet<String>,
}

const INPUT: Place<'static> = Place::Whole("input");

pub fn read(fields: &ObjectFields<'_>, reading: &Reading<'_>) -> Result<ReadItems, RequestError> {
    let mut reader = ItemsReader {
        reading,
        messages: Vec::new(),
        ends: Vec::new(),
        group: Group::default(),
        approvals: Vec::new(),
        asked: AskedCalls::default(),
        shown_calls: BTreeSet::new(),
    };
    let Some(input) = fields.get("input") else {
        // A response that follows another one, or a stored prompt, may need no more.
        let follows = ["previous_response_id", "conversation", "prompt"];
        if follows.iter().all(|name| fields.get(name).is_none()) {
            return Err(RequestError::missing("input"));
        }
        return reader.end();
    };
    let end = |raw: &RawValue| {
        let body = reading.source.as_str();
        raw.get().as_ptr().addr() - body.as_ptr().addr() + raw.get().len()
    };
    if let Some(text) = Literal::of_part(reading.source, input.get()) {
        let message = Message::made(Role::User, vec![Block::Text(text)]);
        reader.add(message, end(input));
        return reader.end();
    }
    let items = list(input, INPUT, reading.limits.messages_max)?;
    let follows = ["previous_response_id", "conversation"];
    if items.is_empty() && follows.iter().all(|name| fields.get(name).is_none()) {
        let message = "Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array instead.";
        return Err(RequestError {
            code: Some("empty_array"),
            ..RequestError::invalid("input", message)
        });
    }
    if reading.source.as_str().contains(ids::APPROVAL) {
        reader.asked = AskedCalls::of(&items);
    }
    for (at, item) in items.into_iter().enumerate() {
        let place = INPUT.item(at);
        let fields = object(item, place)?;
        if let Some(id) = reference(&fields) {
            return Err(RequestError::no_item(&id));
        }
        reader.item(item.get(), &fields, end(item), place)?;
    }
    reader.end()
}

/// The id that an item refers to, if it is a reference: its `type` may be left out.
pub fn reference(item: &ObjectFields<'_>) -> Option<String> {
    let is_reference = match item.get("type") {
        Some(kind) => raw::string(kind)? == "item_reference",
        None => item.get("role").is_none(),
    };
    let id = item.get("id").filter(|_| is_reference)?;
    raw::string(id).map(|id| id.into_owned())
}

/// The values of a list of at most `max`: a list of very many small ones takes much more than its text.
fn list<'a>(
    raw: &'a RawValue,
    place: Place<'_>,
    max: usize,
) -> Result<Vec<&'a RawValue>, RequestError> {
    struct Bounded(usize);
    impl<'de> Visitor<'de> for Bounded {
        type Value = Option<Vec<&'de RawValue>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = seq.next_element()? {
                if items.len() == self.0 {
                    return Err(A::Error::custom(TOO_MANY));
                }
                items.push(item);
            }
            Ok(Some(items))
        }
    }
    const TOO_MANY: &str = "too many";
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    match deserializer.deserialize_seq(Bounded(max)) {
        Ok(items) => Ok(items.unwrap_or_default()),
        Err(error) if error.to_string().starts_with(TOO_MANY) => {
            let message = format!(
                "Invalid '{place}': array too long. Expected an array with maximum length {max}."
            );
            Err(RequestError {
                code: Some("array_above_max_length"),
                ..RequestError::invalid(place, message)
            })
        }
        Err(_) => Err(RequestError::wrong_type(place, "a string or an array")),
    }
}

struct ItemsReader<'a> {
    reading: &'a Reading<'a>,
    messages: Vec<Message>,
    /// The end of each message in the body.
    ends: Vec<usize>,
    /// Items of the model so far.
    group: Group,
    /// Answers behind which the model has said nothing yet.
    approvals: Vec<ApprovalAnswer>,
    asked: AskedCalls<'a>,
    shown_calls: BTreeSet<String>,
}

#[derive(Default)]
struct Group {
    blocks: Vec<Block>,
    /// Results of calls that this server ran, which come with the calls.
    results: Vec<Message>,
    end: usize,
}

impl ItemsReader<'_> {
    fn add(&mut self, message: Message, end: usize) {
        self.close();
        self.push(message, end);
    }

    fn push(&mut self, message: Message, end: usize) {
        self.messages.push(message);
        self.ends.push(end);
    }

    /// Ends the message of the assistant that is being gathered.
    fn close(&mut self) {
        let Group {
            blocks,
            results,
            end,
        } = std::mem::take(&mut self.group);
        if !blocks.is_empty() {
            self.push(Message::made(Role::Assistant, blocks), end);
        }
        for result in results {
            self.push(result, end);
        }
    }

    fn end(mut self) -> Result<ReadItems, RequestError> {
        self.close();
        let calls: usize = self.messages.iter().map(|made| made.calls().count()).sum();
        if calls > HISTORY_CALLS_MAX {
            let message = format!(
                "Invalid 'input': it holds {calls} tool calls; at most {HISTORY_CALLS_MAX} are allowed."
            );
            return Err(RequestError {
                code: Some("array_above_max_length"),
                ..RequestError::invalid("input", message)
            });
        }
        let of_model = |message: &Message| message.role == Role::Assistant;
        let answer = self.messages.iter().rposition(of_model);
        let before = answer.and_then(|answer| answer.checked_sub(1));
        Ok(ReadItems {
            ends: MessageEnds {
                before_answer: before.and_then(|before| self.ends.get(before).copied()),
                last: self.ends.last().copied().unwrap_or_default(),
            },
            messages: self.messages,
            approvals: self.approvals,
            shown_calls: self.shown_calls,
        })
    }

    fn json(&self, text: &str) -> Json {
        Json::of_part(self.reading.source, text)
    }

    fn item(
        &mut self,
        text: &str,
        fields: &ObjectFields<'_>,
        end: usize,
        place: Place<'_>,
    ) -> Result<(), RequestError> {
        let kind_place = place.field("type");
        let kind = match fields.get("type") {
            Some(kind) => {
                raw::string(kind).ok_or_else(|| RequestError::wrong_type(kind_place, "a string"))?
            }
            None if fields.get("role").is_some() => "message".into(),
            None => return Err(RequestError::missing(kind_place)),
        };
        let is_ours = is_ours(fields);
        match &*kind {
            "message" => self.message(text, fields, end, place)?,
            "reasoning" => self.model(end, [self.reasoning(text, fields)]),
            "function_call" | "custom_tool_call" => {
                let call = self.call(&kind, fields, place)?;
                let item = Block::Native(native(self.json(text)));
                self.model(end, [Block::Call(call), item]);
            }
            "function_call_output" | "custom_tool_call_output" => {
                self.result(text, fields, end, place)?;
            }
            "mcp_call" if is_ours => self.own_call(fields, end, place)?,
            // What this server said of itself.
            "mcp_list_tools" if is_ours => {}
            "mcp_approval_request" if is_ours => self.asked(fields, end, place)?,
            "mcp_approval_response" => self.approval(text, fields, end, place)?,
            "compaction" => {
                let item = Block::Native(native(self.json(text)));
                self.add(Message::made(Role::Assistant, vec![item]), end);
            }
            other if other.ends_with("_output") => self.of_client(text, end),
            _ => {
                let item = Block::Native(native(self.json(text)));
                self.model(end, [item]);
            }
        }
        Ok(())
    }

    /// Adds what the model made. What it says behind calls of this server was said with their results, and behind an
    /// answer that was acted on.
    fn model(&mut self, end: usize, blocks: impl IntoIterator<Item = Block>) {
        self.approvals.clear();
        self.say(end, blocks);
    }

    fn say(&mut self, end: usize, blocks: impl IntoIterator<Item = Block>) {
        let blocks = blocks.into_iter().collect::<Vec<_>>();
        let is_call = blocks.iter().any(|block| matches!(block, Block::Call(_)));
        if !is_call && !self.group.results.is_empty() {
            self.close();
        }
        self.group.blocks.extend(blocks);
        self.group.end = end;
    }

    /// An item of the client that only the provider knows the use of.
    fn of_client(&mut self, text: &str, end: usize) {
        let json = self.json(text);
        let message = Message::made(Role::User, vec![Block::Native(native(json.clone()))]);
        let raw = Some(json);
        self.add(Message { raw, ..message }, end);
    }

    fn message(
        &mut self,
        text: &str,
        fields: &ObjectFields<'_>,
        end: usize,
        place: Place<'_>,
    ) -> Result<(), RequestError> {
        let role_place = place.field("role");
        let role = required_string(fields, "role", place)?;
        let role = match role.as_str() {
            "user" => Role::User,
            "system" => Role::System,
            "developer" => Role::Developer,
            "assistant" => Role::Assistant,
            other => {
                let message = format!(
                    "Invalid value: '{other}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
                );
                return Err(RequestError::wrong_value(role_place, message));
            }
        };
        let place = place.field("content");
        let written = fields
            .get("content")
            .ok_or_else(|| RequestError::missing(place))?;
        let mut blocks = self.content(written, place)?;
        let json = self.json(text);
        if role == Role::Assistant {
            blocks.push(Block::Native(native(json)));
            self.model(end, blocks);
            return Ok(());
        }
        let raw = Some(json);
        let message = Message::made(role, blocks);
        self.add(Message { raw, ..message }, end);
        Ok(())
    }

    fn content(&self, written: &RawValue, place: Place<'_>) -> Result<Vec<Block>, RequestError> {
        if let Some(text) = Literal::of_part(self.reading.source, written.get()) {
            return Ok(vec![Block::Text(text)]);
        }
        let parts = list(written, place, PARTS_MAX)?;
        let parts = parts.into_iter().enumerate();
        parts
            .map(|(at, part)| self.part(part, place.item(at)))
            .collect()
    }

    fn part(&self, part: &RawValue, place: Place<'_>) -> Result<Block, RequestError> {
        let fields = object(part, place)?;
        let kind = required_string(&fields, "type", place)?;
        let literal = |name| {
            let place = place.field(name);
            let raw = fields
                .get(name)
                .ok_or_else(|| RequestError::missing(place))?;
            Literal::of_part(self.reading.source, raw.get())
                .ok_or_else(|| RequestError::wrong_type(place, "a string"))
        };
        match kind.as_str() {
            "input_text" | "output_text" | "text" => Ok(Block::Text(literal("text")?)),
            "refusal" => Ok(Block::Refusal(literal("refusal")?)),
            "input_image" | "input_file" => {
                let names = ["image_url", "file_id", "file_url", "file_data"];
                if names.iter().all(|name| fields.get(name).is_none()) {
                    let name = if kind == "input_image" {
                        "image_url"
                    } else {
                        "file_url"
                    };
                    return Err(RequestError::missing(place.field(name)));
                }
                Ok(Block::Part(content::part_block(self.json(part.get()))))
            }
            _ => Ok(Block::Part(content::part_block(self.json(part.get())))),
        }
    }

    fn reasoning(&self, text: &str, fields: &ObjectFields<'_>) -> Block {
        let of = |name: &str| {
            let mut joined = LiteralBuf::default();
            for part in fields.get(name).and_then(raw::array).unwrap_or_default() {
                let part = ObjectFields::parse(part.get()).ok();
                let said = part.and_then(|part| part.get("text").and_then(raw::literal));
                if let Some(said) = said.filter(|said| !said.is_empty()) {
                    if !joined.is_empty() {
                        joined.push(&Literal::from_text(PART_GAP));
                    }
                    joined.push(&said);
                }
            }
            joined
        };
        let (content, summary) = (of("content"), of("summary"));
        let (place, said) = if content.is_empty() {
            (SUMMARY, summary)
        } else {
            (REASONING_TEXT, content)
        };
        Block::Reasoning(ReasoningBlock {
            native: Some(native(self.json(text))),
            ..ReasoningBlock::of(place, said.to_literal())
        })
    }

    fn call(
        &self,
        kind: &str,
        fields: &ObjectFields<'_>,
        place: Place<'_>,
    ) -> Result<CallBlock, RequestError> {
        let (form, name) = if kind == "custom_tool_call" {
            (CallForm::Custom, "input")
        } else {
            (CallForm::Function, "arguments")
        };
        Ok(CallBlock {
            id: required_string(fields, "call_id", place)?,
            name: required_string(fields, "name", place)?,
            form,
            arguments: self.text_of(fields, name, place)?.unwrap_or_default(),
            native: None,
        })
    }

    fn text_of(
        &self,
        fields: &ObjectFields<'_>,
        name: &str,
        place: Place<'_>,
    ) -> Result<Option<Literal>, RequestError> {
        let Some(raw) = fields.get(name) else {
            return Ok(None);
        };
        let text = Literal::of_part(self.reading.source, raw.get());
        text.map(Some)
            .ok_or_else(|| RequestError::wrong_type(place.field(name), "a string"))
    }

    fn result(
        &mut self,
        text: &str,
        fields: &ObjectFields<'_>,
        end: usize,
        place: Place<'_>,
    ) -> Result<(), RequestError> {
        let call_id = required_string(fields, "call_id", place)?;
        let place = place.field("output");
        let output = fields
            .get("output")
            .ok_or_else(|| RequestError::missing(place))?;
        let result = ResultBlock {
            call_id,
            content: self.content(output, place)?,
            is_error: false,
        };
        let message = Message {
            raw: Some(self.json(text)),
            ..Message::made(Role::Tool, vec![Block::Result(result)])
        };
        check_result(&message, place, self.reading.limits)?;
        self.add(message, end);
        Ok(())
    }
}

/// The gap between the parts of a summary, where they are one text.
pub const PART_GAP: &str = "\n\n";

/// Parts of one content.
const PARTS_MAX: usize = 4096;

fn required_string(
    fields: &ObjectFields<'_>,
    name: &str,
    place: Place<'_>,
) -> Result<String, RequestError> {
    let place = place.field(name);
    let raw = fields
        .get(name)
        .ok_or_else(|| RequestError::missing(place))?;
    let text = raw::string(raw).ok_or_else(|| RequestError::wrong_type(place, "a string"))?;
    Ok(text.into_owned())
}
