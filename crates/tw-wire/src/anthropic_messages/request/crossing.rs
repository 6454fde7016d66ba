//! A request that was written in another format.
//!
//! What the API does not have is left out, and said so by its name.
//!
//! Known differences:
//! - messages of the system and the developer stand in `system`, wherever they stood;
//! - a temperature above 1 becomes 1; with thinking on there is none, nor `top_p` and `top_k`;
//! - where both are given, `temperature` goes and `top_p` does not: newer models take only one;
//! - a schema for the answer that is not strict is asked for in words.

use tw_core::accepts::FieldRule;
use tw_core::json::{Json, Literal};
use tw_core::model::CallForm;
use tw_core::request::{Block, ModelRequest, Role};
use tw_core::request_changes::RequestChanges;
use tw_core::request_settings::{ReasoningSettings, RequestSettings, StructuredOutput};

use super::blocks::{self, SentBlock, SentBlocks};
use super::cache_marks::MarkBudget;
use super::encode::{Sent, SentBody, THINKING_TOKENS_MIN};
use super::tools_sent;
use crate::anthropic_messages::models::{self, ModelAbilities, ThinkingForm};
use crate::crossing::settings;
use crate::native_words;
use crate::openai_chat::request::schema::is_strict;
use crate::openai_chat::write;
use crate::unshared::client_tools;

/// Longest `metadata.user_id`, in characters: the API's own limit.
const USER_CHARS_MAX: usize = 256;

pub fn body(sent: &Sent<'_>) -> SentBody {
    let settings = settings(sent.request.input);
    let mut writer = CrossingWriter {
        sent,
        abilities: models::abilities(&sent.request.to.model),
        settings: &settings,
        out: vec![b'{'],
        changes: RequestChanges::default(),
    };
    writer.write();
    SentBody {
        out: writer.out,
        changes: writer.changes,
    }
}

/// What the model is to obey, wherever it stood. It is text alone here.
pub fn system(request: &ModelRequest<'_>, marks: &mut MarkBudget) -> SentBlocks {
    let mut all = blocks::sent(&request.input.instructions, &[], blocks::Home::Other);
    let mut is_first = true;
    for message in &request.messages {
        if !matches!(message.role, Role::System | Role::Developer) {
            is_first = false;
            continue;
        }
        let mut said = message.blocks.clone();
        for block in &mut said {
            if let Block::Part(part) = block {
                all.changes.add(native_words::part_name(part.kind));
                *block = Block::Text(Literal::from_text(blocks::LEFT_OUT));
            }
        }
        let marks = marks.of_message(message);
        let sent = blocks::sent(&said, &marks, blocks::Home::Other);
        let is_moved = !is_first && !sent.blocks.is_empty();
        all.changes.add_times("moved_system", u32::from(is_moved));
        all.changes.add_all(&sent.changes);
        all.blocks.extend(sent.blocks);
    }
    all
}

struct CrossingWriter<'a> {
    sent: &'a Sent<'a>,
    abilities: ModelAbilities,
    settings: &'a RequestSettings,
    out: Vec<u8>,
    changes: RequestChanges,
}

/// Thoughts that are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thinking {
    Unsaid,
    Off,
    Within(u64),
    Adaptive,
}

