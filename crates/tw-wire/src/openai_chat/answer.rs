//! What the chunks of an answer say, one after the other.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tw_core::json::{Json, Literal};
use tw_core::model::{
    CallForm, CallPiece, Delta, DeltaRest, Finish, ModelEvent, ReasoningField, ReasoningText, Usage,
};

use super::calls::{Calls, Piece};
use super::delta::{Addition, Answer, CallWritten, Choice, NamedText};
use super::raw::{self, Few, Of};
use super::stream::DecodeError;
use super::usual::Usual;
use super::{content, reported};
use crate::sse;

/// Choices of one answer: what a request may ask for.
const CHOICES_MAX: u32 = 128;
/// Different fields beside the choices that are passed on; further ones are not.
const EXTRA_FIELDS_MAX: usize = 64;

/// Reads one answer.
#[derive(Debug, Default)]
pub struct AnswerReader {
    has_started: bool,
    is_done: bool,
    choices: Vec<ChoiceState>,
    /// The last value of each field beside the choices, so that a repeated one goes out once.
    extra: Vec<(Box<str>, Json)>,
    pub(super) usual: Usual,
}

#[derive(Debug)]
struct ChoiceState {
    index: u32,
    calls: Calls,
    has_finished: bool,
}

/// Whether an addition is all there is of its choice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Piece,
    Whole,
}

impl AnswerReader {
    /// Reads one event of a stream.
    pub fn frame(
        &mut self,
        frame: sse::Frame<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        if self.is_done {
            return Ok(());
        }
        if frame.data.trim_ascii() == "[DONE]" {
            self.is_done = true;
            out.push(ModelEvent::Done);
            return Ok(());
        }
        // Groq names the event; whatever its data is, it is no chunk.
        if frame.event == "error" {
            out.push(ModelEvent::Error(Box::new(reported::of_object(frame.data))));
            return Ok(());
        }
        if let Some(delta) = self.usual.read(frame.data) {
            out.push(ModelEvent::Delta(delta));
            return Ok(());
        }
        let Of(chunk): Of<Answer<'_>> =
            serde_json::from_str(frame.data).map_err(DecodeError::NotAnAnswer)?;
        let (text, before) = (text_of(&chunk), out.len());
        self.answer(chunk, frame.data, Extent::Piece, out)?;
        if let Some(text) = text
            && let [ModelEvent::Delta(delta)] = &out[before..]
            && delta.rest.is_none()
        {
            self.usual.keep(frame.data, text.get(), delta.choice);
        }
        Ok(())
    }

    /// Reads a plain answer.
    pub fn body(&mut self, text: &str, out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        let Of(answer): Of<Answer<'_>> =
            serde_json::from_str(text).map_err(DecodeError::NotAnAnswer)?;
        let before = out.len();
        self.answer(answer, text, Extent::Whole, out)?;
        let has_error = out[before..]
            .iter()
            .any(|event| matches!(event, ModelEvent::Error(_)));
        if self.choices.is_empty() && !has_error {
            return Err(DecodeError::NoChoices);
        }
        out.push(ModelEvent::Done);
        Ok(())
    }

    fn answer(
        &mut self,
        answer: Answer<'_>,
        text: &str,
        extent: Extent,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let is_bare = answer.choices.is_none() && answer.usage.is_none();
        let error = answer.error.and_then(reported::of_field);
        let error = error.or_else(|| is_bare.then(|| reported::of_bare_object(text)).flatten());
        if !(is_bare && error.is_some()) {
            self.start(&answer, out);
            self.extras(answer.extra, answer.usage, out);
        }
        for (position, Of(choice)) in answer.choices.into_iter().flatten().enumerate() {
            self.choice(position as u64, choice, extent, out)?;
        }
        if let Some(usage) = answer.usage.and_then(read_usage) {
            out.push(ModelEvent::Usage(usage));
        }
        out.extend(error.map(|error| ModelEvent::Error(Box::new(error))));
        Ok(())
    }

    /// Azure's first chunk has an empty model and no choices: the next one says more.
    fn start(&mut self, answer: &Answer<'_>, out: &mut Vec<ModelEvent>) {
        let model = raw::filled_string(answer.model).map(Cow::into_owned);
        let has_choice = answer
            .choices
            .as_ref()
            .is_some_and(|choices| !choices.is_empty());
        if self.has_started || (model.is_none() && !has_choice) {
            return;
        }
        self.has_started = true;
        let created_s = answer.created.and_then(raw::count).filter(|&at| at > 0);
        out.push(ModelEvent::Start {
            model,
            created_s: created_s.and_then(|at| i64::try_from(at).ok()),
        });
    }

