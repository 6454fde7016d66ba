//! What a request of this format says beside its messages and tools.

use std::borrow::Cow;

use tw_core::json::Json;
use tw_core::request::ModelInput;
use tw_core::request_settings::{ReasoningSettings, RequestSettings, StructuredOutput};

use super::request::forbids_parallel;
use crate::openai_chat::raw::{self, ObjectFields};

/// The name of a schema, which this format has none for.
const SCHEMA_NAME: &str = "answer";

/// Fields that are read elsewhere.
const KNOWN: [&str; 7] = [
    "model",
    "messages",
    "system",
    "tools",
    "stream",
    "max_tokens",
    // Its `user_id` is the request's user; it has nothing else.
    "metadata",
];

/// The settings of a request.
pub fn read(input: &ModelInput) -> RequestSettings {
    let mut settings = RequestSettings::default();
    for (name, value) in input.fields.iter().filter(|(_, value)| !value.is_null()) {
        let json = Some(value.clone());
        match &**name {
            "temperature" => settings.temperature = json,
            "top_p" => settings.top_p = json,
            "top_k" => settings.top_k = json,
            "stop_sequences" => {
                settings.stop = serde_json::from_str(value.as_str()).unwrap_or_default();
            }
            "tool_choice" if forbids_parallel(value) => settings.parallel_calls = Some(false),
            "tool_choice" => {}
            "thinking" => read_thinking(value, &mut settings.reasoning),
            "output_config" => read_config(value, &mut settings),
            "output_format" => settings.structured = read_format(value),
            "service_tier" => {
                let word = value.as_literal().map(|text| text.to_text());
                // The others' name for it.
                settings.service_tier = word.map(|word| match word.as_str() {
                    "standard_only" => "default".to_owned(),
                    _ => word,
                });
            }
            "cache_control" => settings.cache_control = json,
            "mcp_servers" if value.as_str() == "[]" => {}
            other if KNOWN.contains(&other) => {}
            other => settings.without_equal.push(other.to_owned()),
        }
    }
    settings
}

fn read_thinking(value: &Json, settings: &mut ReasoningSettings) {
    let Ok(fields) = ObjectFields::parse(value.as_str()) else {
        return;
    };
    match raw::filled_string(fields.get("type")).as_deref() {
        Some("disabled") => settings.effort = Some("none".to_owned()),
        Some(_) | None => {
            settings.budget_tokens = fields.get("budget_tokens").and_then(raw::count);
        }
    }
    // `display` says whether a summary of the thoughts is shown.
    let display = raw::filled_string(fields.get("display"));
    settings.summary = display
        .filter(|word| word == "summarized")
        .map(|_| "auto".to_owned());
}

fn read_config(value: &Json, settings: &mut RequestSettings) {
    let Ok(fields) = ObjectFields::parse(value.as_str()) else {
        return;
    };
    let effort = raw::filled_string(fields.get("effort")).map(Cow::into_owned);
    settings.reasoning.effort = settings.reasoning.effort.take().or(effort);
    if let Some(format) = fields.get("format") {
        settings.structured = read_format(&value.part(format.get()));
    }
}

fn read_format(value: &Json) -> Option<StructuredOutput> {
    let fields = ObjectFields::parse(value.as_str()).ok()?;
    let Some(schema) = fields.get("schema") else {
        return Some(StructuredOutput::Object);
    };
    Some(StructuredOutput::Schema {
        name: SCHEMA_NAME.to_owned(),
        description: None,
        schema: value.part(schema.get()),
        strict: Some(true),
    })
}
