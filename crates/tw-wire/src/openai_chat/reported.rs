//! Errors as upstreams report them.
//!
//! Seen in recorded answers: `{"error": {…}}` with `code` a string, a number or null (OpenAI,
//! OpenRouter, Perplexity, llama.cpp, Azure); `error` a plain string (xAI, Venice); `detail` a
//! string or FastAPI's list (Mistral, Codex, vLLM); the error's fields at the top with
//! `"object": "error"` (vLLM) or without (AWS); a list of one such object (Gemini); a list
//! `errors` (Cloudflare); `base_resp` (MiniMax); `{"type": "error", "error": {…}}` (Anthropic); JSON as a string; all of
//! these behind `data:`; HTML and plain text.

use serde_json::Value;
use serde_json::value::RawValue;
use tw_core::model::ReportedError;

/// Longest message that is passed on, in bytes.
const MESSAGE_BYTES_MAX: usize = 2048;
/// Longest part of a page, or of a text that is no JSON, that is passed on, in bytes.
const TEXT_BYTES_MAX: usize = 200;

/// Names of the field in which an error says what happened; the last ones are Baidu's and
/// MiniMax's.
const MESSAGE_NAMES: [&str; 7] = [
    "message",
    "Message",
    "detail",
    "error_description",
    "msg",
    "error_msg",
    "status_msg",
];

/// Reads the value of an `error` field; `None` if it says that there is none.
pub fn of_field(raw: &RawValue) -> Option<ReportedError> {
    match raw.get() {
        "null" | "false" | "\"\"" | "{}" => None,
        // A mere flag or number, with the words beside it.
        text if !text.starts_with(['{', '[', '"']) => None,
        text => Some(of_object(text)),
    }
}

/// Reads an object that is an error or has one.
pub fn of_object(text: &str) -> ReportedError {
    let parsed = serde_json::from_str(text).ok();
    parsed
        .as_ref()
        .and_then(read)
        .unwrap_or_else(|| ReportedError {
            message: shorten(text, TEXT_BYTES_MAX),
            status: parsed.as_ref().and_then(status_of),
            ..ReportedError::default()
        })
}

fn status_of(value: &Value) -> Option<u16> {
    ["code", "status_code", "status"]
        .iter()
        .find_map(|name| http_status(&value[name]))
}

/// Reads a list in the place of an answer, if an error is in it.
pub fn of_list(text: &str) -> Option<ReportedError> {
    read(&serde_json::from_str(text).ok()?)
}

/// Reads an object in the place of an answer, if it looks like an error.
pub fn of_bare_object(text: &str) -> Option<ReportedError> {
    let value: Value = serde_json::from_str(text).ok()?;
    let has_text = MESSAGE_NAMES
        .iter()
        .chain(&["errors", "base_resp"])
        .any(|name| !value[name].is_null());
    if !has_text {
        return None;
    }
    read(&value)
}

/// Reads the body of an HTTP error.
pub fn of_http(status: u16, content_type: Option<&str>, body: &[u8]) -> ReportedError {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}');
    let parsed = first_value(text);
    let mut error = parsed
        .as_ref()
        .and_then(read)
        .unwrap_or_else(|| ReportedError {
            message: describe(status, content_type, text),
            ..ReportedError::default()
        });
    error.status = error.status.or(Some(status));
    error
}

/// The first value of a body, which may be an event stream, or have the end of one behind it.
fn first_value(text: &str) -> Option<Value> {
    let first = |text: &str| -> Option<Value> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter();
        values.next()?.ok()
    };
    let of_data = |line: &str| first(line.strip_prefix("data:")?);
    first(text).or_else(|| text.lines().find_map(of_data))
}

/// The message of an error body that is JSON, if it has one.
pub fn message_of(value: &Value) -> Option<String> {
    read(value).map(|error| error.message)
}

