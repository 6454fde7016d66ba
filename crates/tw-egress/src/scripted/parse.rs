//! The parser of scripts: from TOML to rules.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value as Json;
use toml::Value;

use super::fields::{UnreadKeys, expected, json};
use super::rule::{
    RawBody, RawPieces, RuleCondition, RuleReply, ScriptRule, ScriptedCall, ScriptedCompletion,
    ScriptedStop, ScriptedText,
};
use super::template::ScriptTemplate;
use super::{CALLS_MAX, PAUSE_MS_MAX, PIECES_MAX, RULES_MAX, SCRIPT_BYTES_MAX, ScriptError};

/// Largest `times`, `cut_after` and `silent_after`.
const NUMBER_MAX: u64 = 1_000_000_000;

/// Keys of an answer, all of them, to tell one that is out of place from one that does not exist.
const ANSWER_KEYS: &[&str] = &[
    "text",
    "text_pieces",
    "piece_chars",
    "calls",
    "reasoning",
    "finish",
    "usage",
    "no_done",
    "no_finish",
    "status",
    "error",
    "body",
    "content_type",
    "raw",
    "delta_ms",
];

/// Keys of which one is enough to make a completion.
const COMPLETION_KEYS: &[&str] = &[
    "text",
    "text_pieces",
    "calls",
    "reasoning",
    "finish",
    "cut_after",
    "silent_after",
];

pub(super) fn script(text: &str) -> Result<Vec<ScriptRule>, ScriptError> {
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(ScriptError::TooLarge {
            bytes: text.len(),
            bytes_max: SCRIPT_BYTES_MAX,
        });
    }
    let mut top: toml::Table = text.parse().map_err(|source| ScriptError::Toml {
        source: Box::new(source),
    })?;
    let rules = match top.remove("rule") {
        Some(Value::Array(rules)) => rules,
        Some(_) => return Err(ScriptError::TopKey { key: "rule".into() }),
        None => Vec::new(),
    };
    if let Some(key) = top.keys().next() {
        return Err(ScriptError::TopKey { key: key.clone() });
    }
    if rules.is_empty() || rules.len() > RULES_MAX {
        return Err(ScriptError::RuleCount {
            rules: rules.len(),
            rules_max: RULES_MAX,
        });
    }
    let numbered = rules.into_iter().enumerate();
    numbered
        .map(|(at, value)| rule(UnreadKeys::new(at + 1, "", value)?, at + 1))
        .collect()
}

fn rule(mut fields: UnreadKeys, number: usize) -> Result<ScriptRule, ScriptError> {
    let mut when = match fields.value("when") {
        Some(value) => UnreadKeys::new(number, "when.", value)?,
        None => UnreadKeys::new(number, "when.", Value::Table(toml::Table::new()))?,
    };
    let times_max = when.integer("times", 1..=NUMBER_MAX)?;
    let when = conditions(when)?;

    let pause = 0..=PAUSE_MS_MAX;
    let head_delay_ms = fields.integer("delay_ms", pause.clone())?.unwrap_or(0);
    let retry_after = retry_after(&mut fields)?;
    let is_completion = COMPLETION_KEYS.iter().any(|key| fields.has(key));
    let stop = stop(&mut fields)?;
    // Only what comes in several events has a gap; elsewhere the key is left for `finish` to refuse.
    let single =
        !fields.has("raw") && (fields.has("error") || fields.has("body") || fields.has("status"));
    let delta_gap_ms = match single {
        true => 0,
        false => fields.integer("delta_ms", pause)?.unwrap_or(0),
    };
    let (reply, beside) = reply(&mut fields, number, is_completion)?;
    fields.finish(ANSWER_KEYS, beside)?;
    Ok(ScriptRule {
        when,
        times_max,
        used: AtomicU64::new(0),
        head_delay: Duration::from_millis(head_delay_ms),
        delta_gap: Duration::from_millis(delta_gap_ms),
        stop,
        retry_after,
        reply,
    })
}

fn conditions(mut fields: UnreadKeys) -> Result<RuleCondition, ScriptError> {
    let when = RuleCondition {
        last_role: fields.string("last_role")?,
        last_contains: fields.string("last_contains")?,
        user_contains: fields.string("user_contains")?,
        messages: fields.count("messages")?,
        messages_min: fields.count("messages_min")?,
        tool_results: fields.count("tool_results")?,
        has_tool: fields.string("has_tool")?,
        model: fields.string("model")?,
        stream: fields.boolean("stream")?,
    };
    fields.finish(&[], "")?;
    Ok(when)
}

