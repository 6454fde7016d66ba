//! What a response repeats of its request, and what a turn needs of it beside the rest.
//!
//! Each field that the Open Responses document demands of a response is there, with what stands for one that the
//! request did not give.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tw_core::json::Json;
use tw_core::native::NativeFields;

use super::short_string;
use crate::client_request::RequestError;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::request::{Place, boolean, count, object, string};
use crate::openai_chat::write;
use crate::openai_responses::options::{ApprovalAnswer, ResponsesOptions};

/// Longest id of a response or a conversation, in bytes.
const ID_BYTES_MAX: usize = 200;
/// OpenAI's limits of `metadata`.
const METADATA_PAIRS_MAX: usize = 16;
const METADATA_KEY_CHARS_MAX: usize = 64;
const METADATA_VALUE_CHARS_MAX: usize = 512;
/// Words in `include`.
const INCLUDES_MAX: usize = 64;

pub fn read(
    fields: &ObjectFields<'_>,
    approvals: Vec<ApprovalAnswer>,
) -> Result<ResponsesOptions, RequestError> {
    let previous_response_id = short_string(fields, "previous_response_id", ID_BYTES_MAX)?;
    let conversation = read_conversation(fields)?;
    if previous_response_id.is_some() && conversation.is_some() {
        let message = "Mutually exclusive parameters: only one of 'previous_response_id' and 'conversation' can be given.";
        return Err(RequestError {
            code: Some("mutually_exclusive_parameters"),
            ..RequestError::invalid("previous_response_id", message)
        });
    }
    let background = boolean(fields, "background")?.unwrap_or(false);
    let max_tool_calls = count(fields, "max_tool_calls")?;
    if max_tool_calls == Some(0) {
        let message =
            "Invalid 'max_tool_calls': expected a value of at least 1, but got 0 instead.";
        return Err(RequestError::wrong_value(
            "max_tool_calls",
            message.to_owned(),
        ));
    }
    Ok(ResponsesOptions {
        background,
        previous_response_id,
        conversation,
        include: read_include(fields)?,
        max_tool_calls,
        service_tier: string(fields, "service_tier")?,
        approvals,
        echo: echo(fields)?,
    })
}

fn read_conversation(fields: &ObjectFields<'_>) -> Result<Option<String>, RequestError> {
    match fields.get("conversation") {
        Some(raw) if raw::is_object(raw) => {
            let inner = object(raw, "conversation")?;
            let id = inner
                .get("id")
                .ok_or_else(|| RequestError::missing("conversation.id"))?;
            let id = raw::string(id)
                .ok_or_else(|| RequestError::wrong_type("conversation.id", "a string"))?;
            Ok(Some(id.into_owned()))
        }
        Some(_) | None => short_string(fields, "conversation", ID_BYTES_MAX),
    }
}

fn read_include(fields: &ObjectFields<'_>) -> Result<Vec<String>, RequestError> {
    let Some(raw) = fields.get("include") else {
        return Ok(Vec::new());
    };
    let wrong = || RequestError::wrong_type("include", "an array of strings");
    let items = raw::array(raw).filter(|items| items.len() <= INCLUDES_MAX);
    let words = items.ok_or_else(wrong)?.into_iter();
    words
        .map(|raw| raw::string(raw).map(Cow::into_owned).ok_or_else(wrong))
        .collect()
}

fn echo(fields: &ObjectFields<'_>) -> Result<NativeFields, RequestError> {
    let mut echo = NativeFields::new();
    let mut put = |name: &str, json: Json| echo.push((Box::from(name), json));
    put("instructions", or(fields, "instructions", "null"));
    put("max_output_tokens", or(fields, "max_output_tokens", "null"));
    put("tools", tools(fields));
    put("tool_choice", or(fields, "tool_choice", "\"auto\""));
    let parallel = boolean(fields, "parallel_tool_calls")?.unwrap_or(true);
    put(
        "parallel_tool_calls",
        Json::of_read(if parallel { "true" } else { "false" }),
    );
    put("truncation", truncation(fields)?);
    put("text", text(fields)?);
    put("reasoning", reasoning(fields)?);
    for (name, without) in [
        ("temperature", "1.0"),
        ("top_p", "1.0"),
        ("presence_penalty", "0.0"),
        ("frequency_penalty", "0.0"),
        ("top_logprobs", "0"),
    ] {
        put(name, number(fields, name, without)?);
    }
    put("metadata", metadata(fields)?);
    for name in ["safety_identifier", "prompt_cache_key", "user"] {
        string(fields, name)?;
        put(name, or(fields, name, "null"));
    }
    for name in ["prompt", "prompt_cache_retention", "moderation"] {
        if let Some(raw) = fields.get(name) {
            put(name, Json::from_raw(raw));
        }
    }
    Ok(echo)
}

fn or(fields: &ObjectFields<'_>, name: &str, without: &str) -> Json {
    let raw = fields.get(name);
    raw.map_or_else(|| Json::of_read(without), Json::from_raw)
}

fn number(fields: &ObjectFields<'_>, name: &str, without: &str) -> Result<Json, RequestError> {
    let is_number = |raw: &RawValue| {
        let first = raw.get().as_bytes().first();
        first.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
    };
    match fields.get(name) {
        Some(raw) if !is_number(raw) => Err(RequestError::wrong_type(name, "a number")),
        Some(_) | None => Ok(or(fields, name, without)),
    }
}

