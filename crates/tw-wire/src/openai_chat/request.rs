//! The request: reading a client's, writing an upstream's.
//!
//! Follows `completion_create_params.py` of openai-python 3.3.1. What is not needed to run a
//! turn is kept as written and goes to the upstream unread.
//!
//! Known differences:
//! - a name that stands twice in one object of the request is refused;
//! - `content` of an assistant message may be null without calls, as stored answers have it;
//! - `tool_choice` without `tools` is accepted, since tools of ours may be offered.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tw_core::accepts::{Accepts, FieldRule, ReasoningSent};
use tw_core::history::FeltDifferences;
use tw_core::json::shared::SharedText;
use tw_core::json::{Json, depth};
use tw_core::limits::{self, RequestLimits};
use tw_core::request::{
    Block, Message, MessageEnds, ModelInput, ModelRequest, RequestTools, ResultBlock, Role,
    ToolChoice,
};
use tw_core::request_changes::RequestChanges;

use self::crossing::CrossedRequest;
use super::FORMAT;
use super::raw::{self, FieldRecord, NotFields, ObjectFields, RecordOf};
use super::surrogates;
use crate::client_request::{RequestError, RequestErrorKind, body_text};

/// Tool calls in all messages of a request: as many as there may be messages to answer them.
pub(crate) const HISTORY_CALLS_MAX: usize = limits::MESSAGES_DEFAULT;
/// Largest `n`: OpenAI's own limit.
const CHOICES_MAX: u64 = 128;

/// The text that a request is read from, and the limits within which it is.
pub(crate) struct Reading<'a> {
    pub(crate) source: &'a SharedText,
    pub(crate) limits: &'a RequestLimits,
}

/// Reads and checks a request body, of which every part is copied.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn decode(body: &[u8], limits: &RequestLimits) -> Result<ModelInput, RequestError> {
    check_size(body, limits)?;
    decode_shared(&body_text(body.to_vec())?, limits)
}

/// Reads and checks a request body. What is read holds parts of it, so that it is there once.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn decode_shared(
    source: &SharedText,
    limits: &RequestLimits,
) -> Result<ModelInput, RequestError> {
    let (mended, half_characters) = without_halves(source);
    let source = mended.as_ref().unwrap_or(source);
    let body = source.as_str();
    let reading = &Reading { source, limits };
    let Whole { fields, items } = read_whole(body, limits)?;
    let Some(model) = raw::filled_string(fields.get("model")) else {
        return Err(match fields.get("model") {
            None => RequestError::missing("model"),
            Some(_) => RequestError::wrong_type("model", "a string that is not empty"),
        });
    };
    let stream = boolean(&fields, "stream")?.unwrap_or(false);
    let tools = tools::read(&fields, reading)?;
    let items = items_of(&fields, items, limits)?;
    let messages = read_messages(&items, reading)?;
    let empty_lists = messages.iter().filter(|message| message.is_changed).count();
    Ok(ModelInput {
        model: model.into_owned(),
        instructions: Vec::new(),
        ends: ends_of(body, &items, &messages),
        messages,
        tool_choice: read_choice(&fields, &tools)?,
        tools,
        stream,
        include_usage: read_stream_options(&fields, stream)?,
        choices: read_choices(&fields)?,
        completion_tokens_max: match token_limit(&fields, "max_completion_tokens")? {
            Some(max) => Some(max),
            None => token_limit(&fields, "max_tokens")?,
        },
        is_structured: is_structured(&fields),
        store: boolean(&fields, "store")?,
        user: match name(&fields, "safety_identifier")? {
            Some(user) => Some(user),
            None => name(&fields, "user")?,
        },
        format: FORMAT,
        fields: keep(&fields, source),
        empty_lists: u32::try_from(empty_lists).unwrap_or(u32::MAX),
        half_characters,
        shown_calls: BTreeSet::new(),
    })
}