    fn extras(
        &mut self,
        fields: Few<(Cow<'_, str>, &RawValue), 4>,
        usage: Option<&RawValue>,
        out: &mut Vec<ModelEvent>,
    ) {
        for (key, value) in fields {
            if usage.is_none() && key == "x_groq" {
                out.extend(usage_inside(value).map(ModelEvent::Usage));
            }
            match self.extra.iter().position(|(have, _)| **have == *key) {
                Some(at) if self.extra[at].1.as_str() == value.get() => continue,
                Some(at) => self.extra[at].1 = Json::from_raw(value),
                None if self.extra.len() == EXTRA_FIELDS_MAX => continue,
                None => self.extra.push((Box::from(&*key), Json::from_raw(value))),
            }
            out.push(ModelEvent::Extra {
                key: Box::from(&*key),
                value: Json::from_raw(value),
            });
        }
    }

    fn choice(
        &mut self,
        position: u64,
        choice: Choice<'_>,
        extent: Extent,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let written = choice.index.and_then(raw::count).unwrap_or(position);
        let index = u32::try_from(written)
            .ok()
            .filter(|&index| index < CHOICES_MAX);
        let index = index.ok_or(DecodeError::TooManyChoices {
            index: written,
            max: CHOICES_MAX,
        })?;
        let state = self.state(index);
        let addition = match extent {
            Extent::Piece => choice.delta,
            Extent::Whole => read_message(choice.message)?,
        };
        let Of(addition) = addition.unwrap_or_default();
        state.addition(addition, choice.logprobs, extent, out)?;
        if let Some(reason) =
            raw::filled_string(choice.finish_reason).and_then(|word| read_finish(&word))
            && !state.has_finished
        {
            state.has_finished = true;
            out.push(ModelEvent::Finish {
                choice: index,
                reason,
            });
        }
        out.extend(choice.usage.and_then(read_usage).map(ModelEvent::Usage));
        Ok(())
    }

    fn state(&mut self, index: u32) -> &mut ChoiceState {
        let at = match self.choices.iter().position(|state| state.index == index) {
            Some(at) => at,
            None => {
                self.choices.push(ChoiceState {
                    index,
                    calls: Calls::default(),
                    has_finished: false,
                });
                self.choices.len() - 1
            }
        };
        &mut self.choices[at]
    }
}

/// The text of a chunk that has one choice, and no pieces of calls, which are joined to others.
fn text_of<'a>(chunk: &Answer<'a>) -> Option<&'a RawValue> {
    let Of(choice) = chunk.choices.as_ref()?.only()?;
    let Of(addition) = choice.delta.as_ref()?;
    if addition.tool_calls.is_some() || addition.function_call.is_some() {
        return None;
    }
    addition.content
}

fn read_message(message: Option<&RawValue>) -> Result<Option<Of<Addition<'_>>>, DecodeError> {
    message
        .map_or(Ok(None), |raw| serde_json::from_str(raw.get()))
        .map_err(DecodeError::NotAnAnswer)
}

impl ChoiceState {
    fn addition(
        &mut self,
        addition: Addition<'_>,
        logprobs: Option<&RawValue>,
        extent: Extent,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let mut rest = DeltaRest {
            refusal: addition.refusal.and_then(filled_literal),
            reasoning: read_reasoning(&addition),
            reasoning_details: addition.reasoning_details.and_then(filled_array),
            logprobs: logprobs.map(Json::from_raw),
            extra: Vec::new(),
        };
        for (key, value) in addition.extra {
            if passes_on(&key, value, extent) {
                rest.extra.push((Box::from(&*key), Json::from_raw(value)));
            }
        }
        let rest = (rest != DeltaRest::default()).then(|| Box::new(rest));
        match addition.content {
            Some(list) if list.get().starts_with('[') => {
                content::read_parts(self.index, list, rest, out)
            }
            text => {
                let text = text.and_then(filled_literal);
                if text.is_some() || rest.is_some() {
                    out.push(ModelEvent::Delta(Delta {
                        choice: self.index,
                        text,
                        rest,
                    }));
                }
            }
        }
        self.calls.begin_list();
        for Of(call) in addition.tool_calls.into_iter().flatten() {
            let piece = read_piece(call);
            self.call(piece, extent, out)?;
        }
        if let Some(Of(NamedText { name, text })) = addition.function_call {
            let piece = Piece {
                index: None,
                id: None,
                name: raw::filled_string(name),
                form: CallForm::Legacy,
                text: text.and_then(read_arguments),
            };
            self.call(piece, Extent::Piece, out)?;
        }
        Ok(())
    }