fn truncation(fields: &ObjectFields<'_>) -> Result<Json, RequestError> {
    match string(fields, "truncation")?.as_deref() {
        None | Some("auto" | "disabled") => Ok(or(fields, "truncation", "\"disabled\"")),
        Some(other) => {
            let message =
                format!("Invalid value: '{other}'. Supported values are: 'auto' and 'disabled'.");
            Err(RequestError::wrong_value("truncation", message))
        }
    }
}

/// The tools, each with the fields that a response must have of it.
fn tools(fields: &ObjectFields<'_>) -> Json {
    let items = fields.get("tools").and_then(raw::array).unwrap_or_default();
    let mut out = vec![b'['];
    for item in items {
        write::separate(&mut out);
        let tool = ObjectFields::parse(item.get()).ok();
        match tool.filter(|tool| is_function(tool)) {
            Some(tool) => completed(&mut out, &tool, &["description", "parameters", "strict"]),
            None => out.extend_from_slice(item.get().as_bytes()),
        }
    }
    out.push(b']');
    json(out)
}

fn is_function(tool: &ObjectFields<'_>) -> bool {
    let kind = tool.get("type").and_then(raw::string);
    kind.is_some_and(|kind| kind == "function")
}

/// Writes the object with null for each of `names` that is not there.
fn completed(out: &mut Vec<u8>, fields: &ObjectFields<'_>, names: &[&str]) {
    out.push(b'{');
    for (name, value) in &fields.0 {
        write::foreign_key(out, name);
        out.extend_from_slice(value.get().as_bytes());
    }
    for name in names {
        if fields.written(name).is_none() {
            write::key(out, name);
            out.extend_from_slice(b"null");
        }
    }
    out.push(b'}');
}

fn text(fields: &ObjectFields<'_>) -> Result<Json, RequestError> {
    const WITHOUT: &str = "{\"format\":{\"type\":\"text\"}}";
    let Some(raw) = fields.get("text") else {
        return Ok(Json::of_read(WITHOUT));
    };
    let inner = object(raw, "text")?;
    let mut out = b"{\"format\":".to_vec();
    match inner.get("format") {
        None => out.extend_from_slice(b"{\"type\":\"text\"}"),
        Some(raw) => {
            let place = Place::Whole("text");
            let place = place.field("format");
            let format = object(raw, place)?;
            let kind = format
                .get("type")
                .ok_or_else(|| RequestError::missing(place.field("type")))?;
            let kind = raw::string(kind)
                .ok_or_else(|| RequestError::wrong_type(place.field("type"), "a string"))?;
            if kind == "json_schema" {
                schema_format(&mut out, &format);
            } else {
                out.extend_from_slice(raw.get().as_bytes());
            }
        }
    }
    for (name, value) in inner.0.iter().filter(|(name, _)| name != "format") {
        if !raw::is_null(value) {
            write::foreign_key(&mut out, name);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    out.push(b'}');
    Ok(json(out))
}

/// `strict` is no null in a response.
fn schema_format(out: &mut Vec<u8>, format: &ObjectFields<'_>) {
    let is_said = format.get("strict").is_some();
    let given = format.0.iter();
    let given = given.filter(|(name, _)| is_said || name != "strict");
    let given = ObjectFields(given.cloned().collect());
    completed(out, &given, &["name", "description", "schema"]);
    if !is_said {
        out.pop();
        write::key(out, "strict");
        out.extend_from_slice(b"false}");
    }
}

fn reasoning(fields: &ObjectFields<'_>) -> Result<Json, RequestError> {
    let mut out = Vec::new();
    match fields.get("reasoning") {
        Some(raw) => completed(&mut out, &object(raw, "reasoning")?, &["effort", "summary"]),
        None => out.extend_from_slice(b"{\"effort\":null,\"summary\":null}"),
    }
    Ok(json(out))
}

/// The metadata of a request, or none.
pub fn metadata(fields: &ObjectFields<'_>) -> Result<Json, RequestError> {
    let Some(raw) = fields.get("metadata") else {
        return Ok(Json::of_read("{}"));
    };
    let pairs = object(raw, "metadata")?;
    if pairs.0.len() > METADATA_PAIRS_MAX {
        let message = format!(
            "Invalid 'metadata': too many properties. Expected an object with at most {METADATA_PAIRS_MAX} properties, but got {}.",
            pairs.0.len()
        );
        return Err(RequestError {
            code: Some("object_above_max_properties"),
            ..RequestError::invalid("metadata", message)
        });
    }
    for (name, value) in &pairs.0 {
        let place = Place::Whole("metadata");
        let text = raw::string(value)
            .ok_or_else(|| RequestError::wrong_type(place.field(name), "a string"))?;
        if name.chars().count() > METADATA_KEY_CHARS_MAX
            || text.chars().count() > METADATA_VALUE_CHARS_MAX
        {
            let message = format!(
                "Invalid 'metadata': a name may have {METADATA_KEY_CHARS_MAX} characters and a value {METADATA_VALUE_CHARS_MAX}."
            );
            return Err(RequestError {
                code: Some("string_above_max_length"),
                ..RequestError::invalid(place.field(name), message)
            });
        }
    }
    Ok(Json::from_raw(raw))
}

/// What was written here is JSON.
fn json(out: Vec<u8>) -> Json {
    Json::of_read(&String::from_utf8(out).unwrap_or_default())
}
