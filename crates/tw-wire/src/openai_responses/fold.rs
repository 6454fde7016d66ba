//! A turn as a response: the events of its stream, and the response as it is at any time.
//!
//! Follows the Open Responses document and what openai-node 7.59.0 demands: one lifecycle over all rounds, one id for
//! an item throughout, `output_index` and `sequence_number` without gaps, each item done before the response is.
//!
//! Known differences:
//! - calls that this server runs are `mcp_call` items, which the Open Responses document does not have;
//! - reasoning of another format than this one is shown as its summary, which more clients know;
//! - an item of the provider's own begins as it ends: what went on in between is not told;
//! - a stopped turn ends with `response.failed`, whose response is `cancelled`: no client knows an event for it;
//! - `obfuscation` is never written: the stream has to be the same whenever it is read;
//! - the stream ends with `[DONE]`, which OpenAI itself does not send.

mod calls;
mod emit;
mod output;
mod response;
mod thoughts;

use tw_core::call::CallEnd;
use tw_core::event::{LogEvent, TurnEnd};
use tw_core::fault::TurnFault;
use tw_core::id::{CallId, TurnId};
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::model::{AnswerDelta, BlockEnd, DeltaRest, Finish, TokenUsage};
use tw_core::native::NativePart;
use tw_core::turn_status::{TurnReason, TurnStatus};

use self::output::{OutputItem, OutputKind, OutputPart, OutputStatus, OwnCall, Phase};
use super::options::{ENCRYPTED_REASONING, ResponsesOptions};
use super::{FORMAT, ids, item};
use crate::client_error::fault_of;
use crate::openai_chat::raw::{self, ObjectFields};

/// What a client sees of the calls that this server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnCallItems {
    /// Calls of an MCP server, which clients know as run elsewhere.
    Mcp,
    /// Function calls and their outputs.
    Function,
    Hidden,
}

/// What a response says that is not in the turn's log.
#[derive(Clone, Debug)]
pub struct ResponseFacts {
    pub turn: TurnId,
    /// The model as the client named it.
    pub model: String,
    pub created_s: i64,
    /// Whether the response can be fetched later.
    pub store: bool,
    pub own_calls: OwnCallItems,
}

/// Folds the log of a turn, from its start, into a response.
#[derive(Clone, Debug)]
pub struct ResponseFold {
    facts: ResponseFacts,
    options: ResponsesOptions,
    stream: Option<StreamPlace>,
    status: ResponseStatus,
    has_begun: bool,
    model: String,
    round: u32,
    /// Items of the round so far.
    position: u32,
    /// The round's answer came in this format, so that what only it knows means the same here.
    is_native: bool,
    items: Vec<OutputItem>,
    /// The message or reasoning that is being written.
    open: Option<usize>,
    client_calls: Vec<ClientCallItem>,
    /// Calls of this server that have no result yet.
    running: Vec<(CallId, usize)>,
    finish: Option<Finish>,
    service_tier: Option<Json>,
    usage: Option<Box<TokenUsage>>,
    incomplete: Option<&'static str>,
    fault: Option<TurnFault>,
    /// When the turn ended.
    completed_s: Option<i64>,
    /// The event that is being put together.
    event: Vec<u8>,
}

/// The place of a reader in the stream.
#[derive(Clone, Debug)]
struct StreamPlace {
    /// The number of the next event.
    next: u64,
    /// Events up to this number were read.
    after: Option<u64>,
}

/// A call that the client runs, and its item.
#[derive(Clone, Debug)]
struct ClientCallItem {
    round: u32,
    call: u32,
    at: usize,
}

/// The status of the whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseStatus {
    Queued,
    InProgress,
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

/// Why a message ends, which says whether it was the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageEnd {
    BeforeCall,
    WithAnswer,
    Unknown,
}

impl ResponseFold {
    /// A fold that writes events, those behind number `after` if there is one.
    pub fn stream(facts: ResponseFacts, options: ResponsesOptions, after: Option<u64>) -> Self {
        Self {
            stream: Some(StreamPlace { next: 0, after }),
            ..Self::whole(facts, options)
        }
    }

