//! Answers that come compressed although nothing but `identity` was asked for.
//!
//! Gateways and content networks compress what they were not asked to, leave the header out, or
//! leave it in when something on the way has undone the compression. So the first bytes decide
//! where they can: gzip, zlib and zstd have a mark that no JSON and no event stream begins with, and eight characters of
//! text are not how another compressed answer begins.
//!
//! Known differences: of several encodings one over the other none is undone; zstd, whose reader
//! holds a window back, is read when the answer has ended.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::first_bytes::{BodyStart, begins};

const GZIP_MARK: &[u8] = &[0x1f, 0x8b];
/// Marks of zlib by its levels.
const ZLIB_MARKS: [&[u8]; 4] = [&[0x78, 0x01], &[0x78, 0x5e], &[0x78, 0x9c], &[0x78, 0xda]];
/// Bytes by which text is told from a compression that has no mark.
const TEXT_BYTES: usize = 8;
const ZSTD_MARK: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Bytes that brotli's reader decodes at a time.
const BROTLI_BUFFER_BYTES: usize = 4096;

/// The answer is no compressed text, or a longer one than allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct NotUnpacked;

/// Encoding that the answer's head names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Undoes the compression of one answer, if it has any.
pub struct Unpacker {
    state: State,
    /// Longest text that one piece may become, in bytes.
    bytes_max: usize,
}

enum State {
    /// The first bytes, which are too few to decide.
    Undecided {
        said: Said,
        read: Vec<u8>,
    },
    Plain,
    Gzip(Box<MultiGzDecoder<Bounded>>),
    Zlib(Box<ZlibDecoder<Bounded>>),
    Deflate(Box<DeflateDecoder<Bounded>>),
    Brotli(Box<brotli_decompressor::DecompressorWriter<Bounded>>),
    Zstd(Vec<u8>),
}

