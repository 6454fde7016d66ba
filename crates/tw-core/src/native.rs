//! What only one wire format knows: kept as it was written, and read by that format alone.

use crate::json::Json;

/// The name of a wire format. The formats give them; here they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatName(&'static str);

impl FormatName {
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    pub fn as_str(self) -> &'static str {
        self.0
    }
}

/// A word by which a format tells apart the places where it writes the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NativeLabel(&'static str);

impl NativeLabel {
    pub const fn new(word: &'static str) -> Self {
        Self(word)
    }

    pub fn as_str(self) -> &'static str {
        self.0
    }
}

/// Fields of a format, in the order in which they came.
pub type NativeFields = Vec<(Box<str>, Json)>;

/// A value that one format alone understands.
#[derive(Clone, Debug, PartialEq)]
pub struct NativePart {
    pub format: FormatName,
    pub json: Json,
}

/// The origin of a model's answer. What is the answer's own, such as ids and signatures, goes back there and to nobody
/// else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerOrigin {
    pub format: FormatName,
    /// The upstream's name in the configuration.
    pub upstream: Box<str>,
    /// The upstream's own name of the model.
    pub model: Box<str>,
}

/// Sets a field, of which the last value counts; lists are put one behind the other, as text is.
pub fn add_field(fields: &mut NativeFields, key: &str, value: &Json) {
    match fields.iter_mut().find(|(have, _)| **have == *key) {
        Some((_, have)) => *have = have.followed_by(value).unwrap_or_else(|| value.clone()),
        None => fields.push((key.into(), value.clone())),
    }
}

/// Bytes of memory that fields take.
pub fn field_bytes(fields: &NativeFields) -> usize {
    fields
        .iter()
        .map(|(key, value)| key.len() + value.as_str().len())
        .sum()
}
