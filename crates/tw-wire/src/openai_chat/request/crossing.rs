//! A request that was written in another format, as one of this format.
//!
//! Known differences:
//! - what the model is to obey stands in a message of the system, before all others;
//! - a result that failed says so in its text alone, since there is no flag for it;
//! - how much thought is wanted in tokens becomes the nearest effort;
//! - what this format does not have (`top_k`, thoughts of others, a provider's own tools) is left out, and said so.

use serde_json::{Value, json};
use tw_core::accepts::{Accepts, AddressRule, FieldRule, ReasoningSent};
use tw_core::call_ids::CallIdRule;
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::native::NativeFields;
use tw_core::request::{
    Block, Message, MixedTool, ModelInput, ModelRequest, OfferedTools, PartBlock, PartKind,
    RequestTools, ResultBlock, Role, ToolChoice, ToolEntry,
};
use tw_core::request_changes::RequestChanges;
use tw_core::request_settings::{
    Media, MediaSource, ReasoningSettings, RequestSettings, StructuredOutput,
};

use super::crossing_tools::{flat_choice, listed, of_provider, tools};
use crate::openai_chat::content::part_block;
use crate::openai_chat::{FORMAT, REASONING, REASONING_CONTENT};
use crate::{crossing, native_words, unshared};

/// Tokens of thought up to which the effort is `low`, and up to which it is `medium`.
const LOW_TOKENS_MAX: u64 = 4096;
const MEDIUM_TOKENS_MAX: u64 = 16_384;
/// The name of a schema that has none.
const SCHEMA_NAME: &str = "answer";
/// Most texts in `stop`: OpenAI's own limit.
const STOPS_MAX: usize = 4;

/// The rules by which a request of another format is written: only a client of this one can have meant otherwise.
pub fn rules(accepts: &Accepts) -> Accepts {
    Accepts {
        images_in_results: false,
        unknown_call_ids: CallIdRule::Plain,
        ..accepts.clone()
    }
}

/// A request of another format in the terms of this one.
pub struct CrossedRequest {
    input: ModelInput,
    messages: Vec<Message>,
    /// What of it this format does not have.
    pub changes: RequestChanges,
    /// Tools that this format cannot describe.
    pub tools_left_out: u32,
}

