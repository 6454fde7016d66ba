//! Writing the request to the upstream.
//!
//! Nothing may depend on what a provider keeps: responses are not stored there, and reasoning comes encrypted, so that
//! it can go back.

use std::borrow::Cow;

use tw_core::accepts::{Accepts, FieldRule};
use tw_core::json::{Json, LiteralBuf};
use tw_core::native::NativeFields;
use tw_core::request::{Block, ChoiceSent, ModelRequest, OfferedTools, RequestTools, ToolChoice};
use tw_core::request_changes::RequestChanges;
use tw_core::request_settings::{ReasoningSettings, RequestSettings, StructuredOutput};

use super::items_sent;
use super::tools_sent::{self, ResponsesTools};
use crate::crossing::settings;
use crate::openai_chat::write;
use crate::openai_responses::FORMAT;
use crate::openai_responses::options::ENCRYPTED_REASONING;
use crate::openai_responses::settings::LOGPROBS;

/// Least `max_output_tokens` that OpenAI takes.
const OUTPUT_TOKENS_MIN: u64 = 16;
/// Longest `safety_identifier`, in bytes: OpenAI's own limit.
const IDENTIFIER_BYTES_MAX: usize = 64;
/// Budgets of reasoning from which on it is more than little, and much.
const BUDGET_MEDIUM_TOKENS: u64 = 4_096;
const BUDGET_HIGH_TOKENS: u64 = 16_384;

/// A body, and what is not in it as the client meant it.
pub struct ResponsesBody {
    pub out: Vec<u8>,
    pub changes: RequestChanges,
}

pub fn body(request: &ModelRequest<'_>, accepts: &Accepts) -> ResponsesBody {
    let mut writer = BodyWriter {
        request,
        accepts,
        tools: tools_sent::tools(request, accepts),
        out: vec![b'{'],
        changes: RequestChanges::default(),
        has_tools: false,
        has_choice: false,
        has_limit: false,
        has_include: false,
    };
    writer.key("model");
    write::string(&mut writer.out, &request.to.model);
    writer.key("input");
    let changes = items_sent::input(&mut writer.out, request, accepts);
    writer.changes.add_all(&changes);
    writer.instructions();
    if request.input.format == FORMAT {
        writer.own_fields();
    } else {
        writer.of_settings();
    }
    writer.missing();
    writer.out.push(b'}');
    ResponsesBody {
        out: writer.out,
        changes: writer.changes,
    }
}

struct BodyWriter<'a> {
    request: &'a ModelRequest<'a>,
    accepts: &'a Accepts,
    tools: ResponsesTools,
    out: Vec<u8>,
    changes: RequestChanges,
    has_tools: bool,
    has_choice: bool,
    has_limit: bool,
    has_include: bool,
}

/// Whether a model thinks, as far as its name tells: others refuse to say their reasoning encrypted.
fn may_think(model: &str) -> bool {
    const NEVER: [&str; 5] = ["gpt-4", "gpt-3", "chatgpt", "gpt-5-chat", "computer-use"];
    let name = model.rsplit('/').next().unwrap_or(model);
    !NEVER.iter().any(|never| name.starts_with(never))
}

