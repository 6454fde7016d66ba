//! Writing a turn as a stream of chunks.
//!
//! Follows `chat_completion_chunk.py` of openai-python 3.3.1 and what openai-node 7.59.0 demands:
//! one id, `object` in every chunk, a role first and a finish last for each choice, call indexes
//! from 0 without gaps.
//!
//! Known differences:
//! - reasoning goes out as `reasoning_content` and `reasoning_details`, which OpenAI does not have;
//! - `obfuscation` is never written: the stream has to be the same whenever it is read;
//! - a failure is an `error` object, after which neither a finish nor `[DONE]` comes.

use tw_core::event::{LogEvent, TurnEnd};
use tw_core::id::TurnId;
use tw_core::json::{Json, Literal};
use tw_core::model::{AnswerDelta, CallDelta, CallForm, DeltaRest, Finish, TokenUsage};
use tw_core::request::{ModelInput, RequestTools};

use super::client_calls::ClientCalls;
use super::outcome::{self, ChatDialect};
use super::{error, write};
use crate::client_error::{self, ClientError};
use crate::sse;

/// Options of a client for its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkOptions {
    /// `stream_options.include_usage`
    pub include_usage: bool,
    pub dialect: ChatDialect,
}

impl ChunkOptions {
    /// The options of a request that says nothing of them.
    pub const fn defaults() -> Self {
        Self {
            include_usage: false,
            dialect: ChatDialect::Tools,
        }
    }

    /// The options that a request asks for.
    pub fn of(input: &ModelInput) -> Self {
        Self {
            include_usage: input.include_usage,
            dialect: match input.tools {
                RequestTools::ByName(_) => ChatDialect::Functions,
                RequestTools::Absent | RequestTools::List(_) => ChatDialect::Tools,
            },
        }
    }
}

/// Folds the log of a turn, from its start, into whole server-sent events.
#[derive(Clone, Debug)]
pub struct ChunkWriter {
    turn: TurnId,
    options: ChunkOptions,
    /// The fields that every chunk begins with; empty before the turn's start.
    head: Vec<u8>,
    round: u32,
    /// The round's answer came in this format, so that its further fields mean the same here.
    is_native: bool,
    choices: Vec<ChoiceWritten>,
    /// Fields for the top of the next chunk.
    extra: Vec<(Box<str>, Json)>,
    usage: Option<Box<TokenUsage>>,
    /// The buffer in which one chunk at a time is put together.
    chunk: Vec<u8>,
}

#[derive(Clone, Debug)]
struct ChoiceWritten {
    index: u32,
    /// The round whose text was written last.
    text_round: Option<u32>,
    calls: ClientCalls,
}

impl ChunkWriter {
    pub fn new(turn: TurnId, options: ChunkOptions) -> Self {
        Self {
            turn,
            options,
            head: Vec::new(),
            round: 0,
            is_native: true,
            choices: Vec::new(),
            extra: Vec::new(),
            usage: None,
            chunk: Vec::new(),
        }
    }

    /// Whether a client sees something of the event.
    pub fn is_seen(event: &LogEvent) -> bool {
        match event {
            LogEvent::Delta(_)
            | LogEvent::ClientCall(_)
            | LogEvent::Progress { .. }
            | LogEvent::Finish { .. }
            | LogEvent::End(_) => true,
            LogEvent::Start { .. }
            | LogEvent::Round { .. }
            | LogEvent::BlockEnd(_)
            | LogEvent::Native { .. }
            | LogEvent::Extra { .. }
            | LogEvent::CallStarted { .. }
            | LogEvent::ApprovalAsked { .. }
            | LogEvent::CallEnded { .. }
            | LogEvent::CallDetached { .. }
            | LogEvent::Usage(_) => false,
        }
    }

    /// Adds the events that `event` gives to `out`, each of them whole.
    pub fn push(&mut self, event: &LogEvent, out: &mut Vec<u8>) {
        if self.head.is_empty() && !matches!(event, LogEvent::Start { .. } | LogEvent::End(_)) {
            debug_assert!(false, "a turn's log begins with its start");
            return;
        }
        match event {
            LogEvent::Start { model, created_s } => self.start(model, *created_s),
            LogEvent::Round { round, format } => {
                self.round = *round;
                self.is_native = *format == super::FORMAT;
            }
            LogEvent::Delta(delta) => self.delta(delta, out),
            LogEvent::BlockEnd(_) | LogEvent::Native { .. } => {}
            LogEvent::ClientCall(piece) => self.call(piece, out),
            LogEvent::Extra { key, value } if self.is_native => self.keep_extra(key, value),
            LogEvent::Extra { .. } => {}
            LogEvent::Progress { key, value } => self.progress(key, value, out),
            LogEvent::CallStarted { .. }
            | LogEvent::ApprovalAsked { .. }
            | LogEvent::CallEnded { .. }
            | LogEvent::CallDetached { .. } => {}
            LogEvent::Finish { choice, reason } => self.finish(*choice, *reason, out),
            LogEvent::Usage(usage) => self.usage = Some(usage.clone()),
            LogEvent::End(end) => self.end(end, out),
        }
    }

