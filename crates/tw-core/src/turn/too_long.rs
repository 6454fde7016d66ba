//! Words by which upstreams say that a request is longer than the model can read.
//!
//! Seen in public reports: OpenAI (`context_length_exceeded`), Azure ("input tokens exceed the
//! configured limit"), vLLM, Mistral and SGLang ("context length"), llama.cpp
//! (`exceed_context_size_error`), Anthropic ("prompt is too long", "exceed context limit"),
//! Bedrock ("input is too long", "too many input tokens"), Perplexity ("length of all messages is
//! too long"), later vLLM ("maximum model length"), LM Studio ("context the overflows", "context
//! length"), Ollama ("context length") and Gemini ("exceeds the maximum number of tokens"). Taking another error for one of
//! these costs one request without what was put back.

use super::{ModelFailure, ModelFailureKind, Turn};

/// The outcome of an attempt whose request was too long, and is made again without what was put
/// back into the history.
pub(super) const TOO_LONG: &str = "context_length";

/// The code that clients of OpenAI look for.
pub(super) const TOO_LONG_CODE: &str = "context_length_exceeded";

/// Words in the error's code or type.
const CODES: [&str; 4] = [
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "request_too_large",
];

/// Phrases in the error's message, in small letters.
const PHRASES: [&str; 13] = [
    "context length",
    "context limit",
    "context size",
    "context the overflows",
    "context window",
    "input is too long",
    "maximum model length",
    "maximum number of tokens",
    "messages is too long",
    "prompt is too long",
    "tokens exceed",
    "too many input tokens",
    "too many tokens",
];

impl Turn {
    /// Whether the request is made again at once, without hidden calls of earlier turns.
    pub(super) fn forgets(&self, n: u32, failure: &ModelFailure) -> bool {
        self.restoring && n < self.setup.limits.model_attempts_max && failure.is_too_long()
    }
}

impl ModelFailure {
    fn is_too_long(&self) -> bool {
        matches!(self.kind, ModelFailureKind::Status(413)) || self.says_too_long()
    }

    /// Whether the failure says so in words; a 413 alone may be about the body.
    pub(super) fn says_too_long(&self) -> bool {
        match self.kind {
            ModelFailureKind::Status(400 | 422 | 500) | ModelFailureKind::Reported => {}
            ModelFailureKind::Status(_)
            | ModelFailureKind::Connect
            | ModelFailureKind::Reset
            | ModelFailureKind::Silent
            | ModelFailureKind::Nonsense
            | ModelFailureKind::Cut => return false,
        }
        let words = [&self.error.code, &self.error.kind];
        if words
            .into_iter()
            .flatten()
            .any(|word| CODES.contains(&word.as_str()))
        {
            return true;
        }
        let message = self.error.message.to_lowercase();
        PHRASES.iter().any(|phrase| message.contains(phrase))
    }
}
