//! Reading a plain answer, or the body of an HTTP error.
//!
//! Known differences from the types of openai-python 3.3.1 are those of the stream; errors come
//! in the shapes listed in the module `reported`.

use serde_json::value::RawValue;
use tw_core::model::{ModelEvent, ReportedError};

use super::answer::AnswerReader;
use super::reported;
use crate::sse;
use crate::upstream_answer::DecodeError;

/// Decodes a plain answer into the events that a stream of it would have given, with the end
/// mark last.
///
/// Behind it, end marks and comments of an event stream are passed over; several values one after
/// the other are read as the chunks of a stream.
///
/// # Errors
/// It is not the JSON of an answer, or has neither choices nor an error.
pub fn decode(body: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
    let text = std::str::from_utf8(body).map_err(|_| DecodeError::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let first = values.next().ok_or(DecodeError::Empty)?;
    let first = first.map_err(DecodeError::NotAnAnswer)?;
    let behind = text.get(values.byte_offset()..).unwrap_or_default();
    let mut answer = AnswerReader::default();
    // Gemini writes an error as a list of one.
    if first.get().starts_with('[') {
        out.push(ModelEvent::Error(Box::new(reported::of_object(
            first.get(),
        ))));
        return Ok(());
    }
    // White space, end marks and comments of an event stream say nothing.
    if !behind.trim_start().starts_with('{') {
        return answer.body(first.get(), out);
    }
    let mut more = Vec::new();
    for value in values {
        more.push(value.map_err(DecodeError::NotAnAnswer)?);
    }
    let chunks = std::iter::once(first).chain(more);
    for data in chunks.map(RawValue::get).chain(["[DONE]"]) {
        answer.frame(sse::SseFrame { event: "", data }, out)?;
    }
    Ok(())
}

/// Reads the body that came with an HTTP status other than 2xx; whatever it is, it has a message.
pub fn decode_error(status: u16, content_type: Option<&str>, body: &[u8]) -> ReportedError {
    reported::of_http(status, content_type, body)
}
