//! The ways in which a secret may come back in a text.

use std::fmt;
use std::ops::Range;

use super::escapes::{EscapeReading, is_escape, readings};
use crate::secret::Secret;

/// Length, in characters, below which a secret is left in place: shorter ones are in every other
/// text by chance, and what was cut out would tell as much.
pub(crate) const MASKED_CHARS_MIN: usize = 8;

const MASK: &str = "***";

/// A secret as it is looked for; nothing of one that is too short.
///
/// Encoders differ in what they escape and how, so each character counts in every way in which JSON, a URL, a form or
/// HTML writes it, whatever the others look like. Base64 has three forms, by how many bytes stand before the secret in
/// what was encoded.
pub(super) struct SecretNeedle {
    secret: Secret,
    needles: Vec<Needle>,
}

/// A pattern that is looked for: at each position one of several characters.
struct Needle(Vec<Element>);

struct Element {
    characters: Vec<char>,
    /// Longest way to write the character that is looked for, in bytes, so that the whole has a
    /// length that can be relied on.
    bytes_max: usize,
}

/// Longest way to write an ASCII character: `&#x0000002d;`, and all that comes of two encoders in a
/// row, such as `%26%23x2D%3B` or `\\u002d`.
const ASCII_BYTES_MAX: usize = 12;
/// Longest way to write another character: four bytes in a URL in HTML, `&#37;F0&#37;9F&#37;98&#37;80`.
const OTHER_BYTES_MAX: usize = 28;
/// Longest way to write a character of base64: a slash in a URL in a URL, `%252F`; letters and
/// digits stand as they are.
const BASE64_BYTES_MAX: usize = 5;

impl SecretNeedle {
    pub fn new(value: &Secret) -> Self {
        let text = value.reveal();
        let is_long = text.chars().count() >= MASKED_CHARS_MIN;
        let needles = if is_long {
            let base64 = (0..3).map(|before| Needle::base64(text.as_bytes(), before));
            std::iter::once(Needle::plain(text)).chain(base64).collect()
        } else {
            Vec::new()
        };
        Self {
            secret: value.clone(),
            needles,
        }
    }

    pub fn is_looked_for(&self) -> bool {
        !self.needles.is_empty()
    }

    pub fn is_same(&self, other: &Self) -> bool {
        self.secret.reveal() == other.secret.reveal()
    }

    /// Most bytes that the secret takes in a text.
    pub fn longest(&self) -> usize {
        let longest = self.needles.iter().map(Needle::longest);
        longest.max().unwrap_or_default()
    }
}

/// Leaves out the needles, which hold the value.
impl fmt::Debug for SecretNeedle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretNeedle").field(&self.secret).finish()
    }
}

impl Needle {
    fn plain(secret: &str) -> Self {
        let element = |character: char| Element {
            characters: vec![character],
            bytes_max: if character.is_ascii() {
                ASCII_BYTES_MAX
            } else {
                OTHER_BYTES_MAX
            },
        };
        Self(secret.chars().map(element).collect())
    }

    /// The base64 of a text in which so many bytes, modulo 3, stand before the secret. The first and the last
    /// character may also hold bits of what stands around it.
    fn base64(secret: &[u8], before: usize) -> Self {
        let bits = before * 8..(before + secret.len()) * 8;
        let bit = |at: usize| secret[at / 8 - before] >> (7 - at % 8) & 1;
        let element = |place: usize| {
            let fits = |value: u8| {
                let mut of_secret = (0..6).filter(|at| bits.contains(&(place * 6 + at)));
                of_secret.all(|at| value >> (5 - at) & 1 == bit(place * 6 + at))
            };
            let characters: Vec<char> = (0..64)
                .filter(|value| fits(*value))
                .flat_map(base64)
                .collect();
            let is_plain = characters.iter().all(char::is_ascii_alphanumeric);
            Element {
                characters,
                bytes_max: if is_plain { 1 } else { BASE64_BYTES_MAX },
            }
        };
        Self(
            (bits.start / 6..bits.end.div_ceil(6))
                .map(element)
                .collect(),
        )
    }

    fn longest(&self) -> usize {
        self.0.iter().map(|element| element.bytes_max).sum()
    }

    fn may_begin_with(&self, byte: u8) -> bool {
        is_escape(byte)
            || self.0.first().is_some_and(|element| {
                let mut characters = element.characters.iter();
                characters.any(|character| character.encode_utf8(&mut [0; 4]).as_bytes()[0] == byte)
            })
    }

    /// The end of the needle if it begins at `begin`; the furthest, where there are several ways to read it.
    fn end_of(&self, text: &[u8], begin: usize, firsts: &[EscapeReading]) -> Option<usize> {
        let (first, others) = self.0.split_first()?;
        let mut ends: Vec<usize> = first.among(firsts, begin).collect();
        let mut next = Vec::new();
        for element in others {
            if ends.is_empty() {
                return None;
            }
            for &at in &ends {
                element.ends(text, at, &mut next);
            }
            next.sort_unstable();
            next.dedup();
            std::mem::swap(&mut ends, &mut next);
            next.clear();
        }
        ends.pop()
    }
}

