//! Reading of an answer's chunks, one after the other, as events of the model.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tw_core::json::{Json, Literal};
use tw_core::model::{
    AnswerDelta, CallForm, CallNative, DeltaRest, Finish, ModelEvent, ReasoningText, ReportedError,
    TokenUsage,
};
use tw_core::native::{NativeFields, NativeLabel, NativePart};

use super::calls::{CallAssembler, WrittenCallPiece};
use super::chunk_template::ChunkTemplate;
use super::delta::{CallWritten, ChatAnswer, ChatChoice, ChoiceAddition, NamedText};
use super::ending::{self, ChoiceEnding};
use super::raw::{self, RecordOf, SmallList};
use super::surrogates::{self, with_half, without_half};
use super::{
    FORMAT, REASONING, REASONING_CONTENT, REASONING_DETAILS, THINKING_PART, content, reported,
};
use crate::sse;
use crate::upstream_answer::{DecodeError, OfferedNames};

/// Choices of one answer: what a request may ask for.
const CHOICES_MAX: u32 = 128;
/// llama.cpp's word, before the first token, on how much of the prompt it has read.
const PROGRESS: &str = "prompt_progress";
/// Different fields beside the choices that are passed on; further ones are not.
const EXTRA_FIELDS_MAX: usize = 64;

/// Reads one answer.
#[derive(Debug, Default)]
pub struct AnswerReader {
    has_started: bool,
    is_done: bool,
    offered: OfferedNames,
    /// The upstream reported an error.
    has_failed: bool,
    choices: Vec<ChoiceState>,
    /// The last value of each field beside the choices, so that a repeated one goes out once.
    extra: Vec<(Box<str>, Json)>,
    pub(super) usual: ChunkTemplate,
}

#[derive(Debug)]
struct ChoiceState {
    index: u32,
    calls: CallAssembler,
    has_finished: bool,
    /// A `delta` came, so that a `message` says the same once more.
    has_delta: bool,
    /// Text, a call or anything else of an answer came.
    has_said: bool,
    /// A whole message came, which is an answer also when it is empty.
    has_message: bool,
    /// First halves of surrogate pairs that wait for the second.
    text_half: Option<Box<str>>,
    reasoning_half: Option<(NativeLabel, Box<str>)>,
    blank: BlankTexts,
    /// The last value of each unknown field, so that a repeated one goes out once.
    beside: Vec<(Box<str>, Json)>,
}

/// Texts that were there and empty: some upstreams refuse a message that comes back without them.
#[derive(Debug, Default)]
struct BlankTexts {
    text: bool,
    reasoning: Option<NativeLabel>,
    has_text: bool,
    has_reasoning: bool,
    /// They were told of.
    are_told: bool,
}

/// Whether an addition is all there is of its choice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Piece,
    Whole,
}

impl AnswerReader {
    /// A reader for the answer to a request that offers tools of these names.
    pub fn new(offered: OfferedNames) -> Self {
        Self {
            offered,
            ..Self::default()
        }
    }

    /// Reads one event of a stream.
    pub fn frame(
        &mut self,
        frame: sse::SseFrame<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        if self.is_done {
            return Ok(());
        }
        // Groq names the event; whatever its data is, it is no chunk.
        let is_error = frame.event == "error";
        if !is_error && let Some(delta) = self.usual.read(frame.data) {
            out.push(ModelEvent::Delta(delta));
            return Ok(());
        }
        let data = frame.data.trim_ascii().trim_matches('"');
        if data.eq_ignore_ascii_case(sse::DONE_DATA) {
            self.settle(out)?;
            if !self.has_answered() {
                out.push(broke_off("an answer without choices", None));
            }
            self.is_done = true;
            out.push(ModelEvent::Done);
            return Ok(());
        }
        if is_error {
            self.has_failed = true;
            out.push(ModelEvent::Error(Box::new(reported::of_object(frame.data))));
            return Ok(());
        }
        // Gemini writes an error as a list of one.
        if data.starts_with('[')
            && let Some(error) = reported::of_list(data)
        {
            self.has_failed = true;
            out.push(ModelEvent::Error(Box::new(error)));
            return Ok(());
        }
        let RecordOf(chunk) = read_answer(frame.data)?;
        let (text, before) = (text_of(&chunk), out.len());
        self.answer(chunk, frame.data, Extent::Piece, out)?;
        if self.choices.iter().any(|choice| choice.text_half.is_some()) {
            // The next text begins with the half that waits.
            self.usual = ChunkTemplate::default();
            return Ok(());
        }
        if let Some(text) = text
            && let [ModelEvent::Delta(delta)] = &out[before..]
            && delta.rest.is_none()
            && delta.text.as_ref().map(Literal::as_str) == text.get().get(1..text.get().len() - 1)
        {
            self.usual.keep(frame.data, text.get(), delta.choice);
        }
        Ok(())
    }

