//! The kind `image`: a definition for the job API of kie.ai, of which only what differs is written.
//!
//! It follows that API's pages as of 2026-09. Known differences: the field `task_id` of older copies is taken, too.

use serde_json::{Map, Value, json};
use tw_core::definition::DefinitionError;

use super::value_at_path::ValueAtPath;

const IMAGE: &str = "image";
const OF_AN_IMAGE: &[&str] = &[
    "name",
    "label",
    "description",
    "type",
    "api_url",
    "model",
    "key",
    "callbacks",
    "callback_secrets",
    "options",
    "every_s",
    "waits",
    "deadline_s",
    "policy",
];

const API_URL: &str = "https://api.kie.ai";
const MODEL: &str = "google/nano-banana";
const DESCRIPTION: &str = "Makes an image of a description.";
/// The API's own limit.
const PROMPT_CHARS_MAX: u32 = 5_000;
const SIZES: [&str; 11] = [
    "1:1", "9:16", "16:9", "3:4", "4:3", "3:2", "2:3", "5:4", "4:5", "21:9", "auto",
];
/// Images take seconds to minutes.
const DEADLINE_S: u32 = 900;
/// The API takes 20 jobs in 10 seconds and queues none: who comes too early tries again after that.
const BACKOFF_MS: u32 = 5_000;
const ATTEMPTS_MAX: u32 = 3;

/// The definition in full as JSON; `None` for one of another kind.
///
/// # Errors
/// [`DefinitionError`] for a member that this kind has not, or that is not what it must be.
pub fn in_full(place: &ValueAtPath<'_>) -> Result<Option<String>, DefinitionError> {
    let members = place.members()?;
    let is_image = |(name, value): &(String, ValueAtPath<'_>)| {
        name == "type" && value.text().is_ok_and(|word| word == IMAGE)
    };
    if !members.iter().any(is_image) {
        return Ok(None);
    }
    let written = place.object(OF_AN_IMAGE)?;
    let value = |name: &str| written.optional(name).map(|place| place.json().to_value());
    let api = match written.optional("api_url") {
        Some(url) => url.text()?.trim_end_matches('/').to_owned(),
        None => API_URL.to_owned(),
    };
    let key = secret(written.required("key")?)?;
    let model = value("model").unwrap_or_else(|| MODEL.into());
    let calls_back = match written.optional("callbacks") {
        Some(callbacks) => callbacks.boolean()?,
        None => true,
    };
    let authorization = json!({ "authorization": key });
    let mut body = json!({ "model": model });
    if let Some(options) = written.optional("options") {
        options.members()?;
        body["input"] = options.json().to_value();
    }
    let says = json!({
        "status": "$.data.state", "completed": ["success"], "failed": ["fail"],
        "result": { "images": "$.data.resultJson.resultUrls" }, "error": "$.data.failMsg",
    });
    let ids = json!(["$.data.taskId", "$.data.task_id"]);
    let mut poll = with(
        &says,
        json!({
            "url": format!("{api}/api/v1/jobs/recordInfo"), "headers": authorization,
            "query": { "taskId": "{{external_id}}" }, "confirms": calls_back,
        }),
    );
    if let Some(every) = value("every_s") {
        poll["every_s"] = every;
    }
    let mut completion = json!({
        "completes": if calls_back { "webhook" } else { "poll" },
        "waits": value("waits").unwrap_or(Value::Bool(true)),
        "deadline_s": value("deadline_s").unwrap_or_else(|| DEADLINE_S.into()),
        "external_id": ids,
        "start": {
            "status": "$.code", "accepted": [200], "again": [429, 433, 455], "unknown": [500],
            "error": "$.msg",
        },
        "json_in": ["$.data.resultJson"],
        "poll": poll,
        // Some of its links hold for a day.
        "files": { "urls": "$.data.resultJson.resultUrls[*]" },
    });
    if calls_back {
        body["callBackUrl"] = "{{callback_url}}".into();
        let mut callback = with(&says, json!({ "external_id": ids }));
        if let Some(secrets) = value("callback_secrets") {
            callback["verification"] = json!({
                "type": "hmac", "secrets": secrets, "header": "x-webhook-signature",
                "encoding": "base64",
                "signed": [
                    { "body": "$.data.taskId" }, { "text": "." },
                    { "header": "x-webhook-timestamp" },
                ],
                "timestamp": { "header": "x-webhook-timestamp" },
            });
        }
        completion["callback"] = callback;
    } else if let Some(secrets) = written.optional("callback_secrets") {
        return Err(secrets.error("may stand with callbacks only"));
    }
    let mut policy = Map::new();
    policy.insert("effect".to_owned(), "once".into());
    policy.insert("backoff_ms".to_owned(), BACKOFF_MS.into());
    policy.insert("attempts_max".to_owned(), ATTEMPTS_MAX.into());
    if let Some(written) = written.optional("policy") {
        for (name, place) in written.members()? {
            policy.insert(name, place.json().to_value());
        }
    }
    let mut full = json!({
        "name": written.required("name")?.json().to_value(),
        "description": value("description").unwrap_or_else(|| DESCRIPTION.into()),
        "type": "api_request", "method": "POST", "url": format!("{api}/api/v1/jobs/createTask"),
        "headers": authorization, "body": body, "body_under": "input",
        "parameters": {
            "prompt": {
                "mode": "ai", "prompt": "What the image shows.", "required": true,
                "schema": { "type": "string", "minLength": 1, "maxLength": PROMPT_CHARS_MAX },
            },
            "image_size": {
                "mode": "ai", "prompt": "Width to height.", "required": false,
                "schema": { "type": "string", "enum": SIZES },
            },
        },
        "completion": completion, "policy": policy,
    });
    if let Some(label) = value("label") {
        full["label"] = label;
    }
    Ok(Some(full.to_string()))
}

/// The API's key as the header that it wants.
fn secret(place: &ValueAtPath<'_>) -> Result<Value, DefinitionError> {
    let written = place.object(&["secret"])?;
    let name = written.required("secret")?.text()?;
    Ok(json!({ "secret": name, "prefix": "Bearer " }))
}

fn with(under: &Value, over: Value) -> Value {
    let mut both = under.clone();
    if let (Value::Object(both), Value::Object(over)) = (&mut both, over) {
        both.extend(over);
    }
    both
}
