//! Writing JSON around text that is already JSON.

use tw_core::json::{Json, Literal};
use tw_core::native::NativeFields;

/// Writes `text` as a JSON string.
pub fn string(out: &mut Vec<u8>, text: &str) {
    // Names and ids stand for themselves, and are written with every event.
    if !text.contains('\\') && Literal::is_inside(text) {
        return quoted(out, text);
    }
    literal(out, &Literal::from_text(text));
}

/// Writes the string of which `text` is the inside.
pub fn literal(out: &mut Vec<u8>, text: &Literal) {
    quoted(out, text.as_str());
}

/// Puts the inside of a string literal between quotes.
pub fn quoted(out: &mut Vec<u8>, inside: &str) {
    out.push(b'"');
    out.extend_from_slice(inside.as_bytes());
    out.push(b'"');
}

/// Writes `"name":`, with a comma before it unless it is the first of its object.
///
/// `name` needs no escapes.
pub fn key(out: &mut Vec<u8>, name: &str) {
    separate(out);
    quoted(out, name);
    out.push(b':');
}

/// Writes a field's name as [`key`] does, for a name from outside, which may need escapes.
pub fn foreign_key(out: &mut Vec<u8>, name: &str) {
    separate(out);
    string(out, name);
    out.push(b':');
}

/// Writes the comma between two fields or items, unless one was just opened.
pub fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'{' | b'[' | b',')) {
        out.push(b',');
    }
}

pub fn raw(out: &mut Vec<u8>, json: &Json) {
    out.extend_from_slice(json.as_str().as_bytes());
}

pub fn number(out: &mut Vec<u8>, number: impl Into<i128>) {
    let number = number.into();
    match u64::try_from(number) {
        Ok(number) => digits(out, number),
        Err(_) => out.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// Digits of the greatest `u64`.
const DIGITS_MAX: usize = 20;

fn digits(out: &mut Vec<u8>, mut number: u64) {
    let mut written = [b'0'; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        // A digit is less than ten.
        written[at] += (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&written[at..]);
        }
    }
}

/// Adds fields as they were written.
pub fn fields(out: &mut Vec<u8>, fields: Option<&NativeFields>) {
    for (key, value) in fields.into_iter().flatten() {
        foreign_key(out, key);
        raw(out, value);
    }
}

/// Writes several arrays as one; what is no array is left out.
pub fn joined_arrays<'a>(out: &mut Vec<u8>, arrays: impl IntoIterator<Item = &'a Json>) {
    out.push(b'[');
    for array in arrays {
        let inside = array
            .as_str()
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
            .map(str::trim_ascii);
        if let Some(items) = inside.filter(|items| !items.is_empty()) {
            separate(out);
            out.extend_from_slice(items.as_bytes());
        }
    }
    out.push(b']');
}

#[cfg(test)]
mod tests;