    /// Reads a plain answer.
    pub fn body(&mut self, text: &str, out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        let RecordOf(answer) = read_answer(text)?;
        self.answer(answer, text, Extent::Whole, out)?;
        self.settle(out)?;
        if !self.has_answered() {
            return Err(DecodeError::NoChoices);
        }
        out.push(ModelEvent::Done);
        Ok(())
    }

    /// The stream is over: tells of what was held back.
    pub fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        if self.is_done {
            Ok(())
        } else {
            self.settle(out)
        }
    }

    /// Whether a choice ended or said something, or an error came: an end mark alone is no answer.
    pub(super) fn has_answered(&self) -> bool {
        self.has_failed
            || self
                .choices
                .iter()
                .any(|choice| choice.has_finished || choice.has_said || choice.has_message)
    }

    fn settle(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        self.choices
            .iter_mut()
            .try_for_each(|choice| choice.settle(out))
    }

    fn answer(
        &mut self,
        answer: ChatAnswer<'_>,
        text: &str,
        extent: Extent,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        let has_choices = answer.choices.as_ref().is_some_and(|list| !list.is_empty());
        let is_bare = !has_choices && answer.usage.is_none();
        let error = answer.error.and_then(reported::of_field);
        let error = error.or_else(|| is_bare.then(|| reported::of_bare_object(text)).flatten());
        if !(is_bare && error.is_some()) {
            self.start(&answer, out);
            self.extras(answer.extra, answer.usage, out);
        }
        for (position, RecordOf(choice)) in answer.choices.into_iter().flatten().enumerate() {
            self.choice(position as u64, choice, extent, out)?;
        }
        if let Some(usage) = answer.usage.and_then(read_usage) {
            out.push(ModelEvent::Usage(Box::new(usage)));
        }
        self.has_failed |= error.is_some();
        out.extend(error.map(|error| ModelEvent::Error(Box::new(error))));
        Ok(())
    }

    /// Tells the answer's name and time, once. Azure's first chunk has an empty model and no
    /// choices: the next one says more.
    fn start(&mut self, answer: &ChatAnswer<'_>, out: &mut Vec<ModelEvent>) {
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
        fields: SmallList<(Cow<'_, str>, &RawValue), 4>,
        usage: Option<&RawValue>,
        out: &mut Vec<ModelEvent>,
    ) {
        for (key, value) in fields {
            if usage.is_none() && key == "x_groq" {
                out.extend(usage_inside(value).map(|usage| ModelEvent::Usage(Box::new(usage))));
            }
            match self.extra.iter().position(|(have, _)| **have == *key) {
                Some(at) if self.extra[at].1.as_str() == value.get() => continue,
                Some(at) => self.extra[at].1 = Json::from_raw(value),
                None if self.extra.len() == EXTRA_FIELDS_MAX => continue,
                None => self.extra.push((Box::from(&*key), Json::from_raw(value))),
            }
            let (key, value) = (Box::from(&*key), Json::from_raw(value));
            out.push(if *key == *PROGRESS {
                ModelEvent::Progress { key, value }
            } else {
                ModelEvent::Extra { key, value }
            });
        }
    }

    fn choice(
        &mut self,
        position: u64,
        choice: ChatChoice<'_>,
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
        let said = choice.error.and_then(reported::of_field);
        let mut is_delta = extent == Extent::Piece;
        let native = choice
            .extra
            .iter()
            .find(|(key, _)| key == "native_finish_reason")
            .and_then(|(_, value)| raw::filled_string(Some(value)));
        let state = self.state(index);
        let (addition, extent) = match (choice.delta, choice.message) {
            (Some(delta), None) => (delta, Extent::Piece),
            (Some(delta), Some(_)) if extent == Extent::Piece && !delta.0.is_empty() => {
                (delta, Extent::Piece)
            }
            (_, message) if extent == Extent::Whole => {
                state.has_message |= message.is_some();
                (read_message(message)?, extent)
            }
            // Some upstreams write `message` for `delta`, and others both: then the message says
            // at the end what was said before.
            (_, message) if !state.has_delta => {
                is_delta = false;
                (read_message(message)?, Extent::Piece)
            }
            (delta, _) => (delta.unwrap_or_default(), Extent::Piece),
        };
        let RecordOf(addition) = addition;
        state.has_delta |= is_delta && !addition.is_empty();
        let beside = state.beside(choice.extra);
        state.addition(addition, choice.logprobs, beside, extent, out)?;
        let word = raw::filled_string(choice.finish_reason);
        let said_so = word.as_deref().and_then(ending::read);
        let native_ending = native.as_deref().and_then(ending::read);
        // OpenRouter writes `stop` or null, and the model's own word beside it, which counts where nothing was said.
        let native_counts = match native_ending {
            Some(ChoiceEnding::Failed) => said_so.is_none() || !state.has_said,
            Some(ChoiceEnding::As(reason)) => {
                reason == Finish::ContentFilter && said_so.is_some() && !state.has_said
            }
            None => false,
        };
        let (word, ending) = if native_counts && !state.has_finished {
            (native, native_ending)
        } else {
            (word, said_so)
        };
        match (said, ending) {
            (Some(error), _) => {
                self.has_failed = true;
                out.push(ModelEvent::Error(Box::new(error)));
            }
            (None, Some(ChoiceEnding::Failed)) => {
                self.has_failed = true;
                out.push(broke_off(
                    "the upstream says that it failed",
                    word.as_deref(),
                ));
            }
            (None, Some(ChoiceEnding::As(reason))) if !state.has_finished => {
                state.has_finished = true;
                state.settle(out)?;
                out.push(ModelEvent::Finish {
                    choice: index,
                    reason,
                });
            }
            (None, Some(ChoiceEnding::As(_)) | None) => {}
        }
        let usage = choice.usage.and_then(read_usage);
        out.extend(usage.map(|usage| ModelEvent::Usage(Box::new(usage))));
        Ok(())
    }

    fn state(&mut self, index: u32) -> &mut ChoiceState {
        let at = match self.choices.iter().position(|state| state.index == index) {
            Some(at) => at,
            None => {
                // Most answers have one.
                if self.choices.is_empty() {
                    self.choices.reserve_exact(1);
                }
                self.choices.push(ChoiceState {
                    index,
                    calls: CallAssembler::new(index, self.offered.clone()),
                    has_finished: false,
                    has_delta: false,
                    has_said: false,
                    has_message: false,
                    text_half: None,
                    reasoning_half: None,
                    blank: BlankTexts::default(),
                    beside: Vec::new(),
                });
                self.choices.len() - 1
            }
        };
        &mut self.choices[at]
    }
}

