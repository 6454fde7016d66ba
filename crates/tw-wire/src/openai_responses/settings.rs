//! What a request of this format says beside its items and tools.

use std::borrow::Cow;

use tw_core::json::Json;
use tw_core::request::ModelInput;
use tw_core::request_settings::{ReasoningSettings, RequestSettings, StructuredOutput};

use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::settings::{OF_OPENAI, names_two, read_stream_options};

/// Fields that are read elsewhere, that this server acts on itself, or that say nothing of the answer.
const KNOWN: [&str; 17] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "stream",
    "store",
    "background",
    "previous_response_id",
    "conversation",
    "max_output_tokens",
    "max_tool_calls",
    "user",
    "safety_identifier",
    "truncation",
    "type",
    "stream_id",
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
            "parallel_tool_calls" => settings.parallel_calls = read_bool(value),
            "reasoning" => read_reasoning(value, &mut settings.reasoning),
            "text" => read_text(value, &mut settings),
            "service_tier" => settings.service_tier = text(value),
            "metadata" => settings.metadata = json,
            "prompt_cache_key" => settings.prompt_cache_key = text(value),
            "top_logprobs" if value.as_str() == "0" => {}
            "top_logprobs" => settings.top_logprobs = json,
            "cache_control" => settings.cache_control = json,
            "stream_options" => read_stream_options(value, &mut settings),
            "include" => read_include(value, &mut settings),
            other if OF_OPENAI.contains(&other) => {
                settings.of_openai.push((name.clone(), value.clone()));
            }
            // Both say to begin with what fits; only this one says it to an upstream that knows it.
            "truncation" if text(value).as_deref() == Some("auto") => {
                settings.without_equal.push("truncation".to_owned());
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

/// The words that ask for more of the answer than another upstream tells.
fn read_include(value: &Json, settings: &mut RequestSettings) {
    let words: Vec<String> = serde_json::from_str(value.as_str()).unwrap_or_default();
    for word in words {
        match word.as_str() {
            LOGPROBS => {
                let none = || Json::of_read("0");
                settings.top_logprobs = Some(settings.top_logprobs.take().unwrap_or_else(none));
            }
            _ => settings.without_equal.push("include".to_owned()),
        }
    }
}

/// The word of `include` for the probabilities of tokens.
pub const LOGPROBS: &str = "message.output_text.logprobs";

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

fn read_reasoning(value: &Json, settings: &mut ReasoningSettings) {
    let Ok(fields) = ObjectFields::parse(value.as_str()) else {
        return;
    };
    let text = |name| raw::filled_string(fields.get(name)).map(Cow::into_owned);
    settings.effort = text("effort");
    // The second is the name that it had before.
    settings.summary = text("summary").or_else(|| text("generate_summary"));
}

fn read_text(value: &Json, settings: &mut RequestSettings) {
    let Ok(fields) = ObjectFields::parse(value.as_str()) else {
        return;
    };
    settings.verbosity = raw::filled_string(fields.get("verbosity")).map(Cow::into_owned);
    let format = fields.get("format");
    let format = format.and_then(|format| ObjectFields::parse(format.get()).ok());
    settings.structured = format.and_then(|format| read_format(value, &format));
}

fn read_format(whole: &Json, format: &ObjectFields<'_>) -> Option<StructuredOutput> {
    let text = |name| raw::filled_string(format.get(name)).map(Cow::into_owned);
    match text("type")?.as_str() {
        "text" => None,
        "json_schema" => Some(match format.get("schema") {
            Some(schema) => StructuredOutput::Schema {
                name: text("name").unwrap_or_default(),
                description: text("description"),
                schema: whole.part(schema.get()),
                strict: format.get("strict").and_then(raw::boolean),
            },
            None => StructuredOutput::Object,
        }),
        // `json_object`, and forms of other vendors.
        _ => Some(StructuredOutput::Object),
    }
}
