//! Writing a turn as one plain answer.
//!
//! Follows `chat_completion.py` of openai-python 3.3.1.
//!
//! Known differences: `reasoning_content` and `reasoning_details` stand in the message where the
//! model gave them, and unknown fields of the message are passed on.

use std::collections::BTreeMap;

use serde_json::Value;
use tw_core::event::LogEvent;
use tw_core::id::TurnId;
use tw_core::json::{Json, LiteralBuf};
use tw_core::model::{AnswerDelta, CallDelta, CallForm, CallNative, DeltaRest, Finish, TokenUsage};
use tw_core::native::{NativeFields, add_field};

use super::client_calls::ClientCalls;
use super::outcome::{self, ChatDialect};
use super::write;

/// Folds the log of a turn into the body of a plain answer.
#[derive(Clone, Debug)]
pub struct CompletionBuilder {
    turn: TurnId,
    dialect: ChatDialect,
    model: String,
    created_s: i64,
    round: u32,
    /// The round's answer came in this format, so that its further fields mean the same here.
    is_native: bool,
    choices: BTreeMap<u32, Choice>,
    extra: NativeFields,
    usage: Option<Box<TokenUsage>>,
}

#[derive(Clone, Debug, Default)]
struct Choice {
    text: LiteralBuf,
    text_round: Option<u32>,
    refusal: LiteralBuf,
    /// The text was there, though it may be empty.
    has_text: bool,
    reasoning: Option<LiteralBuf>,
    logprobs: Vec<Json>,
    extra: NativeFields,
    /// Parts of the content that are no text.
    parts: Vec<Json>,
    beside: NativeFields,
    slots: ClientCalls,
    calls: Vec<Call>,
    finish: Option<Finish>,
}

#[derive(Clone, Debug)]
struct Call {
    id: String,
    name: Box<str>,
    form: CallForm,
    text: LiteralBuf,
    native: CallNative,
}

impl CompletionBuilder {
    pub fn new(turn: TurnId, dialect: ChatDialect) -> Self {
        Self {
            turn,
            dialect,
            model: String::new(),
            created_s: 0,
            round: 0,
            is_native: true,
            choices: BTreeMap::new(),
            extra: Vec::new(),
            usage: None,
        }
    }

    pub fn push(&mut self, event: &LogEvent) {
        match event {
            LogEvent::Start { model, created_s } => {
                self.model.clone_from(model);
                self.created_s = *created_s;
            }
            LogEvent::Round { round, format } => {
                self.round = *round;
                self.is_native = *format == super::FORMAT;
            }
            LogEvent::Delta(delta) => self.delta(delta),
            LogEvent::BlockEnd(_) | LogEvent::Native { .. } => {}
            LogEvent::ClientCall(piece) => self.call(piece),
            LogEvent::Extra { key, value } | LogEvent::Progress { key, value }
                if self.is_native =>
            {
                set(&mut self.extra, key, value);
            }
            LogEvent::Extra { .. } | LogEvent::Progress { .. } => {}
            LogEvent::Finish { choice, reason } => self.choice(*choice).finish = Some(*reason),
            LogEvent::Usage(usage) => self.usage = Some(usage.clone()),
            LogEvent::CallStarted { .. }
            | LogEvent::ApprovalAsked { .. }
            | LogEvent::CallEnded { .. }
            | LogEvent::CallDetached { .. }
            | LogEvent::End(_) => {}
        }
    }