/// The text of a chunk that has one choice, and no pieces of calls, which are joined to others.
fn text_of<'a>(chunk: &ChatAnswer<'a>) -> Option<&'a RawValue> {
    let RecordOf(choice) = chunk.choices.as_ref()?.only()?;
    let RecordOf(addition) = choice.delta.as_ref()?;
    if addition.tool_calls.is_some() || addition.function_call.is_some() {
        return None;
    }
    addition.content
}

/// Reads a chunk or a plain answer; a null in the place of one says nothing.
fn read_answer(text: &str) -> Result<RecordOf<ChatAnswer<'_>>, DecodeError> {
    serde_json::from_str::<Option<_>>(text)
        .map(Option::unwrap_or_default)
        .map_err(DecodeError::NotAnAnswer)
}

fn read_message(message: Option<&RawValue>) -> Result<RecordOf<ChoiceAddition<'_>>, DecodeError> {
    message
        .map_or(Ok(RecordOf::default()), |raw| {
            serde_json::from_str(raw.get())
        })
        .map_err(DecodeError::NotAnAnswer)
}

impl ChoiceState {
    fn addition(
        &mut self,
        addition: ChoiceAddition<'_>,
        logprobs: Option<&RawValue>,
        beside: Vec<(Box<str>, Json)>,
        extent: Extent,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        self.note_blanks(&addition);
        let details = addition.reasoning_details.and_then(filled_array);
        let details = details.map(|details| (REASONING_DETAILS.into(), details));
        let mut rest = DeltaRest {
            refusal: addition.refusal.and_then(filled_literal),
            reasoning: self.whole_reasoning(read_reasoning(&addition)),
            logprobs: logprobs.map(Json::from_raw),
            extra: details.into_iter().collect(),
            beside,
        };
        for (key, value) in addition.extra {
            if passes_on(value) {
                rest.extra.push((Box::from(&*key), Json::from_raw(value)));
            }
        }
        let rest = (rest != DeltaRest::default()).then(|| Box::new(rest));
        let before = out.len();
        match addition.content {
            Some(list) if list.get().starts_with('[') => {
                content::read_parts(self.index, list, rest, out);
                self.join_halves(&mut out[before..]);
            }
            text => {
                let text = self.whole_text(text.and_then(filled_literal));
                if text.is_some() || rest.is_some() {
                    out.push(ModelEvent::Delta(AnswerDelta {
                        choice: self.index,
                        text,
                        rest,
                    }));
                }
            }
        }
        let says = |event: &ModelEvent| match event {
            ModelEvent::Delta(delta) => delta.shows_something(),
            _ => false,
        };
        self.has_said |= self.text_half.is_some() || out[before..].iter().any(says);
        self.calls.begin_list();
        for RecordOf(call) in addition.tool_calls.into_iter().flatten() {
            let piece = read_piece(call);
            self.call(piece, extent, out)?;
        }
        if let Some(RecordOf(NamedText { name, text, .. })) = addition.function_call {
            let piece = WrittenCallPiece {
                index: None,
                id: None,
                name: raw::filled_string(name),
                form: CallForm::ByName,
                text: text.and_then(read_arguments),
                native: None,
            };
            self.call(piece, Extent::Piece, out)?;
        }
        self.has_said |= !self.calls.is_empty();
        Ok(())
    }