impl CrossingWriter<'_> {
    fn write(&mut self) {
        let (sent, request) = (self.sent, self.sent.request);
        write::key(&mut self.out, "model");
        write::string(&mut self.out, &request.to.model);
        let choice = tools_sent::choice(request, &sent.tools);
        if tools_sent::is_weakened(request, &sent.tools) {
            self.changes.add("tool_choice");
        }
        let is_forced = tools_sent::is_forced(choice.as_deref());
        let (thinking, max_tokens) = self.thinking(is_forced);
        write::key(&mut self.out, "max_tokens");
        write::number(&mut self.out, max_tokens);
        let instruction = self.structured_in_words();
        if instruction.is_some() {
            self.changes.add("response_format");
        }
        self.system(instruction);
        sent.messages(&mut self.out);
        sent.tools(&mut self.out);
        if let Some(choice) = &choice {
            write::key(&mut self.out, "tool_choice");
            self.out.extend_from_slice(choice);
        }
        self.thoughts(thinking);
        self.output_config(thinking);
        self.sampling(matches!(thinking, Thinking::Within(_) | Thinking::Adaptive));
        self.rest();
        self.losses();
        self.out.push(b'}');
    }

    /// Whether a field may be sent; one that may not is said to be changed.
    fn takes(&mut self, name: &'static str) -> bool {
        let is_taken = match self.sent.accepts.fields.get(name) {
            Some(FieldRule::LeftOut) => false,
            Some(FieldRule::Sent | FieldRule::Renamed(_)) | None => true,
        };
        if !is_taken {
            self.changes.add(name);
        }
        is_taken
    }

    fn raw(&mut self, name: &'static str, value: &Json) {
        if self.takes(name) {
            write::key(&mut self.out, name);
            write::raw(&mut self.out, value);
        }
    }

    /// The thoughts to ask for, and the limit of the answer, which they count towards.
    fn thinking(&self, is_forced: bool) -> (Thinking, u64) {
        let request = self.sent.request;
        let given = request.completion_tokens_left;
        let given = given.or(request.input.completion_tokens_max);
        let default = self.abilities.max_tokens_default;
        let wanted = wanted_tokens(&self.settings.reasoning);
        // The API refuses thoughts in the middle of a chain of calls, and with a call that must be made.
        let is_possible = !is_forced && !self.sent.history.lacks_thought();
        match (self.abilities.thinking, wanted) {
            (ThinkingForm::None, _) | (_, None) => (Thinking::Unsaid, given.unwrap_or(default)),
            (_, Some(0)) => (Thinking::Off, given.unwrap_or(default)),
            _ if !is_possible => (Thinking::Unsaid, given.unwrap_or(default)),
            (ThinkingForm::Adaptive, Some(budget)) => {
                let max = given.unwrap_or_else(|| default.saturating_add(budget));
                (Thinking::Adaptive, max)
            }
            (ThinkingForm::Budget, Some(budget)) => {
                let budget = budget.max(THINKING_TOKENS_MIN);
                let max = given.unwrap_or_else(|| default.saturating_add(budget));
                // A quarter is kept for the answer.
                let most = max - max / 4;
                match budget.min(most) {
                    budget if budget < THINKING_TOKENS_MIN => (Thinking::Unsaid, max),
                    budget => (Thinking::Within(budget), max),
                }
            }
        }
    }

    /// What is to be said of the answer's form in words.
    fn structured_in_words(&self) -> Option<String> {
        match self.settings.structured.as_ref()? {
            StructuredOutput::Object => Some(
                "Answer with one JSON object alone, without any text or marks around it."
                    .to_owned(),
            ),
            StructuredOutput::Schema { .. } if self.schema().is_some() => None,
            StructuredOutput::Schema { schema, .. } => Some(format!(
                "Answer with one JSON value alone, without any text or marks around it. It must fit this JSON Schema: {}",
                schema.as_str()
            )),
        }
    }

    /// The schema that the API makes the answer fit.
    fn schema(&self) -> Option<&Json> {
        match self.settings.structured.as_ref()? {
            StructuredOutput::Schema {
                schema,
                strict: Some(true),
                ..
            } if self.abilities.schemas && is_strict(schema) => Some(schema),
            StructuredOutput::Schema { .. } | StructuredOutput::Object => None,
        }
    }

    fn system(&mut self, instruction: Option<String>) {
        let instruction = instruction.map(|text| Literal::from_text(&text));
        let instruction = instruction.and_then(|text| blocks::said(&text, None, None));
        let texts: Vec<&SentBlock> = self.sent.system.blocks.iter().chain(&instruction).collect();
        if texts.is_empty() {
            return;
        }
        write::key(&mut self.out, "system");
        self.out.push(b'[');
        for text in texts {
            write::separate(&mut self.out);
            self.out.extend_from_slice(&text.json);
        }
        self.out.push(b']');
    }

    fn thoughts(&mut self, thinking: Thinking) {
        let asked = self.settings.reasoning.effort.is_some()
            || self.settings.reasoning.budget_tokens.is_some();
        let summary = self.settings.reasoning.summary.is_some();
        if summary && thinking != Thinking::Adaptive {
            self.changes.add("reasoning.summary");
        }
        match thinking {
            Thinking::Unsaid if asked => return self.changes.add("reasoning_effort"),
            Thinking::Unsaid => return,
            Thinking::Off | Thinking::Within(_) | Thinking::Adaptive => {}
        }
        if !self.takes("thinking") {
            return;
        }
        write::key(&mut self.out, "thinking");
        match thinking {
            Thinking::Unsaid => {}
            Thinking::Off => self.out.extend_from_slice(b"{\"type\":\"disabled\"}"),
            Thinking::Adaptive if summary => self
                .out
                .extend_from_slice(b"{\"type\":\"adaptive\",\"display\":\"summarized\"}"),
            Thinking::Adaptive => self.out.extend_from_slice(b"{\"type\":\"adaptive\"}"),
            Thinking::Within(budget) => {
                self.out
                    .extend_from_slice(b"{\"type\":\"enabled\",\"budget_tokens\":");
                write::number(&mut self.out, budget);
                self.out.push(b'}');
            }
        }
    }

    fn output_config(&mut self, thinking: Thinking) {
        let effort = self.settings.reasoning.effort.as_deref();
        let effort = effort.filter(|_| thinking == Thinking::Adaptive);
        let word = effort.and_then(effort_word);
        if effort.is_some() && word.is_none() {
            self.changes.add("reasoning_effort");
        }
        let effort = word;
        let schema = self.schema().cloned();
        if effort.is_none() && schema.is_none() || !self.takes("output_config") {
            return;
        }
        write::key(&mut self.out, "output_config");
        self.out.push(b'{');
        if let Some(effort) = effort {
            write::key(&mut self.out, "effort");
            write::quoted(&mut self.out, effort);
        }
        if let Some(schema) = schema {
            write::key(&mut self.out, "format");
            self.out
                .extend_from_slice(b"{\"type\":\"json_schema\",\"schema\":");
            write::raw(&mut self.out, &schema);
            self.out.push(b'}');
        }
        self.out.push(b'}');
    }

    fn sampling(&mut self, thinks: bool) {
        let settings = self.settings;
        if thinks {
            for (name, value) in [
                ("temperature", &settings.temperature),
                ("top_p", &settings.top_p),
                ("top_k", &settings.top_k),
            ] {
                if value.is_some() {
                    self.changes.add(name);
                }
            }
            return;
        }
        if let Some(temperature) = &settings.temperature {
            let is_within = |value: f64| (0.0..=1.0).contains(&value);
            match temperature.as_str().parse::<f64>() {
                Ok(value) if is_within(value) => self.raw("temperature", temperature),
                Ok(value) => {
                    self.changes.add("temperature");
                    let clamped = if value > 1.0 { "1" } else { "0" };
                    if self.takes("temperature") {
                        write::key(&mut self.out, "temperature");
                        self.out.extend_from_slice(clamped.as_bytes());
                    }
                }
                Err(_) => self.changes.add("temperature"),
            }
        }
        match (&settings.temperature, &settings.top_p) {
            (None, Some(top_p)) => self.raw("top_p", top_p),
            (Some(_), Some(_)) => self.changes.add("top_p"),
            (_, None) => {}
        }
        if let Some(top_k) = &settings.top_k {
            self.raw("top_k", top_k);
        }
    }

    fn rest(&mut self) {
        let (settings, input) = (self.settings, self.sent.request.input);
        // The API refuses one of white space alone.
        let stop: Vec<&String> = settings
            .stop
            .iter()
            .filter(|text| !text.trim().is_empty())
            .collect();
        if stop.len() < settings.stop.len() {
            self.changes.add("stop");
        }
        if !stop.is_empty() && self.takes("stop_sequences") {
            write::key(&mut self.out, "stop_sequences");
            self.out.push(b'[');
            for text in stop {
                write::separate(&mut self.out);
                write::string(&mut self.out, text);
            }
            self.out.push(b']');
        }
        let user = input.user.as_ref();
        let is_short = |user: &&String| user.chars().count() <= USER_CHARS_MAX;
        if user.is_some() && user.filter(is_short).is_none() {
            self.changes.add("user");
        }
        if let Some(user) = user.filter(is_short)
            && self.takes("metadata")
        {
            write::key(&mut self.out, "metadata");
            self.out.extend_from_slice(b"{\"user_id\":");
            write::string(&mut self.out, user);
            self.out.push(b'}');
        }
        match settings.service_tier.as_deref() {
            Some(tier @ ("auto" | "standard_only")) => self.word("service_tier", tier),
            Some("default") => self.word("service_tier", "standard_only"),
            Some(_) => self.changes.add("service_tier"),
            None => {}
        }
        if input.stream {
            self.out.extend_from_slice(b",\"stream\":true");
        }
        if let Some(mark) = &settings.cache_control {
            self.raw("cache_control", mark);
        }
    }

    fn word(&mut self, name: &'static str, word: &str) {
        if self.takes(name) {
            write::key(&mut self.out, name);
            write::quoted(&mut self.out, word);
        }
    }

    /// Names what the API has no place for.
    fn losses(&mut self) {
        let settings = self.settings;
        for (name, is_lost) in [
            ("presence_penalty", settings.presence_penalty.is_some()),
            ("frequency_penalty", settings.frequency_penalty.is_some()),
            ("seed", settings.seed.is_some()),
            ("verbosity", settings.verbosity.is_some()),
            ("metadata", settings.metadata.is_some()),
            ("top_logprobs", settings.top_logprobs.is_some()),
            ("n", self.sent.request.input.choices > 1),
            ("prompt_cache_key", settings.prompt_cache_key.is_some()),
        ] {
            if is_lost {
                self.changes.add(name);
            }
        }
        let tools = client_tools(self.sent.request).into_iter();
        let tools = tools.filter(|entry| {
            entry.form == CallForm::Custom && entry.raw.as_str().contains("\"grammar\"")
        });
        let grammars = u32::try_from(tools.count()).unwrap_or(u32::MAX);
        self.changes.add_times("grammar", grammars);
        for (name, _) in &settings.of_openai {
            self.changes.add(name.to_string());
        }
        for name in &settings.without_equal {
            self.changes.add(name.clone());
        }
    }
}

/// Tokens that a client gives the model for its thoughts; `None` if it does not say, 0 for none.
fn wanted_tokens(reasoning: &ReasoningSettings) -> Option<u64> {
    if reasoning.effort.as_deref() == Some("none") {
        return Some(0);
    }
    let of_effort = |effort: &str| match effort {
        "minimal" => 1024,
        "low" => 2048,
        "medium" => 8192,
        "high" => 16_384,
        _ => 32_768,
    };
    let effort = reasoning.effort.as_deref().map(of_effort);
    reasoning.budget_tokens.or(effort)
}

/// The API's word for an effort.
fn effort_word(effort: &str) -> Option<&'static str> {
    Some(match effort {
        "minimal" | "low" => "low",
        "medium" => "medium",
        "high" => "high",
        "xhigh" => "xhigh",
        "max" => "max",
        _ => return None,
    })
}
