//! Arguments of a call: read strictly, checked against the tool's schema, never mended.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::json::{Json, Literal, depth};
use crate::limits;
use crate::variables::beginning;

/// A compiled JSON Schema without access to other documents.
#[derive(Clone)]
pub struct ArgumentsSchema {
    validator: Arc<jsonschema::Validator>,
    /// Objects and arrays in it, with references followed.
    values: usize,
}

/// The text is no schema that can be used.
#[derive(Debug, thiserror::Error)]
#[error("schema: {0}")]
pub struct BadSchema(String);

/// The number of violations that an error message lists.
const VIOLATIONS_SHOWN_MAX: usize = 5;
/// The longest text that an error message gives of one violation, in bytes: it may repeat what was given.
const VIOLATION_SHOWN_BYTES_MAX: usize = 512;
/// The longest schema of a tool that an error message repeats, in bytes.
const SCHEMA_SHOWN_BYTES_MAX: usize = 2048;
/// Values of the arguments, times those of the schema. Each pair may be an error that is made before the first one is
/// told, of some 500 bytes; with more than this nothing is said of single ones.
const PAIRS_TOLD_MAX: usize = 50_000;
/// Pairs of such values up to which arguments are checked, which takes some 20 ns for each.
const PAIRS_CHECKED_MAX: usize = 20_000_000;
/// Depth to which references are followed.
const REFERENCES_DEEP_MAX: usize = 32;

impl ArgumentsSchema {
    /// Compiles `parameters`; references resolve inside the document only.
    ///
    /// # Errors
    /// [`BadSchema`] when it is not a schema.
    pub fn compile(parameters: &Json) -> Result<Self, BadSchema> {
        let value = parameters.to_value();
        jsonschema::options()
            .with_pattern_options(
                jsonschema::PatternOptions::regex().size_limit(limits::PATTERN_BYTES_MAX),
            )
            .build(&value)
            .map(|validator| Self {
                validator: Arc::new(validator),
                values: expanded(&value, &value, 0, PAIRS_CHECKED_MAX),
            })
            .map_err(|error| BadSchema(error.to_string()))
    }

    /// The problem of a value that does not fit the schema; `None` for one that fits.
    fn problem(&self, value: &Value) -> Option<String> {
        let pairs = self.values.saturating_mul(values(value));
        if pairs > PAIRS_CHECKED_MAX {
            return Some(
                "The arguments hold more values than can be checked against the tool's schema."
                    .to_owned(),
            );
        }
        let problem = "The arguments do not fit the tool's schema";
        if pairs > PAIRS_TOLD_MAX {
            let fits = self.validator.is_valid(value);
            return (!fits).then(|| format!("{problem}."));
        }
        // Each look may take long, so there is one.
        let violations = self.violations(value);
        (!violations.is_empty()).then(|| format!("{problem}: {}.", violations.join("; ")))
    }

    fn violations(&self, value: &Value) -> Vec<String> {
        self.validator
            .iter_errors(value)
            .take(VIOLATIONS_SHOWN_MAX)
            .map(|error| {
                let path = error.instance_path().to_string();
                let place = if path.is_empty() {
                    "arguments".to_owned()
                } else {
                    format!("arguments{path}")
                };
                let violation = format!("{place}: {error}");
                match beginning(&violation, VIOLATION_SHOWN_BYTES_MAX) {
                    whole if whole.len() == violation.len() => violation,
                    cut => format!("{cut}…"),
                }
            })
            .collect()
    }
}

