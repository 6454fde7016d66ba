//! Writing a stored event, field by field.

use std::fmt::{Display, Write};

use tw_core::json::Literal;

/// A stored event that is being written: its kind, and fields behind it.
pub struct StoredEventArray<'a> {
    out: &'a mut String,
}

impl<'a> StoredEventArray<'a> {
    pub fn of(kind: &str, out: &'a mut String) -> Self {
        out.push_str("[\"");
        out.push_str(kind);
        out.push('"');
        Self { out }
    }

    /// The place for the next field's JSON.
    pub fn field(&mut self) -> &mut String {
        self.out.push(',');
        self.out
    }

    pub fn json(mut self, json: &str) -> Self {
        self.field().push_str(json);
        self
    }

    pub fn number(mut self, number: impl Display) -> Self {
        push_number(self.field(), number);
        self
    }

    /// Adds a word of ours, in which nothing needs an escape.
    pub fn word(mut self, word: &str) -> Self {
        let out = self.field();
        out.push('"');
        out.push_str(word);
        out.push('"');
        self
    }

    pub fn string(mut self, text: &str) -> Self {
        push_string(self.field(), text);
        self
    }

    pub fn optional_string(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.string(text),
            None => self.json("null"),
        }
    }

    pub fn optional_literal(mut self, literal: Option<&Literal>) -> Self {
        push_literal(self.field(), literal);
        self
    }

    pub fn end(self) {
        self.out.push(']');
    }
}

pub fn push_number(out: &mut String, number: impl Display) {
    // A string takes whatever is written to it.
    let _ = write!(out, "{number}");
}

/// Adds a text as a JSON string; most texts need no escape, and are copied.
pub fn push_string(out: &mut String, text: &str) {
    let needs_escape = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if text.bytes().any(needs_escape) {
        out.push_str(&serde_json::Value::from(text).to_string());
        return;
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

pub fn push_literal(out: &mut String, literal: Option<&Literal>) {
    match literal {
        Some(literal) => {
            out.push('"');
            out.push_str(literal.as_str());
            out.push('"');
        }
        None => out.push_str("null"),
    }
}
