//! Reading of an answer's events, one after the other, as events of the model.
//!
//! An item may be opened before the one before it is done: it waits, so that blocks follow one another. Items are told
//! apart by `output_index`, since ids change in what some upstreams send.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::de::MapAccess;
use serde_json::value::RawValue;
use tw_core::json::Json;
use tw_core::limits::CALLS_PER_CHOICE_MAX;
use tw_core::model::{Finish, ModelEvent, ReportedError};

use super::open_item::{OpenItem, PartPlace};
use super::read_usage;
use super::usual_event::UsualText;
use crate::openai_chat::answer::broke_off;
use crate::openai_chat::raw::{self, FieldRecord, ObjectFields, RecordOf};
use crate::openai_chat::reported;
use crate::sse;
use crate::upstream_answer::DecodeError;

/// Bytes of items that wait for another one; beyond them nothing waits.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Items of one answer that may be open at once; of more than this the oldest is taken as done.
const OPEN_ITEMS_MAX: usize = 64;

/// Reads one answer.
#[derive(Debug, Default)]
pub struct ResponseReader {
    has_started: bool,
    is_done: bool,
    /// The upstream reported an error.
    has_failed: bool,
    has_finished: bool,
    calls: u32,
    open: Vec<OpenItem>,
    /// Indexes and ids of the items so far.
    seen: BTreeSet<u64>,
    seen_ids: BTreeSet<String>,
    /// The item whose block is being written.
    current: Option<u64>,
    waiting: Vec<WaitingItem>,
    waiting_bytes: usize,
}

/// What an item says while another one is being written.
#[derive(Debug)]
struct WaitingItem {
    index: u64,
    events: Vec<ModelEvent>,
    is_done: bool,
}

