//! Server-sent events: reading what an upstream sends, writing what a client is sent.
//!
//! Follows the event-stream format of the HTML standard (section 9.2, read November 2026).
//!
//! Known differences:
//! - a last block without a blank line is delivered at the end of input, since some upstreams
//!   leave the blank line out;
//! - `id` and `retry` are skipped: nobody reconnects to an upstream's answer;
//! - bytes that are not UTF-8 are an error, not U+FFFD.

use std::str;

/// A comment that keeps idle connections open. It has no number: a replayed stream may hold
/// another count of them.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// The data of the end mark of OpenAI's streams.
pub const DONE_DATA: &str = "[DONE]";

/// The end mark of OpenAI's streams, as an event.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// Writes one event with one `data` line.
///
/// A line break in JSON can only be white space between its parts, and becomes a space.
pub fn write_data(out: &mut Vec<u8>, json: &[u8]) {
    out.extend_from_slice(b"data: ");
    let start = out.len();
    out.extend_from_slice(json);
    let mut from = start;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &out[from..]) {
        out[from + at] = b' ';
        from += at + 1;
    }
    out.extend_from_slice(b"\n\n");
}

/// Writes one event with its name and one `data` line; `name` is one line.
pub fn write_event(out: &mut Vec<u8>, name: &str, json: &[u8]) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    write_data(out, json);
}

/// The data of events that [`write_data`] wrote, each whole, without the end mark.
pub fn written_data(events: &[u8]) -> impl Iterator<Item = &str> {
    let lines = events.split(|byte| *byte == b'\n');
    let data = lines.filter_map(|line| str::from_utf8(line.strip_prefix(b"data: ")?).ok());
    data.filter(|data| *data != DONE_DATA)
}

/// Bytes of the first of the events that were written here, its blank line included; `None` if there is none.
pub fn first_event_bytes(written: &[u8]) -> Option<usize> {
    const BLANK_LINE: &[u8] = b"\n\n";
    memchr::memmem::find(written, BLANK_LINE).map(|at| at + BLANK_LINE.len())
}

/// Least count of a line or an event that says nothing, in bytes.
pub const EMPTY_BYTES_MIN: usize = 64;

/// An event, borrowed from the reader until the next one is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseFrame<'a> {
    /// The `event` field; empty when there was none.
    pub event: &'a str,
    /// The `data` lines, joined by line feeds; never empty.
    pub data: &'a str,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SseError {
    #[error("an event is longer than {bytes_max} bytes")]
    TooLong { bytes_max: usize },
    #[error("an event is not UTF-8")]
    NotUtf8,
}

/// Reads events from pieces of any size.
///
/// Lines are found in bytes and an event is decoded only when it is whole, so a character that
/// was cut by the network is never seen in halves.
#[derive(Debug)]
pub struct SseReader {
    event_bytes_max: usize,
    input: Vec<u8>,
    /// Start of the first line of `input` that was not used yet.
    line_start: usize,
    /// The place in `input` before which no line end stands behind `line_start`.
    searched: usize,
    /// The last line ended with CR, so an LF right behind belongs to it.
    skip_lf: bool,
    /// The start of the stream, where a byte order mark may stand, is behind us.
    begun: bool,
    event: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// Bytes of lines that came to no event, so far.
    empty_bytes: usize,
    /// Bytes of lines of the event that is being read.
    pending_bytes: usize,
    /// `event` and `data` were delivered and are cleared before the next line.
    delivered: bool,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl SseReader {
    /// A reader for which an event longer than `event_bytes_max` bytes is an error.
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            input: Vec::new(),
            line_start: 0,
            searched: 0,
            skip_lf: false,
            begun: false,
            event: Vec::new(),
            data: Vec::new(),
            has_data: false,
            empty_bytes: 0,
            pending_bytes: 0,
            delivered: false,
        }
    }

    /// Bytes of comments, blank lines, fields that are skipped and events without data, so far. Each counts as
    /// [`EMPTY_BYTES_MIN`] at least, since that is about what it takes to read it.
    pub fn empty_bytes(&self) -> usize {
        self.empty_bytes
    }

    /// Adds what the network brought. Call [`SseReader::next_frame`] until it gives `None` before
    /// adding more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.drain(..self.line_start);
        self.searched -= self.line_start;
        self.line_start = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Says that no more bytes come; a block that lacks its blank line is then delivered.
    pub fn end(&mut self) {
        self.push(b"\n\n");
    }

    /// The next whole event, if there is one.
    ///
    /// # Errors
    /// [`SseError::TooLong`] and [`SseError::NotUtf8`]; the reader is of no use afterwards.
    pub fn next_frame(&mut self) -> Result<Option<SseFrame<'_>>, SseError> {
        if self.delivered {
            self.clear_event();
        }
        if !self.begun && !self.skip_byte_order_mark() {
            return Ok(None);
        }
        while let Some((start, end)) = self.next_line() {
            if start < end {
                self.field(start, end)?;
                continue;
            }
            let bytes = std::mem::take(&mut self.pending_bytes);
            if self.data.is_empty() {
                self.add_empty(bytes + 1);
                self.clear_event();
                continue;
            }
            self.delivered = true;
            let event = str::from_utf8(&self.event).map_err(|_| SseError::NotUtf8)?;
            let data = str::from_utf8(&self.data).map_err(|_| SseError::NotUtf8)?;
            return Ok(Some(SseFrame { event, data }));
        }
        self.check_size(self.input.len() - self.line_start)?;
        Ok(None)
    }

    fn clear_event(&mut self) {
        self.delivered = false;
        self.has_data = false;
        self.event.clear();
        self.data.clear();
    }

    /// Skips a byte order mark; `false` while the first bytes may still become one.
    fn skip_byte_order_mark(&mut self) -> bool {
        if self.input.starts_with(BYTE_ORDER_MARK) {
            self.line_start = BYTE_ORDER_MARK.len();
            self.searched = self.line_start;
        } else if BYTE_ORDER_MARK.starts_with(&self.input) {
            return false;
        }
        self.begun = true;
        true
    }

    /// The bounds of the next whole line in `input`, without its end.
    fn next_line(&mut self) -> Option<(usize, usize)> {
        if self.skip_lf && self.input.get(self.line_start) == Some(&b'\n') {
            self.line_start += 1;
            self.searched = self.line_start;
        }
        if self.line_start < self.input.len() {
            self.skip_lf = false;
        }
        let rest = self.input.get(self.searched..)?;
        let Some(at) = memchr::memchr2(b'\n', b'\r', rest) else {
            self.searched = self.input.len();
            return None;
        };
        let line = (self.line_start, self.searched + at);
        self.skip_lf = rest[at] == b'\r';
        self.line_start = line.1 + 1;
        self.searched = self.line_start;
        Some(line)
    }

    fn field(&mut self, start: usize, end: usize) -> Result<(), SseError> {
        let line = &self.input[start..end];
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                self.pending_bytes += line.len();
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.pending_bytes += line.len();
                self.event.clear();
                self.event.extend_from_slice(value);
            }
            // A comment has an empty name.
            _ => {
                let bytes = line.len();
                self.add_empty(bytes);
            }
        }
        self.check_size(0)
    }

    fn add_empty(&mut self, bytes: usize) {
        self.empty_bytes = self.empty_bytes.saturating_add(bytes.max(EMPTY_BYTES_MIN));
    }

    fn check_size(&self, pending: usize) -> Result<(), SseError> {
        if self.event.len() + self.data.len() + pending > self.event_bytes_max {
            return Err(SseError::TooLong {
                bytes_max: self.event_bytes_max,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
