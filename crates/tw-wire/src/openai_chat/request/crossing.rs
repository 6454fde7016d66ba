//! A request that was written in another format, as one of this format.
//!
//! Known differences:
//! - what the model is to obey stands in a message of the system, before all others;
//! - a result that failed says so in its text alone, since there is no flag for it;
//! - how much thought is wanted in tokens becomes the nearest effort;
//! - what this format does not have (`top_k`, thoughts of others, a provider's own tools) is left out.

use serde_json::{Value, json};
use tw_core::json::{Json, Literal};
use tw_core::model::CallForm;
use tw_core::native::NativeFields;
use tw_core::request::{
    Block, Message, MixedTool, ModelInput, ModelRequest, OfferedTools, PartBlock, PartKind,
    RequestTools, ResultBlock, Role, ToolChoice, ToolEntry,
};
use tw_core::request_settings::{
    Media, MediaSource, ReasoningSettings, RequestSettings, StructuredOutput,
};

use crate::openai_chat::FORMAT;
use crate::openai_chat::content::part_block;
use crate::{crossing, native_words};

/// Tokens of thought up to which the effort is `low`, and up to which it is `medium`.
const LOW_TOKENS_MAX: u64 = 4096;
const MEDIUM_TOKENS_MAX: u64 = 16_384;
/// The name of a schema that has none.
const SCHEMA_NAME: &str = "answer";

/// A request of another format in the terms of this one.
pub struct CrossedRequest {
    input: ModelInput,
    messages: Vec<Message>,
}

impl CrossedRequest {
    pub fn of(request: &ModelRequest<'_>) -> Self {
        let from = request.input;
        let tools = tools(&from.tools);
        let mut messages = Vec::with_capacity(request.messages.len() + 1);
        if !from.instructions.is_empty() {
            let said = from.instructions.iter().filter_map(crossed).collect();
            messages.push(Message::made(Role::System, said));
        }
        let crossed = request.messages.iter().map(|message| Message {
            origin: message.origin.clone(),
            ..Message::made(
                message.role,
                message.blocks.iter().filter_map(crossed).collect(),
            )
        });
        // Of what only its own format understands nothing is left.
        messages.extend(crossed.filter(says_something));
        Self {
            input: ModelInput {
                messages: Vec::new(),
                instructions: Vec::new(),
                format: FORMAT,
                fields: fields(from, &tools),
                tools,
                ..from.clone()
            },
            messages,
        }
    }

    /// The request; `from` is the one that it was made of.
    pub fn request<'a>(&'a self, from: &'a ModelRequest<'_>) -> ModelRequest<'a> {
        ModelRequest {
            input: &self.input,
            messages: self.messages.iter().collect(),
            to: from.to,
            tools: self.offered(&from.tools),
            tool_choice: from.tool_choice,
            rounds: from.rounds.clone(),
            completion_tokens_left: from.completion_tokens_left,
            ask_usage: from.ask_usage,
        }
    }

    fn offered<'a>(&'a self, offered: &'a OfferedTools<'_>) -> OfferedTools<'a> {
        match offered {
            OfferedTools::AsSent => OfferedTools::AsSent,
            OfferedTools::Ours(tools) => OfferedTools::Ours(tools.clone()),
            OfferedTools::Mixed(listed) => {
                let entry = |name: &str| {
                    let mut entries = self.input.tools.entries().iter();
                    entries.find(|entry| entry.name == name)
                };
                let listed = listed.iter().filter_map(|tool| match tool {
                    MixedTool::Ours(tool) => Some(MixedTool::Ours(tool)),
                    MixedTool::Client(client) => entry(&client.name).map(MixedTool::Client),
                });
                OfferedTools::Mixed(listed.collect())
            }
        }
    }
}

fn says_something(message: &Message) -> bool {
    message.role != Role::Assistant
        || message
            .blocks
            .iter()
            .any(|block| !matches!(block, Block::Native(_) | Block::Reasoning(_)))
}

/// A block as this format has it.
fn crossed(block: &Block) -> Option<Block> {
    match block {
        Block::Part(part) => part_of(part).map(Block::Part),
        Block::Result(result) => {
            let failure = told_failure(result).map(Block::Text);
            let content = result.content.iter().filter_map(crossed);
            Some(Block::Result(ResultBlock {
                content: failure.into_iter().chain(content).collect(),
                ..result.clone()
            }))
        }
        Block::Native(part) if part.format != FORMAT => None,
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Native(_) => Some(block.clone()),
    }
}

fn part_of(part: &PartBlock) -> Option<PartBlock> {
    if part.format == FORMAT {
        return Some(part.clone());
    }
    let media = native_words::media(part)?;
    written(&media).map(|value| part_block(Json::from_value(&value)))
}

fn written(media: &Media) -> Option<Value> {
    let name = |otherwise: &str| media.name.clone().unwrap_or_else(|| otherwise.to_owned());
    Some(match (media.kind, &media.source) {
        (PartKind::Image, source) => {
            let mut image = json!({ "url": source.to_url()? });
            if let Some(detail) = &media.detail {
                image["detail"] = json!(detail);
            }
            json!({ "type": "image_url", "image_url": image })
        }
        (PartKind::File, MediaSource::Text(text)) => json!({ "type": "text", "text": text }),
        (PartKind::File, source @ MediaSource::Data { .. }) => json!({
            "type": "file",
            "file": { "filename": name("file"), "file_data": source.to_url()? },
        }),
        (PartKind::Audio, MediaSource::Data { media_type, base64 }) => {
            let format = match media_type.as_str() {
                "audio/mpeg" | "audio/mp3" => "mp3",
                _ => "wav",
            };
            json!({ "type": "input_audio", "input_audio": { "data": base64, "format": format } })
        }
        // A provider's id means nothing to another one, and there is no part for the URL of a file.
        (PartKind::File | PartKind::Audio | PartKind::Other, _) => return None,
    })
}