fn read(value: &Value) -> Option<ReportedError> {
    match value {
        Value::String(message) => {
            // Some gateways pass on as text what they were answered.
            let inside: Option<Value> = serde_json::from_str(message).ok();
            let inside = inside.filter(Value::is_object);
            inside.as_ref().and_then(read_object).or_else(|| {
                Some(ReportedError {
                    message: shorten(message, MESSAGE_BYTES_MAX),
                    ..ReportedError::default()
                })
            })
        }
        Value::Array(items) => items.iter().find_map(read),
        Value::Object(_) => read_object(value),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn read_object(value: &Value) -> Option<ReportedError> {
    for inner in ["error", "errors", "base_resp"] {
        let says_none = matches!(
            value[inner],
            Value::Null | Value::Bool(_) | Value::Number(_)
        );
        // MiniMax says in every answer how it went.
        let went_well = value[inner]["status_code"] == 0;
        if !says_none
            && !went_well
            && let Some(mut error) = read(&value[inner])
        {
            // xAI writes the code beside the error.
            error.code = error.code.or_else(|| word(&value["code"]));
            error.status = error.status.or_else(|| http_status(&value["code"]));
            return Some(error);
        }
    }
    let message = MESSAGE_NAMES
        .iter()
        .find_map(|name| read_message(&value[name]))?;
    let kind = word(&value["type"])
        .filter(|kind| kind != "error")
        .or_else(|| word(&value["status"]));
    let message = with_counts(message, value);
    Some(ReportedError {
        message: shorten(&message, MESSAGE_BYTES_MAX),
        kind,
        code: word(&value["code"]).or_else(|| word(&value["status_code"])),
        param: word(&value["param"]),
        status: status_of(value),
        broke_off: false,
    })
}

/// The message with the lengths of prompt and context, which llama.cpp writes beside it, and in it
/// only in later versions.
fn with_counts(message: String, value: &Value) -> String {
    let (Some(prompt), Some(context)) =
        (value["n_prompt_tokens"].as_u64(), value["n_ctx"].as_u64())
    else {
        return message;
    };
    if message.contains(&prompt.to_string()) {
        return message;
    }
    format!("{message} (the prompt has {prompt} tokens, the context {context})")
}

fn read_message(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        // FastAPI: `[{"loc": ["body", "messages"], "msg": "field required"}]`.
        Value::Array(items) => {
            let lines: Vec<String> = items.iter().filter_map(read_violation).collect();
            (!lines.is_empty()).then(|| lines.join("; "))
        }
        Value::Object(fields) => ["message", "detail"]
            .iter()
            .find_map(|name| fields.get(*name).and_then(read_message)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn read_violation(item: &Value) -> Option<String> {
    let message = item["msg"].as_str().or(item.as_str())?;
    let place: Vec<String> = item["loc"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(word)
        .collect();
    Some(if place.is_empty() {
        message.to_owned()
    } else {
        format!("{}: {message}", place.join("."))
    })
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(shorten(text, TEXT_BYTES_MAX)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn http_status(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number)
        .ok()
        .filter(|status| (400..600).contains(status))
}

/// Words for a body that says nothing in JSON.
fn describe(status: u16, content_type: Option<&str>, text: &str) -> String {
    let is_html = content_type.is_some_and(|kind| kind.contains("html"))
        || text.trim_start().starts_with('<');
    let said = if is_html {
        title(text)
    } else {
        Some(shorten(text, TEXT_BYTES_MAX))
    };
    match said.filter(|said| !said.is_empty()) {
        Some(said) => format!("the upstream answered {status}: {said}"),
        None => format!("the upstream answered {status} without a message"),
    }
}

fn title(html: &str) -> Option<String> {
    // Lower case of ASCII alone keeps every position.
    let lower = html.to_ascii_lowercase();
    let start = lower.find("<title>")? + "<title>".len();
    let end = start + lower.get(start..)?.find("</title>")?;
    Some(shorten(html.get(start..end)?, TEXT_BYTES_MAX))
}

/// The text as one line, made of its first `bytes_max` bytes.
fn shorten(text: &str, bytes_max: usize) -> String {
    // Bounded before it is taken apart: a body may be long.
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut line = text[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    if end < text.len() {
        line.push('…');
    }
    line
}