    fn call(
        &mut self,
        piece: Piece<'_>,
        extent: Extent,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let added: Option<CallPiece> = match extent {
            Extent::Piece => self.calls.add(self.index, piece),
            Extent::Whole => self.calls.add_whole(self.index, piece).map(Some),
        }
        .map_err(|_| DecodeError::TooManyCalls)?;
        out.extend(added.map(ModelEvent::Call));
        Ok(())
    }
}

/// Unknown fields of an addition go on if they can be told from filler.
fn passes_on(key: &str, value: &RawValue, extent: Extent) -> bool {
    match value.get().as_bytes().first() {
        Some(b'"' | b'{') => true,
        Some(b'[') => (extent == Extent::Whole || key == "annotations") && value.get() != "[]",
        _ => false,
    }
}

fn read_piece(call: CallWritten<'_>) -> Piece<'_> {
    let (form, named) = match (call.custom, call.function) {
        (Some(Of(custom)), _) => (CallForm::Custom, custom),
        (None, function) => (CallForm::Function, function.unwrap_or_default().0),
    };
    let index = call
        .index
        .and_then(|raw| raw.get().trim_matches('"').parse().ok());
    let (id, name) = (raw::filled_string(call.id), raw::filled_string(named.name));
    Piece {
        index,
        id,
        name,
        form,
        text: named.text.and_then(read_arguments),
    }
}

/// Arguments ought to be a string; an object is taken as the text of it.
fn read_arguments(raw: &RawValue) -> Option<Literal> {
    match raw.get().as_bytes().first() {
        Some(b'"') => filled_literal(raw),
        _ => Some(Literal::from_text(raw.get())),
    }
}

fn filled_literal(raw: &RawValue) -> Option<Literal> {
    raw::literal(raw).filter(|literal| !literal.is_empty())
}

fn filled_array(raw: &RawValue) -> Option<Json> {
    let is_filled = raw.get().starts_with('[') && raw.get() != "[]";
    is_filled.then(|| Json::from_raw(raw))
}

/// Some upstreams write the same text into both fields.
fn read_reasoning(addition: &Addition<'_>) -> Option<ReasoningText> {
    [
        (ReasoningField::ReasoningContent, addition.reasoning_content),
        (ReasoningField::Reasoning, addition.reasoning),
    ]
    .into_iter()
    .find_map(|(field, raw)| {
        Some(ReasoningText {
            field,
            text: raw.and_then(filled_literal)?,
        })
    })
}

/// What a finish means, by the words of OpenAI and of those who say it otherwise; a word that
/// nobody knows is a stop, as is Together's `eos`. `None` is no finish: DashScope writes "null".
fn read_finish(word: &str) -> Option<Finish> {
    Some(match word.to_ascii_lowercase().as_str() {
        "null" => return None,
        "length" | "max_tokens" | "model_length" | "insufficient_system_resource" => Finish::Length,
        "tool_calls" | "tool_use" => Finish::ToolCalls,
        "function_call" => Finish::FunctionCall,
        "content_filter" | "safety" => Finish::ContentFilter,
        _ => Finish::Stop,
    })
}

fn read_usage(raw: &RawValue) -> Option<Usage> {
    let fields = raw::Fields::parse(raw.get()).ok()?;
    let read = |name| fields.get(name).and_then(raw::count);
    let (prompt_tokens, completion_tokens) = (read("prompt_tokens"), read("completion_tokens"));
    let total_tokens = read("total_tokens");
    if prompt_tokens.is_none() && completion_tokens.is_none() && total_tokens.is_none() {
        return None;
    }
    let (prompt_tokens, completion_tokens) =
        (prompt_tokens.unwrap_or(0), completion_tokens.unwrap_or(0));
    Some(Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: total_tokens.unwrap_or(prompt_tokens.saturating_add(completion_tokens)),
        json: Json::from_raw(raw),
    })
}

/// Groq's older answers have usage only inside `x_groq`.
fn usage_inside(raw: &RawValue) -> Option<Usage> {
    raw::Fields::parse(raw.get())
        .ok()?
        .get("usage")
        .and_then(read_usage)
}