/// The number of values in `value`, itself and those at all depths.
fn values(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(values).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

/// The number of objects and arrays in a schema, with those that are referred to counted each time; at least `most`
/// where there are more than that.
fn expanded(root: &Value, schema: &Value, deep: usize, most: usize) -> usize {
    let sum = |parts: &mut dyn Iterator<Item = &Value>| {
        let mut count: usize = 1;
        for part in parts {
            if count >= most {
                break;
            }
            count = count.saturating_add(expanded(root, part, deep, most - count));
        }
        count
    };
    match schema {
        Value::Array(items) => sum(&mut items.iter()),
        Value::Object(members) => {
            let count = sum(&mut members.values());
            let target = members.get("$ref").and_then(Value::as_str);
            let place = target
                .filter(|_| deep < REFERENCES_DEEP_MAX && count < most)
                .and_then(|target| root.pointer(target.strip_prefix('#')?));
            count + place.map_or(0, |place| expanded(root, place, deep + 1, most - count))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

impl fmt::Debug for ArgumentsSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArgumentsSchema")
    }
}

/// Arguments that fit the tool's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidArgs(Json);

impl ValidArgs {
    pub fn json(&self) -> &Json {
        &self.0
    }
}

/// Whether the model had finished writing when its answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentsEnd {
    InFull,
    /// The answer ended by its length limit.
    CutByLength,
}

/// The reason for which a call's arguments cannot be used; the text is for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidArguments(pub String);

/// Reads the arguments that a model wrote.
///
/// An empty text from an answer that was written in full is `{}`; nothing else is mended.
///
/// # Errors
/// [`InvalidArguments`] names what is wrong, where, and what the tool takes.
pub fn read(
    written: &Literal,
    end: ArgumentsEnd,
    schema: &ArgumentsSchema,
    parameters: &Json,
) -> Result<ValidArgs, InvalidArguments> {
    let text = written.to_text();
    if end == ArgumentsEnd::CutByLength {
        // Even arguments that look complete may be the beginning of something else.
        return Err(InvalidArguments(
            "The call was cut off because the answer reached its length limit; it was not run."
                .to_owned(),
        ));
    }
    let text = text.trim();
    let text = if text.is_empty() { "{}" } else { text };
    let json =
        parse(text).map_err(|problem| InvalidArguments(with_schema(&problem, parameters)))?;
    match schema.problem(&json.to_value()) {
        None => Ok(ValidArgs(json)),
        Some(problem) => Err(InvalidArguments(with_schema(&problem, parameters))),
    }
}

/// Reads arguments that were validated before they were stored.
///
/// # Errors
/// [`InvalidArguments`] when the text is no JSON object, which means that the record is damaged.
pub fn read_stored(text: &str) -> Result<ValidArgs, InvalidArguments> {
    parse(text.trim()).map(ValidArgs).map_err(InvalidArguments)
}

fn parse(text: &str) -> Result<Json, String> {
    if depth(text.as_bytes()) > limits::JSON_DEPTH_DEFAULT {
        return Err(format!(
            "The arguments nest deeper than {} levels.",
            limits::JSON_DEPTH_DEFAULT
        ));
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let first = values.next();
    let consumed = values.byte_offset();
    match first {
        None => Err("The arguments are empty.".to_owned()),
        Some(Err(error)) => Err(format!(
            "The arguments are not complete, valid JSON: {error}."
        )),
        Some(Ok(Value::Object(_))) if text[consumed..].trim().is_empty() => {
            Json::parse(text).map_err(|error| format!("The arguments are not valid JSON: {error}."))
        }
        Some(Ok(Value::Object(_))) if text[consumed..].trim_start().starts_with('{') => Err(
            "The arguments hold several JSON objects in one call; make one call for each of them."
                .to_owned(),
        ),
        Some(Ok(Value::Object(_))) => {
            Err("The arguments hold more text after the JSON object.".to_owned())
        }
        Some(Ok(
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_),
        )) => Err("The arguments must be one JSON object.".to_owned()),
    }
}

fn with_schema(problem: &str, parameters: &Json) -> String {
    let schema = parameters.as_str();
    if schema.len() > SCHEMA_SHOWN_BYTES_MAX {
        return problem.to_owned();
    }
    format!("{problem} The tool takes: {schema}")
}

#[cfg(test)]
mod tests;
