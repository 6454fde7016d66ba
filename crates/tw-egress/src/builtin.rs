//! Tools that need no account and no network: the time, and exact arithmetic.
//!
//! Each is a pure function from arguments to the text the model reads.
//! The caller gives the time, so that a recorded turn replays to the same bytes.
//! An `Err` is a sentence for the model: what was wrong and how to repair it; retrying the same arguments cannot help.
//! Arguments are expected to have passed the schema of the definition, but any JSON value is answered, not trusted.

use serde_json::Value;

mod calculator;
mod clock;

/// The definition of a built-in tool, as the model is told of it.
pub struct BuiltinDefinition {
    pub name: &'static str,
    pub description: &'static str,
    /// JSON Schema text, sent as it stands.
    pub parameters: &'static str,
}

pub const TIME_NOW: BuiltinDefinition = BuiltinDefinition {
    name: "time_now",
    description: "Current date, time and weekday.",
    parameters: r#"{"type":"object","properties":{"zone":{"type":"string","description":"IANA zone or offset like +05:30; default UTC","minLength":1,"maxLength":64}},"additionalProperties":false}"#,
};

pub const CALCULATE: BuiltinDefinition = BuiltinDefinition {
    name: "calculate",
    description: "Exact arithmetic: + - * / % ^ ( ) abs round(x, digits) floor ceil min max sqrt; plain numbers.",
    parameters: r#"{"type":"object","properties":{"expression":{"type":"string","minLength":1,"maxLength":1000}},"required":["expression"],"additionalProperties":false}"#,
};

/// Gives the JSON text of the date and time at `now_us`, in microseconds since 1970-01-01T00:00:00Z.
///
/// # Errors
/// A zone that is not known, with close names when there are any.
pub fn time_now(arguments: &Value, now_us: i64) -> Result<String, String> {
    clock::answer(arguments, now_us).map_err(|error| error.to_string())
}

/// Gives the JSON text of the value of an expression.
///
/// # Errors
/// An expression that cannot be read or computed, with the position of the fault in characters, from 1.
pub fn calculate(arguments: &Value) -> Result<String, String> {
    calculator::answer(arguments).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