/// An event of the stream.
#[derive(Default)]
struct EventFields<'a> {
    kind: Option<&'a RawValue>,
    output_index: Option<&'a RawValue>,
    item_id: Option<&'a RawValue>,
    content_index: Option<&'a RawValue>,
    summary_index: Option<&'a RawValue>,
    delta: Option<&'a RawValue>,
    /// What the event that ends a part has in full.
    whole: Option<&'a RawValue>,
    logprobs: Option<&'a RawValue>,
    annotation: Option<&'a RawValue>,
    item: Option<&'a RawValue>,
    response: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'a> FieldRecord<'a> for EventFields<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "type" => self.kind = map.next_value()?,
            "output_index" => self.output_index = map.next_value()?,
            "item_id" => self.item_id = map.next_value()?,
            "content_index" => self.content_index = map.next_value()?,
            "summary_index" => self.summary_index = map.next_value()?,
            "delta" => self.delta = map.next_value()?,
            "text" | "refusal" | "arguments" | "input" => self.whole = map.next_value()?,
            "logprobs" => self.logprobs = map.next_value()?,
            "annotation" => self.annotation = map.next_value()?,
            "item" => self.item = map.next_value()?,
            "response" => self.response = map.next_value()?,
            "error" => self.error = map.next_value()?,
            _ => {
                map.next_value::<serde::de::IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl ResponseReader {
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
        if data == "[DONE]" {
            self.done(out);
            return Ok(());
        }
        if let Some(usual) = UsualText::read(data)
            && self.current.is_none_or(|current| current == usual.item)
            && let Some(item) = self.open.iter_mut().find(|open| open.index() == usual.item)
            && item.takes_text_as_it_is()
        {
            self.current = Some(usual.item);
            out.push(item.said(usual.part, usual.text));
            return Ok(());
        }
        let RecordOf(event): RecordOf<EventFields<'_>> =
            serde_json::from_str(data).map_err(DecodeError::NotAnAnswer)?;
        let word = raw::filled_string(event.kind).unwrap_or(Cow::Borrowed(frame.event));
        match &*word {
            "response.output_text.delta" => self.add(&event, PartPlace::Text, out),
            "response.output_text.done" => self.add_whole(&event, PartPlace::Text, out),
            "response.refusal.delta" => self.add(&event, PartPlace::Refusal, out),
            "response.refusal.done" => self.add_whole(&event, PartPlace::Refusal, out),
            "response.reasoning_summary_text.delta" => self.add(&event, PartPlace::Summary, out),
            "response.reasoning_summary_text.done" => {
                self.add_whole(&event, PartPlace::Summary, out);
            }
            // The second of each is the name in the Open Responses document.
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                self.add(&event, PartPlace::Reasoning, out);
            }
            "response.reasoning_text.done" | "response.reasoning.done" => {
                self.add_whole(&event, PartPlace::Reasoning, out);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.add(&event, PartPlace::Arguments, out);
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                self.add_whole(&event, PartPlace::Arguments, out);
            }
            "response.output_text.annotation.added" => self.annotation(&event, out),
            "response.output_item.added" => self.begin(&event, out)?,
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.item_done(self.index_of(&event), item, out)?;
                }
            }
            "response.created" | "response.queued" | "response.in_progress" => {
                self.start(event.response, out);
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let status = word.strip_prefix("response.").unwrap_or_default();
                self.terminal(event.response, status, out)?;
            }
            "error" => self.fail(reported::of_object(data), out),
            // What is going on in a tool of the provider's, or what is not known yet.
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
        let raw: &RawValue = serde_json::from_str(text).map_err(DecodeError::NotAnAnswer)?;
        let RecordOf(fields): RecordOf<ObjectFields<'_>> =
            serde_json::from_str(text).map_err(DecodeError::NotAnAnswer)?;
        let status = fields.get("status").and_then(raw::string);
        let is_answer = fields.get("output").is_some();
        if !is_answer && status.is_none() {
            let error = fields.get("error").and_then(reported::of_field);
            let error = error.or_else(|| reported::of_bare_object(text));
            self.fail(error.ok_or(DecodeError::NoChoices)?, out);
            out.push(ModelEvent::Done);
            return Ok(());
        }
        self.start(Some(raw), out);
        // Some leave the status out.
        let status = status.unwrap_or(Cow::Borrowed("completed"));
        self.terminal(Some(raw), &status, out)
    }

    /// The stream is over: tells of what was held back.
    pub fn end(&mut self, out: &mut Vec<ModelEvent>) {
        if !self.is_done {
            self.release(out);
        }
    }

    /// The end mark came without the response's own end.
    fn done(&mut self, out: &mut Vec<ModelEvent>) {
        self.release(out);
        if !self.has_failed && !self.has_finished && self.seen.is_empty() {
            out.push(broke_off("an answer without items", None));
        }
        self.is_done = true;
        out.push(ModelEvent::Done);
    }

    fn fail(&mut self, error: ReportedError, out: &mut Vec<ModelEvent>) {
        // What comes after the first one says the same in fewer words.
        if !self.has_failed {
            self.has_failed = true;
            out.push(ModelEvent::Error(Box::new(error)));
        }
    }

    fn start(&mut self, response: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        let fields = response.and_then(|raw| ObjectFields::parse(raw.get()).ok());
        let Some(fields) = fields.filter(|_| !self.has_started) else {
            return;
        };
        self.has_started = true;
        let created_s = fields.get("created_at").and_then(raw::count);
        out.push(ModelEvent::Start {
            model: raw::filled_string(fields.get("model")).map(Cow::into_owned),
            created_s: created_s
                .filter(|&at| at > 0)
                .and_then(|at| i64::try_from(at).ok()),
        });
    }

    fn index_of(&self, event: &EventFields<'_>) -> u64 {
        let written = event.output_index.and_then(raw::count);
        let by_id = || {
            let id = raw::filled_string(event.item_id)?;
            let open = self.open.iter();
            open.rev()
                .find(|item| item.has_id(&id))
                .map(OpenItem::index)
        };
        let last = || self.open.last().map(OpenItem::index);
        let next = || self.seen.last().map_or(0, |last| last.saturating_add(1));
        written.or_else(by_id).or_else(last).unwrap_or_else(next)
    }

    fn begin(
        &mut self,
        event: &EventFields<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let Some(item) = event.item else {
            return Ok(());
        };
        let index = match event.output_index.and_then(raw::count) {
            Some(index) => index,
            None => self.seen.last().map_or(0, |last| last.saturating_add(1)),
        };
        self.open_item(index, item, out)
    }

    /// Opens an item, unless it is open.
    fn open_item(
        &mut self,
        index: u64,
        item: &RawValue,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let is_new = self.seen.insert(index);
        if self.open.iter().any(|open| open.index() == index) || !is_new {
            return Ok(());
        }
        if self.open.len() == OPEN_ITEMS_MAX {
            let oldest = self.open.remove(0).index();
            self.close(oldest, Vec::new(), out);
        }
        let mut open = OpenItem::new(index, item);
        self.seen_ids.extend(open.id().map(str::to_owned));
        if open.is_call() {
            if self.calls == CALLS_PER_CHOICE_MAX {
                return Err(DecodeError::TooManyCalls);
            }
            open.number(self.calls);
            self.calls += 1;
        }
        let events = open.begin(item);
        self.open.push(open);
        self.emit(index, events, out);
        Ok(())
    }

    fn item(&mut self, index: u64) -> Option<&mut OpenItem> {
        self.open.iter_mut().find(|open| open.index() == index)
    }

    fn add(&mut self, event: &EventFields<'_>, place: PartPlace, out: &mut Vec<ModelEvent>) {
        let (index, part) = (self.index_of(event), part_of(event));
        let (Some(delta), logprobs) = (event.delta, event.logprobs) else {
            return;
        };
        self.open_unseen(index, place);
        if let Some(item) = self.item(index) {
            let events = item.add(place, part, delta, logprobs);
            self.emit(index, events, out);
        }
    }

    fn add_whole(&mut self, event: &EventFields<'_>, place: PartPlace, out: &mut Vec<ModelEvent>) {
        let (index, part) = (self.index_of(event), part_of(event));
        let Some(whole) = event.whole else {
            return;
        };
        self.open_unseen(index, place);
        if let Some(item) = self.item(index)
            && !item.has_said(place, part)
        {
            let events = item.add(place, part, whole, None);
            self.emit(index, events, out);
        }
    }

    /// Opens an item of which the first event is missing; a call without a name is none.
    fn open_unseen(&mut self, index: u64, place: PartPlace) {
        if place != PartPlace::Arguments && self.seen.insert(index) {
            self.open.push(OpenItem::unseen(index, place));
        }
    }

    fn annotation(&mut self, event: &EventFields<'_>, out: &mut Vec<ModelEvent>) {
        let index = self.index_of(event);
        if let Some(annotation) = event.annotation
            && let Some(item) = self.item(index)
        {
            let events = item.annotation(annotation);
            self.emit(index, events, out);
        }
    }

    fn item_done(
        &mut self,
        index: u64,
        item: &RawValue,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        self.open_item(index, item, out)?;
        let Some(at) = self.open.iter().position(|open| open.index() == index) else {
            return Ok(());
        };
        let mut open = self.open.remove(at);
        let events = open.done(item);
        self.close(index, events, out);
        Ok(())
    }

    /// Tells of an item's events, or keeps them until the item before it is done.
    fn emit(&mut self, index: u64, events: Vec<ModelEvent>, out: &mut Vec<ModelEvent>) {
        if events.is_empty() {
            return;
        }
        if self.current.is_none_or(|current| current == index) {
            self.current = Some(index);
            out.extend(events);
            return;
        }
        self.wait(index, events, false, out);
    }

    fn wait(
        &mut self,
        index: u64,
        events: Vec<ModelEvent>,
        is_done: bool,
        out: &mut Vec<ModelEvent>,
    ) {
        self.waiting_bytes += events.iter().map(bytes_of).sum::<usize>();
        match self.waiting.iter_mut().find(|item| item.index == index) {
            Some(item) => {
                item.events.extend(events);
                item.is_done |= is_done;
            }
            None => self.waiting.push(WaitingItem {
                index,
                events,
                is_done,
            }),
        }
        if self.waiting_bytes > WAITING_BYTES_MAX {
            self.current = None;
            self.go_on(out);
        }
    }

    /// Tells of an item's last events, and of what waited for them.
    fn close(&mut self, index: u64, events: Vec<ModelEvent>, out: &mut Vec<ModelEvent>) {
        if self.current.is_some_and(|current| current != index) {
            self.wait(index, events, true, out);
            return;
        }
        out.extend(events);
        self.current = None;
        self.go_on(out);
    }

    fn go_on(&mut self, out: &mut Vec<ModelEvent>) {
        while !self.waiting.is_empty() && self.current.is_none() {
            let item = self.waiting.remove(0);
            self.waiting_bytes -= item.events.iter().map(bytes_of).sum::<usize>();
            if !item.is_done {
                self.current = Some(item.index);
            }
            out.extend(item.events);
        }
    }

    /// Tells of all that was held back: nothing more comes.
    fn release(&mut self, out: &mut Vec<ModelEvent>) {
        let mut open = std::mem::take(&mut self.open);
        // The one that is being written is first.
        open.sort_by_key(|item| Some(item.index()) != self.current);
        for mut item in open {
            let events = item.cut();
            self.close(item.index(), events, out);
        }
        self.current = None;
        self.go_on(out);
    }

    /// The response's own end, with the response as it is then.
    fn terminal(
        &mut self,
        response: Option<&RawValue>,
        status: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let text = response.map_or("{}", RawValue::get);
        let fields = ObjectFields::parse(text).unwrap_or_default();
        self.start(response, out);
        let output = fields.get("output").and_then(raw::array);
        for (item, index) in output.into_iter().flatten().zip(0u64..) {
            self.unseen_item(index, item, out)?;
        }
        self.release(out);
        let tier = fields
            .get("service_tier")
            .filter(|raw| raw.get() != "\"auto\"");
        out.extend(tier.map(|tier| ModelEvent::Extra {
            key: "service_tier".into(),
            value: Json::from_raw(tier),
        }));
        let usage = fields.get("usage").and_then(read_usage);
        out.extend(usage.map(|usage| ModelEvent::Usage(Box::new(usage))));
        let error = fields.get("error").and_then(reported::of_field);
        match (error, status) {
            (Some(error), _) => self.fail(error, out),
            (None, "completed") if !self.has_failed => self.finish(self.natural_end(), out),
            (None, "incomplete") if !self.has_failed => {
                let reason = incomplete_reason(&fields);
                self.finish(reason, out);
            }
            (None, word) if !self.has_failed => {
                self.has_failed = true;
                out.push(broke_off("the upstream says that it failed", Some(word)));
            }
            (None, _) => {}
        }
        self.is_done = true;
        out.push(ModelEvent::Done);
        Ok(())
    }

    fn natural_end(&self) -> Finish {
        if self.calls > 0 {
            Finish::ToolCalls
        } else {
            Finish::Stop
        }
    }

    fn finish(&mut self, reason: Finish, out: &mut Vec<ModelEvent>) {
        self.has_finished = true;
        out.push(ModelEvent::Finish { choice: 0, reason });
    }

    /// An item of the response's end, unless it was told of.
    fn unseen_item(
        &mut self,
        index: u64,
        item: &RawValue,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let is_open = self.open.iter().any(|open| open.index() == index);
        let fields = ObjectFields::parse(item.get()).ok();
        let id = fields.and_then(|fields| raw::filled_string(fields.get("id")));
        let is_seen =
            self.seen.contains(&index) || id.is_some_and(|id| self.seen_ids.contains(&*id));
        if is_open || !is_seen {
            self.item_done(index, item, out)?;
        }
        Ok(())
    }
}

