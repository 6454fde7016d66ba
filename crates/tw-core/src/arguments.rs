//! Arguments of a call: read strictly, checked against the tool's schema, never mended.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::json::{Json, Literal, depth};
use crate::limits;

/// A compiled JSON Schema without access to other documents.
#[derive(Clone)]
pub struct Schema(Arc<jsonschema::Validator>);

/// The text is no schema that can be used.
#[derive(Debug, thiserror::Error)]
#[error("schema: {0}")]
pub struct BadSchema(String);

/// How many violations an error message lists.
const VIOLATIONS_SHOWN_MAX: usize = 5;
/// How much of a tool's schema an error message repeats, in bytes.
const SCHEMA_SHOWN_BYTES_MAX: usize = 2048;

impl Schema {
    /// Compiles `parameters`; references resolve inside the document only.
    ///
    /// # Errors
    /// [`BadSchema`] when it is not a schema.
    pub fn compile(parameters: &Json) -> Result<Self, BadSchema> {
        jsonschema::options()
            .with_pattern_options(
                jsonschema::PatternOptions::regex().size_limit(limits::PATTERN_BYTES_MAX),
            )
            .build(&parameters.to_value())
            .map(|validator| Self(Arc::new(validator)))
            .map_err(|error| BadSchema(error.to_string()))
    }

    fn violations(&self, value: &Value) -> Vec<String> {
        self.0
            .iter_errors(value)
            .take(VIOLATIONS_SHOWN_MAX)
            .map(|error| {
                let path = error.instance_path().to_string();
                let place = if path.is_empty() {
                    "arguments".to_owned()
                } else {
                    format!("arguments{path}")
                };
                format!("{place}: {error}")
            })
            .collect()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
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
pub enum Written {
    InFull,
    /// The answer ended by its length limit.
    CutByLength,
}

/// Why a call cannot run; the text is for the model.
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
    end: Written,
    schema: &Schema,
    parameters: &Json,
) -> Result<ValidArgs, InvalidArguments> {
    let text = written.to_text();
    if end == Written::CutByLength {
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
    let violations = schema.violations(&json.to_value());
    if violations.is_empty() {
        return Ok(ValidArgs(json));
    }
    let problem = format!(
        "The arguments do not fit the tool's schema: {}.",
        violations.join("; ")
    );
    Err(InvalidArguments(with_schema(&problem, parameters)))
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
