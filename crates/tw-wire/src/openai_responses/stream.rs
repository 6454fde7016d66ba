//! Reading a streamed answer.
//!
//! Known differences from the types of openai-python 3.3.1, all seen in recorded answers:
//! - `sequence_number` may be missing, ids may change, and `output` of the end may be empty: items are put together
//!   from their own events, by `output_index`;
//! - the text of a part may come with its end alone, and an item with the end of the response;
//! - an error stands in an object of its own or at the top; the response's failure repeats it;
//! - events that are not known, and those of the provider's own tools, are passed over: the item's end says it all.

use tw_core::model::ModelEvent;

use super::answer::ResponseReader;
use crate::openai_chat::stream::carries;
use crate::sse;
use crate::upstream_answer::{DecodeError, StreamLimits};

/// Decodes one streamed answer, from bytes cut anywhere.
#[derive(Debug)]
pub struct ResponseDecoder {
    sse: sse::SseReader,
    answer: ResponseReader,
    /// Bytes of events that carried nothing, so far.
    empty_bytes: usize,
    empty_bytes_max: usize,
}

impl ResponseDecoder {
    pub fn new(limits: &StreamLimits) -> Self {
        Self {
            sse: sse::SseReader::new(limits.event_bytes_max),
            answer: ResponseReader::default(),
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
    /// As [`ResponseDecoder::feed`]; but an event that was cut in its middle is as good as not sent, and no error.
    pub fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        self.sse.end();
        loop {
            let read = match self.sse.next_frame() {
                Ok(Some(frame)) => self.answer.frame(frame, out),
                Ok(None) => {
                    self.answer.end(out);
                    return Ok(());
                }
                Err(error) => Err(error.into()),
            };
            match read {
                Ok(()) => {}
                Err(DecodeError::NotAnAnswer(_) | DecodeError::Sse(sse::SseError::NotUtf8)) => {
                    self.answer.end(out);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
}
