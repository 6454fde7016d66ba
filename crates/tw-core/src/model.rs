//! The answer of a model, whatever format it came in.

use crate::fault::is_used_up;
use crate::json::{Json, Literal};
use crate::native::{NativeFields, NativeLabel, NativePart, add_field, field_bytes};

/// A step of a model's answer, as a decoder of an upstream format reports it. Nearly all are deltas: what is larger is
/// boxed.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The answer's own name and time, once, from the first chunk that has them.
    Start {
        model: Option<String>,
        created_s: Option<i64>,
    },
    /// Text, reasoning or another addition to one choice.
    Delta(AnswerDelta),
    /// A piece of a tool call.
    Call(CallDelta),
    /// The end of the block that was being written, where the format says one: the next may be of the same kind.
    BlockEnd(Box<BlockEnd>),
    /// A block of a choice that only its format understands.
    Native { choice: u32, part: Box<NativePart> },
    /// A field beside the choices that the format passes on, such as `system_fingerprint`.
    Extra { key: Box<str>, value: Json },
    /// A field that tells how far the upstream is before its answer begins, such as llama.cpp's `prompt_progress`.
    Progress { key: Box<str>, value: Json },
    /// The finish reason of one choice.
    Finish { choice: u32, reason: Finish },
    /// Tokens used so far by this answer; the last one counts.
    Usage(Box<TokenUsage>),
    /// The upstream's own error object inside an answer.
    Error(Box<ReportedError>),
    /// The format's end mark (`[DONE]`).
    Done,
}

/// An addition to one choice; a chunk of the upstream is one of these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerDelta {
    pub choice: u32,
    pub text: Option<Literal>,
    pub rest: Option<Box<DeltaRest>>,
}

/// The parts of a delta beside its text; most deltas have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeltaRest {
    pub refusal: Option<Literal>,
    pub reasoning: Option<ReasoningText>,
    /// Probabilities of the text's tokens.
    pub logprobs: Option<Json>,
    /// Fields of the message that only the answer's format knows.
    pub extra: NativeFields,
    /// Fields of the choice that only the answer's format knows.
    pub beside: NativeFields,
}

impl AnswerDelta {
    /// Bytes of memory that the delta's texts take.
    pub fn bytes(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.bytes());
        self.text.as_ref().map_or(0, |text| text.as_str().len()) + rest
    }
}

impl DeltaRest {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text_bytes()
    }

    /// Bytes of what it says.
    pub fn text_bytes(&self) -> usize {
        let literals = [
            self.refusal.as_ref(),
            self.reasoning.as_ref().map(|reasoning| &reasoning.text),
        ];
        let literals = literals.into_iter().flatten().map(Literal::as_str);
        let texts = literals.chain(self.logprobs.as_ref().map(Json::as_str));
        let natives = field_bytes(&self.extra) + field_bytes(&self.beside);
        texts.map(str::len).sum::<usize>() + natives
    }
}

/// Reasoning text and the place where its format wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasoningText {
    pub place: NativeLabel,
    pub text: Literal,
}

/// The end of a block, with what came with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockEnd {
    pub choice: u32,
    /// The proof by which the upstream that made the block knows it again.
    pub signature: Option<Literal>,
    /// The block as its format wrote it, where that says more than its text.
    pub native: Option<NativePart>,
}

impl BlockEnd {
    /// Bytes of memory that the end's texts take.
    pub fn bytes(&self) -> usize {
        let signature = self
            .signature
            .as_ref()
            .map_or(0, |text| text.as_str().len());
        let native = self
            .native
            .as_ref()
            .map_or(0, |part| part.json.as_str().len());
        signature + native
    }
}

impl AnswerDelta {
    /// Whether a person could see or hear anything of the delta.
    pub fn shows_something(&self) -> bool {
        let rest = self.rest.as_deref();
        self.text.as_ref().is_some_and(|text| !text.is_empty())
            || rest.is_some_and(|rest| {
                rest.refusal.is_some()
                    || rest
                        .reasoning
                        .as_ref()
                        .is_some_and(|reasoning| !reasoning.text.is_empty())
                    || rest.extra.iter().any(|(_, value)| !value.is_scalar())
            })
    }
}