impl CrossedRequest {
    pub fn of(request: &ModelRequest<'_>, accepts: &Accepts) -> Self {
        let from = request.input;
        let mut crossing = Crossing {
            accepts,
            changes: RequestChanges::default(),
        };
        let (tools, left_out) = tools(&from.tools);
        let offered = unshared::client_tools(request);
        let is_lost = |entry: &&&ToolEntry| left_out.contains(&entry.name);
        let of_provider = of_provider(request);
        let mut messages = Vec::with_capacity(request.messages.len() + 1);
        if !from.instructions.is_empty() {
            let said = joined(crossing.blocks(&from.instructions), "\n\n");
            messages.push(Message::made(Role::System, said));
        }
        for message in &request.messages {
            messages.extend(crossing.message(message));
        }
        // A list of nothing is refused.
        if messages.is_empty() && request.rounds.is_empty() {
            crossing.changes.add("added_text");
            let said = Block::Text(Literal::from_text(LEFT_OUT));
            messages.push(Message::made(Role::User, vec![said]));
        }
        if crossing::is_prefilled(request) {
            crossing.changes.add("prefill");
        }
        let fields = crossing.fields(from, &tools, &left_out);
        Self {
            tools_left_out: count(offered.iter().filter(is_lost).count() + of_provider),
            input: ModelInput {
                messages: Vec::new(),
                instructions: Vec::new(),
                format: FORMAT,
                fields,
                tools,
                ..from.clone()
            },
            messages,
            changes: crossing.changes,
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

/// What stands for a part that this format does not have.
const LEFT_OUT: &str = "(Something that cannot be shown here was left out.)";

fn count(places: usize) -> u32 {
    u32::try_from(places).unwrap_or(u32::MAX)
}

struct Crossing<'a> {
    accepts: &'a Accepts,
    changes: RequestChanges,
}

impl Crossing<'_> {
    /// A message as this format has it; `None` for one of which nothing is left.
    fn message(&mut self, message: &Message) -> Option<Message> {
        let mut blocks = self.blocks(&message.blocks);
        let is_filled = |block: &Block| match block {
            Block::Native(_) => false,
            Block::Reasoning(_) => self.accepts.reasoning != ReasoningSent::AsSent,
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Part(_) => true,
        };
        match message.role {
            Role::Assistant if !blocks.iter().any(is_filled) => return None,
            Role::System | Role::Developer if blocks.is_empty() => return None,
            // A content of nothing is refused.
            Role::User if !blocks.iter().any(is_filled) => {
                let said = if message.blocks.is_empty() {
                    ""
                } else {
                    LEFT_OUT
                };
                blocks = vec![Block::Text(Literal::from_text(said))];
            }
            Role::Assistant => {
                // The model's own words are text alone.
                for block in &mut blocks {
                    if let Block::Part(part) = block {
                        let kind = part.kind;
                        *block = self.left_out(kind);
                    }
                }
            }
            Role::System | Role::Developer | Role::User | Role::Tool => {}
        }
        if message.role != Role::Assistant {
            blocks = joined(blocks, "\n\n");
        }
        Some(Message {
            origin: message.origin.clone(),
            ..Message::made(message.role, blocks)
        })
    }

    fn blocks(&mut self, blocks: &[Block]) -> Vec<Block> {
        let crossed = blocks.iter().filter_map(|block| self.block(block));
        crossed.collect()
    }

    /// A block as this format has it.
    fn block(&mut self, block: &Block) -> Option<Block> {
        match block {
            Block::Part(part) => Some(self.part(part)),
            Block::Result(result) => Some(Block::Result(self.result(result))),
            // Whoever reads its format has named it.
            Block::Native(part) if part.format != FORMAT => None,
            Block::Reasoning(reasoning) => {
                let is_sent = match self.accepts.reasoning {
                    ReasoningSent::Field(_) => !reasoning.text.is_empty(),
                    ReasoningSent::AsSent => {
                        [REASONING_CONTENT, REASONING].contains(&reasoning.place)
                    }
                    ReasoningSent::Never => false,
                };
                self.changes.add_times("reasoning", u32::from(!is_sent));
                is_sent.then(|| block.clone())
            }
            Block::Text(_) | Block::Refusal(_) | Block::Call(_) | Block::Native(_) => {
                Some(block.clone())
            }
        }
    }

    fn result(&mut self, result: &ResultBlock) -> ResultBlock {
        self.changes
            .add_times("is_error", u32::from(result.is_error));
        let mut content = joined(self.blocks(&result.content), "\n");
        if !says_failure(result) {
            let told = match content.first() {
                Some(Block::Text(text)) => Some(format!("Error: {}", text.to_text())),
                Some(_) | None => None,
            };
            match told {
                Some(told) => content[0] = Block::Text(Literal::from_text(&told)),
                None => content.insert(0, Block::Text(Literal::from_text("Error."))),
            }
        }
        if content.is_empty() {
            content.push(Block::Text(Literal::default()));
        }
        ResultBlock {
            content,
            ..result.clone()
        }
    }

    fn part(&mut self, part: &PartBlock) -> Block {
        if part.format == FORMAT {
            return Block::Part(part.clone());
        }
        let media = native_words::media(part);
        if let Some(media) = &media
            && let MediaSource::Text(text) = &media.source
        {
            // What else is said of a file has no place.
            self.changes.add("file");
            return Block::Text(Literal::from_text(text));
        }
        if let Some(media) = &media
            && let (PartKind::File, MediaSource::FileId(id)) = (media.kind, &media.source)
            && crossing::has_files_of_openai(part.format)
        {
            // Both of OpenAI's formats know its files by one id.
            let file = json!({ "type": "file", "file": { "file_id": id } });
            return Block::Part(part_block(Json::from_value(&file)));
        }
        match media.and_then(|media| self.written(&media)) {
            Some(value) => Block::Part(part_block(Json::from_value(&value))),
            None => self.left_out(part.kind),
        }
    }

    fn left_out(&mut self, kind: PartKind) -> Block {
        self.changes.add(native_words::part_name(kind));
        Block::Text(Literal::from_text(LEFT_OUT))
    }

    fn written(&mut self, media: &Media) -> Option<Value> {
        let name = |otherwise: &str| media.name.clone().unwrap_or_else(|| otherwise.to_owned());
        Some(match (media.kind, &media.source) {
            (PartKind::Image, source) => {
                let mut image = json!({ "url": source.to_url()? });
                match media.detail.as_deref() {
                    Some(detail @ ("auto" | "low" | "high")) => image["detail"] = json!(detail),
                    Some(_) => self.changes.add("detail"),
                    None => {}
                }
                json!({ "type": "image_url", "image_url": image })
            }
            (PartKind::File, source @ MediaSource::Data { .. }) => json!({
                "type": "file",
                "file": { "filename": name("file"), "file_data": source.to_url()? },
            }),
            (PartKind::Audio, MediaSource::Data { media_type, base64 }) => {
                let format = match media_type.as_str() {
                    "audio/mpeg" | "audio/mp3" => "mp3",
                    "audio/wav" | "audio/x-wav" => "wav",
                    _ => return None,
                };
                json!({ "type": "input_audio", "input_audio": { "data": base64, "format": format } })
            }
            // Its content takes the address's place before it is sent.
            (PartKind::File, MediaSource::Url(url))
                if self.accepts.addresses == AddressRule::Downloaded =>
            {
                json!({
                    "type": "file",
                    "file": { "filename": name("file"), "file_data": url },
                })
            }
            // A provider's id means nothing to another one, and there is no part for the URL of a file.
            (PartKind::File | PartKind::Audio | PartKind::Other, _) => return None,
        })
    }

    /// The fields of the request, as a client of this format would have written them.
    fn fields(
        &mut self,
        from: &ModelInput,
        tools: &RequestTools,
        left_out: &[String],
    ) -> NativeFields {
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
        put("tool_choice", self.choice(&from.tool_choice, left_out));
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
        if let Some(top_k) = &settings.top_k {
            if self.accepts.fields.get("top_k") == Some(&FieldRule::Sent) {
                put("top_k", Some(top_k.to_value()));
            } else {
                self.changes.add("top_k");
            }
        }
        let stop = &settings.stop[..settings.stop.len().min(STOPS_MAX)];
        if stop.len() < settings.stop.len() {
            self.changes.add("stop");
        }
        put("stop", (!stop.is_empty()).then(|| json!(stop)));
        put(
            "response_format",
            settings.structured.as_ref().map(response_format),
        );
        put("reasoning_effort", self.effort(&settings.reasoning));
        for (name, text) in [
            ("verbosity", &settings.verbosity),
            ("service_tier", &settings.service_tier),
            ("prompt_cache_key", &settings.prompt_cache_key),
        ] {
            put(name, text.as_ref().map(|text| json!(text)));
        }
        put("metadata", settings.metadata.as_ref().map(Json::to_value));
        put("store", from.store.map(|store| json!(store)));
        put("user", from.user.as_ref().map(|user| json!(user)));
        for (name, value) in &settings.of_openai {
            put(name, Some(value.to_value()));
        }
        if settings.cache_control.is_some() {
            self.changes.add("cache_control");
        }
        for name in settings.without_equal {
            self.changes.add(name);
        }
        let is_left_out = |name: &str| self.accepts.fields.get(name) == Some(&FieldRule::LeftOut);
        let kept = fields.into_iter().filter(|(name, _)| {
            let is_left_out = is_left_out(name);
            if is_left_out {
                self.changes.add(name.to_string());
            }
            !is_left_out
        });
        kept.collect()
    }

    fn choice(&mut self, choice: &ToolChoice, left_out: &[String]) -> Option<Value> {
        Some(match choice {
            ToolChoice::Absent => return None,
            ToolChoice::None => json!("none"),
            ToolChoice::Auto => json!("auto"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Named(name) if left_out.contains(name) => {
                self.changes.add("tool_choice");
                json!("auto")
            }
            ToolChoice::Named(name) => json!({ "type": "function", "function": { "name": name } }),
            ToolChoice::Other(other) => {
                let chosen = flat_choice(other, left_out);
                if chosen.is_none() {
                    self.changes.add("tool_choice");
                }
                return chosen;
            }
        })
    }

    fn effort(&mut self, reasoning: &ReasoningSettings) -> Option<Value> {
        if reasoning.summary.is_some() {
            self.changes.add("reasoning.summary");
        }
        if let Some(effort) = &reasoning.effort {
            if reasoning.budget_tokens.is_some() {
                self.changes.add("thinking.budget_tokens");
            }
            return Some(match effort.as_str() {
                "max" => {
                    self.changes.add("effort");
                    json!("xhigh")
                }
                word => json!(word),
            });
        }
        let word = match reasoning.budget_tokens? {
            0..=LOW_TOKENS_MAX => "low",
            budget if budget <= MEDIUM_TOKENS_MAX => "medium",
            _ => "high",
        };
        self.changes.add("thinking.budget_tokens");
        Some(json!(word))
    }
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

/// Texts alone as one text, which is what the least of servers take; each stands on lines of its own.
fn joined(blocks: Vec<Block>, gap: &str) -> Vec<Block> {
    let texts = blocks.iter().map(|block| match block {
        Block::Text(text) => Some(text),
        Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    });
    let Some(texts) = texts.collect::<Option<Vec<&Literal>>>() else {
        return blocks;
    };
    if texts.len() < 2 {
        return blocks;
    }
    let gap = Literal::from_text(gap);
    let mut all = LiteralBuf::default();
    for text in texts {
        if !all.is_empty() {
            all.push(&gap);
        }
        all.push(text);
    }
    vec![Block::Text(all.to_literal())]
}

/// Whether a result that failed says so itself, or did not fail: the format has no flag for it.
fn says_failure(result: &ResultBlock) -> bool {
    let says = |block: &Block| match block {
        Block::Text(text) => text.as_str().to_ascii_lowercase().contains("error"),
        Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => false,
    };
    !result.is_error || result.content.iter().any(says)
}