/// The client's tools as this format writes them. Those that a provider runs itself are unknown to all others.
fn tools(from: &RequestTools) -> RequestTools {
    let entries = match from {
        RequestTools::Absent => return RequestTools::Absent,
        RequestTools::List(entries) | RequestTools::ByName(entries) => entries,
    };
    let known = entries.iter().filter(|entry| !entry.is_of_provider);
    RequestTools::List(known.map(tool).collect())
}

fn tool(entry: &ToolEntry) -> ToolEntry {
    let mut named = json!({ "name": entry.name });
    if let Some(description) = &entry.description {
        named["description"] = json!(description);
    }
    if let Some(parameters) = &entry.parameters {
        named["parameters"] = parameters.to_value();
    }
    if let Some(strict) = entry.strict {
        named["strict"] = json!(strict);
    }
    let raw = match entry.form {
        CallForm::Custom => json!({ "type": "custom", "custom": named }),
        CallForm::Function | CallForm::ByName => json!({ "type": "function", "function": named }),
    };
    ToolEntry {
        raw: Json::from_value(&raw),
        ..entry.clone()
    }
}

/// The fields of the request, as a client of this format would have written them.
fn fields(from: &ModelInput, tools: &RequestTools) -> NativeFields {
    let settings = crossing::settings(from);
    let mut fields = NativeFields::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.push((name.into(), Json::from_value(&value)));
        }
    };
    put("model", Some(json!(from.model)));
    put("stream", from.stream.then(|| json!(true)));
    put("tools", listed(tools));
    put("tool_choice", choice(&from.tool_choice));
    put(
        "parallel_tool_calls",
        settings.parallel_calls.map(|parallel| json!(parallel)),
    );
    put(
        "max_completion_tokens",
        from.completion_tokens_max.map(|max| json!(max)),
    );
    put(
        "logprobs",
        settings.top_logprobs.as_ref().map(|_| json!(true)),
    );
    for (name, value) in numbers(&settings) {
        put(name, value.as_ref().map(Json::to_value));
    }
    let stop = settings.stop.as_slice();
    put("stop", (!stop.is_empty()).then(|| json!(stop)));
    put(
        "response_format",
        settings.structured.as_ref().map(response_format),
    );
    put(
        "reasoning_effort",
        effort(&settings.reasoning).map(|effort| json!(effort)),
    );
    put(
        "verbosity",
        settings.verbosity.map(|verbosity| json!(verbosity)),
    );
    put(
        "prompt_cache_key",
        settings.prompt_cache_key.map(|key| json!(key)),
    );
    put("metadata", settings.metadata.as_ref().map(Json::to_value));
    put("store", from.store.map(|store| json!(store)));
    put("user", from.user.as_ref().map(|user| json!(user)));
    fields
}

fn numbers(settings: &RequestSettings) -> [(&'static str, &Option<Json>); 6] {
    [
        ("temperature", &settings.temperature),
        ("top_p", &settings.top_p),
        ("presence_penalty", &settings.presence_penalty),
        ("frequency_penalty", &settings.frequency_penalty),
        ("seed", &settings.seed),
        ("top_logprobs", &settings.top_logprobs),
    ]
}

fn listed(tools: &RequestTools) -> Option<Value> {
    let entries = tools.entries();
    let raw = entries.iter().map(|entry| entry.raw.to_value());
    (!entries.is_empty()).then(|| raw.collect())
}

fn choice(choice: &ToolChoice) -> Option<Value> {
    Some(match choice {
        ToolChoice::Absent | ToolChoice::Other(_) => return None,
        ToolChoice::None => json!("none"),
        ToolChoice::Auto => json!("auto"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => json!({ "type": "function", "function": { "name": name } }),
    })
}

fn response_format(wanted: &StructuredOutput) -> Value {
    match wanted {
        StructuredOutput::Object => json!({ "type": "json_object" }),
        StructuredOutput::Schema {
            name,
            description,
            schema,
            strict,
        } => {
            let name = if name.is_empty() { SCHEMA_NAME } else { name };
            let mut named = json!({ "name": name, "schema": schema.to_value() });
            if let Some(description) = description {
                named["description"] = json!(description);
            }
            if let Some(strict) = strict {
                named["strict"] = json!(strict);
            }
            json!({ "type": "json_schema", "json_schema": named })
        }
    }
}

fn effort(reasoning: &ReasoningSettings) -> Option<String> {
    reasoning.effort.clone().or_else(|| {
        let word = match reasoning.budget_tokens? {
            0..=LOW_TOKENS_MAX => "low",
            budget if budget <= MEDIUM_TOKENS_MAX => "medium",
            _ => "high",
        };
        Some(word.to_owned())
    })
}

/// The word before a result that failed and does not say so, for a format without a flag.
fn told_failure(result: &ResultBlock) -> Option<Literal> {
    let says = result.content.iter().any(|block| match block {
        Block::Text(text) => text.as_str().to_ascii_lowercase().contains("error"),
        Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => false,
    });
    (result.is_error && !says).then(|| Literal::from_text("Error: "))
}
