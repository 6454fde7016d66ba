//! The usual event of an answer, which adds to a text.
//!
//! It is scanned where it stands instead of parsed. Its fields come in several orders, and its number and its padding
//! change from one to the next, so that no text around the delta's could be compared.

use tw_core::json::Literal;

use crate::openai_chat::surrogates;

/// A piece of a text, and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub struct UsualText {
    pub item: u64,
    pub part: u64,
    pub text: Literal,
}

const KIND: &str = "\"response.output_text.delta\"";

impl UsualText {
    /// `None` for any other event, and for what is unusual in one: a parser reads these, and finds what is wrong.
    pub fn read(event: &str) -> Option<Self> {
        let mut rest = event.strip_prefix('{')?;
        let (mut is_text, mut item, mut part, mut text) = (false, None, None, None);
        loop {
            let (key, behind) = string(rest)?;
            let value = behind.strip_prefix(':')?;
            rest = match key {
                "type" => {
                    is_text = true;
                    value.strip_prefix(KIND)?
                }
                "delta" => keep(&mut text, string(value)?),
                "output_index" => keep(&mut item, number(value)?),
                "content_index" => keep(&mut part, number(value)?),
                "sequence_number" => number(value)?.1,
                "item_id" | "obfuscation" => {
                    let (inside, behind) = string(value)?;
                    Literal::is_inside(inside).then_some(behind)?
                }
                "logprobs" => value.strip_prefix("[]")?,
                _ => return None,
            };
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        let text = Literal::checked(text?).filter(|text| !text.is_empty())?;
        // Half a character changes what the next text means.
        let is_usual = is_text && rest == "}" && !surrogates::may_hold_half(text.as_str());
        is_usual.then_some(Self {
            item: item?,
            part: part?,
            text,
        })
    }
}

/// Of a field that stands there twice the last one counts.
fn keep<'a, T>(field: &mut Option<T>, (value, behind): (T, &'a str)) -> &'a str {
    *field = Some(value);
    behind
}

/// The inside of the string that `text` begins with, and what stands behind it.
fn string(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut from = 0;
    loop {
        let found = from + memchr::memchr2(b'"', b'\\', inside.as_bytes().get(from..)?)?;
        if inside.as_bytes()[found] == b'"' {
            return Some((&inside[..found], &inside[found + 1..]));
        }
        from = found + 2;
    }
}

/// The whole number that `text` begins with, and what stands behind it.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit())?;
    let (digits, behind) = text.split_at(end);
    let is_json = digits == "0" || !digits.starts_with('0');
    let number = digits.parse().ok().filter(|_| is_json)?;
    Some((number, behind))
}

#[cfg(test)]
mod tests;