impl BodyWriter<'_> {
    fn key(&mut self, name: &str) {
        write::key(&mut self.out, name);
    }

    fn text(&mut self, name: &str, text: &str) {
        self.key(name);
        write::string(&mut self.out, text);
    }

    fn json(&mut self, name: &str, json: &Json) {
        write::foreign_key(&mut self.out, name);
        write::raw(&mut self.out, json);
    }

    fn word(&mut self, name: &str, word: bool) {
        self.key(name);
        self.out
            .extend_from_slice(if word { b"true" } else { b"false" });
    }

    /// Whether the upstream is said to take a field that this format does not have, or not to take one that it has.
    fn is_sent(&self, name: &str) -> bool {
        self.accepts.fields.get(name) == Some(&FieldRule::Sent)
    }

    fn is_left_out(&self, name: &str) -> bool {
        self.accepts.fields.get(name) == Some(&FieldRule::LeftOut)
    }

    /// Whether a field may be sent; one that may not is said to be changed.
    fn takes(&mut self, name: &'static str) -> bool {
        let is_taken = !self.is_left_out(name);
        if !is_taken {
            self.change(name);
        }
        is_taken
    }

    fn change(&mut self, name: impl Into<Cow<'static, str>>) {
        self.changes.add(name);
    }

    fn instructions(&mut self) {
        let mut all = LiteralBuf::default();
        for block in &self.request.input.instructions {
            if let Block::Text(text) = block {
                if !all.is_empty() {
                    all.push(&tw_core::json::Literal::from_text("\n\n"));
                }
                all.push(text);
            }
        }
        if !all.is_empty() {
            self.key("instructions");
            write::quoted(&mut self.out, all.as_str());
        }
    }

    /// The client's own fields, in its order.
    fn own_fields(&mut self) {
        for (name, value) in &self.request.input.fields {
            self.own_field(name, value);
        }
    }

    fn own_field(&mut self, name: &str, value: &Json) {
        match (self.accepts.fields.get(name), name) {
            (Some(FieldRule::Sent), _) => return self.json(name, value),
            (Some(FieldRule::LeftOut), _) => {
                if !value.is_null() {
                    self.change(name.to_owned());
                }
                return;
            }
            (Some(FieldRule::Renamed(other)), _) => {
                let has_other =
                    |fields: &NativeFields| fields.iter().any(|(name, _)| name == other);
                if !has_other(&self.request.input.fields) {
                    self.json(other, value);
                }
                return;
            }
            (None, "metadata") if self.is_for_our_tools() => return,
            (None, _) => {}
        }
        match name {
            // They speak of what this server keeps.
            "model"
            | "previous_response_id"
            | "conversation"
            | "background"
            | "store"
            | "stream_id"
            | "type" => {}
            "tools" => self.tools(Some(value)),
            "tool_choice" => self.choice(Some(value)),
            // Upstreams refuse it when no tools are offered.
            "parallel_tool_calls" if self.offers_nothing() => {}
            // It counts calls of the provider's own tools there, and of ours here.
            "max_tool_calls" if !self.has_provider_tools() => {}
            "max_output_tokens" => self.limit(Some(value)),
            "include" => self.include(Some(value)),
            _ => self.json(name, value),
        }
    }

    /// Whether `metadata` is for the variables of this server's tools; a client that means an upstream to keep it says
    /// `store` as well.
    fn is_for_our_tools(&self) -> bool {
        let has_ours = !matches!(self.request.tools, OfferedTools::AsSent);
        has_ours && self.request.input.store != Some(true)
    }

    fn has_provider_tools(&self) -> bool {
        let entries = self.request.input.tools.entries();
        entries.iter().any(|entry| entry.is_of_provider)
    }

    fn offers_nothing(&self) -> bool {
        let is_absent = matches!(self.request.tools, OfferedTools::AsSent)
            && matches!(self.request.input.tools, RequestTools::Absent);
        self.tools.entries.is_empty() && !is_absent
    }

    fn tools(&mut self, written: Option<&Json>) {
        self.has_tools = true;
        let is_as_sent = matches!(self.request.tools, OfferedTools::AsSent);
        match written {
            Some(json) if is_as_sent && !self.tools.differs && !self.tools.entries.is_empty() => {
                self.json("tools", json);
            }
            Some(_) | None if self.tools.entries.is_empty() => {}
            Some(_) | None => {
                self.key("tools");
                self.out.push(b'[');
                for entry in &self.tools.entries {
                    write::separate(&mut self.out);
                    self.out.extend_from_slice(entry);
                }
                self.out.push(b']');
            }
        }
    }

    fn choice(&mut self, written: Option<&Json>) {
        self.has_choice = true;
        if self.offers_nothing() {
            return;
        }
        let is_chosen = self.request.tool_choice == ChoiceSent::AsSent;
        if let ToolChoice::Named(name) = &self.request.input.tool_choice
            && is_chosen
            && self.tools.left_out.contains(name)
        {
            self.change("tool_choice");
        }
        if let Some(choice) = tools_sent::choice(self.request, &self.tools) {
            self.key("tool_choice");
            self.out.extend_from_slice(&choice);
        } else if let Some(json) = written {
            self.json("tool_choice", json);
        } else if matches!(self.request.input.tool_choice, ToolChoice::Other(_)) {
            self.change("tool_choice");
        }
    }

    fn limit(&mut self, written: Option<&Json>) {
        self.has_limit = true;
        let is_own = self.request.input.format == FORMAT;
        let left = self.request.completion_tokens_left;
        match (left.or(self.request.input.completion_tokens_max), written) {
            (_, Some(json)) if left.is_none() => self.json("max_output_tokens", json),
            (Some(max), _) => {
                let raised = if is_own {
                    max
                } else {
                    max.max(OUTPUT_TOKENS_MIN)
                };
                if raised != max {
                    self.change("max_tokens");
                }
                self.key("max_output_tokens");
                write::number(&mut self.out, raised);
            }
            (None, _) => {}
        }
    }

    /// Writes `include` with the word for reasoning that can go back.
    fn include(&mut self, written: Option<&Json>) {
        self.has_include = true;
        let words = written.and_then(|json| serde_json::from_str(json.as_str()).ok());
        let mut words: Vec<String> = words.unwrap_or_default();
        let has = |words: &[String], word: &str| words.iter().any(|have| have == word);
        let adds = may_think(&self.request.to.model) && !has(&words, ENCRYPTED_REASONING);
        if let Some(json) = written.filter(|json| !adds && !json.is_null()) {
            self.json("include", json);
            return;
        }
        if adds {
            words.push(ENCRYPTED_REASONING.to_owned());
        }
        let is_other = self.request.input.format != FORMAT;
        if is_other && settings(self.request.input).top_logprobs.is_some() {
            words.push(LOGPROBS.to_owned());
        }
        if words.is_empty() {
            return;
        }
        self.key("include");
        self.out.push(b'[');
        for word in &words {
            write::separate(&mut self.out);
            write::string(&mut self.out, word);
        }
        self.out.push(b']');
    }

    /// Adds what the client did not write, or what stands for what it wrote.
    fn missing(&mut self) {
        if !self.has_tools {
            self.tools(None);
        }
        if !self.has_choice
            && (self.request.tool_choice == ChoiceSent::None || self.request.input.format != FORMAT)
        {
            self.choice(None);
        }
        if !self.has_limit && !self.is_left_out("max_output_tokens") {
            self.limit(None);
        }
        if !self.is_sent("store") && !self.is_left_out("store") {
            self.word("store", false);
        }
        if !self.has_include && !self.is_sent("include") && !self.is_left_out("include") {
            self.include(None);
        }
    }

    /// The fields of a request of another format.
    fn of_settings(&mut self) {
        let input = self.request.input;
        let settings = settings(input);
        if input.stream {
            self.word("stream", true);
        }
        for (name, value) in [
            ("temperature", &settings.temperature),
            ("top_p", &settings.top_p),
            ("top_logprobs", &settings.top_logprobs),
        ] {
            if let Some(json) = value.as_ref().filter(|_| self.takes(name)) {
                self.json(name, json);
            }
        }
        for (name, json) in &settings.of_openai {
            if self.is_left_out(name) {
                self.change(name.to_string());
            } else {
                self.json(name, json);
            }
        }
        self.without_equal(&settings);
        if let Some(parallel) = settings.parallel_calls.filter(|_| !self.offers_nothing()) {
            self.word("parallel_tool_calls", parallel);
        }
        self.reasoning(&settings.reasoning);
        self.structured(&settings);
        for (name, value) in [
            ("service_tier", &settings.service_tier),
            ("prompt_cache_key", &settings.prompt_cache_key),
        ] {
            if let Some(text) = value.as_ref().filter(|_| self.takes(name)) {
                self.text(name, text);
            }
        }
        if let Some(metadata) = settings.metadata.filter(|_| !self.is_for_our_tools())
            && self.takes("metadata")
        {
            self.json("metadata", &metadata);
        }
        if let Some(user) = &input.user
            && self.takes("safety_identifier")
        {
            if user.len() <= IDENTIFIER_BYTES_MAX {
                self.text("safety_identifier", user);
            } else {
                self.change("user");
            }
        }
    }

    /// Fields that OpenAI refuses here; another upstream may be said to take them.
    fn without_equal(&mut self, settings: &RequestSettings) {
        for (name, value) in [
            ("top_k", &settings.top_k),
            ("presence_penalty", &settings.presence_penalty),
            ("frequency_penalty", &settings.frequency_penalty),
            ("seed", &settings.seed),
        ] {
            match value {
                Some(json) if self.is_sent(name) => self.json(name, json),
                Some(_) => self.change(name),
                None => {}
            }
        }
        if !settings.stop.is_empty() {
            if self.is_sent("stop") {
                self.key("stop");
                self.out.push(b'[');
                for text in &settings.stop {
                    write::separate(&mut self.out);
                    write::string(&mut self.out, text);
                }
                self.out.push(b']');
            } else {
                self.change("stop");
            }
        }
        if self.request.input.choices > 1 {
            self.change("n");
        }
        if settings.cache_control.is_some() {
            self.change("cache_control");
        }
        for name in &settings.without_equal {
            self.change(name.clone());
        }
    }

    fn reasoning(&mut self, settings: &ReasoningSettings) {
        let of_budget = settings.budget_tokens.map(|budget| match budget {
            BUDGET_HIGH_TOKENS.. => "high",
            BUDGET_MEDIUM_TOKENS.. => "medium",
            _ => "low",
        });
        if settings.budget_tokens.is_some() {
            self.change("thinking.budget_tokens");
        }
        if settings.effort.as_deref() == Some("max") {
            self.change("effort");
        }
        let effort = settings.effort.as_deref().map(|effort| match effort {
            "max" => "xhigh",
            word => word,
        });
        let effort = effort.or(of_budget);
        let summary = settings.summary.as_deref();
        if (effort.is_none() && summary.is_none()) || !self.takes("reasoning") {
            return;
        }
        self.key("reasoning");
        self.out.push(b'{');
        for (name, word) in [("effort", effort), ("summary", summary)] {
            if let Some(word) = word {
                self.text(name, word);
            }
        }
        self.out.push(b'}');
    }

    fn structured(&mut self, settings: &RequestSettings) {
        if settings.structured.is_none() && settings.verbosity.is_none() {
            return;
        }
        self.key("text");
        self.out.push(b'{');
        match &settings.structured {
            None => {}
            Some(StructuredOutput::Object) => {
                self.key("format");
                self.out.extend_from_slice(b"{\"type\":\"json_object\"}");
            }
            Some(StructuredOutput::Schema {
                name,
                description,
                schema,
                strict,
            }) => {
                self.key("format");
                self.out.extend_from_slice(b"{\"type\":\"json_schema\"");
                // It has to have one.
                let name = if name.is_empty() { "answer" } else { name };
                self.text("name", name);
                if let Some(description) = description {
                    self.text("description", description);
                }
                self.json("schema", schema);
                // Left unsaid, it would be strict.
                self.word("strict", strict.unwrap_or(false));
                self.out.push(b'}');
            }
        }
        if let Some(verbosity) = &settings.verbosity {
            self.text("verbosity", verbosity);
        }
        self.out.push(b'}');
    }
}
