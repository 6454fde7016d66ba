//! Reading a streamed answer.
//!
//! Known differences from the types of openai-python 3.3.1, all seen in recorded answers:
//! - `index`, `type`, `id`, `role`, `object`, `created` and `delta` may be missing or null, and
//!   ids, names and arguments empty or null on any piece: see the module `calls`;
//! - `content` may be a list of parts, of which `thinking` is reasoning;
//! - reasoning is called `reasoning_content` or `reasoning`, and `reasoning_details` may stand
//!   beside either;
//! - usage may stand anywhere and more than once; the finish may be missing, repeated or foreign;
//! - an `error` object may come instead of or beside choices.

use tw_core::limits::CALLS_PER_CHOICE_MAX;
use tw_core::model::ModelEvent;

use super::answer::AnswerReader;
use crate::sse;

/// Longest event of an upstream, in bytes: room for a picture in base64.
pub const EVENT_BYTES_MAX_DEFAULT: usize = 16 * 1024 * 1024;

/// Limits of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    pub event_bytes_max: usize,
}

impl StreamLimits {
    pub fn defaults() -> Self {
        Self {
            event_bytes_max: EVENT_BYTES_MAX_DEFAULT,
        }
    }
}

/// The upstream's answer cannot be read; the request to it failed.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("reading the event stream")]
    Sse(#[from] sse::SseError),
    #[error("not the JSON of an answer")]
    NotAnAnswer(#[source] serde_json::Error),
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

/// Decodes one streamed answer, from bytes cut anywhere.
#[derive(Debug)]
pub struct StreamDecoder {
    sse: sse::Reader,
    answer: AnswerReader,
}

impl StreamDecoder {
    pub fn new(limits: &StreamLimits) -> Self {
        Self {
            sse: sse::Reader::new(limits.event_bytes_max),
            answer: AnswerReader::default(),
        }
    }

    /// Reads what the network brought and adds what it says to `out`.
    ///
    /// # Errors
    /// The answer is of no use from here on; what was added to `out` before stays true.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        self.sse.push(bytes);
        while let Some(frame) = self.sse.next_frame()? {
            self.answer.frame(frame, out)?;
        }
        Ok(())
    }

    /// Reads a last event that lacks its blank line, once the upstream has closed the stream.
    ///
    /// # Errors
    /// As [`StreamDecoder::feed`]; but an event that was cut in its middle is as good as not
    /// sent, and no error.
    pub fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        self.sse.end();
        loop {
            let read = match self.sse.next_frame() {
                Ok(Some(frame)) => self.answer.frame(frame, out),
                Ok(None) => return Ok(()),
                Err(error) => Err(error.into()),
            };
            match read {
                Ok(()) => {}
                Err(DecodeError::NotAnAnswer(_) | DecodeError::Sse(sse::SseError::NotUtf8)) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
}
