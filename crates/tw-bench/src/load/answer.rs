//! Answers, checked while they are read.

use anyhow::{bail, ensure};
use memchr::memmem::Finder;
use tokio::time::Instant;
use tw_wire::format::WireFormat;

use crate::spoken::SpokenFormat;

/// The answer that every request of a plan must get.
#[derive(Clone, Debug)]
pub struct ExpectedAnswer {
    pub form: ExpectedForm,
    /// The whole text, which holds no character that JSON escapes.
    pub text: String,
    /// Number of pieces that the text comes in; of no meaning for a plain answer.
    pub deltas: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedForm {
    /// A chat completion in one piece.
    Plain,
    /// A stream in this format.
    Stream(WireFormat),
    /// A turn's own events.
    Events,
}

/// An answer as far as it has come.
pub struct AnswerProgress<'a> {
    expected: &'a ExpectedAnswer,
    finders: Finders,
    /// Plain answer, or the body of an answer without success.
    whole: Vec<u8>,
    /// A line of a stream whose end has not come.
    line: Vec<u8>,
    pub events: u64,
    /// Pieces of text that have come.
    pub deltas: u64,
    /// Bytes of the text that have come.
    text_bytes: usize,
    finishes: u32,
    ends: u32,
    wrong: Option<String>,
    /// Time when the first text came.
    pub first: Option<Instant>,
}

struct Finders {
    text: Finder<'static>,
    finish: Finder<'static>,
    end: Finder<'static>,
}

impl Finders {
    fn new(form: ExpectedForm) -> Self {
        let (text, finish, end) = match form {
            ExpectedForm::Plain => Self::of(SpokenFormat::of(WireFormat::OpenAiChat)),
            ExpectedForm::Stream(format) => Self::of(SpokenFormat::of(format)),
            ExpectedForm::Events => (
                r#""text":""#,
                r#""reason":"stop""#,
                r#""type":"end","status":"completed""#,
            ),
        };
        Self {
            text: Finder::new(text),
            finish: Finder::new(finish),
            end: Finder::new(end),
        }
    }

    fn of(spoken: &SpokenFormat) -> (&'static str, &'static str, &'static str) {
        (spoken.text, spoken.finish, spoken.end)
    }
}

/// Bytes of an unexpected answer that are shown.
const SHOWN_BYTES: usize = 300;

impl<'a> AnswerProgress<'a> {
    pub fn new(expected: &'a ExpectedAnswer) -> Self {
        Self {
            expected,
            finders: Finders::new(expected.form),
            whole: Vec::new(),
            line: Vec::new(),
            events: 0,
            deltas: 0,
            text_bytes: 0,
            finishes: 0,
            ends: 0,
            wrong: None,
            first: None,
        }
    }

    /// Makes ready for the next answer.
    pub fn begin(&mut self) {
        self.whole.clear();
        self.line.clear();
        self.events = 0;
        self.deltas = 0;
        self.text_bytes = 0;
        self.finishes = 0;
        self.ends = 0;
        self.wrong = None;
        self.first = None;
    }

    /// Takes a piece of the body.
    pub fn take(&mut self, data: &[u8], now: Instant) {
        match self.expected.form {
            ExpectedForm::Plain => self.whole.extend_from_slice(data),
            ExpectedForm::Stream(_) | ExpectedForm::Events => self.take_lines(data, now),
        }
    }

    fn take_lines(&mut self, data: &[u8], now: Instant) {
        let mut rest = data;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if self.line.is_empty() {
                self.take_line(&rest[..end], now);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&rest[..end]);
                self.take_line(&line, now);
                line.clear();
                self.line = line;
            }
            rest = &rest[end + 1..];
        }
        self.line.extend_from_slice(rest);
    }

    fn take_line(&mut self, line: &[u8], now: Instant) {
        let Some(data) = line.strip_prefix(b"data:") else {
            // Told where an answer without success is told.
            if self.events == 0 && self.whole.len() < SHOWN_BYTES {
                self.whole.extend_from_slice(line);
            }
            return;
        };
        self.events += 1;
        if self.ends > 0 {
            self.is_wrong("an event behind the end");
        }
        if let Some(at) = self.finders.text.find(data) {
            let text = &data[at + self.finders.text.needle().len()..];
            let Some(end) = memchr::memchr(b'"', text) else {
                return self.is_wrong("a text without an end");
            };
            // The chunk of a role has an empty one.
            if end > 0 {
                self.take_text(&text[..end], now);
            }
        } else if self.finders.end.find(data).is_some() {
            self.ends += 1;
        } else if self.finders.finish.find(data).is_some() {
            self.finishes += 1;
        }
    }

    fn take_text(&mut self, text: &[u8], now: Instant) {
        self.first.get_or_insert(now);
        self.deltas += 1;
        let expected = &self.expected.text.as_bytes()[self.text_bytes..];
        if !expected.starts_with(text) {
            return self.is_wrong("another text");
        }
        self.text_bytes += text.len();
    }

    /// Notes a fault; the first one stands.
    fn is_wrong(&mut self, what: &str) {
        let at = (self.events, self.text_bytes);
        self.wrong
            .get_or_insert_with(|| format!("{what} at event {}, byte {} of the text", at.0, at.1));
    }

    /// # Errors
    /// The answer, now whole, is not the expected one.
    pub fn check(&self, status: u16) -> anyhow::Result<()> {
        let whole = &self.whole[..self.whole.len().min(SHOWN_BYTES)];
        let whole = String::from_utf8_lossy(whole);
        let line = String::from_utf8_lossy(&self.line);
        ensure!(status == 200, "status {status}: {whole}{line}");
        let expected = self.expected;
        if expected.form == ExpectedForm::Plain {
            let text = self.finders.text.find(&self.whole);
            let text = text.map(|at| &self.whole[at + self.finders.text.needle().len()..]);
            let is_right = text
                .and_then(|text| text.strip_prefix(expected.text.as_bytes()))
                .is_some_and(|rest| rest.first() == Some(&b'"'));
            ensure!(is_right, "another text: {whole}");
            ensure!(
                self.finders.finish.find(&self.whole).is_some(),
                "no finish: {whole}"
            );
            return Ok(());
        }
        if let Some(wrong) = &self.wrong {
            bail!("{wrong}");
        }
        let got = (self.deltas, self.text_bytes, self.finishes, self.ends);
        let right = (expected.deltas, expected.text.len(), 1, 1);
        ensure!(
            got == right,
            "{} deltas with {} bytes of text, {} finishes and {} ends; right are {} with {}, 1 and 1",
            got.0,
            got.1,
            got.2,
            got.3,
            right.0,
            right.1
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests;
