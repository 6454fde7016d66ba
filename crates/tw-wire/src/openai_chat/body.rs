//! Reading a plain answer, or the body of an HTTP error.
//!
//! Known differences from the types of openai-python 3.3.1 are those of the stream; errors come
//! in the shapes listed in the module `reported`.

use serde_json::value::RawValue;
use tw_core::model::{ModelEvent, ReportedError};

use super::answer::AnswerReader;
use super::reported;
use crate::sse;
use crate::upstream_answer::{DecodeError, OfferedNames};

/// Decodes a plain answer into the events that a stream of it would have given, with the end
/// mark last.
///
/// Behind it, end marks and comments of an event stream are passed over; several values one after
/// the other, or in a list, are read as the chunks of a stream, in which names of tools may come in pieces.
///
/// # Errors
/// It is not the JSON of an answer, or has neither choices nor an error.
pub fn decode(
    body: &[u8],
    offered: OfferedNames,
    out: &mut Vec<ModelEvent>,
) -> Result<(), DecodeError> {
    let text = std::str::from_utf8(body).map_err(|_| DecodeError::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (first, mut behind) = next_value(text).ok_or(DecodeError::Empty)??;
    let mut answer = AnswerReader::new(offered);
    if first.get().starts_with('[') {
        // Gemini writes an error as a list of one.
        if let Some(error) = reported::of_list(first.get()) {
            out.push(ModelEvent::Error(Box::new(error)));
            return Ok(());
        }
        let chunks: Vec<&RawValue> =
            serde_json::from_str(first.get()).map_err(DecodeError::NotAnAnswer)?;
        return read_chunks(answer, &chunks, HasEndMark::No, out);
    }
    let (mut chunks, mut end_mark) = (vec![first], HasEndMark::No);
    loop {
        behind = without_filler(behind);
        if behind.starts_with(sse::DONE_DATA) {
            end_mark = HasEndMark::Yes;
        }
        let Some(value) = next_value(behind).filter(|_| behind.starts_with('{')) else {
            break;
        };
        let (value, rest) = value?;
        chunks.push(value);
        behind = rest;
    }
    match *chunks {
        [whole] => answer.body(whole.get(), out),
        _ => read_chunks(answer, &chunks, end_mark, out),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HasEndMark {
    Yes,
    No,
}

fn read_chunks(
    mut answer: AnswerReader,
    chunks: &[&RawValue],
    end_mark: HasEndMark,
    out: &mut Vec<ModelEvent>,
) -> Result<(), DecodeError> {
    let end = (end_mark == HasEndMark::Yes).then_some(sse::DONE_DATA);
    for data in chunks.iter().map(|chunk| chunk.get()).chain(end) {
        answer.frame(sse::SseFrame { event: "", data }, out)?;
    }
    if !answer.has_answered() {
        return Err(DecodeError::NoChoices);
    }
    answer.end(out)
}

/// The value that the text begins with, and what stands behind it.
fn next_value(text: &str) -> Option<Result<(&RawValue, &str), DecodeError>> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let value = values.next()?.map_err(DecodeError::NotAnAnswer);
    let behind = text.get(values.byte_offset()..).unwrap_or_default();
    Some(value.map(|value| (value, behind)))
}

/// The text without the white space, comments and field names of an event stream before it.
fn without_filler(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let shorter = match rest.strip_prefix("data:") {
            Some(data) => data,
            None if rest.starts_with(':') => rest.split_once('\n').map_or("", |(_, rest)| rest),
            None => return rest,
        };
        rest = shorter.trim_start();
    }
}

/// Reads the body that came with an HTTP status other than 2xx; whatever it is, it has a message.
pub fn decode_error(status: u16, content_type: Option<&str>, body: &[u8]) -> ReportedError {
    reported::of_http(status, content_type, body)
}