    /// A field that comes again before a chunk took it stands there once, as it came last.
    fn keep_extra(&mut self, key: &str, value: &Json) {
        match self.extra.iter_mut().find(|(have, _)| **have == *key) {
            Some((_, waiting)) => *waiting = value.clone(),
            None => self.extra.push((Box::from(key), value.clone())),
        }
    }

    /// A chunk of its own, in the form that llama.cpp gives it: with the role and no text.
    fn progress(&mut self, key: &str, value: &Json, out: &mut Vec<u8>) {
        self.choice(0, out);
        self.keep_extra(key, value);
        self.begin(0);
        self.close(None, None, out);
    }

    fn start(&mut self, model: &str, created_s: i64) {
        let mut head = b"{".to_vec();
        write::key(&mut head, "id");
        write::quoted(&mut head, &outcome::answer_id(self.turn));
        head.extend_from_slice(b",\"object\":\"chat.completion.chunk\"");
        write::key(&mut head, "created");
        write::number(&mut head, created_s);
        write::key(&mut head, "model");
        write::string(&mut head, model);
        self.head = head;
    }

    /// The place of a choice in `choices`, whose role chunk is written with its first mention.
    fn choice(&mut self, index: u32, out: &mut Vec<u8>) -> usize {
        if let Some(at) = self.choices.iter().position(|choice| choice.index == index) {
            return at;
        }
        // The official Python client puts choices together only if they begin in their order.
        if let Some(before) = index.checked_sub(1) {
            self.choice(before, out);
        }
        self.choices.push(ChoiceWritten {
            index,
            text_round: None,
            calls: ClientCalls::default(),
        });
        self.begin(index);
        self.chunk
            .extend_from_slice(b"\"role\":\"assistant\",\"content\":\"\"");
        self.close(None, None, out);
        self.choices.len() - 1
    }

    fn delta(&mut self, delta: &AnswerDelta, out: &mut Vec<u8>) {
        let at = self.choice(delta.choice, out);
        self.begin(delta.choice);
        let native = delta.rest.as_deref().filter(|_| self.is_native);
        let beside = native.map_or(&[][..], |rest| &rest.beside);
        if let Some(text) = delta.text.as_ref().filter(|text| !text.is_empty()) {
            self.text(at, text);
        }
        let logprobs = delta
            .rest
            .as_deref()
            .and_then(|rest| rest.logprobs.as_ref());
        if let Some(rest) = &delta.rest {
            self.rest(rest);
        }
        self.close_beside(beside, logprobs, None, out);
    }

    fn text(&mut self, at: usize, text: &Literal) {
        let last_round = self.choices[at].text_round.replace(self.round);
        write::key(&mut self.chunk, "content");
        self.chunk.push(b'"');
        if last_round.is_some_and(|last| last != self.round) {
            self.chunk
                .extend_from_slice(super::round_gap().as_str().as_bytes());
        }
        self.chunk.extend_from_slice(text.as_str().as_bytes());
        self.chunk.push(b'"');
    }

    fn rest(&mut self, rest: &DeltaRest) {
        let chunk = &mut self.chunk;
        if let Some(refusal) = &rest.refusal {
            write::key(chunk, "refusal");
            write::literal(chunk, refusal);
        }
        if let Some(reasoning) = &rest.reasoning {
            write::key(chunk, "reasoning_content");
            write::literal(chunk, &reasoning.text);
        }
        for (key, value) in rest.extra.iter().filter(|_| self.is_native) {
            write::foreign_key(chunk, key);
            write::raw(chunk, value);
        }
    }

