//! What a turn of the Responses surface needs beside its request, as stored with the turn: one object.

use serde::Deserialize;
use serde_json::value::RawValue;
use tw_core::json::Json;
use tw_core::native::NativeFields;

use super::DamagedRecord;
use super::events::json_string;
use crate::openai_responses::options::{ApprovalAnswer, ResponsesOptions};

const WHAT: &str = "options of a response";

/// Fields that say nothing are left out; what is repeated of the request stands as it was written.
pub fn encode(options: &ResponsesOptions) -> String {
    let mut fields = NativeFields::new();
    let mut put = |name: &str, json: String| fields.push((name.into(), Json::of_read(&json)));
    if options.background {
        put("background", "true".to_owned());
    }
    for (name, text) in [
        ("previous", &options.previous_response_id),
        ("conversation", &options.conversation),
        ("tier", &options.service_tier),
    ] {
        if let Some(text) = text {
            put(name, json_string(text));
        }
    }
    if !options.include.is_empty() {
        let words = options.include.iter().map(|word| json_string(word));
        put(
            "include",
            format!("[{}]", words.collect::<Vec<_>>().join(",")),
        );
    }
    if let Some(max) = options.max_tool_calls {
        put("calls_max", max.to_string());
    }
    if !options.approvals.is_empty() {
        let approvals = options.approvals.iter().map(|answer| {
            let reason = answer.reason.as_deref().map(json_string);
            format!(
                "[{},{},{}]",
                json_string(&answer.request_id),
                answer.approve,
                reason.as_deref().unwrap_or("null")
            )
        });
        put(
            "approvals",
            format!("[{}]", approvals.collect::<Vec<_>>().join(",")),
        );
    }
    let echo = options.echo.iter();
    let echo = echo.map(|(name, value)| format!("[{},{}]", json_string(name), value.as_str()));
    put("echo", format!("[{}]", echo.collect::<Vec<_>>().join(",")));
    Json::of_fields(&fields).as_str().to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<'a> {
    #[serde(default)]
    background: bool,
    previous: Option<String>,
    conversation: Option<String>,
    tier: Option<String>,
    #[serde(default)]
    include: Vec<String>,
    calls_max: Option<u64>,
    #[serde(default)]
    approvals: Vec<(String, bool, Option<String>)>,
    #[serde(borrow)]
    echo: Vec<(Box<str>, &'a RawValue)>,
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// [`DamagedRecord`] for anything else.
pub fn decode(text: &str) -> Result<ResponsesOptions, DamagedRecord> {
    let stored: Stored<'_> =
        serde_json::from_str(text).map_err(|error| DamagedRecord::new(WHAT, error))?;
    let approvals = stored.approvals.into_iter();
    let echo = stored.echo.into_iter();
    Ok(ResponsesOptions {
        background: stored.background,
        previous_response_id: stored.previous,
        conversation: stored.conversation,
        include: stored.include,
        max_tool_calls: stored.calls_max,
        service_tier: stored.tier,
        approvals: approvals
            .map(|(request_id, approve, reason)| ApprovalAnswer {
                request_id,
                approve,
                reason,
            })
            .collect(),
        echo: echo
            .map(|(name, value)| (name, Json::from_raw(value)))
            .collect(),
    })
}
