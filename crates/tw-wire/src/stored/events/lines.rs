//! The events of a flush, one after another.
//!
//! Nearly all are text and nothing else. Those are told by their bytes; only the others are parsed.

use serde_json::value::RawValue;
use tw_core::event::LogEvent;
use tw_core::json::Literal;
use tw_core::model::AnswerDelta;

use super::super::DamagedRecord;
use super::{damaged, decode_event};

/// Reads a flush event by event; after an error there is no more.
#[derive(Clone, Debug)]
pub struct FlushReader<'a> {
    rest: &'a str,
}

/// A delta of text alone, as it is stored.
struct PlainDelta<'a> {
    choice: u32,
    /// The literal's inside, if it is one literal.
    text: &'a str,
    bytes: usize,
}

impl<'a> FlushReader<'a> {
    pub fn new(flush: &'a str) -> Self {
        Self { rest: flush }
    }

    /// Passes over the next event; `None` at the end.
    ///
    /// # Errors
    /// [`DamagedRecord`] when it cannot be told where the event ends.
    pub fn pass_over(&mut self) -> Option<Result<(), DamagedRecord>> {
        if self.rest.is_empty() {
            return None;
        }
        let plain = plain_delta(self.rest).filter(|delta| Literal::is_inside(delta.text));
        Some(match plain {
            Some(delta) => self.advance(delta.bytes),
            None => self.parsed().map(|_| ()),
        })
    }

    fn read(&mut self) -> Result<LogEvent, DamagedRecord> {
        if let Some(delta) = plain_delta(self.rest)
            && let Some(text) = Literal::checked(delta.text)
        {
            self.advance(delta.bytes)?;
            return Ok(LogEvent::Delta(AnswerDelta {
                choice: delta.choice,
                text: Some(text),
                rest: None,
            }));
        }
        decode_event(self.parsed()?)
    }

    /// The values of the next event. Foreign JSON may hold line breaks, so its end is where the
    /// parser says.
    fn parsed(&mut self) -> Result<Vec<&'a RawValue>, DamagedRecord> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter();
        let next = values.next();
        let bytes = values.byte_offset();
        let event = next.ok_or_else(|| damaged("an empty line"))?;
        let event = event.map_err(damaged)?;
        self.advance(bytes)?;
        Ok(event)
    }

    /// Goes on behind an event, which must end its line.
    fn advance(&mut self, bytes: usize) -> Result<(), DamagedRecord> {
        let rest = self.rest.get(bytes..).unwrap_or_default();
        self.rest = rest.strip_prefix('\n').unwrap_or_default();
        if rest.is_empty() || rest.starts_with('\n') {
            Ok(())
        } else {
            Err(damaged("something behind an event"))
        }
    }
}

impl Iterator for FlushReader<'_> {
    type Item = Result<LogEvent, DamagedRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = "";
        }
        Some(read)
    }
}

/// Finds `["d",0,"…"]` in the first line of `text`; the caller checks what stands between the quotes.
fn plain_delta(text: &str) -> Option<PlainDelta<'_>> {
    let line = memchr::memchr(b'\n', text.as_bytes()).map_or(text, |end| &text[..end]);
    let rest = line.strip_prefix("[\"d\",")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (choice, rest) = rest.split_at(digits);
    let text = rest.strip_prefix(",\"")?.strip_suffix("\"]")?;
    Some(PlainDelta {
        choice: choice.parse().ok()?,
        text,
        bytes: line.len(),
    })
}