    /// A fold that writes no events, for [`ResponseFold::body`].
    pub fn whole(facts: ResponseFacts, options: ResponsesOptions) -> Self {
        let status = if options.background {
            ResponseStatus::Queued
        } else {
            ResponseStatus::InProgress
        };
        Self {
            model: facts.model.clone(),
            facts,
            options,
            stream: None,
            status,
            has_begun: false,
            round: 0,
            position: 0,
            is_native: false,
            items: Vec::new(),
            open: None,
            client_calls: Vec::new(),
            running: Vec::new(),
            finish: None,
            service_tier: None,
            usage: None,
            incomplete: None,
            fault: None,
            completed_s: None,
            event: Vec::new(),
        }
    }

    /// Whether a client sees something of the event that is more than the stream's own beginning.
    pub fn is_seen(&self, event: &LogEvent) -> bool {
        match event {
            LogEvent::Delta(delta) => delta.choice == 0 && delta.shows_something(),
            LogEvent::Native { choice, part } => {
                *choice == 0 && self.is_native && part.format == FORMAT
            }
            LogEvent::CallStarted { .. } => self.facts.own_calls != OwnCallItems::Hidden,
            LogEvent::ClientCall(_)
            | LogEvent::ApprovalAsked { .. }
            | LogEvent::Finish { .. }
            | LogEvent::End(_) => true,
            LogEvent::Start { .. }
            | LogEvent::Round { .. }
            | LogEvent::BlockEnd(_)
            | LogEvent::Extra { .. }
            | LogEvent::Progress { .. }
            | LogEvent::CallEnded { .. }
            | LogEvent::CallDetached { .. }
            | LogEvent::Usage(_) => false,
        }
    }

    /// Ends a stream whose turn's end does not come.
    pub fn break_off(&mut self, fault: &TurnFault, out: &mut Vec<u8>) {
        self.fault = Some(fault.clone());
        self.begin(out);
        self.error_event(out);
    }

    /// Adds the events that `event` gives to `out`, each of them whole.
    pub fn push(&mut self, event: &LogEvent, out: &mut Vec<u8>) {
        match event {
            LogEvent::Start { model, .. } => {
                self.accept(out);
                self.model.clone_from(model);
                self.begin(out);
            }
            LogEvent::Round { round, format } => {
                self.begin(out);
                self.close_all(MessageEnd::Unknown, out);
                self.round = *round;
                self.position = 0;
                self.is_native = *format == FORMAT;
            }
            LogEvent::Delta(delta) if delta.choice == 0 => self.delta(delta, out),
            LogEvent::BlockEnd(end) if end.choice == 0 => self.block_end(end, out),
            LogEvent::Native { choice: 0, part } => self.native(part, out),
            LogEvent::ClientCall(piece) if piece.choice == 0 => self.client_call(piece, out),
            LogEvent::CallStarted {
                id,
                name,
                arguments,
                approves,
                ..
            } => {
                let call = OwnCall {
                    name: name.clone(),
                    arguments: arguments.clone(),
                    approves: *approves,
                    end: None,
                };
                self.call_started(*id, call, out);
            }
            LogEvent::ApprovalAsked {
                id,
                name,
                arguments,
                ..
            } => self.approval_asked(*id, name, arguments, out),
            LogEvent::CallEnded { id, end, .. } => self.call_ended(*id, end, out),
            // To the client it came to what the model was told.
            LogEvent::CallDetached { id, told, .. } => {
                let end = CallEnd {
                    reason: None,
                    result: None,
                    shown: told.to_string(),
                    is_error: false,
                    cached: false,
                };
                self.call_ended(*id, &end, out);
            }
            LogEvent::Finish { choice: 0, reason } => {
                let has_calls = *reason == Finish::ToolCalls;
                let end = if has_calls {
                    MessageEnd::BeforeCall
                } else {
                    MessageEnd::WithAnswer
                };
                self.finish = Some(*reason);
                // What was cut off ends with the response.
                if !matches!(reason, Finish::Length | Finish::ContentFilter) {
                    self.close_all(end, out);
                }
            }
            LogEvent::Extra { key, value } => {
                if **key == *"service_tier" && value.as_literal().is_some() {
                    self.service_tier = Some(value.clone());
                }
            }
            LogEvent::Usage(usage) => self.usage = Some(usage.clone()),
            LogEvent::End(end) => self.end(end, out),
            // Only the first choice has a place here.
            LogEvent::Delta(_)
            | LogEvent::BlockEnd(_)
            | LogEvent::Native { .. }
            | LogEvent::ClientCall(_)
            | LogEvent::Finish { .. }
            | LogEvent::Progress { .. } => {}
        }
    }

