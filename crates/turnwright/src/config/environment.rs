//! The environment, whose values are never shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use anyhow::{anyhow, bail};

/// Longest name of a variable that an error shows, in bytes.
const SHOWN_BYTES_MAX: usize = 64;

/// The variables of this process, or those that a test makes up.
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    pub fn of_process() -> Self {
        Self::of(std::env::vars_os())
    }

    pub fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        // A name that is no UTF-8 is none of ours, and is shown as well as it can be.
        let named =
            |(name, value): (OsString, OsString)| (name.to_string_lossy().into_owned(), value);
        Self(variables.into_iter().map(named).collect())
    }

    /// A variable that is set and not empty.
    ///
    /// # Errors
    /// When it is no UTF-8; the error names the variable and does not show its value.
    pub fn get(&self, name: &str) -> anyhow::Result<Option<String>> {
        let Some(value) = self.0.get(name).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        match value.to_str() {
            Some(value) => Ok(Some(value.to_owned())),
            None => Err(anyhow!("the variable {name} is no UTF-8")),
        }
    }

    /// Reads a key or an address like [`Self::get`]; either is sent as it stands.
    ///
    /// # Errors
    /// Also when it holds what neither may hold; see [`check_sendable`].
    pub fn get_sendable(&self, name: &str) -> anyhow::Result<Option<String>> {
        let value = self.get(name)?;
        if let Some(value) = &value {
            check_sendable(&format!("the variable {name}"), value)?;
        }
        Ok(value)
    }

    /// Reads a variable like [`Self::get`] that a setting names and that must be there.
    ///
    /// # Errors
    /// Also when it is not set, or empty, or when no variable has such a name.
    ///
    /// Who writes the value there by mistake must not find it in the log, so that only a name is
    /// shown that is written as names of variables are.
    pub fn need(&self, setting: &str, name: &str) -> anyhow::Result<String> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(known) {
            bail!("'{setting}' must be the name of a variable");
        }
        if let Some(value) = self.get(name)? {
            return Ok(value);
        }
        if name.bytes().any(|byte| byte.is_ascii_lowercase()) || name.len() > SHOWN_BYTES_MAX {
            bail!("'{setting}' names a variable that is not set");
        }
        bail!("'{setting}': the variable {name} is not set")
    }

    /// The rests of the names that begin with `prefix`.
    pub fn names_after<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .keys()
            .filter_map(move |name| name.strip_prefix(prefix))
    }
}

/// Mark that stands in documents for what is left out.
const ELLIPSIS: char = '\u{2026}';

/// Refuses white space and what is not ASCII in a key or an address. The first request would fail with it, or reach
/// the provider and be refused there.
///
/// # Errors
/// Says what stands where, in characters from 1, and shows nothing of the value.
pub fn check_sendable(named: &str, value: &str) -> anyhow::Result<()> {
    let found = value
        .chars()
        .zip(1..)
        .find(|(found, _)| !found.is_ascii_graphic());
    let Some((found, place)) = found else {
        return Ok(());
    };
    check_whole(named, value)?;
    let what = match found {
        ' ' => "a space",
        '\n' | '\r' => "the end of a line",
        found if found.is_whitespace() => "white space",
        found if found.is_control() => "a control character",
        _ => "a character that is not ASCII",
    };
    bail!("{named} holds {what} at its character {place}")
}

/// Refuses a value that was copied from a document together with the mark of what was left out there.
///
/// # Errors
/// Shows nothing of the value.
pub fn check_whole(named: &str, value: &str) -> anyhow::Result<()> {
    if value.contains(ELLIPSIS) {
        bail!(
            "{named} holds '{ELLIPSIS}', which stands for something in the document that it was copied from"
        );
    }
    Ok(())
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
