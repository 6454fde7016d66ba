//! Reading a plain answer, or the body of an HTTP error.
//!
//! Known differences from the types of openai-python 3.3.1 are those of the stream; errors come
//! in the shapes listed in the module `reported`.

use tw_core::model::{ModelEvent, ReportedError};

use super::answer::AnswerReader;
use super::reported;
use super::stream::DecodeError;

/// Decodes a plain answer into the events that a stream of it would have given, with the end
/// mark last.
///
/// # Errors
/// It is not the JSON of an answer, or has neither choices nor an error.
pub fn decode(body: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
    let text = std::str::from_utf8(body).map_err(|_| DecodeError::NotUtf8)?;
    AnswerReader::default().body(text, out)
}

/// Reads the body that came with an HTTP status other than 2xx; whatever it is, it has a message.
pub fn decode_error(status: u16, content_type: Option<&str>, body: &[u8]) -> ReportedError {
    reported::of_http(status, content_type, body)
}