    /// The body; whether the turn ended with one or with a fault is the caller's to know.
    pub fn into_body(self) -> Vec<u8> {
        let mut out = b"{".to_vec();
        write::key(&mut out, "id");
        write::quoted(&mut out, &outcome::answer_id(self.turn));
        out.extend_from_slice(b",\"object\":\"chat.completion\"");
        write::key(&mut out, "created");
        write::number(&mut out, self.created_s);
        write::key(&mut out, "model");
        write::string(&mut out, &self.model);
        write::key(&mut out, "choices");
        out.push(b'[');
        for (index, choice) in &self.choices {
            choice.write(*index, self.dialect, &mut out);
        }
        out.push(b']');
        write::key(&mut out, "usage");
        match &self.usage {
            Some(usage) => super::write_usage(&mut out, usage),
            None => out.extend_from_slice(
                b"{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0}",
            ),
        }
        for (key, value) in &self.extra {
            write::foreign_key(&mut out, key);
            write::raw(&mut out, value);
        }
        out.push(b'}');
        out
    }

    fn choice(&mut self, index: u32) -> &mut Choice {
        self.choices.entry(index).or_default()
    }

    fn delta(&mut self, delta: &AnswerDelta) {
        let (round, is_native) = (self.round, self.is_native);
        let choice = self.choice(delta.choice);
        choice.has_text |= delta.text.is_some();
        if let Some(text) = delta.text.as_ref().filter(|text| !text.is_empty()) {
            let last_round = choice.text_round.replace(round);
            if last_round.is_some_and(|last| last != round) {
                choice.text.push(&super::round_gap());
            }
            choice.text.push(text);
        }
        if let Some(rest) = &delta.rest {
            choice.rest(rest, is_native);
        }
    }

    fn call(&mut self, piece: &CallDelta) {
        let (turn, round, is_native) = (self.turn, self.round, self.is_native);
        let choice = self.choice(piece.choice);
        let slot = choice.slots.slot(turn, round, piece);
        let native = piece.native.as_deref().filter(|_| is_native);
        if let Some(id) = slot.id {
            choice.calls.push(Call {
                id: id.to_owned(),
                name: piece.name.clone().unwrap_or_default(),
                form: piece.form,
                text: piece
                    .arguments
                    .iter()
                    .fold(LiteralBuf::default(), |mut text, more| {
                        text.push(more);
                        text
                    }),
                native: native.cloned().unwrap_or_default(),
            });
            return;
        }
        let Some(call) = choice.calls.get_mut(slot.index) else {
            return;
        };
        if let Some(name) = piece.name.as_ref().filter(|_| call.name.is_empty()) {
            call.name.clone_from(name);
        }
        if let Some(more) = &piece.arguments {
            call.text.push(more);
        }
        native.into_iter().for_each(|more| call.native.add(more));
    }
}

/// Sets a field, where the last value of a name counts.
fn set(fields: &mut Vec<(Box<str>, Json)>, key: &str, value: &Json) {
    match fields.iter_mut().find(|(have, _)| **have == *key) {
        Some((_, have)) => *have = value.clone(),
        None => fields.push((key.into(), value.clone())),
    }
}

impl Choice {
    fn rest(&mut self, rest: &DeltaRest, is_native: bool) {
        rest.refusal.iter().for_each(|text| self.refusal.push(text));
        rest.reasoning.iter().for_each(|reasoning| {
            let text = self.reasoning.get_or_insert_default();
            text.push(&reasoning.text);
        });
        self.logprobs.extend(rest.logprobs.clone());
        if !is_native {
            return;
        }
        for (key, value) in &rest.extra {
            match &**key {
                "content" => self.parts.push(value.clone()),
                _ => add_field(&mut self.extra, key, value),
            }
        }
        for (key, value) in &rest.beside {
            set(&mut self.beside, key, value);
        }
    }

    fn write(&self, index: u32, dialect: ChatDialect, out: &mut Vec<u8>) {
        write::separate(out);
        out.push(b'{');
        write::key(out, "index");
        write::number(out, index);
        write::key(out, "message");
        self.message(dialect, out);
        write::key(out, "logprobs");
        self.logprobs(out);
        write::key(out, "finish_reason");
        // A whole answer has a finish for each choice; clients insist on a word.
        let without = if self.calls.is_empty() {
            Finish::Stop
        } else {
            Finish::ToolCalls
        };
        let word = outcome::finish_word(self.finish.unwrap_or(without), dialect);
        write::quoted(out, word);
        for (key, value) in &self.beside {
            write::foreign_key(out, key);
            write::raw(out, value);
        }
        out.push(b'}');
    }

