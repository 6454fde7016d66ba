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

use tw_core::model::{AnswerDelta, DeltaRest, ModelEvent};

use super::answer::AnswerReader;
use crate::sse;
use crate::upstream_answer::{DecodeError, OfferedNames, StreamLimits};

impl DecodeError {
    /// Whether the answer is the beginning of one, of which the rest is missing.
    pub fn is_of_a_beginning(&self) -> bool {
        matches!(self, Self::NotAnAnswer(error) if error.is_eof())
    }
}

/// Decodes one streamed answer, from bytes cut anywhere.
#[derive(Debug)]
pub struct StreamDecoder {
    sse: sse::SseReader,
    answer: AnswerReader,
    /// Bytes of events that carried nothing, so far.
    empty_bytes: usize,
    empty_bytes_max: usize,
}

impl StreamDecoder {
    pub fn new(limits: &StreamLimits) -> Self {
        Self::knowing(limits, OfferedNames::default())
    }

    /// A decoder for the answer to a request that offers tools of these names: names that come in pieces are put
    /// together by them.
    pub fn knowing(limits: &StreamLimits, offered: OfferedNames) -> Self {
        Self {
            sse: sse::SseReader::new(limits.event_bytes_max),
            answer: AnswerReader::new(offered),
            empty_bytes: 0,
            empty_bytes_max: limits.empty_bytes_max,
        }
    }

    /// Reads what the network brought and adds what it says to `out`.
    ///
    /// # Errors
    /// The answer is of no use from here on; what was added to `out` before stays true.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        self.sse.push(bytes);
        while let Some(frame) = self.sse.next_frame()? {
            let (bytes, before) = (frame.event.len() + frame.data.len(), out.len());
            self.answer.frame(frame, out)?;
            if !out[before..].iter().any(carries) {
                let bytes = bytes.max(sse::EMPTY_BYTES_MIN);
                self.empty_bytes = self.empty_bytes.saturating_add(bytes);
            }
        }
        if self.empty_bytes.saturating_add(self.sse.empty_bytes()) > self.empty_bytes_max {
            return Err(DecodeError::TooMuchEmpty {
                bytes_max: self.empty_bytes_max,
            });
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
                Ok(None) => return self.answer.end(out),
                Err(error) => Err(error.into()),
            };
            match read {
                Ok(()) => {}
                Err(DecodeError::NotAnAnswer(_) | DecodeError::Sse(sse::SseError::NotUtf8)) => {
                    return self.answer.end(out);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether an event adds to the answer, or can come only so often.
pub(crate) fn carries(event: &ModelEvent) -> bool {
    match event {
        ModelEvent::Delta(AnswerDelta { text, rest, .. }) => {
            let has_more = |rest: &DeltaRest| {
                let is_told = rest.refusal.is_some() || rest.reasoning.is_some();
                let thinks = |(key, _): &(Box<str>, _)| **key == *super::REASONING_DETAILS;
                is_told || rest.extra.iter().any(thinks)
            };
            text.is_some() || rest.as_deref().is_some_and(has_more)
        }
        ModelEvent::Call(piece) => piece.arguments.is_some(),
        ModelEvent::Start { .. }
        | ModelEvent::BlockEnd(_)
        | ModelEvent::Native { .. }
        | ModelEvent::Finish { .. }
        | ModelEvent::Error(_)
        | ModelEvent::Done => true,
        ModelEvent::Extra { .. } | ModelEvent::Progress { .. } | ModelEvent::Usage(_) => false,
    }
}

#[cfg(test)]
mod tests;