/// Takes text up to a limit.
struct Bounded {
    text: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > self.bytes_max {
            return Err(io::Error::other("too long"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Unpacker {
    pub fn new(headers: &HeaderMap, bytes_max: usize) -> Self {
        let read = Vec::new();
        let said = said(headers);
        Self {
            state: State::Undecided { said, read },
            bytes_max,
        }
    }

    /// The text of the next bytes, as far as it is there.
    pub fn feed(&mut self, bytes: Bytes) -> Result<Bytes, NotUnpacked> {
        match &mut self.state {
            State::Plain => Ok(bytes),
            State::Undecided { said, read } => {
                let is_first = read.is_empty();
                read.extend_from_slice(&bytes);
                let Some(decided) = decide(*said, read, self.bytes_max) else {
                    return Ok(Bytes::new());
                };
                let read = std::mem::take(read);
                self.state = decided;
                // Nearly every answer: it goes on as it came.
                if is_first && matches!(self.state, State::Plain) {
                    return Ok(bytes);
                }
                self.feed(read.into())
            }
            State::Gzip(decoder) => through(&mut **decoder, &bytes, |it| it.get_mut()),
            State::Zlib(decoder) => through(&mut **decoder, &bytes, |it| it.get_mut()),
            State::Deflate(decoder) => through(&mut **decoder, &bytes, |it| it.get_mut()),
            State::Brotli(decoder) => through(&mut **decoder, &bytes, |it| it.get_mut()),
            State::Zstd(packed) => {
                if packed.len() + bytes.len() > self.bytes_max {
                    return Err(NotUnpacked);
                }
                packed.extend_from_slice(&bytes);
                Ok(Bytes::new())
            }
        }
    }

    /// The rest of the text when no more bytes come.
    pub fn end(&mut self) -> Result<Bytes, NotUnpacked> {
        match std::mem::replace(&mut self.state, State::Plain) {
            State::Undecided { read, .. } => Ok(read.into()),
            State::Zstd(packed) => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(packed.as_slice());
                let limit = u64::try_from(self.bytes_max).unwrap_or(u64::MAX);
                let mut text = Vec::new();
                decoder
                    .map_err(|_| NotUnpacked)?
                    .take(limit)
                    .read_to_end(&mut text)
                    .map_err(|_| NotUnpacked)?;
                Ok(text.into())
            }
            // What was cut off is missing, as in an answer that is not compressed.
            State::Plain
            | State::Gzip(_)
            | State::Zlib(_)
            | State::Deflate(_)
            | State::Brotli(_) => Ok(Bytes::new()),
        }
    }
}

fn through<D: Write>(
    decoder: &mut D,
    bytes: &[u8],
    inner: impl FnOnce(&mut D) -> &mut Bounded,
) -> Result<Bytes, NotUnpacked> {
    // Some decoders pass on only with a flush what they have read.
    decoder
        .write_all(bytes)
        .and_then(|()| decoder.flush())
        .map_err(|_| NotUnpacked)?;
    Ok(std::mem::take(&mut inner(decoder).text).into())
}

fn said(headers: &HeaderMap) -> Said {
    let words = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|word| word.trim().to_ascii_lowercase());
    let last = words.rev().find(|word| word != "identity");
    match last.as_deref() {
        Some("gzip" | "x-gzip") => Said::Gzip,
        Some("deflate") => Said::Deflate,
        Some("br") => Said::Brotli,
        Some("zstd") => Said::Zstd,
        Some(_) | None => Said::Nothing,
    }
}

/// The decoder of a body by its head and first bytes; `None` as long as those are too few to tell.
fn decide(said: Said, read: &[u8], bytes_max: usize) -> Option<State> {
    let bounded = || Bounded {
        text: Vec::new(),
        bytes_max,
    };
    if read.starts_with(GZIP_MARK) {
        return Some(State::Gzip(Box::new(MultiGzDecoder::new(bounded()))));
    }
    if read.starts_with(ZSTD_MARK) {
        return Some(State::Zstd(Vec::new()));
    }
    let is_unmarked = matches!(said, Said::Brotli | Said::Deflate);
    if !is_unmarked && ZLIB_MARKS.iter().any(|mark| read.starts_with(mark)) {
        return Some(State::Zlib(Box::new(ZlibDecoder::new(bounded()))));
    }
    let mut marks = [GZIP_MARK, ZSTD_MARK].into_iter().chain(ZLIB_MARKS);
    if marks.any(|mark| mark.starts_with(read)) {
        return None;
    }
    if is_unmarked {
        let first = &read[..read.len().min(TEXT_BYTES)];
        let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        match begins(first).0 {
            BodyStart::Json | BodyStart::EventStream | BodyStart::WebPage | BodyStart::Unclear
                if first.iter().all(is_text) =>
            {
                return (first.len() == TEXT_BYTES).then_some(State::Plain);
            }
            BodyStart::Json
            | BodyStart::EventStream
            | BodyStart::WebPage
            | BodyStart::Unclear
            | BodyStart::Other => {}
        }
    }
    match said {
        // Without its mark it is not what the head says.
        Said::Nothing | Said::Gzip | Said::Zstd => Some(State::Plain),
        Said::Brotli => Some(State::Brotli(Box::new(
            brotli_decompressor::DecompressorWriter::new(bounded(), BROTLI_BUFFER_BYTES),
        ))),
        Said::Deflate => {
            let [first, second, ..] = *read else {
                return None;
            };
            // The word means zlib's frame (RFC 9110, 8.4.1.2), and some leave it out.
            let check = u16::from(first) << 8 | u16::from(second);
            Some(if first & 0x0f == 8 && check % 31 == 0 {
                State::Zlib(Box::new(ZlibDecoder::new(bounded())))
            } else {
                State::Deflate(Box::new(DeflateDecoder::new(bounded())))
            })
        }
    }
}

#[cfg(test)]
mod tests;