    /// Lets half a character at the end of a part wait, as in a text that is no list.
    fn join_halves(&mut self, parts: &mut [ModelEvent]) {
        for event in parts {
            let ModelEvent::Delta(delta) = event else {
                continue;
            };
            delta.text = self.whole_text(delta.text.take());
            if let Some(rest) = delta.rest.as_deref_mut()
                && let Some(reasoning) = rest
                    .reasoning
                    .take_if(|reasoning| reasoning.place == THINKING_PART)
            {
                rest.reasoning = self.whole_reasoning(Some(reasoning));
            }
        }
    }

    /// The unknown fields of the choice that were not told of with the same value.
    fn beside(&mut self, fields: SmallList<(Cow<'_, str>, &RawValue), 2>) -> Vec<(Box<str>, Json)> {
        let mut fresh = Vec::new();
        for (key, value) in fields {
            if !passes_on(value) {
                continue;
            }
            match self.beside.iter().position(|(have, _)| **have == *key) {
                Some(at) if self.beside[at].1.as_str() == value.get() => continue,
                Some(at) => self.beside[at].1 = Json::from_raw(value),
                None if self.beside.len() == EXTRA_FIELDS_MAX => continue,
                None => self.beside.push((Box::from(&*key), Json::from_raw(value))),
            }
            fresh.push((Box::from(&*key), Json::from_raw(value)));
        }
        fresh
    }

    /// Text without half a character at its end, which goes with the next.
    fn whole_text(&mut self, text: Option<Literal>) -> Option<Literal> {
        // A delta without text leaves a half waiting.
        let text = text?;
        let (text, half) = without_half(with_half(self.text_half.take(), text)?);
        self.text_half = half;
        text
    }

    fn whole_reasoning(&mut self, reasoning: Option<ReasoningText>) -> Option<ReasoningText> {
        let ReasoningText { place, text } = reasoning?;
        let waiting = self.reasoning_half.take().map(|(_, half)| half);
        let (text, half) = without_half(with_half(waiting, text)?);
        self.reasoning_half = half.map(|half| (place, half));
        text.map(|text| ReasoningText { place, text })
    }

    fn note_blanks(&mut self, addition: &ChoiceAddition<'_>) {
        let is_blank = |raw: &RawValue| raw.get() == "\"\"";
        let thoughts = [
            (REASONING_CONTENT, addition.reasoning_content),
            (REASONING, addition.reasoning),
        ];
        for (place, raw) in thoughts {
            if let Some(raw) = raw {
                self.blank.has_reasoning |= !is_blank(raw);
                self.blank.reasoning = self.blank.reasoning.or(is_blank(raw).then_some(place));
            }
        }
        if let Some(content) = addition.content {
            self.blank.text |= is_blank(content);
            self.blank.has_text |= !is_blank(content);
        }
    }

    /// Tells of texts that stayed empty beside calls.
    fn tell_blanks(&mut self, out: &mut Vec<ModelEvent>) {
        if self.blank.are_told || self.calls.is_empty() {
            return;
        }
        self.blank.are_told = true;
        let place = self.blank.reasoning.filter(|_| !self.blank.has_reasoning);
        let reasoning = place.map(|place| ReasoningText {
            place,
            text: Literal::default(),
        });
        let is_blank = self.blank.text && !self.blank.has_text;
        if reasoning.is_none() && !is_blank {
            return;
        }
        out.push(ModelEvent::Delta(AnswerDelta {
            choice: self.index,
            text: is_blank.then(Literal::default),
            rest: reasoning.map(|reasoning| {
                Box::new(DeltaRest {
                    reasoning: Some(reasoning),
                    ..DeltaRest::default()
                })
            }),
        }));
    }

    /// Tells of what was held back: nothing more comes of this choice.
    fn settle(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        self.tell_blanks(out);
        let lone = |half: Box<str>| Literal::checked(&surrogates::mend_all(&half).0);
        let text = self.text_half.take().and_then(lone);
        let reasoning = self.reasoning_half.take();
        let reasoning = reasoning
            .and_then(|(place, half)| lone(half).map(|text| ReasoningText { place, text }));
        if text.is_some() || reasoning.is_some() {
            let rest = reasoning.map(|reasoning| {
                Box::new(DeltaRest {
                    reasoning: Some(reasoning),
                    ..DeltaRest::default()
                })
            });
            out.push(ModelEvent::Delta(AnswerDelta {
                choice: self.index,
                text,
                rest,
            }));
        }
        self.calls
            .settle(out)
            .map_err(|_| DecodeError::TooManyCalls)
    }

    fn call(
        &mut self,
        piece: WrittenCallPiece<'_>,
        extent: Extent,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        match extent {
            Extent::Piece => self.calls.add(piece, out),
            Extent::Whole => self.calls.add_whole(piece, out),
        }
        .map_err(|_| DecodeError::TooManyCalls)
    }
}

/// The error of an answer whose upstream gave it up, or gave none: another try may go better.
pub(crate) fn broke_off(message: &str, word: Option<&str>) -> ModelEvent {
    let error = ReportedError {
        message: match word {
            Some(word) => format!("{message}: {word}"),
            None => message.to_owned(),
        },
        code: word.map(str::to_owned),
        broke_off: true,
        ..ReportedError::default()
    };
    ModelEvent::Error(Box::new(error))
}

/// Whether an unknown field goes on: all do that are no filler.
pub(crate) fn passes_on(value: &RawValue) -> bool {
    !matches!(value.get(), "null" | "false" | "\"\"" | "[]" | "{}")
}

fn read_piece(call: CallWritten<'_>) -> WrittenCallPiece<'_> {
    let (form, named) = match (call.custom, call.function) {
        (Some(RecordOf(custom)), _) => (CallForm::Custom, custom),
        (None, function) => (CallForm::Function, function.unwrap_or_default().0),
    };
    let index = call.index.and_then(|raw| {
        let text = raw.get().trim_matches('"');
        let of_count = || raw::count(raw).and_then(|count| i64::try_from(count).ok());
        text.parse().ok().or_else(of_count)
    });
    // Some upstreams number their calls.
    let id = raw::filled_string(call.id).or_else(|| {
        let number = call.id.filter(|raw| raw::integer(raw).is_some())?;
        Some(Cow::Borrowed(number.get()))
    });
    let name = raw::filled_string(named.name);
    WrittenCallPiece {
        index,
        id,
        name,
        form,
        text: named.text.and_then(read_arguments),
        native: read_native(call.extra, named.extra),
    }
}

/// Fields of a call that only this format knows, such as a signature.
fn read_native(
    beside: SmallList<(Cow<'_, str>, &RawValue), 1>,
    inside: SmallList<(Cow<'_, str>, &RawValue), 1>,
) -> Option<Box<CallNative>> {
    let kept = |fields: SmallList<(Cow<'_, str>, &RawValue), 1>| -> NativeFields {
        let fields = fields.into_iter().filter(|(_, value)| passes_on(value));
        let fields = fields.map(|(key, value)| (Box::from(&*key), Json::from_raw(value)));
        fields.take(EXTRA_FIELDS_MAX).collect()
    };
    let native = CallNative {
        beside: kept(beside),
        inside: kept(inside),
    };
    let is_some = !native.beside.is_empty() || !native.inside.is_empty();
    is_some.then(|| Box::new(native))
}

/// The arguments of a call, which ought to be a string; an object is taken as the text of it.
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

/// The reasoning of an addition, from the first of its fields that has any: some upstreams write
/// the same text into both.
fn read_reasoning(addition: &ChoiceAddition<'_>) -> Option<ReasoningText> {
    [
        (REASONING_CONTENT, addition.reasoning_content),
        (REASONING, addition.reasoning),
    ]
    .into_iter()
    .find_map(|(place, raw)| {
        Some(ReasoningText {
            place,
            text: raw.and_then(filled_literal)?,
        })
    })
}

fn read_usage(raw: &RawValue) -> Option<TokenUsage> {
    let fields = raw::ObjectFields::parse(raw.get()).ok()?;
    let read = |name| fields.get(name).and_then(raw::count);
    let inside = |object: &str, name: &str| {
        let details = raw::ObjectFields::parse(fields.get(object)?.get()).ok()?;
        details.get(name).and_then(raw::count)
    };
    let (prompt_tokens, completion_tokens) = (read("prompt_tokens"), read("completion_tokens"));
    let total_tokens = read("total_tokens");
    if prompt_tokens.is_none() && completion_tokens.is_none() && total_tokens.is_none() {
        return None;
    }
    let (prompt_tokens, completion_tokens) =
        (prompt_tokens.unwrap_or(0), completion_tokens.unwrap_or(0));
    Some(TokenUsage {
        prompt_tokens,
        completion_tokens,
        total_tokens: total_tokens.unwrap_or(prompt_tokens.saturating_add(completion_tokens)),
        cached_tokens: inside("prompt_tokens_details", "cached_tokens"),
        cache_write_tokens: None,
        reasoning_tokens: inside("completion_tokens_details", "reasoning_tokens"),
        native: Some(NativePart {
            format: FORMAT,
            json: Json::from_raw(raw),
        }),
    })
}

/// The usage inside `x_groq`, where Groq's older answers have it alone.
fn usage_inside(raw: &RawValue) -> Option<TokenUsage> {
    raw::ObjectFields::parse(raw.get())
        .ok()?
        .get("usage")
        .and_then(read_usage)
}
