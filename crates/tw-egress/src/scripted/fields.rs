//! Reads the keys of one table of a script and says precisely what is wrong with one.

use std::ops::RangeInclusive;

use serde_json::Value as Json;
use toml::{Table, Value};

use super::ScriptError;

/// The keys of one table that were not read yet.
pub(super) struct UnreadKeys {
    rule: usize,
    /// Path of the table in its rule: empty, or such as `calls[1].`.
    at: String,
    table: Table,
}

impl UnreadKeys {
    pub(super) fn new(rule: usize, at: &str, value: Value) -> Result<UnreadKeys, ScriptError> {
        match value {
            Value::Table(table) => Ok(UnreadKeys {
                rule,
                at: at.to_owned(),
                table,
            }),
            other => Err(ScriptError::Field {
                rule,
                field: at.trim_end_matches('.').to_owned(),
                reason: expected("a table", &other),
            }),
        }
    }

    pub(super) fn error(&self, key: &str, reason: impl Into<String>) -> ScriptError {
        ScriptError::Field {
            rule: self.rule,
            field: format!("{}{key}", self.at),
            reason: reason.into(),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(super) fn value(&mut self, key: &str) -> Option<Value> {
        self.table.remove(key)
    }

    pub(super) fn string(&mut self, key: &str) -> Result<Option<String>, ScriptError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.error(key, expected("a string", &other))),
        }
    }

    pub(super) fn boolean(&mut self, key: &str) -> Result<Option<bool>, ScriptError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.error(key, expected("true or false", &other))),
        }
    }

    pub(super) fn integer(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ScriptError> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        match self.value(key) {
            None => Ok(None),
            Some(Value::Integer(number)) => match u64::try_from(number) {
                Ok(number) if range.contains(&number) => Ok(Some(number)),
                _ => Err(self.error(key, format!("must be {wanted}, is {number}"))),
            },
            Some(other) => Err(self.error(key, expected(&wanted, &other))),
        }
    }

    pub(super) fn count(&mut self, key: &str) -> Result<Option<usize>, ScriptError> {
        let number = self.integer(key, 0..=COUNT_MAX)?;
        Ok(number.and_then(|number| usize::try_from(number).ok()))
    }

    pub(super) fn array(
        &mut self,
        key: &str,
        entries_max: usize,
    ) -> Result<Option<Vec<Value>>, ScriptError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(entries)) if entries.len() > entries_max => Err(self.error(
                key,
                format!(
                    "has {} entries, at most {entries_max} are allowed",
                    entries.len()
                ),
            )),
            Some(Value::Array(entries)) => Ok(Some(entries)),
            Some(other) => Err(self.error(key, expected("an array", &other))),
        }
    }

    /// A string that can stand in an HTTP header: visible ASCII and spaces.
    pub(super) fn header(&mut self, key: &str) -> Result<Option<String>, ScriptError> {
        let text = self.string(key)?;
        let plain = |text: &String| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        match text {
            Some(text) if !plain(&text) => {
                Err(self.error(key, "may hold only visible ASCII and spaces"))
            }
            text => Ok(text),
        }
    }

    /// Refuses what was not read: `known` keys have no effect beside `beside`, others do not exist.
    pub(super) fn finish(self, known: &[&str], beside: &str) -> Result<(), ScriptError> {
        match self.table.keys().next() {
            None => Ok(()),
            Some(key) if known.contains(&key.as_str()) => {
                Err(self.error(key, format!("has no effect beside {beside}")))
            }
            Some(key) => Err(self.error(key, "is an unknown key")),
        }
    }
}

/// Largest count a condition may name; far above what a request can hold.
const COUNT_MAX: u64 = 1_000_000;

pub(super) fn expected(wanted: &str, found: &Value) -> String {
    format!("must be {wanted}, is of type {}", found.type_str())
}

/// TOML as JSON; dates become strings.
///
/// # Errors
///
/// The reason, for a number that JSON does not have. The depth is bounded by the TOML reader.
pub(super) fn json(value: Value) -> Result<Json, String> {
    Ok(match value {
        Value::String(text) => Json::String(text),
        Value::Integer(number) => Json::from(number),
        Value::Float(number) => match serde_json::Number::from_f64(number) {
            Some(number) => Json::Number(number),
            None => return Err(format!("holds {number}, which JSON does not have")),
        },
        Value::Boolean(flag) => Json::Bool(flag),
        Value::Datetime(time) => Json::String(time.to_string()),
        Value::Array(entries) => entries.into_iter().map(json).collect::<Result<_, _>>()?,
        Value::Table(table) => Json::Object(
            table
                .into_iter()
                .map(|(key, value)| Ok((key, json(value)?)))
                .collect::<Result<_, String>>()?,
        ),
    })
}
