//! JSON taken apart: the order of members and the digits of numbers stay as written.

use std::collections::HashMap;
use std::io;

use super::bounded::{BoundedText, TextFull};
use super::{Json, Literal};

/// Deepest nesting of a value that is taken apart.
const DEPTH_MAX: usize = 128;

/// A JSON value, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonTree {
    /// A number, `true`, `false` or `null`, as written.
    Scalar(String),
    Text(String),
    Array(Vec<JsonTree>),
    /// Names are unique. Of a name that was written twice the last value holds, as it does for
    /// whoever checks the value with a schema.
    Object(Vec<(String, JsonTree)>),
}

/// The order in which the members of objects are written: as they stand, or by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberOrder {
    AsItIs,
    ByName,
}

impl JsonTree {
    /// Takes a value apart; `None` when it nests too deep.
    pub fn read(json: &Json) -> Option<Self> {
        if json.depth() > DEPTH_MAX {
            return None;
        }
        Reader(json.as_str()).value()
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(text) if text == "null")
    }

    /// The text of a string, or a number or boolean as written; `None` for everything else.
    pub fn as_plain_text(&self) -> Option<&str> {
        match self {
            Self::Scalar(_) if self.is_null() => None,
            Self::Scalar(text) | Self::Text(text) => Some(text),
            Self::Array(_) | Self::Object(_) => None,
        }
    }

    pub fn write(&self, order: MemberOrder) -> String {
        let mut text = BoundedText::new(usize::MAX);
        // There is room for all of it.
        let _ = self.write_to(order, &mut text);
        text.into_text()
    }

    /// # Errors
    /// [`TextFull`] when only a part fits, which is written all the same.
    pub fn write_into(&self, order: MemberOrder, out: &mut BoundedText) -> Result<(), TextFull> {
        self.write_to(order, out).map_err(|_| TextFull)
    }

    pub fn to_json(&self) -> Json {
        Json(self.write(MemberOrder::AsItIs).into())
    }

    fn write_to<W: io::Write>(&self, order: MemberOrder, out: &mut W) -> io::Result<()> {
        match self {
            Self::Scalar(text) => out.write_all(text.as_bytes()),
            Self::Text(text) => write_text(text, out),
            Self::Array(items) => {
                out.write_all(b"[")?;
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.write_all(b",")?;
                    }
                    item.write_to(order, out)?;
                }
                out.write_all(b"]")
            }
            Self::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if order == MemberOrder::ByName {
                    members.sort_by(|a, b| a.0.cmp(&b.0));
                }
                out.write_all(b"{")?;
                for (index, (name, value)) in members.into_iter().enumerate() {
                    if index > 0 {
                        out.write_all(b",")?;
                    }
                    write_text(name, out)?;
                    out.write_all(b":")?;
                    value.write_to(order, out)?;
                }
                out.write_all(b"}")
            }
        }
    }
}

fn write_text<W: io::Write>(text: &str, out: &mut W) -> io::Result<()> {
    serde_json::to_writer(out, text).map_err(io::Error::from)
}

/// Takes apart text that a JSON parser has accepted, so that it needs to look for ends only.
/// Where the text is not JSON after all the answer is `None`.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn value(&mut self) -> Option<JsonTree> {
        match self.peek()? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.text().map(JsonTree::Text),
            _ => {
                let end = self
                    .0
                    .find([',', ']', '}', ' ', '\t', '\n', '\r'])
                    .unwrap_or(self.0.len());
                (end > 0).then(|| JsonTree::Scalar(self.take(end).to_owned()))
            }
        }
    }

    fn object(&mut self) -> Option<JsonTree> {
        let mut members: Vec<(String, JsonTree)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        self.take(1);
        if self.skip(b'}') {
            return Some(JsonTree::Object(members));
        }
        loop {
            self.peek()?;
            let name = self.text()?;
            if !self.skip(b':') {
                return None;
            }
            let value = self.value()?;
            match places.get(&name) {
                Some(&place) => members[place].1 = value,
                None => {
                    places.insert(name.clone(), members.len());
                    members.push((name, value));
                }
            }
            if self.skip(b'}') {
                return Some(JsonTree::Object(members));
            }
            if !self.skip(b',') {
                return None;
            }
        }
    }

    fn array(&mut self) -> Option<JsonTree> {
        let mut items = Vec::new();
        self.take(1);
        if self.skip(b']') {
            return Some(JsonTree::Array(items));
        }
        loop {
            items.push(self.value()?);
            if self.skip(b']') {
                return Some(JsonTree::Array(items));
            }
            if !self.skip(b',') {
                return None;
            }
        }
    }

    fn text(&mut self) -> Option<String> {
        let bytes = self.0.as_bytes();
        if bytes.first() != Some(&b'"') {
            return None;
        }
        let mut end = 1;
        loop {
            match bytes.get(end)? {
                b'"' => break,
                b'\\' => end += 2,
                _ => end += 1,
            }
        }
        let inner = Literal(self.0.get(1..end)?.into());
        self.take(end + 1);
        Some(inner.to_text())
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        self.0 = self.0.trim_start_matches([' ', '\t', '\n', '\r']);
        self.0.bytes().next()
    }

    fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.take(1);
        }
        is_next
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.0.split_at(bytes);
        self.0 = rest;
        taken
    }
}

#[cfg(test)]
pub(crate) mod tests;
