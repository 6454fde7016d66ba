//! Reading of an answer's events, one after the other, as events of the model.

use std::borrow::Cow;

use serde::de::MapAccess;
use serde_json::value::RawValue;
use tw_core::json::{Json, Literal};
use tw_core::limits::CALLS_PER_CHOICE_MAX;
use tw_core::model::{ModelEvent, ReportedError};
use tw_core::native::NativeFields;

use super::block::{self, BlockDelta, OpenBlock};
use super::error::status_of;
use super::stop;
use super::usage::UsageSoFar;
use crate::openai_chat::answer::{broke_off, passes_on};
use crate::openai_chat::ending::ChoiceEnding;
use crate::openai_chat::raw::{self, FieldRecord, ObjectFields, RecordOf};
use crate::openai_chat::{reported, surrogates};
use crate::sse;
use crate::upstream_answer::DecodeError;

/// Blocks that are open at once. The API has one; of more than this the oldest is taken as whole.
const OPEN_BLOCKS_MAX: usize = 32;
/// Different fields beside the content that are passed on; further ones are not.
const EXTRA_FIELDS_MAX: usize = 64;

/// Fields of the message that have a place of their own in the events.
const KNOWN_OF_MESSAGE: [&str; 7] = [
    "id",
    "type",
    "role",
    "content",
    "model",
    "stop_reason",
    "usage",
];

/// Reads one answer.
#[derive(Debug, Default)]
pub struct MessageReader {
    has_started: bool,
    is_done: bool,
    /// The upstream reported an error.
    has_failed: bool,
    /// A block, a piece of one or a stop reason came.
    has_said: bool,
    has_finished: bool,
    calls: u32,
    blocks: Vec<(u64, OpenBlock)>,
    /// The last value of each field beside the content, so that a repeated one goes out once.
    extra: NativeFields,
    usage: UsageSoFar,
}

/// An event of the stream.
#[derive(Default)]
struct EventWritten<'a> {
    kind: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    index: Option<&'a RawValue>,
    content_block: Option<&'a RawValue>,
    delta: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    more: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> FieldRecord<'a> for EventWritten<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "type" => self.kind = map.next_value()?,
            "message" => self.message = map.next_value()?,
            "index" => self.index = map.next_value()?,
            "content_block" => self.content_block = map.next_value()?,
            "delta" => self.delta = map.next_value()?,
            "usage" => self.usage = map.next_value()?,
            "error" => self.error = map.next_value()?,
            _ => {
                if let Some(value) = map.next_value()? {
                    self.more.push((key, value));
                }
            }
        }
        Ok(())
    }
}

impl MessageReader {
    /// Reads one event of a stream.
    pub fn frame(
        &mut self,
        frame: sse::SseFrame<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        if self.is_done {
            return Ok(());
        }
        let data = frame.data.trim_ascii();
        // A gateway ends its stream as OpenAI does.
        if data == "[DONE]" {
            self.done(out);
            return Ok(());
        }
        if frame.event == "error" {
            self.fail(reported::of_object(data), out);
            return Ok(());
        }
        if let Some((index, text)) = usual_text(data)
            && let Some((_, block)) = self.blocks.iter_mut().find(|(at, _)| *at == index)
            && block.is_plain_text()
        {
            block.note_said();
            out.push(block::said(text));
            return Ok(());
        }
        let RecordOf(event): RecordOf<EventWritten<'_>> =
            serde_json::from_str(data).map_err(DecodeError::NotAnAnswer)?;
        let word = raw::filled_string(event.kind).unwrap_or(Cow::Borrowed(frame.event));
        match &*word {
            "message_start" => self.start(event.message, out),
            "content_block_start" => self.begin(&event, out)?,
            "content_block_delta" => self.add(&event, out)?,
            "content_block_stop" => self.stop(index_of(&event), out),
            "message_delta" => self.finish(event, out),
            "message_stop" => self.done(out),
            "error" => self.fail(reported::of_object(data), out),
            // A ping, or what is not known yet.
            _ => {
                let error = event.error.and_then(reported::of_field);
                let bare = || reported::of_bare_object(data).filter(|_| word.is_empty());
                if let Some(error) = error.or_else(bare) {
                    self.fail(error, out);
                }
            }
        }
        Ok(())
    }

