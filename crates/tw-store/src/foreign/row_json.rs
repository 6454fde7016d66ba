//! A row of SQLite as a JSON object, and back.
//!
//! Numbers and texts are themselves. What JSON has no word for is an object of one field: bytes are `{"$bytes": "00ff"}`,
//! a text that is no UTF-8 is `{"$text": "ff"}`, a real number that is none is `{"$real": "inf"}`.

use std::borrow::Cow;
use std::fmt::Write;

use rusqlite::types::{Value, ValueRef};
use serde_json::value::RawValue;

use super::ForeignText;

/// Writes a row's columns as an object.
#[derive(Default)]
pub struct RowJson {
    text: String,
    /// With the bytes of what is no UTF-8, from the first of that on.
    exact: Option<String>,
}

impl RowJson {
    pub fn add(&mut self, column: &str, value: ValueRef<'_>) {
        let before = self.text.len();
        self.text.push(if before == 0 { '{' } else { ',' });
        push_text(&mut self.text, column);
        self.text.push(':');
        let text = match value {
            ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        };
        let is_whole = !matches!(text, Some(Cow::Owned(_)));
        if !is_whole && self.exact.is_none() {
            self.exact = Some(self.text[..before].to_owned());
        }
        if let Some(exact) = &mut self.exact {
            exact.push_str(&self.text[before..]);
            push_exact(exact, value);
        }
        match text {
            Some(text) => push_text(&mut self.text, &text),
            None => push_exact(&mut self.text, value),
        }
    }

    pub fn end(mut self) -> ForeignText {
        let end = if self.text.is_empty() { "{}" } else { "}" };
        self.text.push_str(end);
        if let Some(exact) = &mut self.exact {
            exact.push_str(end);
        }
        ForeignText {
            text: self.text,
            is_whole: self.exact.is_none(),
            exact: self.exact,
        }
    }
}

/// Values as a list; `None` if one of them is null.
pub fn list_of<'v>(values: impl Iterator<Item = ValueRef<'v>>) -> Option<String> {
    let mut list = String::from("[");
    for value in values {
        if value == ValueRef::Null {
            return None;
        }
        if list.len() > 1 {
            list.push(',');
        }
        push_exact(&mut list, value);
    }
    list.push(']');
    Some(list)
}

fn push_text(out: &mut String, text: &str) {
    let is_itself = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
    if text.as_bytes().iter().all(is_itself) {
        out.push('"');
        out.push_str(text);
        out.push('"');
        return;
    }
    // A text is always written.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

fn push_exact(out: &mut String, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => out.push_str("null"),
        ValueRef::Integer(number) => {
            let _ = write!(out, "{number}");
        }
        ValueRef::Real(number) if number.is_finite() => {
            let _ = write!(out, "{number:?}");
        }
        ValueRef::Real(number) => {
            let _ = write!(out, "{{\"$real\":\"{number}\"}}");
        }
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => push_text(out, text),
            Err(_) => push_bytes(out, "$text", bytes),
        },
        ValueRef::Blob(bytes) => push_bytes(out, "$bytes", bytes),
    }
}

fn push_bytes(out: &mut String, word: &str, bytes: &[u8]) {
    let _ = write!(out, "{{\"{word}\":\"{}\"}}", hex(bytes));
}

/// Two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// A value for a column, made of its JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValue {
    Value(Value),
    /// Bytes that are a text.
    TextBytes(Vec<u8>),
}

/// The value that a column had; one of another database where it is an object or a list, as its text.
pub fn value_of(json: &RawValue) -> ColumnValue {
    let text = json.get();
    let value = match text.as_bytes().first() {
        Some(b'n') | None => Value::Null,
        Some(b't') => Value::Integer(1),
        Some(b'f') => Value::Integer(0),
        Some(b'"') => match serde_json::from_str(text) {
            Ok(text) => Value::Text(text),
            // Half a surrogate pair, which is no text.
            Err(_) => Value::Text(text.to_owned()),
        },
        Some(b'{') => match special(text) {
            Some(special) => return special,
            None => Value::Text(text.to_owned()),
        },
        Some(b'[') => Value::Text(text.to_owned()),
        Some(_) => match text.parse::<i64>() {
            Ok(number) => Value::Integer(number),
            Err(_) => text
                .parse()
                .map_or_else(|_| Value::Text(text.to_owned()), Value::Real),
        },
    };
    ColumnValue::Value(value)
}

fn special(text: &str) -> Option<ColumnValue> {
    let fields: std::collections::BTreeMap<String, String> = serde_json::from_str(text).ok()?;
    if fields.len() != 1 {
        return None;
    }
    let (word, value) = fields.first_key_value()?;
    match word.as_str() {
        "$bytes" => Some(ColumnValue::Value(Value::Blob(bytes_of(value)?))),
        "$text" => Some(ColumnValue::TextBytes(bytes_of(value)?)),
        "$real" => Some(ColumnValue::Value(Value::Real(value.parse().ok()?))),
        _ => None,
    }
}

/// The bytes of what [`hex`] wrote.
pub fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back() {
        let values = [
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(1.0),
            Value::Real(1e300),
            Value::Real(-0.0),
            Value::Real(f64::INFINITY),
            Value::Text("a\"\\\u{0}\u{1f600}\n".to_owned()),
            Value::Text("{\"$bytes\":\"00\"}".to_owned()),
            Value::Text(String::new()),
            Value::Blob(vec![0, 255]),
            Value::Blob(Vec::new()),
        ];
        let mut row = RowJson::default();
        for (place, value) in values.iter().enumerate() {
            row.add(&format!("c\"{place}"), value.into());
        }
        let row = row.end();
        assert!(row.is_whole);
        let fields: std::collections::BTreeMap<String, &RawValue> =
            serde_json::from_str(row.stored()).unwrap();
        for (place, value) in values.iter().enumerate() {
            let json = fields[&format!("c\"{place}")];
            assert_eq!(value_of(json), ColumnValue::Value(value.clone()), "{json}");
        }
    }

    #[test]
    fn a_text_that_is_no_utf_8_keeps_its_bytes() {
        let mut row = RowJson::default();
        row.add("a", ValueRef::Integer(1));
        row.add("b", ValueRef::Text(b"x\xff"));
        let row = row.end();
        assert_eq!(row.text, "{\"a\":1,\"b\":\"x\u{fffd}\"}");
        assert_eq!(row.stored(), "{\"a\":1,\"b\":{\"$text\":\"78ff\"}}");
        assert!(!row.is_whole);
        let json = serde_json::from_str("{\"$text\":\"78ff\"}").unwrap();
        assert_eq!(value_of(json), ColumnValue::TextBytes(b"x\xff".to_vec()));
        assert_eq!(RowJson::default().end().text, "{}");
    }
}