fn part_of(event: &EventFields<'_>) -> u64 {
    let index = event.content_index.or(event.summary_index);
    index.and_then(raw::count).unwrap_or(0)
}

fn incomplete_reason(fields: &ObjectFields<'_>) -> Finish {
    let details = fields.get("incomplete_details");
    let details = details.and_then(|raw| ObjectFields::parse(raw.get()).ok());
    let reason = details.and_then(|details| raw::filled_string(details.get("reason")));
    match reason.as_deref() {
        Some("content_filter") => Finish::ContentFilter,
        Some(_) | None => Finish::Length,
    }
}

/// Bytes of what an event says.
fn bytes_of(event: &ModelEvent) -> usize {
    let texts = match event {
        ModelEvent::Delta(delta) => delta.bytes(),
        ModelEvent::Call(piece) => {
            let arguments = piece
                .arguments
                .as_ref()
                .map_or(0, |text| text.as_str().len());
            arguments
                + piece
                    .native
                    .as_deref()
                    .map_or(0, tw_core::model::CallNative::bytes)
        }
        ModelEvent::BlockEnd(end) => end.bytes(),
        ModelEvent::Native { part, .. } => part.json.as_str().len(),
        ModelEvent::Start { .. }
        | ModelEvent::Extra { .. }
        | ModelEvent::Progress { .. }
        | ModelEvent::Finish { .. }
        | ModelEvent::Usage(_)
        | ModelEvent::Error(_)
        | ModelEvent::Done => 0,
    };
    size_of::<ModelEvent>() + texts
}