/// Whether the answer is to be one JSON text; a form that is not known is one too, since only `text` is for people.
fn is_structured(fields: &ObjectFields<'_>) -> bool {
    let format = fields.get("response_format");
    let kind = format
        .and_then(|raw| object(raw, "response_format").ok())
        .and_then(|format| {
            format
                .get("type")
                .and_then(raw::string)
                .map(Cow::into_owned)
        });
    kind.is_some_and(|kind| kind != "text")
}

/// The body without halves of surrogate pairs, which many upstreams refuse, where it has any; what
/// stands for them is as long. Escapes stand in strings only, wherever those are.
pub(crate) fn without_halves(source: &SharedText) -> (Option<SharedText>, u32) {
    let body = source.as_str();
    if !surrogates::may_hold_half(body) {
        return (None, 0);
    }
    match surrogates::mend_all(body) {
        (Cow::Owned(mended), replaced) => (Some(SharedText::new(mended)), replaced),
        (Cow::Borrowed(_), _) => (None, 0),
    }
}

/// The name of a person. An empty one names nobody: all who send it would be one person.
pub(crate) fn name(fields: &ObjectFields<'_>, key: &str) -> Result<Option<String>, RequestError> {
    Ok(string(fields, key)?.filter(|name| !name.trim().is_empty()))
}

/// Writes the body of the request to an upstream that accepts everything.
///
/// Fields that need no change are byte for byte the client's, in the client's order.
pub fn encode(request: &ModelRequest<'_>) -> Vec<u8> {
    encode_for(request, &Accepts::everything())
}

/// Writes the body of the request as the upstream accepts it.
pub fn encode_for(request: &ModelRequest<'_>, accepts: &Accepts) -> Vec<u8> {
    if request.input.format == FORMAT {
        return encode::body(request, accepts);
    }
    let rules = crossing::rules(accepts);
    let crossed = CrossedRequest::of(request, &rules);
    encode::body(&crossed.request(request), &rules)
}

/// Noticeable differences between the request as written and as the upstream gets it.
pub fn differences(request: &ModelRequest<'_>, accepts: &Accepts) -> FeltDifferences {
    if request.input.format != FORMAT {
        let rules = crossing::rules(accepts);
        let crossed = CrossedRequest::of(request, &rules);
        let mut differences = differences(&crossed.request(request), &rules);
        differences.tools_left_out += crossed.tools_left_out;
        return differences;
    }
    let mut differences = FeltDifferences::default();
    if !accepts.images_in_results {
        let written = adapt::messages(&mut Vec::new(), request, accepts);
        differences.moved_parts = written.moved_parts;
        differences.joined_results = written.joined_results;
    }
    if !accepts.all_tools() {
        let tools = adapt_tools::tools(request, accepts);
        differences.tools_left_out = u32::try_from(tools.left_out.len()).unwrap_or(u32::MAX);
        differences.not_strict = tools.not_strict;
    }
    differences
}

/// What the upstream does not get, or gets otherwise than the client meant it.
pub fn changes(request: &ModelRequest<'_>, accepts: &Accepts) -> RequestChanges {
    if request.input.format != FORMAT {
        return CrossedRequest::of(request, &crossing::rules(accepts)).changes;
    }
    let mut changes = RequestChanges::default();
    if !accepts.fields.is_empty() {
        let given = request.input.fields.iter();
        for (name, _) in given.filter(|(_, value)| !value.is_null()) {
            if accepts.fields.get(name) == Some(&FieldRule::LeftOut) {
                changes.add(name.to_string());
            }
        }
    }
    if accepts.reasoning == ReasoningSent::Never {
        let blocks = request.messages.iter().flat_map(|message| &message.blocks);
        let thoughts = blocks.filter(|block| matches!(block, Block::Reasoning(_)));
        let thoughts = u32::try_from(thoughts.count()).unwrap_or(u32::MAX);
        changes.add_times("reasoning", thoughts);
    }
    changes
}

