//! A value of a definition together with where it stands, and reading it with errors that say so.

use std::borrow::Cow;
use std::fmt::Display;

use serde_json::value::RawValue;
use tw_core::definition::DefinitionError;
use tw_core::json::Json;
use tw_core::template::TextTemplate;

use crate::openai_chat::raw::{self, NotFields, ObjectFields};

/// The name of the definition as a whole in an error.
pub const WHOLE: &str = "tool";

/// The problem of a name that an object holds more than once.
pub const TWICE: &str = "stands there twice";

/// Longest path in an error, in characters; names in it are the client's own.
const FIELD_CHARS_MAX: usize = 400;
/// Longest word of a client's in an error, in characters.
const WORD_CHARS_MAX: usize = 60;

/// The path of a member: `path.name`, or `path["a name"]` when it has other characters than
/// letters, digits, `_`, `-` and `$`.
pub fn member(path: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    if name.is_empty() || !name.chars().all(is_plain) {
        return format!("{path}[{}]", serde_json::Value::from(name));
    }
    if path.is_empty() {
        return name.to_owned();
    }
    format!("{path}.{name}")
}

/// The path of an element, counted from 0.
pub fn element(path: &str, at: usize) -> String {
    format!("{path}[{at}]")
}

/// An error about the value at `path`.
pub fn error(path: &str, problem: impl Display) -> DefinitionError {
    let path = if path.is_empty() { WHOLE } else { path };
    DefinitionError {
        field: shortened(path, FIELD_CHARS_MAX).into_owned(),
        problem: problem.to_string(),
    }
}

/// A client's word, as an error repeats it.
pub fn word(text: &str) -> String {
    serde_json::Value::from(&*shortened(text, WORD_CHARS_MAX)).to_string()
}

fn shortened(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A value and its path; the path of the definition itself is empty.
#[derive(Clone, Debug)]
pub struct ValueAtPath<'a> {
    pub path: String,
    pub raw: &'a RawValue,
}

impl<'a> ValueAtPath<'a> {
    pub fn error(&self, problem: impl Display) -> DefinitionError {
        error(&self.path, problem)
    }

    /// The error of a value that is not `wanted`, which has its article, such as `a string`.
    pub fn wrong_type(&self, wanted: &str) -> DefinitionError {
        self.error(format_args!("must be {wanted}, is {}", self.kind()))
    }

    fn kind(&self) -> &'static str {
        match self.raw.get().as_bytes().first() {
            Some(b'"') => "a string",
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            Some(_) | None => "a number",
        }
    }

    pub fn is_string(&self) -> bool {
        self.raw.get().starts_with('"')
    }

    pub fn is_array(&self) -> bool {
        self.raw.get().starts_with('[')
    }

    pub fn is_object(&self) -> bool {
        raw::is_object(self.raw)
    }

    pub fn is_null(&self) -> bool {
        raw::is_null(self.raw)
    }

    pub fn json(&self) -> Json {
        Json::from_raw(self.raw)
    }

    pub fn text(&self) -> Result<Cow<'a, str>, DefinitionError> {
        raw::string(self.raw).ok_or_else(|| self.wrong_type("a string"))
    }

    pub fn template(&self) -> Result<TextTemplate, DefinitionError> {
        TextTemplate::parse(&self.text()?).map_err(|bad| self.error(bad))
    }

    pub fn boolean(&self) -> Result<bool, DefinitionError> {
        raw::boolean(self.raw).ok_or_else(|| self.wrong_type("a boolean"))
    }

    /// A whole number, written as one.
    pub fn whole<T: TryFrom<u64>>(&self) -> Result<T, DefinitionError> {
        if self.kind() != "a number" {
            return Err(self.wrong_type("a whole number"));
        }
        raw::integer(self.raw)
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| {
                self.error(format_args!(
                    "must be a whole number without sign, point and exponent, below 2^{}, is {}",
                    8 * size_of::<T>(),
                    shortened(self.raw.get(), WORD_CHARS_MAX)
                ))
            })
    }

    /// The value for a text that must be one of `words`.
    pub fn one_of<T>(
        &self,
        words: &[&str],
        parse: fn(&str) -> Option<T>,
    ) -> Result<T, DefinitionError> {
        let text = self.text()?;
        parse(&text).ok_or_else(|| {
            self.error(format_args!(
                "must be one of {}, is {}",
                words.join(", "),
                word(&text)
            ))
        })
    }

    pub fn elements(&self) -> Result<Vec<Self>, DefinitionError> {
        let elements = raw::array(self.raw).ok_or_else(|| self.wrong_type("an array"))?;
        Ok(elements
            .into_iter()
            .enumerate()
            .map(|(at, raw)| Self {
                path: element(&self.path, at),
                raw,
            })
            .collect())
    }

    /// The members of an object whose names are the client's own, in the order written.
    pub fn members(&self) -> Result<Vec<(String, Self)>, DefinitionError> {
        if !self.is_object() {
            return Err(self.wrong_type("an object"));
        }
        let ObjectFields(fields) =
            ObjectFields::parse(self.raw.get()).map_err(|bad| match bad {
                NotFields::Duplicate(name) => error(&member(&self.path, &name), TWICE),
                NotFields::Json(bad) => self.error(format_args!("is not valid JSON: {bad}")),
            })?;
        Ok(fields
            .into_iter()
            .map(|(name, raw)| {
                let path = member(&self.path, &name);
                (name.into_owned(), Self { path, raw })
            })
            .collect())
    }

    /// An object of which every member is one of `known`.
    pub fn object(
        &self,
        known: &'static [&'static str],
    ) -> Result<KnownObject<'a>, DefinitionError> {
        let members = self.members()?;
        let unknown = members
            .iter()
            .find(|(name, _)| !known.contains(&name.as_str()));
        if let Some((_, place)) = unknown {
            return Err(place.error(format_args!(
                "is not known here; known are {}",
                known.join(", ")
            )));
        }
        Ok(KnownObject {
            path: self.path.clone(),
            known,
            members,
        })
    }
}

/// An object whose members are all known.
#[derive(Debug)]
pub struct KnownObject<'a> {
    path: String,
    known: &'static [&'static str],
    members: Vec<(String, ValueAtPath<'a>)>,
}

impl<'a> KnownObject<'a> {
    pub fn optional(&self, name: &str) -> Option<&ValueAtPath<'a>> {
        debug_assert!(self.known.contains(&name), "{name} would be refused");
        let found = self.members.iter().find(|(have, _)| have == name);
        found.map(|(_, place)| place)
    }

    pub fn required(&self, name: &str) -> Result<&ValueAtPath<'a>, DefinitionError> {
        self.optional(name)
            .ok_or_else(|| error(&member(&self.path, name), "is missing"))
    }
}
