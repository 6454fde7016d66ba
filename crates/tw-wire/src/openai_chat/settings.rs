//! What a request of this format says beside its messages and tools.

use std::borrow::Cow;

use tw_core::json::Json;
use tw_core::request::ModelInput;
use tw_core::request_settings::{ReasoningSettings, RequestSettings, StructuredOutput};

use super::raw::{self, ObjectFields};

/// Fields that are read elsewhere, or that say nothing of the answer.
const KNOWN: [&str; 13] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "stream",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "store",
    "user",
    "safety_identifier",
];

/// Fields that the other format of OpenAI has as well.
pub const OF_OPENAI: [&str; 3] = [
    "prompt_cache_retention",
    "prompt_cache_options",
    "moderation",
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
            "presence_penalty" => settings.presence_penalty = json,
            "frequency_penalty" => settings.frequency_penalty = json,
            "seed" => settings.seed = json,
            "stop" => settings.stop = texts(value),
            "parallel_tool_calls" => settings.parallel_calls = read_bool(value),
            "reasoning_effort" => settings.reasoning.effort = text(value),
            "reasoning" => read_reasoning(value, &mut settings.reasoning),
            "response_format" => settings.structured = read_format(value),
            "verbosity" => settings.verbosity = text(value),
            "service_tier" => settings.service_tier = text(value),
            "metadata" => settings.metadata = json,
            "prompt_cache_key" => settings.prompt_cache_key = text(value),
            "top_logprobs" => settings.top_logprobs = json,
            // Without a number, the probability of each token that was said.
            "logprobs" if settings.top_logprobs.is_none() && read_bool(value) == Some(true) => {
                settings.top_logprobs = Some(Json::of_read("0"));
            }
            "logprobs" => {}
            "cache_control" => settings.cache_control = json,
            "stream_options" => read_stream_options(value, &mut settings),
            other if OF_OPENAI.contains(&other) => {
                settings.of_openai.push((name.clone(), value.clone()));
            }
            other if KNOWN.contains(&other) => {}
            other => settings.without_equal.push(other.to_owned()),
        }
    }
    if names_two(input) {
        settings.without_equal.push("user".to_owned());
    }
    settings
}

/// Whether the request names two different persons, of which one can go on.
pub fn names_two(input: &ModelInput) -> bool {
    let of = |wanted: &str| {
        let mut fields = input.fields.iter();
        let found = fields.find(|(name, value)| **name == *wanted && !value.is_null());
        found.map(|(_, value)| value.as_str())
    };
    matches!((of("user"), of("safety_identifier")), (Some(one), Some(other)) if one != other)
}

/// What a stream is to hold beside the answer; usage always goes on.
pub fn read_stream_options(value: &Json, settings: &mut RequestSettings) {
    let fields = ObjectFields::parse(value.as_str()).ok();
    let mut fields = fields.into_iter().flat_map(|fields| fields.0);
    if fields.any(|(name, value)| name != "include_usage" && !raw::is_null(value)) {
        settings.without_equal.push("stream_options".to_owned());
    }
}

fn text(value: &Json) -> Option<String> {
    value.as_literal().map(|literal| literal.to_text())
}

fn read_bool(value: &Json) -> Option<bool> {
    match value.as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A text, or a list of some.
fn texts(value: &Json) -> Vec<String> {
    match text(value) {
        Some(one) => vec![one],
        None => serde_json::from_str(value.as_str()).unwrap_or_default(),
    }
}

/// OpenRouter's place for it.
fn read_reasoning(value: &Json, settings: &mut ReasoningSettings) {
    let Ok(fields) = ObjectFields::parse(value.as_str()) else {
        return;
    };
    let text = |name| raw::filled_string(fields.get(name)).map(Cow::into_owned);
    settings.effort = settings.effort.take().or_else(|| text("effort"));
    settings.budget_tokens = fields.get("max_tokens").and_then(raw::count);
    settings.summary = text("summary");
    if fields.get("enabled").and_then(raw::boolean) == Some(false) {
        settings.effort = Some("none".to_owned());
    }
}

fn read_format(value: &Json) -> Option<StructuredOutput> {
    let fields = ObjectFields::parse(value.as_str()).ok()?;
    match &*raw::string(fields.get("type")?)? {
        "text" => None,
        "json_schema" => {
            let named = ObjectFields::parse(fields.get("json_schema")?.get()).ok()?;
            let text = |name| raw::filled_string(named.get(name)).map(Cow::into_owned);
            let Some(schema) = named.get("schema") else {
                return Some(StructuredOutput::Object);
            };
            Some(StructuredOutput::Schema {
                name: text("name").unwrap_or_default(),
                description: text("description"),
                schema: value.part(schema.get()),
                strict: named.get("strict").and_then(raw::boolean),
            })
        }
        // `json_object`, and words of other vendors for it.
        _ => Some(StructuredOutput::Object),
    }
}
