//! Templates: text with `{{variables}}`, substituted once and never looked at again.

mod prompts;

use std::fmt::Write as _;

use crate::variables::{self, VALUE_BYTES_MAX, Variables};

pub use prompts::Prompts;

/// Text with places for variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTemplate {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
}

/// The place where a value lands, which decides how it is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueLanding {
    /// A text that holds the value as it is: prompts, and strings that a JSON or form writer
    /// escapes as a whole.
    Text,
    /// A path segment or query value: everything but unreserved characters is percent-encoded.
    Url,
    /// A header's value: control characters are refused.
    Header,
}

/// The text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTemplate(pub String);

/// A template cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("the variable {0:?} has no value")]
    Missing(String),
    #[error("the variable {0:?} has more than {VALUE_BYTES_MAX} bytes")]
    TooLong(String),
    #[error("the variable {0:?} holds control characters, which a header cannot")]
    NotInHeader(String),
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

impl TextTemplate {
    /// Reads text in which `{{name}}`, with or without spaces inside the braces, is a variable.
    ///
    /// # Errors
    /// [`BadTemplate`] for `{{` without a name and `}}` behind it, because such text is a mistake
    /// more often than it is meant.
    pub fn parse(text: &str) -> Result<Self, BadTemplate> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(OPEN) {
            let (name, behind) = variable_at(&rest[at..])?;
            if at > 0 {
                pieces.push(Piece::Text(rest[..at].to_owned()));
            }
            pieces.push(Piece::Variable(name.to_owned()));
            rest = behind;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self { pieces })
    }

    /// The names used, in the order of use, repeated if they are.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Variable(name) => Some(name.as_str()),
        })
    }

    /// The text with every variable's value, escaped for where it lands; what stands between the
    /// variables is taken as it is.
    ///
    /// # Errors
    /// [`RenderError`] names the variable.
    pub fn render(
        &self,
        variables: &Variables,
        landing: ValueLanding,
    ) -> Result<String, RenderError> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Variable(name) => {
                    let value = value_of(variables, name)?;
                    match landing {
                        ValueLanding::Text => text.push_str(value),
                        ValueLanding::Url => text.push_str(&url_part(value)),
                        ValueLanding::Header if value.contains(char::is_control) => {
                            return Err(RenderError::NotInHeader(name.clone()));
                        }
                        ValueLanding::Header => text.push_str(value),
                    }
                }
            }
        }
        Ok(text)
    }

    /// The text as the only prompt of a tool.
    pub fn render_or_empty(&self, variables: &Variables) -> String {
        Prompts::new(variables).render(self)
    }

    /// The template as text, without spaces inside the braces.
    pub fn written(&self) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Variable(name) => {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{OPEN}{name}{CLOSE}");
                }
            }
        }
        text
    }
}

/// A variable's value, as it may be put into a request.
///
/// # Errors
/// [`RenderError`] when there is none, and when it is too long.
pub(crate) fn value_of<'a>(variables: &'a Variables, name: &str) -> Result<&'a str, RenderError> {
    match variables.get(name) {
        None => Err(RenderError::Missing(name.to_owned())),
        Some(value) if value.len() > VALUE_BYTES_MAX => Err(RenderError::TooLong(name.to_owned())),
        Some(value) => Ok(value),
    }
}

/// The name at the start of `text`, which begins with `{{`, and what is behind its `}}`.
pub(crate) fn variable_at(text: &str) -> Result<(&str, &str), BadTemplate> {
    let inner = &text[OPEN.len()..];
    let found = inner
        .split_once(CLOSE)
        .map(|(name, behind)| (name.trim_matches(' '), behind))
        .filter(|(name, _)| variables::is_name(name));
    found.ok_or_else(|| {
        let start: String = text.chars().take(24).collect();
        BadTemplate(format!(
            "{OPEN} must be followed by the name of a variable and {CLOSE}, at {start:?}"
        ))
    })
}

/// `text` for one path segment or one query name or value: every byte but the unreserved
/// characters of RFC 3986 is percent-encoded.
pub fn url_part(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            part.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(part, "%{byte:02X}");
        }
    }
    part
}

#[cfg(test)]
mod tests;