    fn message(&self, dialect: ChatDialect, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"role\":\"assistant\"");
        write::key(out, "content");
        let has_other = !self.calls.is_empty() || !self.refusal.is_empty();
        if self.parts.is_empty() {
            text_or_null(out, &self.text, has_other && !self.has_text);
        } else {
            self.content_parts(out);
        }
        write::key(out, "refusal");
        text_or_null(out, &self.refusal, true);
        if let Some(reasoning) = &self.reasoning {
            write::key(out, "reasoning_content");
            write::quoted(out, reasoning.as_str());
        }
        match (self.calls.first(), dialect) {
            (None, _) => {}
            (Some(_), ChatDialect::Tools) => {
                write::key(out, "tool_calls");
                out.push(b'[');
                self.calls.iter().for_each(|call| call.write(out));
                out.push(b']');
            }
            (Some(first), ChatDialect::Functions) => {
                write::key(out, "function_call");
                first.named(out, "arguments");
            }
        }
        for (key, value) in &self.extra {
            write::foreign_key(out, key);
            write::raw(out, value);
        }
        out.push(b'}');
    }

    /// The text first: where the parts stood among it is not known any more.
    fn content_parts(&self, out: &mut Vec<u8>) {
        let mut text = Vec::new();
        if !self.text.is_empty() {
            text.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
            write::quoted(&mut text, self.text.as_str());
            text.extend_from_slice(b"}]");
        }
        let text = String::from_utf8(text).ok();
        let text = text.and_then(|text| Json::parse(&text).ok());
        write::joined_arrays(out, text.iter().chain(&self.parts));
    }

    /// Writes one `logprobs` object, whose lists are those of all pieces joined.
    fn logprobs(&self, out: &mut Vec<u8>) {
        if self.logprobs.is_empty() {
            out.extend_from_slice(b"null");
            return;
        }
        let pieces: Vec<Value> = self.logprobs.iter().map(Json::to_value).collect();
        let mut joined = serde_json::Map::new();
        for (key, value) in pieces.iter().filter_map(Value::as_object).flatten() {
            match (joined.get_mut(key), value) {
                (Some(Value::Array(have)), Value::Array(more)) => have.extend(more.iter().cloned()),
                (Some(_), Value::Null) => {}
                (Some(_) | None, value) => {
                    joined.insert(key.clone(), value.clone());
                }
            }
        }
        write::raw(out, &Json::from_value(&joined.into()));
    }
}

impl Call {
    fn write(&self, out: &mut Vec<u8>) {
        let (kind, text_key) = match self.form {
            CallForm::Custom => ("custom", "input"),
            CallForm::Function | CallForm::ByName => ("function", "arguments"),
        };
        write::separate(out);
        out.push(b'{');
        write::key(out, "id");
        write::string(out, &self.id);
        write::key(out, "type");
        write::quoted(out, kind);
        write::key(out, kind);
        self.named(out, text_key);
        write::fields(out, Some(&self.native.beside));
        out.push(b'}');
    }

    fn named(&self, out: &mut Vec<u8>, text_key: &str) {
        out.push(b'{');
        write::key(out, "name");
        write::string(out, &self.name);
        write::key(out, text_key);
        write::quoted(out, self.text.as_str());
        write::fields(out, Some(&self.native.inside));
        out.push(b'}');
    }
}

fn text_or_null(out: &mut Vec<u8>, text: &LiteralBuf, is_null_if_empty: bool) {
    if text.is_empty() && is_null_if_empty {
        out.extend_from_slice(b"null");
    } else {
        write::quoted(out, text.as_str());
    }
}

#[cfg(test)]
mod tests;