    fn call(&mut self, piece: &CallDelta, out: &mut Vec<u8>) {
        let at = self.choice(piece.choice, out);
        self.begin(piece.choice);
        let slot = self.choices[at].calls.slot(self.turn, self.round, piece);
        let chunk = &mut self.chunk;
        match self.options.dialect {
            ChatDialect::Tools => {
                write::key(chunk, "tool_calls");
                chunk.extend_from_slice(b"[{\"index\":");
                // At most some thousand calls.
                write::number(chunk, slot.index as u64);
                let kind = if piece.form == CallForm::Custom {
                    "custom"
                } else {
                    "function"
                };
                if let Some(id) = slot.id {
                    write::key(chunk, "id");
                    write::string(chunk, id);
                    write::key(chunk, "type");
                    write::quoted(chunk, kind);
                }
                write::key(chunk, kind);
                let text_key = if piece.form == CallForm::Custom {
                    "input"
                } else {
                    "arguments"
                };
                let native = piece.native.as_deref().filter(|_| self.is_native);
                chunk.push(b'{');
                named(chunk, piece, slot.id.is_some(), text_key);
                write::fields(chunk, native.map(|native| &native.inside));
                chunk.push(b'}');
                write::fields(chunk, native.map(|native| &native.beside));
                chunk.extend_from_slice(b"}]");
            }
            // The old form has room for one call.
            ChatDialect::Functions if slot.index == 0 => {
                write::key(chunk, "function_call");
                chunk.push(b'{');
                named(chunk, piece, slot.id.is_some(), "arguments");
                chunk.push(b'}');
            }
            ChatDialect::Functions => {
                chunk.clear();
                return;
            }
        }
        self.close(None, None, out);
    }

    fn finish(&mut self, choice: u32, reason: Finish, out: &mut Vec<u8>) {
        self.choice(choice, out);
        self.begin(choice);
        self.close(
            None,
            Some(outcome::finish_word(reason, self.options.dialect)),
            out,
        );
    }

    fn end(&mut self, end: &TurnEnd, out: &mut Vec<u8>) {
        if let Some(fault) = client_error::fault_of(end) {
            let error = ClientError::of_fault(&fault);
            sse::write_data(out, &error::render(&error, None));
            return;
        }
        if let Some(usage) = self.usage.take().filter(|_| self.options.include_usage) {
            self.top();
            self.chunk.extend_from_slice(b",\"choices\":[]");
            write::key(&mut self.chunk, "usage");
            super::write_usage(&mut self.chunk, &usage);
            self.chunk.push(b'}');
            sse::write_data(out, &self.chunk);
            self.chunk.clear();
        }
        out.extend_from_slice(sse::DONE);
    }

    /// Writes the head and the waiting extra fields.
    fn top(&mut self) {
        self.chunk.clear();
        self.chunk.extend_from_slice(&self.head);
        for (key, value) in self.extra.drain(..) {
            write::foreign_key(&mut self.chunk, &key);
            write::raw(&mut self.chunk, &value);
        }
    }

    /// Begins a chunk up to the inside of its delta.
    fn begin(&mut self, choice: u32) {
        self.top();
        self.chunk.extend_from_slice(b",\"choices\":[{\"index\":");
        write::number(&mut self.chunk, choice);
        self.chunk.extend_from_slice(b",\"delta\":{");
    }

    /// Ends the chunk and sends it.
    fn close(&mut self, logprobs: Option<&Json>, finish: Option<&str>, out: &mut Vec<u8>) {
        self.close_beside(&[], logprobs, finish, out);
    }

    /// Closes the chunk as [`Self::close`] does, with further fields of the choice.
    fn close_beside(
        &mut self,
        beside: &[(Box<str>, Json)],
        logprobs: Option<&Json>,
        finish: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let chunk = &mut self.chunk;
        chunk.push(b'}');
        if let Some(logprobs) = logprobs {
            write::key(chunk, "logprobs");
            write::raw(chunk, logprobs);
        }
        write::key(chunk, "finish_reason");
        match finish {
            Some(word) => write::quoted(chunk, word),
            None => chunk.extend_from_slice(b"null"),
        }
        for (key, value) in beside {
            write::foreign_key(chunk, key);
            write::raw(chunk, value);
        }
        chunk.extend_from_slice(b"}]");
        // OpenAI has it in every chunk once usage was asked for.
        if self.options.include_usage {
            chunk.extend_from_slice(b",\"usage\":null");
        }
        chunk.push(b'}');
        sse::write_data(out, chunk);
        chunk.clear();
    }
}

/// The fields of a call's name and text. The first piece has both, since clients join what
/// follows to what is there.
fn named(chunk: &mut Vec<u8>, piece: &CallDelta, is_first: bool, text_key: &str) {
    if is_first || piece.name.is_some() {
        write::key(chunk, "name");
        write::string(chunk, piece.name.as_deref().unwrap_or_default());
    }
    if is_first || piece.arguments.is_some() {
        write::key(chunk, text_key);
        write::quoted(chunk, piece.arguments.as_ref().map_or("", Literal::as_str));
    }
}

#[cfg(test)]
mod tests;
