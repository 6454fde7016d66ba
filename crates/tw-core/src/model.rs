//! The answer of a model, whatever format it came in.

use crate::fault::is_used_up;
use crate::json::{Json, Literal};

/// A step of a model's answer, as a decoder of an upstream format reports it.
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
    /// A field beside the choices that the format passes on, such as `system_fingerprint`.
    Extra { key: Box<str>, value: Json },
    /// A field that tells how far the upstream is before its answer begins, such as llama.cpp's `prompt_progress`.
    Progress { key: Box<str>, value: Json },
    /// The finish reason of one choice.
    Finish { choice: u32, reason: Finish },
    /// Tokens used so far by this answer; the last one counts.
    Usage(TokenUsage),
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
    /// `reasoning_details` entries, an array, with signatures.
    pub reasoning_details: Option<Json>,
    /// `logprobs` of the choice.
    pub logprobs: Option<Json>,
    /// Unknown fields of the delta, and `content` with parts that are no text.
    pub extra: Vec<(Box<str>, Json)>,
    /// Unknown fields of the choice.
    pub beside: Vec<(Box<str>, Json)>,
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
        let literals = [
            self.refusal.as_ref(),
            self.reasoning.as_ref().map(|reasoning| &reasoning.text),
        ];
        let values = [self.reasoning_details.as_ref(), self.logprobs.as_ref()];
        let literals = literals.into_iter().flatten().map(Literal::as_str);
        let values = values.into_iter().flatten().map(Json::as_str);
        let extra = self
            .extra
            .iter()
            .chain(&self.beside)
            .flat_map(|(key, value)| [&**key, value.as_str()]);
        let texts = literals.chain(values).chain(extra);
        size_of::<Self>() + texts.map(str::len).sum::<usize>()
    }
}

/// Reasoning text and the name of the field in which the upstream wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasoningText {
    pub field: ReasoningField,
    pub text: Literal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningField {
    /// `reasoning_content`
    ReasoningContent,
    /// `reasoning`
    Reasoning,
    /// A part of `content` with `type: thinking`.
    ThinkingPart,
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
                    || rest.reasoning_details.is_some()
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
}

/// The field in which the upstream wrote a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallForm {
    /// `tool_calls[].function`
    Function,
    /// `tool_calls[].custom`
    Custom,
    /// The old `function_call` field.
    Legacy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
    /// The old form's word for tool calls.
    FunctionCall,
}

/// Token counts of one answer, and the object they were read from.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenUsage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    /// The upstream's object as written, or the sum of several.
    pub json: Json,
}

impl TokenUsage {
    /// The sum over rounds: every number is added to the number at the same place; what is no
    /// number is taken from the later one.
    pub fn plus(&self, later: &Self) -> Self {
        let mut sum = self.json.to_value();
        add(&mut sum, &later.json.to_value());
        Self {
            prompt_tokens: self.prompt_tokens.saturating_add(later.prompt_tokens),
            completion_tokens: self
                .completion_tokens
                .saturating_add(later.completion_tokens),
            total_tokens: self.total_tokens.saturating_add(later.total_tokens),
            json: Json::from_value(&sum),
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