/// The request, in which `messages` were taken apart on the way: they are most of it, and each time that they are gone
/// through costs what everything else costs.
#[derive(Default)]
pub(crate) struct Whole<'a> {
    /// Fields of the request, `messages` among them, whose value does not stand for itself.
    pub(crate) fields: ObjectFields<'a>,
    /// The messages; `None` if they are no list.
    pub(crate) items: Option<Vec<Item<'a>>>,
}

/// A message of the list.
pub(crate) struct Item<'a> {
    pub(crate) text: &'a str,
    /// Fields of the message; `None` if it was not looked into.
    pub(crate) fields: Option<ObjectFields<'a>>,
}

impl<'a> FieldRecord<'a> for Whole<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        let value = if key == "messages" {
            let Items(items) = map.next_value()?;
            let items = items.into_iter().map(|fields| Item {
                text: "",
                fields: Some(fields),
            });
            self.items = Some(items.collect());
            RawValue::NULL
        } else {
            map.next_value()?
        };
        self.fields.0.push((key, value));
        Ok(())
    }
}

/// Objects in a list, at most [`limits::MESSAGES_DEFAULT`]: a list of very many small ones takes much more than its
/// text.
struct Items<'a>(Vec<ObjectFields<'a>>);

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor;
        impl<'de> Visitor<'de> for ItemsVisitor {
            type Value = Items<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of objects")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(RecordOf(item)) = seq.next_element()? {
                    if items.len() == limits::MESSAGES_DEFAULT {
                        return Err(A::Error::custom("too many objects"));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(ItemsVisitor)
    }
}

fn check_size(body: &[u8], limits: &RequestLimits) -> Result<(), RequestError> {
    if body.len() > limits.body_bytes_max {
        let message = format!(
            "The request body is longer than {} bytes.",
            limits.body_bytes_max
        );
        return Err(RequestError {
            code: Some("request_too_large"),
            ..RequestError::whole(RequestErrorKind::TooLarge, message)
        });
    }
    Ok(())
}

pub(crate) fn read_whole<'a>(
    text: &'a str,
    limits: &RequestLimits,
) -> Result<Whole<'a>, RequestError> {
    use RequestErrorKind::Invalid;
    check_size(text.as_bytes(), limits)?;
    if depth(text.as_bytes()) > limits.json_depth_max {
        let message = format!(
            "The request body is nested deeper than {} levels.",
            limits.json_depth_max
        );
        return Err(RequestError::whole(Invalid, message));
    }
    if let Ok(RecordOf(mut whole)) = serde_json::from_str::<RecordOf<Whole<'_>>>(text)
        && whole.fields.twice().is_none()
        && whole.find_texts(text).is_some()
    {
        return Ok(whole);
    }
    // What is wrong is told by whoever looks into the messages one by one.
    let fields = ObjectFields::parse(text).map_err(|error| match error {
        NotFields::Json(error) => RequestError::whole(
            Invalid,
            format!("The request body is not a JSON object: {error}."),
        ),
        NotFields::Duplicate(name) => {
            RequestError::invalid(name.clone(), format!("'{name}' is given twice."))
        }
    })?;
    let items = fields.get("messages").and_then(raw::array);
    let unread = |raw: &'a RawValue| Item {
        text: raw.get(),
        fields: None,
    };
    Ok(Whole {
        items: items.map(|items| items.into_iter().map(unread).collect()),
        fields,
    })
}

impl<'a> Whole<'a> {
    /// Finds the messages in the `text` that all was read from; `None` if that takes a second look, or if something
    /// is wrong with one.
    fn find_texts(&mut self, text: &'a str) -> Option<()> {
        for item in self.items.iter_mut().flatten() {
            let fields = item.fields.as_ref()?;
            if fields.twice().is_some() {
                return None;
            }
            item.text = fields.text_in(text)?;
        }
        Some(())
    }
}

/// A place in the request; written out only for an error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Whole(&'a str),
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl<'a> Place<'a> {
    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        Self::Field(self, name)
    }

    pub(crate) fn item(&'a self, at: usize) -> Self {
        Self::Item(self, at)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(name) => f.write_str(name),
            Self::Field(object, name) => write!(f, "{object}.{name}"),
            Self::Item(list, at) => write!(f, "{list}[{at}]"),
        }
    }
}