/// Seconds as a number, or a string (an HTTP date) sent as it is.
fn retry_after(fields: &mut UnreadKeys) -> Result<Option<String>, ScriptError> {
    match fields.value("retry_after") {
        None => Ok(None),
        Some(Value::Integer(seconds)) if seconds >= 0 => Ok(Some(seconds.to_string())),
        Some(Value::String(text)) if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => {
            Ok(Some(text))
        }
        Some(_) => Err(fields.error(
            "retry_after",
            "must be whole seconds or a string of visible ASCII",
        )),
    }
}

fn stop(fields: &mut UnreadKeys) -> Result<Option<ScriptedStop>, ScriptError> {
    let cut = fields.integer("cut_after", 0..=NUMBER_MAX)?;
    let silent = fields.integer("silent_after", 0..=NUMBER_MAX)?;
    let events = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    match (cut, silent) {
        (Some(_), Some(_)) => Err(fields.error("silent_after", "has no effect beside `cut_after`")),
        (Some(after), None) => Ok(Some(ScriptedStop::CutAfter(events(after)))),
        (None, Some(after)) => Ok(Some(ScriptedStop::SilentAfter(events(after)))),
        (None, None) => Ok(None),
    }
}

/// The answer itself and the key that made it what it is.
fn reply(
    fields: &mut UnreadKeys,
    number: usize,
    is_completion: bool,
) -> Result<(RuleReply, &'static str), ScriptError> {
    if fields.has("raw") {
        return Ok((RuleReply::Raw(raw(fields)?), "`raw`"));
    }
    if fields.has("body") {
        return Ok((RuleReply::Body(body(fields)?), "`body`"));
    }
    if fields.has("error") || fields.has("status") {
        return Ok((
            RuleReply::Body(error(fields, number)?),
            "`status` or `error`",
        ));
    }
    if is_completion {
        let completion = completion(fields, number)?;
        return Ok((RuleReply::Completion(completion), "a completion"));
    }
    Err(fields.error(
        "text",
        "is missing: a rule answers with text, text_pieces, calls, reasoning, finish, status, error, body or raw",
    ))
}

fn raw(fields: &mut UnreadKeys) -> Result<RawPieces, ScriptError> {
    let entries = fields.array("raw", PIECES_MAX)?.unwrap_or_default();
    let mut pieces = Vec::with_capacity(entries.len());
    for (at, entry) in entries.into_iter().enumerate() {
        let piece = match entry {
            Value::String(text) => Bytes::from(text),
            Value::Array(numbers) => {
                let byte = |number: &Value| number.as_integer().and_then(|n| u8::try_from(n).ok());
                let Some(bytes) = numbers.iter().map(byte).collect::<Option<Vec<u8>>>() else {
                    return Err(fields.error(
                        &format!("raw[{at}]"),
                        "must hold whole numbers from 0 to 255",
                    ));
                };
                Bytes::from(bytes)
            }
            other => {
                let reason = expected("a string or an array of bytes", &other);
                return Err(fields.error(&format!("raw[{at}]"), reason));
            }
        };
        pieces.push(piece);
    }
    Ok(RawPieces {
        status: status(fields, 200)?.unwrap_or(200),
        content_type: fields.header("content_type")?,
        pieces,
    })
}

fn body(fields: &mut UnreadKeys) -> Result<RawBody, ScriptError> {
    let text = fields.string("body")?.unwrap_or_default();
    let content_type = fields.header("content_type")?;
    Ok(RawBody {
        status: status(fields, 200)?.unwrap_or(200),
        content_type: content_type.unwrap_or_else(|| "application/json".into()),
        bytes: Bytes::from(text),
    })
}

fn status(fields: &mut UnreadKeys, min: u64) -> Result<Option<u16>, ScriptError> {
    let status = fields.integer("status", min..=599)?;
    Ok(status.and_then(|status| u16::try_from(status).ok()))
}

