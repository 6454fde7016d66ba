//! The ways in which a secret may come back in a text.

use std::ops::Range;

use crate::secret::Secret;

/// Shorter values are left in place: they are in every other text by chance, and what was cut
/// out would tell as much.
const MASKED_CHARS_MIN: usize = 8;

const MASK: &str = "***";

/// A secret as it is looked for; none that is too short.
///
/// Encoders differ in what they escape and how, so each character counts in every way in which JSON, a URL, a form or
/// HTML writes it, whatever the others look like.
#[derive(Debug)]
pub(super) struct Hidden(Option<Secret>);

impl Hidden {
    pub fn new(value: &Secret) -> Self {
        let is_long = value.reveal().chars().count() >= MASKED_CHARS_MIN;
        Self(is_long.then(|| value.clone()))
    }

    pub fn text(&self) -> Option<&str> {
        self.0.as_ref().map(Secret::reveal)
    }
}

/// The most bytes that a secret takes in a text.
pub(super) fn longest(secret: &str) -> usize {
    secret.chars().map(longest_of).sum()
}

/// The text with the mask in place of every one of `secrets`. Those that overlap have one mask.
pub(super) fn masked(secrets: &[&str], text: String) -> String {
    let found = places(secrets, text.as_bytes());
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

/// Where the secrets stand, in order; those that overlap are one place.
fn places(secrets: &[&str], text: &[u8]) -> Vec<Range<usize>> {
    let mut places: Vec<Range<usize>> = Vec::new();
    for begin in 0..text.len() {
        let ends = secrets
            .iter()
            .filter_map(|secret| end_of(secret, text, begin));
        let Some(end) = ends.max() else {
            continue;
        };
        match places.last_mut() {
            Some(last) if begin < last.end => last.end = last.end.max(end),
            Some(_) | None => places.push(begin..end),
        }
    }
    places
}

/// Cuts a text before `at`, with the mask in place of a secret that goes on beyond it.
///
/// Only a whole secret counts. Else whoever can have a text repeated, and cut where they like,
/// would learn of each next character whether it is the right one.
pub(super) fn cut(secrets: &[&str], text: &mut Vec<u8>, at: usize) {
    let begins = |end: usize| {
        let of_one = |secret: &&str| {
            let first = (end + 1).saturating_sub(longest(secret));
            (first..end).find(|&begin| end_of(secret, text, begin).is_some_and(|to| to > end))
        };
        secrets.iter().filter_map(of_one).min()
    };
    let (mut end, mut mask) = (at, "");
    // Secrets may overlap.
    while let Some(begin) = begins(end) {
        (end, mask) = (begin, MASK);
    }
    text.truncate(end);
    text.extend_from_slice(mask.as_bytes());
}

/// Where the secret that begins here ends, if one does; the furthest, where there are several ways to read it.
fn end_of(secret: &str, text: &[u8], begin: usize) -> Option<usize> {
    // Nearly all places in a text are told apart by their first byte.
    let first = secret.chars().next()?;
    let is_escape = |byte: &u8| matches!(byte, b'\\' | b'%' | b'&' | b'+');
    let found = text.get(begin)?;
    if secret.as_bytes().first() != Some(found) && (is_always_plain(first) || !is_escape(found)) {
        return None;
    }
    let mut ends = vec![begin];
    let mut next = Vec::new();
    for character in secret.chars() {
        for &at in &ends {
            ways(character, text, at, &mut next);
        }
        next.sort_unstable();
        next.dedup();
        if next.is_empty() {
            return None;
        }
        std::mem::swap(&mut ends, &mut next);
        next.clear();
    }
    ends.pop()
}

/// What no encoder writes otherwise than it is.
fn is_always_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | '~')
}

/// The most bytes of [`ways`].
fn longest_of(character: char) -> usize {
    if is_always_plain(character) {
        return 1;
    }
    let json = UNIT_BYTES_MAX * character.len_utf16();
    let url = 3 * character.len_utf8();
    json.max(url).max(ENTITY_BYTES_MAX)
}

/// `\\u00fc`: in a string of JSON that stands in a string of JSON.
const UNIT_BYTES_MAX: usize = 7;
/// `&#x1f600;`
const ENTITY_BYTES_MAX: usize = 9;
/// Before a quote in a string in a string, and before a backslash there, itself included.
const BACKSLASHES_MAX: usize = 4;

/// Adds where the character may end if it begins at `at`.
fn ways(character: char, text: &[u8], at: usize, ends: &mut Vec<usize>) {
    let rest = text.get(at..).unwrap_or_default();
    let mut plain = [0; 4];
    let plain = character.encode_utf8(&mut plain).as_bytes();
    if rest.starts_with(plain) {
        ends.push(at + plain.len());
    }
    if is_always_plain(character) {
        return;
    }
    let escaped = match rest.first() {
        Some(b'\\') => json(character, rest),
        Some(b'%') => percent(plain, rest),
        Some(b'&') => entity(character, rest),
        // In a form.
        Some(b'+') if character == ' ' => Some(1),
        Some(_) | None => None,
    };
    ends.extend(escaped.map(|length| at + length));
    if character == '\\' {
        let backslashes = backslashes(rest).min(BACKSLASHES_MAX);
        ends.extend((2..=backslashes).map(|length| at + length));
    }
}

fn backslashes(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == b'\\').count()
}

/// The length of the character as an escape of JSON, also in a string that stands in a string.
fn json(character: char, text: &[u8]) -> Option<usize> {
    let backslashes = backslashes(text);
    let letter = match character {
        '"' | '/' | '\'' => Some(character),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        _ => None,
    };
    if let Some(letter) = letter
        && backslashes < BACKSLASHES_MAX
        && text.get(backslashes).copied().map(char::from) == Some(letter)
    {
        return Some(backslashes + 1);
    }
    let mut length = 0;
    for unit in character.encode_utf16(&mut [0; 2]) {
        let rest = &text[length..];
        let backslashes = self::backslashes(rest);
        if !(1..=2).contains(&backslashes) || rest.get(backslashes) != Some(&b'u') {
            return None;
        }
        let digits = rest.get(backslashes + 1..backslashes + 5)?;
        if number(digits, 16)? != u32::from(*unit) {
            return None;
        }
        length += backslashes + 5;
    }
    Some(length)
}

/// The length of the character as a URL or a form writes it.
fn percent(plain: &[u8], text: &[u8]) -> Option<usize> {
    let mut coded = text.chunks_exact(3);
    for byte in plain {
        let [b'%', digits @ ..] = coded.next()? else {
            return None;
        };
        if number(digits, 16)? != u32::from(*byte) {
            return None;
        }
    }
    Some(3 * plain.len())
}

/// The length of the character as HTML writes it.
fn entity(character: char, text: &[u8]) -> Option<usize> {
    let end = text
        .iter()
        .take(ENTITY_BYTES_MAX)
        .position(|byte| *byte == b';')?;
    let is_it = match &text[1..end] {
        b"amp" => character == '&',
        b"lt" => character == '<',
        b"gt" => character == '>',
        b"quot" => character == '"',
        b"apos" => character == '\'',
        [b'#', b'x' | b'X', digits @ ..] => number(digits, 16)? == u32::from(character),
        [b'#', digits @ ..] => number(digits, 10)? == u32::from(character),
        _ => false,
    };
    is_it.then_some(end + 1)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    // Which takes a sign.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_plain.then(|| u32::from_str_radix(digits, radix).ok())?
}