impl From<Place<'_>> for String {
    fn from(place: Place<'_>) -> Self {
        place.to_string()
    }
}

impl<'a> From<&'a str> for Place<'a> {
    fn from(name: &'a str) -> Self {
        Self::Whole(name)
    }
}

impl<'a> From<&'a String> for Place<'a> {
    fn from(name: &'a String) -> Self {
        Self::Whole(name)
    }
}

/// The fields of an object inside the request.
pub(crate) fn object<'a, 'p>(
    raw: &'a RawValue,
    place: impl Into<Place<'p>>,
) -> Result<ObjectFields<'a>, RequestError> {
    object_in(raw.get(), place)
}

pub(crate) fn object_in<'a, 'p>(
    text: &'a str,
    place: impl Into<Place<'p>>,
) -> Result<ObjectFields<'a>, RequestError> {
    ObjectFields::parse(text).map_err(|error| match error {
        NotFields::Json(_) => RequestError::wrong_type(place.into(), "an object"),
        NotFields::Duplicate(name) => {
            let param = place.into().field(&name).to_string();
            let message = format!("'{param}' is given twice.");
            RequestError::invalid(param, message)
        }
    })
}

pub(crate) const MESSAGES: Place<'static> = Place::Whole("messages");

pub(crate) fn items_of<'a>(
    fields: &ObjectFields<'_>,
    items: Option<Vec<Item<'a>>>,
    limits: &RequestLimits,
) -> Result<Vec<Item<'a>>, RequestError> {
    let items = items.ok_or_else(|| match fields.get("messages") {
        None => RequestError::missing("messages"),
        Some(_) => RequestError::wrong_type("messages", "an array of messages"),
    })?;
    if items.is_empty() {
        let message = "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.";
        return Err(RequestError {
            code: Some("empty_array"),
            ..RequestError::invalid("messages", message)
        });
    }
    if items.len() > limits.messages_max {
        let message = format!(
            "Invalid 'messages': array too long. Expected an array with maximum length {}, but got one with length {}.",
            limits.messages_max,
            items.len()
        );
        return Err(RequestError {
            code: Some("array_above_max_length"),
            ..RequestError::invalid("messages", message)
        });
    }
    Ok(items)
}

