//! Surrogate pairs whose halves do not stand together.
//!
//! JSON writes a character beyond the first 65 536 as two escapes. Upstreams that cut an answer
//! between them send two halves, neither of which a client can decode alone; so a first half waits
//! for what comes next. Half a pair that stays alone is no character, and becomes U+FFFD, as in
//! every reader that does not refuse the text.

use std::borrow::Cow;

use tw_core::json::Literal;

/// An escape of a half, and of what stands in the place of a lone one: both have six bytes.
const ESCAPE_BYTES: usize = 6;
const REPLACEMENT: &str = "\\ufffd";

/// The inside of a literal as [`mend`] leaves it.
#[derive(Debug, PartialEq, Eq)]
pub struct MendedLiteral<'a> {
    pub text: Cow<'a, str>,
    /// A first half at the end, which `text` does not have.
    pub half: Option<&'a str>,
    /// Number of lone halves that were replaced.
    pub replaced: u32,
}

/// Replaces lone halves in the inside of a literal, except for a first half at its end.
pub fn mend(inner: &str) -> MendedLiteral<'_> {
    let bytes = inner.as_bytes();
    let mut mended = MendedLiteral {
        text: Cow::Borrowed(inner),
        half: None,
        replaced: 0,
    };
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        match half_at(bytes, at) {
            Some(Half::First) if at + ESCAPE_BYTES == bytes.len() => {
                let kept = match mended.text {
                    Cow::Borrowed(text) => Cow::Borrowed(&text[..at]),
                    Cow::Owned(text) => Cow::Owned(text[..at].to_owned()),
                };
                return MendedLiteral {
                    text: kept,
                    half: Some(&inner[at..]),
                    replaced: mended.replaced,
                };
            }
            Some(Half::First) if half_at(bytes, at + ESCAPE_BYTES) == Some(Half::Second) => {
                at += 2 * ESCAPE_BYTES;
            }
            Some(Half::First | Half::Second) => {
                let text = mended.text.to_mut();
                text.replace_range(at..at + ESCAPE_BYTES, REPLACEMENT);
                mended.replaced += 1;
                at += ESCAPE_BYTES;
            }
            None => at += 2,
        }
        if at >= bytes.len() {
            break;
        }
    }
    mended
}

/// Replaces lone halves as [`mend`] does in a text that nothing follows, and counts them.
pub fn mend_all(inner: &str) -> (Cow<'_, str>, u32) {
    let mended = mend(inner);
    match mended.half {
        Some(_) => (
            Cow::Owned(mended.text.into_owned() + REPLACEMENT),
            mended.replaced + 1,
        ),
        None => (mended.text, mended.replaced),
    }
}

/// Whether the text may hold a half; cheap, and wrong only by saying yes.
pub fn may_hold_half(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'\\', bytes)
        .any(|at| matches!(bytes.get(at + 1..at + 3), Some([b'u', b'd' | b'D'])))
}

/// A text with the half that waited for it.
pub fn with_half(half: Option<Box<str>>, text: Literal) -> Option<Literal> {
    match half {
        None => Some(text),
        Some(half) => Literal::checked(&format!("{half}{}", text.as_str())),
    }
}

/// A text without a half at its end, and that half.
pub fn without_half(text: Literal) -> (Option<Literal>, Option<Box<str>>) {
    if !may_hold_half(text.as_str()) {
        return (Some(text), None);
    }
    let MendedLiteral { text, half, .. } = mend(text.as_str());
    let said = Literal::checked(&text).filter(|text| !text.is_empty());
    (said, half.map(Box::from))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    First,
    Second,
}

fn half_at(bytes: &[u8], at: usize) -> Option<Half> {
    match bytes.get(at..at + ESCAPE_BYTES)? {
        [
            b'\\',
            b'u',
            b'd' | b'D',
            b'8' | b'9' | b'a' | b'b' | b'A' | b'B',
            ..,
        ] => Some(Half::First),
        [b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..] => Some(Half::Second),
        [..] => None,
    }
}

#[cfg(test)]
mod tests;
