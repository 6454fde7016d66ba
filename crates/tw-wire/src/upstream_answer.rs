//! The answer of an upstream, whatever its format: the limits within which it is read, and why it cannot be.

use std::sync::Arc;

use tw_core::limits::CALLS_PER_CHOICE_MAX;

use crate::sse;

/// Longest event of an upstream, in bytes: room for a picture in base64.
pub const EVENT_BYTES_MAX_DEFAULT: usize = 16 * 1024 * 1024;

/// Most bytes of one streamed answer that may carry nothing, each line or event counting as [`sse::EMPTY_BYTES_MIN`] at
/// least. Providers keep a connection open by a comment every second or so (OpenRouter's has 25 bytes, half an hour of
/// them counts as 230 KiB), and servers that hide a model's reasoning send an empty delta of some 300 bytes for each of
/// its tokens: this is room for 110,000. To read it all takes about a second.
pub const EMPTY_BYTES_MAX_DEFAULT: usize = 32 * 1024 * 1024;

/// The names of the tools that a request offers.
pub type OfferedNames = Arc<[Box<str>]>;

/// Limits of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    pub event_bytes_max: usize,
    /// Bytes of all events that carry nothing of the answer: comments, empty deltas, usage that is told again.
    pub empty_bytes_max: usize,
}

impl StreamLimits {
    pub fn defaults() -> Self {
        Self {
            event_bytes_max: EVENT_BYTES_MAX_DEFAULT,
            empty_bytes_max: EMPTY_BYTES_MAX_DEFAULT,
        }
    }
}

/// The upstream's answer cannot be read; the request to it failed.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("reading the event stream")]
    Sse(#[from] sse::SseError),
    #[error("more than {bytes_max} bytes of events that say nothing")]
    TooMuchEmpty { bytes_max: usize },
    #[error("not the JSON of an answer")]
    NotAnAnswer(#[source] serde_json::Error),
    #[error("an empty answer")]
    Empty,
    #[error("not UTF-8")]
    NotUtf8,
    /// A plain body with neither choices nor an error.
    #[error("an answer without choices")]
    NoChoices,
    #[error("choice {index} is beyond the {max} that an answer may have")]
    TooManyChoices { index: u64, max: u32 },
    #[error("a choice with more than {CALLS_PER_CHOICE_MAX} calls")]
    TooManyCalls,
}