    /// Reads a plain answer.
    pub fn body(&mut self, text: &str, out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        let RecordOf(message): RecordOf<ObjectFields<'_>> =
            serde_json::from_str(text).map_err(DecodeError::NotAnAnswer)?;
        let blocks = message.get("content").and_then(raw::array);
        let error = message.get("error").and_then(reported::of_field);
        let bare = || reported::of_bare_object(text).filter(|_| blocks.is_none());
        if let Some(error) = error.or_else(bare) {
            self.fail(error, out);
        }
        let Some(blocks) = blocks else {
            if !self.has_failed {
                return Err(DecodeError::NoChoices);
            }
            out.push(ModelEvent::Done);
            return Ok(());
        };
        self.begun(&message, out);
        for block in blocks {
            let Some(fields) = fields_of(block) else {
                continue;
            };
            self.open(&fields, out)?.end(out);
        }
        self.has_said = true;
        self.extras(message.0.iter().map(|(key, value)| (&**key, *value)), out);
        if let Some(usage) = message.get("usage") {
            out.extend(
                self.usage
                    .add(usage)
                    .map(|usage| ModelEvent::Usage(Box::new(usage))),
            );
        }
        self.stop_reason(message.get("stop_reason"), out);
        out.push(ModelEvent::Done);
        Ok(())
    }

    /// The stream is over: tells of what was held back.
    pub fn end(&mut self, out: &mut Vec<ModelEvent>) {
        if !self.is_done {
            self.settle(out);
        }
    }

    fn settle(&mut self, out: &mut Vec<ModelEvent>) {
        for (_, block) in self.blocks.drain(..) {
            block.end(out);
        }
    }

    fn done(&mut self, out: &mut Vec<ModelEvent>) {
        self.settle(out);
        if !self.has_said && !self.has_failed {
            out.push(broke_off("an answer without content", None));
        }
        self.is_done = true;
        out.push(ModelEvent::Done);
    }

    fn fail(&mut self, mut error: ReportedError, out: &mut Vec<ModelEvent>) {
        self.has_failed = true;
        error.status = error.status.or(error.kind.as_deref().and_then(status_of));
        out.push(ModelEvent::Error(Box::new(error)));
    }

    fn start(&mut self, message: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        let Some(message) = message.and_then(fields_of) else {
            return;
        };
        self.begun(&message, out);
        self.extras(message.0.iter().map(|(key, value)| (&**key, *value)), out);
        if let Some(usage) = message.get("usage") {
            out.extend(
                self.usage
                    .add(usage)
                    .map(|usage| ModelEvent::Usage(Box::new(usage))),
            );
        }
    }

    fn begun(&mut self, message: &ObjectFields<'_>, out: &mut Vec<ModelEvent>) {
        if self.has_started {
            return;
        }
        self.has_started = true;
        out.push(ModelEvent::Start {
            model: raw::filled_string(message.get("model")).map(Cow::into_owned),
            created_s: None,
        });
    }

