//! What all three providers have in common: the forms of values.

use serde_json::{Map, Value};

/// Why a provider would refuse a request.
pub type Refusal = String;

pub fn require(holds: bool, what: impl Into<String>) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(what.into()) }
}

pub fn object(value: &Value) -> Result<&Map<String, Value>, Refusal> {
    value
        .as_object()
        .ok_or_else(|| format!("no object: {value}"))
}

pub fn list(value: &Value) -> Result<&Vec<Value>, Refusal> {
    let list = value
        .as_array()
        .ok_or_else(|| format!("no list: {value}"))?;
    require(!list.is_empty(), "an empty list")?;
    Ok(list)
}

pub fn text(value: &Value) -> Result<&str, Refusal> {
    value.as_str().ok_or_else(|| format!("no text: {value}"))
}

pub fn filled(value: &Value) -> Result<&str, Refusal> {
    let text = text(value)?;
    require(!text.is_empty(), "an empty text")?;
    Ok(text)
}

/// A name or an id of letters, digits, `_` and `-`.
pub fn plain(value: &Value, chars_max: usize) -> Result<&str, Refusal> {
    let text = filled(value)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    require(
        text.len() <= chars_max && text.bytes().all(is_plain),
        format!("no plain name: {text}"),
    )?;
    Ok(text)
}

pub fn one_of<'a>(value: &'a Value, words: &[&str]) -> Result<&'a str, Refusal> {
    let word = text(value)?;
    require(
        words.contains(&word),
        format!("'{word}' is none of {words:?}"),
    )?;
    Ok(word)
}

/// A field that is there and not null.
pub fn given<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|value| !value.is_null())
}

/// Fields that are not known are refused.
pub fn only(value: &Value, known: &[&str]) -> Result<(), Refusal> {
    for name in object(value)?.keys() {
        require(
            known.contains(&name.as_str()),
            format!("an unknown field: {name}"),
        )?;
    }
    Ok(())
}

pub fn number_within(value: &Value, name: &str, least: f64, most: f64) -> Result<(), Refusal> {
    let Some(value) = given(value, name) else {
        return Ok(());
    };
    let number = value.as_f64().ok_or_else(|| format!("no number: {name}"))?;
    require(
        (least..=most).contains(&number),
        format!("{name} is {number}"),
    )
}

/// Arguments that servers which parse them take.
pub fn arguments(value: &Value) -> Result<(), Refusal> {
    let text = text(value)?;
    let parsed: Value = serde_json::from_str(text).map_err(|_| format!("no JSON: {text}"))?;
    require(parsed.is_object(), format!("no object: {text}"))
}

pub fn schema(value: &Value) -> Result<(), Refusal> {
    require(value.is_object(), "a schema that is no object")
}

pub fn url(value: &Value) -> Result<(), Refusal> {
    let url = text(value)?;
    let begins = ["https://", "http://", "data:"];
    require(
        begins.iter().any(|begin| url.starts_with(begin)),
        format!("no URL: {url}"),
    )
}

/// The names of a list of tools, each once.
pub fn distinct(names: &[&str]) -> Result<(), Refusal> {
    for (at, name) in names.iter().enumerate() {
        require(!names[..at].contains(name), format!("twice: {name}"))?;
    }
    Ok(())
}