/// A piece of a call. The decoder has already decided which call it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct CallDelta {
    pub choice: u32,
    /// The call's place in its choice, from 0 without gaps.
    pub call: u32,
    /// Set on the first piece that has one, never again.
    pub id: Option<Box<str>>,
    /// Set on the first piece that has one, never again.
    pub name: Option<Box<str>>,
    pub form: CallForm,
    /// More of the arguments (or of a custom tool's input).
    pub arguments: Option<Literal>,
    pub native: Option<Box<CallNative>>,
}

/// Fields of a call that only its answer's format knows, such as a signature.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallNative {
    /// Fields of the call.
    pub beside: NativeFields,
    /// Fields of the object in it that holds name and arguments.
    pub inside: NativeFields,
}

impl CallNative {
    pub fn bytes(&self) -> usize {
        field_bytes(&self.beside) + field_bytes(&self.inside)
    }

    /// Adds the fields of a later piece.
    pub fn add(&mut self, more: &Self) {
        for (fields, more) in [
            (&mut self.beside, &more.beside),
            (&mut self.inside, &more.inside),
        ] {
            for (key, value) in more {
                add_field(fields, key, value);
            }
        }
    }
}

/// The form of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallForm {
    /// With arguments, a JSON object.
    Function,
    /// With an input that is any text.
    Custom,
    /// Without an id: its result names the tool.
    ByName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
    /// One of the client's own stop sequences came.
    StopSequence,
    /// The model refused.
    Refusal,
    /// The upstream paused a long answer, and goes on with it when it is sent back.
    Pause,
}

/// Token counts of one answer or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenUsage {
    /// All tokens of the prompts, those read from a cache among them.
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    /// Tokens of the prompts that were read from a cache.
    pub cached_tokens: Option<u64>,
    /// Tokens of the prompts that were written to a cache.
    pub cache_write_tokens: Option<u64>,
    /// Tokens of the answers that were reasoning.
    pub reasoning_tokens: Option<u64>,
    /// The upstream's object as written, or the sum of several of one format; `None` for a sum over formats.
    pub native: Option<NativePart>,
}

impl TokenUsage {
    /// The sum over rounds: every number is added to the number at the same place; what is no
    /// number is taken from the later one.
    pub fn plus(&self, later: &Self) -> Self {
        let native = match (&self.native, &later.native) {
            (Some(sum), Some(more)) if sum.format == more.format => {
                let mut json = sum.json.to_value();
                add(&mut json, &more.json.to_value());
                Some(NativePart {
                    format: sum.format,
                    json: Json::from_value(&json),
                })
            }
            (Some(_), Some(_)) | (None, _) | (_, None) => None,
        };
        let both = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Self {
            prompt_tokens: self.prompt_tokens.saturating_add(later.prompt_tokens),
            completion_tokens: self
                .completion_tokens
                .saturating_add(later.completion_tokens),
            total_tokens: self.total_tokens.saturating_add(later.total_tokens),
            cached_tokens: both(self.cached_tokens, later.cached_tokens),
            cache_write_tokens: both(self.cache_write_tokens, later.cache_write_tokens),
            reasoning_tokens: both(self.reasoning_tokens, later.reasoning_tokens),
            native,
        }
    }
}

fn add(sum: &mut serde_json::Value, later: &serde_json::Value) {
    use serde_json::Value;
    match (sum, later) {
        (Value::Object(sum), Value::Object(later)) => {
            for (key, value) in later {
                match sum.get_mut(key) {
                    Some(have) => add(have, value),
                    None => {
                        sum.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (sum @ Value::Number(_), Value::Number(_)) => {
            *sum = match (sum.as_u64(), later.as_u64()) {
                (Some(a), Some(b)) => a.saturating_add(b).into(),
                _ => (sum.as_f64().unwrap_or(0.0) + later.as_f64().unwrap_or(0.0)).into(),
            };
        }
        (Value::Object(_) | Value::Number(_), Value::Null) => {}
        (sum, later) => *sum = later.clone(),
    }
}

/// An `error` object that an upstream put into an answer or sent as one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ReportedError {
    pub message: String,
    pub kind: Option<String>,
    pub code: Option<String>,
    pub param: Option<String>,
    /// An HTTP status, if the object's code is one.
    pub status: Option<u16>,
    /// The upstream sent no error object: the answer ended with a word that says that it failed, or
    /// was none.
    pub broke_off: bool,
}

impl ReportedError {
    /// Whether the upstream's words say that a quota is used up, as [`is_used_up`] reads them.
    pub fn is_used_up(&self) -> bool {
        is_used_up(self.code.as_deref(), self.kind.as_deref())
    }
}

#[cfg(test)]
mod tests;
