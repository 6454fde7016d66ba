//! Bodies in chunks.

use anyhow::{Context, ensure};

/// Takes a chunked body as it comes, cut anywhere.
#[derive(Debug)]
pub struct Chunked {
    expects: Expects,
    /// A line whose end has not come.
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Size,
    Data(usize),
    /// The line's end behind a chunk.
    DataEnd,
    Trailer,
    Nothing,
}

/// Longest line between chunks.
const LINE_BYTES_MAX: usize = 4096;

impl Chunked {
    pub fn new() -> Self {
        Self {
            expects: Expects::Size,
            line: Vec::new(),
        }
    }

    pub fn is_whole(&self) -> bool {
        self.expects == Expects::Nothing
    }

    /// Hands on what `bytes` hold of the body, and returns how many of them belong to it: all, unless it ends in them.
    ///
    /// # Errors
    /// The framing is broken.
    pub fn feed(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.expects {
                Expects::Nothing => break,
                Expects::Data(left) => {
                    let taken = left.min(rest.len());
                    data(&rest[..taken]);
                    at += taken;
                    self.expects = match left - taken {
                        0 => Expects::DataEnd,
                        more => Expects::Data(more),
                    };
                }
                Expects::Size | Expects::DataEnd | Expects::Trailer => {
                    let Some(end) = memchr::memchr(b'\n', rest) else {
                        self.line.extend_from_slice(rest);
                        ensure!(self.line.len() <= LINE_BYTES_MAX, "a chunk's line too long");
                        return Ok(bytes.len());
                    };
                    at += end + 1;
                    if self.line.is_empty() {
                        self.expects = after_line(self.expects, &rest[..end])?;
                    } else {
                        self.line.extend_from_slice(&rest[..end]);
                        self.expects = after_line(self.expects, &self.line)?;
                        self.line.clear();
                    }
                }
            }
        }
        Ok(at)
    }
}

fn after_line(expects: Expects, line: &[u8]) -> anyhow::Result<Expects> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Ok(match expects {
        Expects::Size => {
            let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
            let digits = std::str::from_utf8(digits).context("a chunk's size")?;
            match usize::from_str_radix(digits.trim(), 16).context("a chunk's size")? {
                0 => Expects::Trailer,
                size => Expects::Data(size),
            }
        }
        Expects::DataEnd => {
            ensure!(line.is_empty(), "a chunk longer than its size");
            Expects::Size
        }
        Expects::Trailer if line.is_empty() => Expects::Nothing,
        Expects::Trailer => Expects::Trailer,
        Expects::Data(_) | Expects::Nothing => expects,
    })
}