    /// Begins a block and counts it.
    fn open(
        &mut self,
        fields: &ObjectFields<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<OpenBlock, DecodeError> {
        self.has_said = true;
        let calls = &mut self.calls;
        let mut next_call = || {
            let call = *calls;
            *calls += 1;
            (call < CALLS_PER_CHOICE_MAX).then_some(call)
        };
        OpenBlock::begin(fields, &mut next_call, out).map_err(|_| DecodeError::TooManyCalls)
    }

    fn begin(
        &mut self,
        event: &EventWritten<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let index = index_of(event);
        self.stop(index, out);
        if self.blocks.len() == OPEN_BLOCKS_MAX {
            self.blocks.remove(0).1.end(out);
        }
        if let Some(fields) = event.content_block.and_then(fields_of) {
            let block = self.open(&fields, out)?;
            self.blocks.push((index, block));
        }
        Ok(())
    }

    fn add(
        &mut self,
        event: &EventWritten<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let Some(Ok(RecordOf(delta))) = event
            .delta
            .map(|raw| serde_json::from_str::<RecordOf<BlockDelta<'_>>>(raw.get()))
        else {
            return Ok(());
        };
        let index = index_of(event);
        if !self.blocks.iter().any(|(at, _)| *at == index) {
            // Its begin is missing; what it is can be seen from what it says.
            let kind = delta.kind.and_then(raw::string);
            let block = match kind.as_deref() {
                Some("text_delta") => OpenBlock::text(),
                Some("thinking_delta") => OpenBlock::thinking(),
                Some(_) | None => return Ok(()),
            };
            if self.blocks.len() == OPEN_BLOCKS_MAX {
                self.blocks.remove(0).1.end(out);
            }
            self.blocks.push((index, block));
        }
        self.has_said = true;
        if let Some((_, block)) = self.blocks.iter_mut().find(|(at, _)| *at == index) {
            block.add(&delta, out)?;
        }
        Ok(())
    }

    fn stop(&mut self, index: u64, out: &mut Vec<ModelEvent>) {
        if let Some(at) = self.blocks.iter().position(|(have, _)| *have == index) {
            self.blocks.remove(at).1.end(out);
        }
    }

    fn finish(&mut self, event: EventWritten<'_>, out: &mut Vec<ModelEvent>) {
        self.settle(out);
        let delta = event.delta.and_then(fields_of).unwrap_or_default();
        let beside = event.more.iter().map(|(key, value)| (&**key, *value));
        let inside = delta.0.iter().map(|(key, value)| (&**key, *value));
        self.extras(inside.chain(beside), out);
        if let Some(usage) = event.usage {
            out.extend(
                self.usage
                    .add(usage)
                    .map(|usage| ModelEvent::Usage(Box::new(usage))),
            );
        }
        self.stop_reason(delta.get("stop_reason"), out);
    }

    fn stop_reason(&mut self, word: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        let word = raw::filled_string(word);
        match word.as_deref().and_then(stop::read) {
            Some(ChoiceEnding::As(reason)) if !self.has_finished => {
                (self.has_finished, self.has_said) = (true, true);
                out.push(ModelEvent::Finish { choice: 0, reason });
            }
            Some(ChoiceEnding::Failed) => {
                self.has_failed = true;
                out.push(broke_off(
                    "the upstream says that it failed",
                    word.as_deref(),
                ));
            }
            Some(ChoiceEnding::As(_)) | None => {}
        }
    }

    fn extras<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a str, &'a RawValue)>,
        out: &mut Vec<ModelEvent>,
    ) {
        for (key, value) in fields {
            if KNOWN_OF_MESSAGE.contains(&key) || !passes_on(value) {
                continue;
            }
            match self.extra.iter().position(|(have, _)| **have == *key) {
                Some(at) if self.extra[at].1.as_str() == value.get() => continue,
                Some(at) => self.extra[at].1 = Json::from_raw(value),
                None if self.extra.len() == EXTRA_FIELDS_MAX => continue,
                None => self.extra.push((key.into(), Json::from_raw(value))),
            }
            out.push(ModelEvent::Extra {
                key: key.into(),
                value: Json::from_raw(value),
            });
        }
    }
}

/// The fields of an object, whatever stands in it twice.
fn fields_of(raw: &RawValue) -> Option<ObjectFields<'_>> {
    let read = serde_json::from_str::<RecordOf<ObjectFields<'_>>>(raw.get());
    read.ok().map(|RecordOf(fields)| fields)
}

fn index_of(event: &EventWritten<'_>) -> u64 {
    event.index.and_then(raw::count).unwrap_or(0)
}

/// The index and the text of the usual event, which is compared instead of parsed: it costs a tenth.
fn usual_text(data: &str) -> Option<(u64, Literal)> {
    let rest = data.strip_prefix("{\"type\":\"content_block_delta\",\"index\":")?;
    let (index, rest) = rest.split_once(',')?;
    let rest = rest.strip_prefix("\"delta\":{\"type\":\"text_delta\",\"text\":\"")?;
    // The API fills its events up with spaces.
    let rest = rest.strip_suffix('}')?.trim_ascii_end();
    let text = rest.strip_suffix("\"}")?;
    // A quote inside would end the string, and what follows it would be other fields.
    let text = Literal::checked(text).filter(|text| !text.is_empty())?;
    let is_whole = !surrogates::may_hold_half(text.as_str());
    is_whole.then_some((index.parse().ok()?, text))
}
