//! Reading a plain answer, or the body of an HTTP error.

use serde_json::value::RawValue;
use tw_core::model::{ModelEvent, ReportedError};

use super::answer::MessageReader;
use crate::openai_chat::reported;
use crate::upstream_answer::DecodeError;

/// Decodes a plain answer into the events that a stream of it would have given, with the end mark last.
///
/// # Errors
/// It is not the JSON of an answer, or has neither content nor an error.
pub fn decode(body: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
    let text = std::str::from_utf8(body).map_err(|_| DecodeError::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let first = values.next().ok_or(DecodeError::Empty)?;
    let first = first.map_err(DecodeError::NotAnAnswer)?;
    MessageReader::default().body(first.get(), out)
}

/// Reads the body that came with an HTTP status other than 2xx; whatever it is, it has a message.
pub fn decode_error(status: u16, content_type: Option<&str>, body: &[u8]) -> ReportedError {
    reported::of_http(status, content_type, body)
}