fn error(fields: &mut UnreadKeys, number: usize) -> Result<RawBody, ScriptError> {
    let status = status(fields, 400)?;
    let Some(status) = status else {
        return Err(fields.error("status", "is missing beside `error`"));
    };
    let (default_type, default_code) = match status {
        401 => ("invalid_request_error", Json::from("invalid_api_key")),
        404 => ("invalid_request_error", Json::from("model_not_found")),
        429 => ("requests", Json::from("rate_limit_exceeded")),
        500.. => ("server_error", Json::Null),
        _ => ("invalid_request_error", Json::Null),
    };
    let mut parts = match fields.value("error") {
        None => UnreadKeys::new(number, "error.", Value::Table(toml::Table::new()))?,
        Some(Value::String(message)) => {
            let table = [("message".to_owned(), Value::String(message))];
            UnreadKeys::new(number, "error.", Value::Table(table.into_iter().collect()))?
        }
        Some(value) => UnreadKeys::new(number, "error.", value)?,
    };
    let message = parts.string("message")?;
    let code = match parts.value("code") {
        None => default_code,
        Some(code @ (Value::String(_) | Value::Integer(_))) => json(code).unwrap_or_default(),
        Some(other) => {
            return Err(parts.error("code", expected("a string or a whole number", &other)));
        }
    };
    let error = serde_json::json!({ "error": {
        "message": message.unwrap_or_else(|| format!("the script answers with status {status}")),
        "type": parts.string("type")?.unwrap_or_else(|| default_type.into()),
        "param": parts.string("param")?,
        "code": code,
    }});
    parts.finish(&[], "")?;
    Ok(RawBody {
        status,
        content_type: "application/json".into(),
        bytes: Bytes::from(error.to_string()),
    })
}

fn completion(fields: &mut UnreadKeys, number: usize) -> Result<ScriptedCompletion, ScriptError> {
    let whole = template(fields, "text")?;
    let text = match fields.array("text_pieces", PIECES_MAX)? {
        Some(_) if whole.is_some() => {
            return Err(fields.error("text_pieces", "has no effect beside `text`"));
        }
        Some(pieces) => Some(ScriptedText::Pieces(text_pieces(fields, pieces)?)),
        None => whole.map(ScriptedText::Whole),
    };
    let piece_chars = fields.integer("piece_chars", 1..=NUMBER_MAX)?;
    let calls = fields.array("calls", CALLS_MAX)?.unwrap_or_default();
    let calls = calls.into_iter().enumerate();
    let usage = match fields.value("usage").map(json) {
        None => None,
        Some(Ok(Json::Object(usage))) => Some(usage),
        Some(Ok(_)) => return Err(fields.error("usage", "must be a table")),
        Some(Err(reason)) => return Err(fields.error("usage", reason)),
    };
    Ok(ScriptedCompletion {
        text,
        reasoning: template(fields, "reasoning")?,
        piece_chars: piece_chars.and_then(|chars| usize::try_from(chars).ok()),
        calls: calls
            .map(|(at, value)| call(number, at, value))
            .collect::<Result<_, _>>()?,
        finish: fields.string("finish")?,
        usage,
        no_done: fields.boolean("no_done")?.unwrap_or(false),
        no_finish: fields.boolean("no_finish")?.unwrap_or(false),
    })
}

fn template(fields: &mut UnreadKeys, key: &str) -> Result<Option<ScriptTemplate>, ScriptError> {
    let Some(text) = fields.string(key)? else {
        return Ok(None);
    };
    let template = ScriptTemplate::parse(&text);
    template
        .map(Some)
        .map_err(|reason| fields.error(key, reason))
}

fn text_pieces(
    fields: &UnreadKeys,
    pieces: Vec<Value>,
) -> Result<Vec<ScriptTemplate>, ScriptError> {
    let mut templates = Vec::with_capacity(pieces.len());
    for (at, piece) in pieces.iter().enumerate() {
        let template = match piece {
            Value::String(text) => ScriptTemplate::parse(text),
            other => Err(expected("a string", other)),
        };
        templates
            .push(template.map_err(|reason| fields.error(&format!("text_pieces[{at}]"), reason))?);
    }
    Ok(templates)
}

fn call(number: usize, at: usize, value: Value) -> Result<ScriptedCall, ScriptError> {
    let mut fields = UnreadKeys::new(number, &format!("calls[{at}]."), value)?;
    let Some(name) = fields.string("name")? else {
        return Err(fields.error("name", "is missing"));
    };
    let arguments = match fields.value("arguments") {
        None => "{}".to_owned(),
        Some(Value::String(text)) => text,
        Some(table @ Value::Table(_)) => match json(table) {
            Ok(arguments) => arguments.to_string(),
            Err(reason) => return Err(fields.error("arguments", reason)),
        },
        Some(other) => {
            return Err(fields.error("arguments", expected("a table or a string", &other)));
        }
    };
    let id = fields.string("id")?;
    fields.finish(&[], "")?;
    Ok(ScriptedCall {
        name,
        arguments,
        id,
    })
}
