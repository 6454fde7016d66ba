//! Reading a plain answer, or the body of an HTTP error.

use tw_core::model::{ModelEvent, ReportedError};

use super::answer::ResponseReader;
use crate::openai_chat::reported;
use crate::upstream_answer::DecodeError;

/// Decodes a plain answer into the events that a stream of it would have given, with the end mark last.
///
/// # Errors
/// It is not the JSON of an answer, or has neither items nor an error.
pub fn decode(body: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
    let text = std::str::from_utf8(body).map_err(|_| DecodeError::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
    if text.is_empty() {
        return Err(DecodeError::Empty);
    }
    // Some gateways write an error as a list of one.
    if text.starts_with('[') {
        out.push(ModelEvent::Error(Box::new(reported::of_object(text))));
        return Ok(());
    }
    ResponseReader::default().body(text, out)
}

/// Reads the body that came with an HTTP status other than 2xx; whatever it is, it has a message.
pub fn decode_error(status: u16, content_type: Option<&str>, body: &[u8]) -> ReportedError {
    reported::of_http(status, content_type, body)
}