impl Element {
    /// Adds the ends of the element if it begins at `at`.
    fn ends(&self, text: &[u8], at: usize, ends: &mut Vec<usize>) {
        match plain_ascii(text, at) {
            Some(read) => ends.extend(self.among(&[read], at)),
            None => ends.extend(self.among(&readings(text, at), at)),
        }
    }

    /// The ends of those readings that are one of the element's characters.
    fn among(&self, readings: &[EscapeReading], begin: usize) -> impl Iterator<Item = usize> {
        let fits = move |read: &&EscapeReading| {
            read.end - begin <= self.bytes_max && self.characters.contains(&read.character)
        };
        readings.iter().filter(fits).map(|read| read.end)
    }
}

/// Reads a character that can be read in one way only, as nearly all of every text, without looking further.
fn plain_ascii(text: &[u8], at: usize) -> Option<EscapeReading> {
    let byte = *text.get(at)?;
    (byte.is_ascii() && !is_escape(byte)).then(|| EscapeReading {
        end: at + 1,
        character: char::from(byte),
    })
}

/// The characters of both alphabets for six bits.
fn base64(value: u8) -> impl Iterator<Item = char> {
    let (one, other) = match value {
        0..26 => (b'A' + value, None),
        26..52 => (b'a' + value - 26, None),
        52..62 => (b'0' + value - 52, None),
        62 => (b'+', Some(b'-')),
        _ => (b'/', Some(b'_')),
    };
    std::iter::once(one).chain(other).map(char::from)
}

/// Needles, and which bytes one of them may begin with: nearly all places in a text are told apart by that.
struct Search<'a> {
    needles: Vec<&'a Needle>,
    begins: [bool; 256],
}

impl<'a> Search<'a> {
    fn new(secrets: &[&'a SecretNeedle]) -> Self {
        let needles: Vec<&Needle> = secrets.iter().flat_map(|secret| &secret.needles).collect();
        let mut begins = [false; 256];
        for (byte, begins) in (0..=u8::MAX).zip(&mut begins) {
            *begins = needles.iter().any(|needle| needle.may_begin_with(byte));
        }
        Self { needles, begins }
    }

    /// The end of the needle that begins here and goes furthest.
    fn end_of(&self, text: &[u8], begin: usize) -> Option<usize> {
        let first = *text.get(begin)?;
        if !self.begins[usize::from(first)] {
            return None;
        }
        let furthest = |firsts: &[EscapeReading]| {
            let needles = self.needles.iter();
            needles
                .filter_map(|needle| needle.end_of(text, begin, firsts))
                .max()
        };
        match plain_ascii(text, begin) {
            Some(read) => furthest(&[read]),
            None => furthest(&readings(text, begin)),
        }
    }

    /// The ranges in which needles stand, in order; those that overlap are one range.
    fn places(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut places: Vec<Range<usize>> = Vec::new();
        for begin in 0..text.len() {
            let Some(end) = self.end_of(text, begin) else {
                continue;
            };
            match places.last_mut() {
                Some(last) if begin < last.end => last.end = last.end.max(end),
                Some(_) | None => places.push(begin..end),
            }
        }
        places
    }
}

/// The text with the mask in place of every one of `secrets`. Secrets that overlap have one mask.
pub(super) fn masked(secrets: &[&SecretNeedle], text: String) -> String {
    if secrets.is_empty() {
        return text;
    }
    let found = Search::new(secrets).places(text.as_bytes());
    if found.is_empty() {
        return text;
    }
    let mut masked = String::with_capacity(text.len());
    let mut from = 0;
    for place in found {
        // Places begin and end with characters, since secrets do.
        masked.push_str(text.get(from..place.start).unwrap_or_default());
        masked.push_str(MASK);
        from = place.end;
    }
    masked.push_str(text.get(from..).unwrap_or_default());
    masked
}

/// Cuts a text before `at`, with the mask in place of a secret that goes on beyond it.
///
/// Only a whole secret counts. Else whoever can have a text repeated, and cut where they like,
/// would learn of each next character whether it is the right one.
pub(super) fn cut(secrets: &[&SecretNeedle], text: &mut Vec<u8>, at: usize) {
    let search = Search::new(secrets);
    let longest = secrets.iter().map(|secret| secret.longest()).max();
    let longest = longest.unwrap_or_default();
    let begins = |end: usize| {
        let first = (end + 1).saturating_sub(longest);
        (first..end).find(|&begin| search.end_of(text, begin).is_some_and(|to| to > end))
    };
    let (mut end, mut mask) = (at, "");
    // Secrets may overlap.
    while let Some(begin) = begins(end) {
        (end, mask) = (begin, MASK);
    }
    text.truncate(end);
    text.extend_from_slice(mask.as_bytes());
}

#[cfg(test)]
mod tests;