    /// The response as it is now.
    pub fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        response::write(&mut out, self);
        out
    }

    /// The items of the output as they are now, by their ids.
    pub fn items(&self) -> Vec<(String, Json)> {
        let items = self.items.iter().map(|item| {
            let mut out = Vec::new();
            output::write_item(&mut out, item, output::Extent::Full);
            let json = Json::of_read(&String::from_utf8(out).unwrap_or_default());
            (item.id.clone(), json)
        });
        items.collect()
    }

    /// The status of the response as it is now.
    pub fn status(&self) -> ResponseStatus {
        self.status
    }

    /// Tells of a response in the background, which a client is told of as soon as it is accepted.
    pub fn accept(&mut self, out: &mut Vec<u8>) {
        if self.options.background {
            self.begin(out);
        }
    }

    /// Whether the event was made behind which the stream begins.
    pub fn has_reached(&self) -> bool {
        let is_behind = |stream: &StreamPlace| stream.after.is_none_or(|after| stream.next > after);
        self.stream.as_ref().is_none_or(is_behind)
    }

    /// Tells of the response, once.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.has_begun {
            return;
        }
        self.has_begun = true;
        self.response_event("response.created", out);
        if self.options.background {
            self.response_event("response.queued", out);
        }
        self.status = ResponseStatus::InProgress;
        self.response_event("response.in_progress", out);
    }

    fn delta(&mut self, delta: &AnswerDelta, out: &mut Vec<u8>) {
        let rest = delta.rest.as_deref();
        if let Some(reasoning) = rest.and_then(|rest| rest.reasoning.as_ref()) {
            self.reasoning(reasoning.place, &reasoning.text, out);
        }
        let logprobs = rest
            .and_then(|rest| rest.logprobs.as_ref())
            .and_then(tokens);
        if let Some(text) = &delta.text
            && (!text.is_empty() || logprobs.is_some())
        {
            self.text(text, logprobs.as_ref(), out);
        }
        if let Some(refusal) = rest.and_then(|rest| rest.refusal.as_ref()) {
            self.refusal(refusal, out);
        }
        if let Some(rest) = rest.filter(|_| self.is_native) {
            self.annotations(rest, out);
        }
    }

    fn annotations(&mut self, rest: &DeltaRest, out: &mut Vec<u8>) {
        let of_text = rest.extra.iter().filter(|(key, _)| **key == *"annotations");
        for (_, list) in of_text {
            let items: Vec<&serde_json::value::RawValue> =
                serde_json::from_str(list.as_str()).unwrap_or_default();
            for annotation in items {
                self.annotation(Json::from_raw(annotation), out);
            }
        }
    }

    /// The place of the item that is being written, if it is of the wanted kind.
    fn open_as(&self, is_wanted: impl Fn(&OutputKind) -> bool) -> Option<usize> {
        self.open.filter(|at| is_wanted(&self.items[*at].kind))
    }

    /// Adds an item and tells of its beginning.
    fn add(&mut self, id: String, kind: OutputKind, out: &mut Vec<u8>) -> usize {
        self.begin(out);
        let at = self.items.len();
        self.items.push(OutputItem {
            id,
            status: OutputStatus::InProgress,
            kind,
        });
        self.item_added(at, out);
        at
    }

    /// The id of the round's next item.
    fn next_id(&mut self, prefix: &str) -> String {
        let id = ids::item_id(prefix, self.facts.turn, self.round, self.position);
        self.position += 1;
        id
    }

    fn message(&mut self, out: &mut Vec<u8>) -> usize {
        if let Some(at) = self.open_as(|kind| matches!(kind, OutputKind::Message { .. })) {
            return at;
        }
        self.close(MessageEnd::Unknown, out);
        let id = self.next_id(ids::MESSAGE);
        let kind = OutputKind::Message {
            parts: Vec::new(),
            phase: None,
        };
        let at = self.add(id, kind, out);
        self.open = Some(at);
        at
    }

    fn text(&mut self, text: &Literal, logprobs: Option<&Json>, out: &mut Vec<u8>) {
        let at = self.message(out);
        self.part_of(at, PartWanted::Text, out);
        let OutputKind::Message { parts, .. } = &mut self.items[at].kind else {
            return;
        };
        let place = parts.len() - 1;
        if let Some(OutputPart::Text {
            text: written,
            logprobs: lists,
            ..
        }) = parts.last_mut()
        {
            written.push(text);
            lists.extend(logprobs.cloned());
        }
        self.text_delta(at, place, text, logprobs, out);
    }

    fn refusal(&mut self, text: &Literal, out: &mut Vec<u8>) {
        let at = self.message(out);
        self.part_of(at, PartWanted::Refusal, out);
        let OutputKind::Message { parts, .. } = &mut self.items[at].kind else {
            return;
        };
        let place = parts.len() - 1;
        if let Some(OutputPart::Refusal(written)) = parts.last_mut() {
            written.push(text);
        }
        self.refusal_delta(at, place, text, out);
    }

    fn annotation(&mut self, annotation: Json, out: &mut Vec<u8>) {
        let at = self.message(out);
        self.part_of(at, PartWanted::Text, out);
        let OutputKind::Message { parts, .. } = &mut self.items[at].kind else {
            return;
        };
        let place = parts.len() - 1;
        let Some(OutputPart::Text { annotations, .. }) = parts.last_mut() else {
            return;
        };
        let index = annotations.len();
        annotations.push(annotation.clone());
        self.annotation_added(at, place, index, &annotation, out);
    }

    /// Sees to it that the last part of a message is of the wanted kind.
    fn part_of(&mut self, at: usize, wanted: PartWanted, out: &mut Vec<u8>) {
        let OutputKind::Message { parts, .. } = &self.items[at].kind else {
            return;
        };
        let fits = match (parts.last(), wanted) {
            (Some(OutputPart::Text { .. }), PartWanted::Text)
            | (Some(OutputPart::Refusal(_)), PartWanted::Refusal) => true,
            (Some(OutputPart::Text { .. } | OutputPart::Refusal(_)) | None, _) => false,
        };
        if fits {
            return;
        }
        self.part_done(at, out);
        let part = match wanted {
            PartWanted::Text => OutputPart::Text {
                text: LiteralBuf::default(),
                annotations: Vec::new(),
                logprobs: Vec::new(),
            },
            PartWanted::Refusal => OutputPart::Refusal(LiteralBuf::default()),
        };
        let OutputKind::Message { parts, .. } = &mut self.items[at].kind else {
            return;
        };
        parts.push(part);
        self.part_added(at, out);
    }

    fn block_end(&mut self, end: &BlockEnd, out: &mut Vec<u8>) {
        let native = end.native.as_ref();
        let native = native.filter(|part| self.is_native && part.format == FORMAT);
        let Some(native) = native else {
            self.close(MessageEnd::Unknown, out);
            return;
        };
        let fields = ObjectFields::parse(native.json.as_str()).unwrap_or_default();
        let kind = item::kind(&native.json);
        let is_thought = kind == "reasoning";
        if self.open.is_none() && kind == "message" {
            // A message that says nothing.
            let at = self.message(out);
            self.part_of(at, PartWanted::Text, out);
        } else if self.open.is_none() && is_thought {
            // A thought that is not told.
            let id = self.next_id(ids::REASONING);
            let kind = OutputKind::Reasoning {
                summary: Vec::new(),
                content: Vec::new(),
                encrypted: None,
            };
            self.open = Some(self.add(id, kind, out));
        }
        let Some(at) = self.open else {
            return;
        };
        match &mut self.items[at].kind {
            OutputKind::Reasoning { encrypted, .. } if is_thought => {
                let given = fields.get("encrypted_content");
                let given = given.filter(|_| self.options.includes(ENCRYPTED_REASONING));
                *encrypted = given.map(Json::from_raw);
            }
            OutputKind::Message { phase, .. } if !is_thought => {
                let word = raw::filled_string(fields.get("phase"));
                *phase = word.and_then(|word| Phase::parse(&word));
            }
            OutputKind::Reasoning { .. }
            | OutputKind::Message { .. }
            | OutputKind::Call(_)
            | OutputKind::Mcp(_)
            | OutputKind::Approval { .. }
            | OutputKind::CallOutput { .. }
            | OutputKind::Native(_) => {}
        }
        self.close(MessageEnd::Unknown, out);
    }

    fn native(&mut self, part: &NativePart, out: &mut Vec<u8>) {
        if !self.is_native || part.format != FORMAT {
            return;
        }
        self.close_all(MessageEnd::Unknown, out);
        let fields = ObjectFields::parse(part.json.as_str()).unwrap_or_default();
        let own = raw::filled_string(fields.get("id"));
        let is_free = |id: &str| self.items.iter().all(|item| item.id != *id);
        let id = match own.filter(|id| is_free(id)) {
            Some(id) => {
                self.position += 1;
                id.into_owned()
            }
            None => self.next_id(ids::OTHER_ITEM),
        };
        let at = self.add(id, OutputKind::Native(part.json.clone()), out);
        self.item_done(at, OutputStatus::Completed, out);
    }

    /// Ends the message or reasoning that is being written.
    fn close(&mut self, end: MessageEnd, out: &mut Vec<u8>) {
        let Some(at) = self.open.take() else {
            return;
        };
        if let OutputKind::Message { phase, .. } = &mut self.items[at].kind {
            let by_place = match end {
                MessageEnd::BeforeCall => Some(Phase::Commentary),
                MessageEnd::WithAnswer => Some(Phase::FinalAnswer),
                MessageEnd::Unknown => None,
            };
            *phase = phase.or(by_place);
        }
        self.written_done(at, OutputStatus::Completed, out);
    }

    fn close_all(&mut self, end: MessageEnd, out: &mut Vec<u8>) {
        self.close(end, out);
        for at in self.open_calls() {
            self.call_done(at, OutputStatus::Completed, out);
        }
    }

    /// Ends what is still being written as cut off.
    fn cut(&mut self, out: &mut Vec<u8>) {
        if let Some(at) = self.open.take() {
            self.written_done(at, OutputStatus::Incomplete, out);
        }
        for at in self.open_calls() {
            self.call_done(at, OutputStatus::Incomplete, out);
        }
        let running = std::mem::take(&mut self.running);
        for (_, at) in running {
            if matches!(self.items[at].kind, OutputKind::Mcp(_)) {
                self.own_call_ended(at, OutputStatus::Incomplete, out);
            }
        }
    }

    fn end(&mut self, end: &TurnEnd, out: &mut Vec<u8>) {
        self.begin(out);
        let reason = match (end.status, end.reason, self.finish) {
            (TurnStatus::Completed, _, Some(Finish::ContentFilter | Finish::Refusal)) => {
                Some("content_filter")
            }
            (TurnStatus::Incomplete, reason, _) if fault_of(end).is_none() => {
                Some(incomplete_word(reason))
            }
            (
                TurnStatus::Completed
                | TurnStatus::Incomplete
                | TurnStatus::Failed
                | TurnStatus::Cancelled
                | TurnStatus::Running,
                _,
                _,
            ) => None,
        };
        self.incomplete = reason;
        self.completed_s = end.at.map(|at| at.0.div_euclid(MICROS_PER_SECOND));
        self.status = match end.status {
            TurnStatus::Completed | TurnStatus::Incomplete if reason.is_some() => {
                ResponseStatus::Incomplete
            }
            TurnStatus::Completed => ResponseStatus::Completed,
            TurnStatus::Cancelled => ResponseStatus::Cancelled,
            TurnStatus::Incomplete | TurnStatus::Failed | TurnStatus::Running => {
                ResponseStatus::Failed
            }
        };
        if self.status == ResponseStatus::Completed {
            self.close_all(MessageEnd::WithAnswer, out);
        } else {
            self.cut(out);
        }
        let event = match self.status {
            ResponseStatus::Completed => "response.completed",
            ResponseStatus::Incomplete => "response.incomplete",
            ResponseStatus::Failed
            | ResponseStatus::Cancelled
            | ResponseStatus::Queued
            | ResponseStatus::InProgress => "response.failed",
        };
        if self.status == ResponseStatus::Failed {
            self.fault = fault_of(end);
            self.error_event(out);
        }
        self.response_event(event, out);
        self.stream_end(out);
    }
}

const MICROS_PER_SECOND: i64 = 1_000_000;

/// The kind of a part of a message.
#[derive(Clone, Copy)]
enum PartWanted {
    Text,
    Refusal,
}

/// The list of tokens in the form that a part has it.
fn tokens(logprobs: &Json) -> Option<Json> {
    if logprobs.as_str().starts_with('[') {
        return Some(logprobs.clone());
    }
    let fields = ObjectFields::parse(logprobs.as_str()).ok()?;
    fields.get("content").map(Json::from_raw)
}

/// The reason for which a turn is incomplete; the first of them is OpenAI's own.
fn incomplete_word(reason: Option<TurnReason>) -> &'static str {
    match reason {
        Some(TurnReason::Length) | None => "max_output_tokens",
        Some(TurnReason::Rounds | TurnReason::Calls) => "max_tool_calls",
        Some(TurnReason::Cost) => "max_cost",
        Some(reason) => reason.as_str(),
    }
}
