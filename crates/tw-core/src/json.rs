//! JSON kept as the text it came in, so that key order, digits and escapes survive.

pub mod bounded;
pub mod shared;
pub mod tree;

use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;

use shared::{JsonText, SharedText};

/// A JSON value as text that was checked once.
///
/// It is never re-encoded: what was read is what is written.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(JsonText);

/// The text is no JSON value.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON value")]
pub struct NotJson(#[source] serde_json::Error);

impl Json {
    /// Checks `text`; surrounding white space is dropped.
    ///
    /// # Errors
    /// [`NotJson`] with the position.
    pub fn parse(text: &str) -> Result<Self, NotJson> {
        let raw: &RawValue = serde_json::from_str(text).map_err(NotJson)?;
        Ok(Self(raw.get().into()))
    }

    pub fn from_raw(raw: &RawValue) -> Self {
        Self::of_read(raw.get())
    }

    /// Takes the text of a value that a JSON parser has read, without the white space around it.
    pub fn of_read(text: &str) -> Self {
        Self(text.into())
    }

    /// The same for a text that stands in `whole`, which it holds instead of a copy if it is long.
    pub fn of_part(whole: &SharedText, text: &str) -> Self {
        Self(JsonText::part(whole, text))
    }

    /// A value that stands in this one, which is shared and not copied where it can be.
    pub fn part(&self, text: &str) -> Self {
        match &self.0 {
            JsonText::Part { whole, .. } => Self::of_part(whole, text),
            JsonText::Own(_) => Self::of_read(text),
        }
    }

    pub fn from_value(value: &Value) -> Self {
        Self(value.to_string().into())
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The parsed value; numbers beyond 64 bits lose digits here, and only here.
    pub fn to_value(&self) -> Value {
        // The text was checked when it came in, so the fallback is never reached.
        serde_json::from_str(self.as_str()).unwrap_or(Value::Null)
    }

    /// The string literal's inside, if this value is a string.
    pub fn as_literal(&self) -> Option<Literal> {
        match &self.0 {
            JsonText::Part { whole, .. } => Literal::of_part(whole, self.as_str()),
            JsonText::Own(text) => Literal::of_checked(text),
        }
    }

    /// An object of these fields, in this order.
    pub fn of_fields(fields: &[(Box<str>, Self)]) -> Self {
        let mut text = String::from("{");
        for (at, (key, value)) in fields.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&Value::from(&**key).to_string());
            text.push(':');
            text.push_str(value.as_str());
        }
        text.push('}');
        Self::of_read(&text)
    }

    /// A list with the items of another one behind its own; `None` if one of the two is no list.
    pub fn followed_by(&self, more: &Self) -> Option<Self> {
        let items = |json: &Self| {
            let inside = json.as_str().strip_prefix('[')?.strip_suffix(']')?;
            Some(inside.trim_ascii().to_owned())
        };
        let (have, more) = (items(self)?, items(more)?);
        let gap = if have.is_empty() || more.is_empty() {
            ""
        } else {
            ","
        };
        Some(Self::of_read(&format!("[{have}{gap}{more}]")))
    }

    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// Whether the value is a number, true, false or null.
    pub fn is_scalar(&self) -> bool {
        !self.as_str().starts_with(['"', '{', '['])
    }

    /// The depth to which objects and arrays nest; a scalar is 0.
    pub fn depth(&self) -> usize {
        depth(self.as_str().as_bytes())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The depth to which objects and arrays nest in `text`, which need not be valid JSON.
///
/// It is counted before a recursive parser sees the text.
pub fn depth(text: &[u8]) -> usize {
    let (mut deepest, mut now) = (0usize, 0usize);
    for byte in outside_strings(text) {
        match byte {
            b'{' | b'[' => {
                now += 1;
                deepest = deepest.max(now);
            }
            b'}' | b']' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The number of values that `text` holds, itself and those at all depths, if it is valid JSON.
///
/// It is counted before a parser makes something of each, which takes many times the text.
pub fn values(text: &[u8]) -> usize {
    let (mut values, mut is_opened) = (1usize, false);
    for byte in outside_strings(text).filter(|byte| !byte.is_ascii_whitespace()) {
        if is_opened && !matches!(byte, b'}' | b']') {
            values += 1;
        }
        is_opened = matches!(byte, b'{' | b'[');
        if byte == b',' {
            values += 1;
        }
    }
    values
}

/// The bytes outside of string literals; of a literal there is the quote that opens it.
fn outside_strings(text: &[u8]) -> OutsideStrings<'_> {
    OutsideStrings(text)
}

struct OutsideStrings<'a>(&'a [u8]);

impl Iterator for OutsideStrings<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = if byte == b'"' {
            behind_literal(rest)
        } else {
            rest
        };
        Some(byte)
    }
}

/// The text behind a literal whose opening quote was before `text`; empty if the literal does not end.
fn behind_literal(mut text: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', text) {
        if text[at] == b'"' {
            return &text[at + 1..];
        }
        text = text.get(at + 2..).unwrap_or_default();
    }
    &[]
}