fn read_messages(items: &[Item<'_>], reading: &Reading<'_>) -> Result<Vec<Message>, RequestError> {
    let messages: Vec<Message> = items
        .iter()
        .enumerate()
        .map(|(at, item)| messages::read(reading.source, item, MESSAGES.item(at)))
        .collect::<Result<_, _>>()?;
    for (at, message) in messages.iter().enumerate() {
        check_result(message, MESSAGES.item(at).field("content"), reading.limits)?;
    }
    let calls: usize = messages.iter().map(|message| message.calls().count()).sum();
    if calls > HISTORY_CALLS_MAX {
        let message = format!(
            "Invalid 'messages': they hold {calls} tool calls; at most {HISTORY_CALLS_MAX} are allowed."
        );
        return Err(RequestError {
            code: Some("array_above_max_length"),
            ..RequestError::invalid("messages", message)
        });
    }
    Ok(messages)
}

fn ends_of(body: &str, items: &[Item<'_>], messages: &[Message]) -> MessageEnds {
    // Each item is a piece of the body.
    let end = |item: &Item<'_>| item.text.as_ptr().addr() - body.as_ptr().addr() + item.text.len();
    let answer = messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let before = answer.and_then(|answer| items[..answer].last());
    MessageEnds {
        before_answer: before.map(end),
        last: items.last().map_or(0, end),
    }
}

pub(crate) fn check_result(
    message: &Message,
    place: Place<'_>,
    limits: &RequestLimits,
) -> Result<(), RequestError> {
    let bytes = message.result().map_or(0, ResultBlock::bytes);
    if bytes <= limits.client_result_bytes_max {
        return Ok(());
    }
    let message = format!(
        "Invalid '{place}': the result is longer than {} bytes.",
        limits.client_result_bytes_max
    );
    Err(RequestError {
        code: Some("string_above_max_length"),
        ..RequestError::invalid(place, message)
    })
}

fn read_choice(
    fields: &ObjectFields<'_>,
    tools: &RequestTools,
) -> Result<ToolChoice, RequestError> {
    match (
        tools,
        fields.get("tool_choice"),
        fields.get("function_call"),
    ) {
        (RequestTools::ByName(_), _, Some(raw))
        | (RequestTools::Absent | RequestTools::List(_), None, Some(raw)) => {
            tools::read_old_choice(raw)
        }
        (_, Some(raw), _) => tools::read_choice(raw),
        (_, None, None) => Ok(ToolChoice::Absent),
    }
}

fn read_stream_options(fields: &ObjectFields<'_>, stream: bool) -> Result<bool, RequestError> {
    let Some(raw) = fields.get("stream_options") else {
        return Ok(false);
    };
    let options = object(raw, "stream_options")?;
    if !stream {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(RequestError::invalid("stream_options", message));
    }
    let include = options.get("include_usage").map(|raw| {
        raw::boolean(raw)
            .ok_or_else(|| RequestError::wrong_type("stream_options.include_usage", "a boolean"))
    });
    include.unwrap_or(Ok(false))
}

fn read_choices(fields: &ObjectFields<'_>) -> Result<u32, RequestError> {
    let Some(raw) = fields.get("n") else {
        return Ok(1);
    };
    let n = raw::integer(raw)
        .ok_or_else(|| RequestError::wrong_type("n", "an integer of at least 1"))?;
    match u32::try_from(n) {
        Ok(choices) if (1..=CHOICES_MAX).contains(&n) => Ok(choices),
        _ => {
            let message = format!(
                "Invalid 'n': expected a value from 1 to {CHOICES_MAX}, but got {n} instead."
            );
            Err(RequestError::wrong_value("n", message))
        }
    }
}

pub(crate) fn boolean(fields: &ObjectFields<'_>, name: &str) -> Result<Option<bool>, RequestError> {
    let read = |raw| raw::boolean(raw).ok_or_else(|| RequestError::wrong_type(name, "a boolean"));
    fields.get(name).map(read).transpose()
}

/// The limit that a field sets; `None` also for -1, which llama.cpp and its like take for no limit: it is passed on as
/// it is.
fn token_limit(fields: &ObjectFields<'_>, name: &str) -> Result<Option<u64>, RequestError> {
    match fields.get(name) {
        Some(raw) if raw.get() == "-1" => Ok(None),
        Some(_) | None => count(fields, name),
    }
}

pub(crate) fn count(fields: &ObjectFields<'_>, name: &str) -> Result<Option<u64>, RequestError> {
    let read = |raw| {
        raw::integer(raw).ok_or_else(|| RequestError::wrong_type(name, "an integer of at least 0"))
    };
    fields.get(name).map(read).transpose()
}

pub(crate) fn string(
    fields: &ObjectFields<'_>,
    name: &str,
) -> Result<Option<String>, RequestError> {
    let read = |raw| raw::string(raw).ok_or_else(|| RequestError::wrong_type(name, "a string"));
    Ok(fields.get(name).map(read).transpose()?.map(Cow::into_owned))
}

pub(crate) fn keep(fields: &ObjectFields<'_>, source: &SharedText) -> Vec<(Box<str>, Json)> {
    let kept = fields.0.iter().filter(|(name, _)| name != "messages");
    kept.map(|(name, raw)| (Box::from(&**name), Json::of_part(source, raw.get())))
        .collect()
}

mod adapt;
mod adapt_tools;
mod crossing;
mod crossing_tools;
mod encode;
mod messages;
mod overlay;
mod render;
pub(crate) mod schema;
pub(crate) mod tools;
mod unshared;

pub(crate) use unshared::read as unshared;

#[cfg(test)]
mod tests;
