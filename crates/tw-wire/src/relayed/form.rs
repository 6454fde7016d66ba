//! `multipart/form-data`, as far as the places of its fields (RFC 7578, RFC 2046 section 5.1.1).
//!
//! Parts are found, not copied: a form holds whole recordings and images, and of all that only a
//! short field is changed.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

/// Parts of one form: an edit takes 16 images, and no API has as many fields again.
const PARTS_MAX: usize = 128;
/// Headers of one part; there are three that mean something.
const PART_HEADERS_MAX: usize = 16;
/// Longest boundary, in bytes (RFC 2046).
const BOUNDARY_BYTES_MAX: usize = 70;

/// A form and the places of its fields.
#[derive(Debug)]
pub(super) struct MultipartForm {
    pub boundary: String,
    /// The place of the first part's delimiter.
    pub begins: usize,
    /// Fields that are no files, in their order.
    pub fields: Vec<FormField>,
}

#[derive(Debug)]
pub(super) struct FormField {
    pub name: String,
    pub content: Range<usize>,
}

/// The reason for which a form cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadForm {
    #[error("its content type names no boundary")]
    NoBoundary,
    #[error("it does not begin with its boundary")]
    NoBeginning,
    #[error("a part does not end")]
    NoEnd,
    #[error("a part's headers cannot be read")]
    BadHeaders,
    #[error("it has more than {PARTS_MAX} parts")]
    TooMany,
}

impl MultipartForm {
    pub fn parse(content_type: &str, body: &[u8]) -> Result<Self, BadForm> {
        let boundary = parameter(content_type, "boundary")
            .filter(|boundary| (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()))
            .ok_or(BadForm::NoBoundary)?
            .into_owned();
        let delimiter = format!("\r\n--{boundary}");
        let finder = memmem::Finder::new(&delimiter);
        let begins = if body.starts_with(&delimiter.as_bytes()[2..]) {
            0
        } else {
            finder.find(body).ok_or(BadForm::NoBeginning)? + 2
        };
        let mut at = begins + delimiter.len() - 2;
        let mut fields = Vec::new();
        for _ in 0..=PARTS_MAX {
            if body[at..].starts_with(b"--") {
                return Ok(Self {
                    boundary,
                    begins,
                    fields,
                });
            }
            let padding = body[at..].iter().take_while(|byte| b" \t".contains(byte));
            at += padding.count();
            let part = body[at..].strip_prefix(b"\r\n").ok_or(BadForm::NoEnd)?;
            let start = body.len() - part.len();
            let head = Head::parse(part)?;
            let content = start + head.bytes;
            // An empty part's delimiter begins with the line break that ends its headers.
            let from = content - 2;
            let end = from + finder.find(&body[from..]).ok_or(BadForm::NoEnd)?;
            if let Some(name) = head.field {
                let content = content.min(end)..end;
                fields.push(FormField { name, content });
            }
            at = end + delimiter.len();
        }
        Err(BadForm::TooMany)
    }
}

/// The headers of a part.
struct Head {
    /// The name of a field that is no file.
    field: Option<String>,
    /// Length of the headers, with the empty line.
    bytes: usize,
}

impl Head {
    fn parse(part: &[u8]) -> Result<Self, BadForm> {
        let mut headers = [httparse::EMPTY_HEADER; PART_HEADERS_MAX];
        let parsed = httparse::parse_headers(part, &mut headers);
        let Ok(httparse::Status::Complete((bytes, headers))) = parsed else {
            return Err(BadForm::BadHeaders);
        };
        let disposition = headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case("content-disposition"))
            .and_then(|header| std::str::from_utf8(header.value).ok());
        let field = disposition
            .filter(|text| {
                ["filename", "filename*"].map(|name| parameter(text, name)) == [None, None]
            })
            .and_then(|text| parameter(text, "name"))
            .map(Cow::into_owned);
        Ok(Self { field, bytes })
    }
}

/// A parameter of a header's value, without its quotes.
fn parameter<'a>(value: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut rest = behind(value, ';')?;
    loop {
        let (key, after) = rest.split_once('=')?;
        let key = key.trim().trim_start_matches(';').trim();
        let after = after.trim_start();
        let (text, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let end = closing_quote(quoted)?;
                (unescaped(&quoted[..end]), &quoted[end + 1..])
            }
            None => {
                let end = after.find(';').unwrap_or(after.len());
                (Cow::Borrowed(after[..end].trim()), &after[end..])
            }
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(text);
        }
        rest = behind(next, ';')?;
    }
}

fn behind(text: &str, mark: char) -> Option<&str> {
    text.split_once(mark).map(|(_, behind)| behind)
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        closes
    })
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut chars = text.chars();
    let mut out = String::new();
    while let Some(char) = chars.next() {
        out.extend(if char == '\\' {
            chars.next()
        } else {
            Some(char)
        });
    }
    Cow::Owned(out)
}

/// A field with the delimiter before it, to be put where another part's delimiter begins.
pub(super) fn part(boundary: &str, name: &str, content: &str) -> Vec<u8> {
    format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
        .into_bytes()
}