/// The inside of a JSON string literal, without its quotes and with its escapes as written.
///
/// Literals may be joined byte by byte and put between quotes: a surrogate pair that was split
/// over two of them is whole again afterwards.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Literal(JsonText);

impl Literal {
    /// Takes the inside of a literal that a JSON parser has accepted.
    ///
    /// `None` when the bytes could not stand between quotes: a bare quote or control byte, or a
    /// backslash with nothing behind it.
    pub fn checked(inner: &str) -> Option<Self> {
        Self::is_inside(inner).then(|| Self(inner.into()))
    }

    /// Takes the inside of a string, which a parser has checked already; `None` for another value.
    pub fn of_raw(raw: &RawValue) -> Option<Self> {
        Self::of_checked(raw.get())
    }

    /// The same of a string that stands in `whole`, which it holds instead of a copy if it is long.
    pub fn of_part(whole: &SharedText, json: &str) -> Option<Self> {
        let inner = json.strip_prefix('"')?.strip_suffix('"')?;
        Some(Self(JsonText::part(whole, inner)))
    }

    fn of_checked(json: &str) -> Option<Self> {
        let inner = json.strip_prefix('"')?.strip_suffix('"')?;
        Some(Self(inner.into()))
    }

    /// Whether `inner` could stand between the quotes of a literal, so that [`Literal::checked`] takes it.
    pub fn is_inside(inner: &str) -> bool {
        let mut rest = inner.as_bytes();
        loop {
            rest = &rest[plain_bytes(rest)..];
            let escape_bytes = match rest {
                [] => return true,
                [b'\\', b'u', hex @ ..] => match hex.get(..4) {
                    Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => 6,
                    Some(_) | None => return false,
                },
                [
                    b'\\',
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
                    ..,
                ] => 2,
                [..] => return false,
            };
            rest = &rest[escape_bytes..];
        }
    }

    /// Encodes plain text.
    pub fn from_text(text: &str) -> Self {
        let quoted = Value::from(text).to_string();
        Self(quoted[1..quoted.len() - 1].into())
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    /// The text; half a surrogate pair becomes U+FFFD.
    pub fn to_text(&self) -> String {
        decode(self.as_str())
    }
}

/// The number of bytes that stand for themselves before the first escape, or before what may not be in a literal.
fn plain_bytes(bytes: &[u8]) -> usize {
    // Without a branch for each byte, which lets the compiler compare a whole block at once.
    const BLOCK_BYTES: usize = 16;
    let is_special = |byte: u8| byte == b'"' || byte == b'\\' || byte < 0x20;
    let blocks = bytes
        .chunks_exact(BLOCK_BYTES)
        .take_while(|block| {
            !block
                .iter()
                .fold(false, |any, &byte| any | is_special(byte))
        })
        .count();
    let plain = blocks * BLOCK_BYTES;
    let rest = &bytes[plain..];
    plain
        + rest
            .iter()
            .position(|&byte| is_special(byte))
            .unwrap_or(rest.len())
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_str())
    }
}

/// Literals that follow one another, joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiteralBuf(String);

impl LiteralBuf {
    pub fn push(&mut self, literal: &Literal) {
        self.0.push_str(literal.as_str());
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn to_literal(&self) -> Literal {
        Literal(self.0.as_str().into())
    }

    pub fn to_text(&self) -> String {
        decode(&self.0)
    }
}

fn decode(inner: &str) -> String {
    // Histories are long, and few literals hold one.
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return inner.to_owned();
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let (decoded, used) = decode_escape(rest);
        text.push(decoded);
        rest = &rest[used..];
    }
    text.push_str(rest);
    text
}

/// The character that the escape at the start of `rest` stands for, and its length in bytes.
fn decode_escape(rest: &str) -> (char, usize) {
    let bytes = rest.as_bytes();
    let simple = match bytes.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return decode_unicode(rest),
        Some(&other) if other.is_ascii() => char::from(other),
        // A literal is checked when made; this only keeps the loop moving.
        Some(_) | None => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (simple, 2)
}

fn decode_unicode(rest: &str) -> (char, usize) {
    let unit = |from: usize| {
        rest.get(from..from + 4)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
    };
    let Some(first) = unit(2) else {
        return (char::REPLACEMENT_CHARACTER, 2);
    };
    if (0xD800..0xDC00).contains(&first)
        && rest.get(6..8) == Some("\\u")
        && let Some(second) = unit(8)
        && (0xDC00..0xE000).contains(&second)
    {
        let joined = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return (
            char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER),
            12,
        );
    }
    (
        char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER),
        6,
    )
}

#[cfg(test)]
mod tests;
