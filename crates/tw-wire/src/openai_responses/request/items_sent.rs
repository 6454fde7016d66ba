//! Writing the history as items.
//!
//! What only this format says of an item goes back to the upstream that made it, and to nobody else. Of a client's own
//! items nobody knows who made them: they go as they came, but for ids of ours.

use std::borrow::Cow;
use std::collections::BTreeSet;

use tw_core::accepts::{Accepts, ReasoningSent, SystemRole};
use tw_core::call_ids::CallIdRule;
use tw_core::history::sendable_arguments;
use tw_core::json::{Json, Literal};
use tw_core::model::CallForm;
use tw_core::request::{
    Block, CallBlock, Message, ModelRequest, ReasoningBlock, ResultBlock, Role,
};
use tw_core::request_changes::RequestChanges;

use crate::crossing::is_prefilled;
use crate::fitting::{FittedIds, is_foreign};
use crate::native_words;
use crate::openai_chat::raw::ObjectFields;
use crate::openai_chat::write;
use crate::openai_responses::item::{self, ItemChanges};
use crate::openai_responses::{FORMAT, REASONING_TEXT, SUMMARY, content};

/// What stands for a part that the API does not take.
const LEFT_OUT: &str = "(Something that cannot be shown here was left out.)";

/// Writes the value of `input` and says what could not be said, or not so.
pub fn input(out: &mut Vec<u8>, request: &ModelRequest<'_>, accepts: &Accepts) -> RequestChanges {
    if let Some(text) = only_text(request) {
        write::literal(out, text);
        return RequestChanges::default();
    }
    let mut writer = ItemsWriter {
        out,
        request,
        accepts,
        custom: BTreeSet::new(),
        changes: RequestChanges::default(),
    };
    writer.out.push(b'[');
    writer.all();
    if writer.out.last() == Some(&b'[') {
        writer.nothing_left();
    }
    writer.out.push(b']');
    writer.changes
}

/// The text of a request that has nothing else.
fn only_text<'a>(request: &ModelRequest<'a>) -> Option<&'a Literal> {
    let ([message], []) = (request.messages.as_slice(), request.rounds.as_slice()) else {
        return None;
    };
    match message.blocks.as_slice() {
        [Block::Text(text)] if message.role == Role::User && message.raw.is_none() => Some(text),
        _ => None,
    }
}

struct ItemsWriter<'a> {
    out: &'a mut Vec<u8>,
    request: &'a ModelRequest<'a>,
    accepts: &'a Accepts,
    /// Ids of calls of custom tools, whose results are items of their own type.
    custom: BTreeSet<String>,
    changes: RequestChanges,
}

/// Whether a model's answer goes back to where it came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// What only its maker understands goes with it.
    Back,
    Elsewhere,
}

impl ItemsWriter<'_> {
    fn all(&mut self) {
        let request = self.request;
        let is_native = request.input.format == FORMAT;
        let rules = Accepts {
            // A client of another format may have any, and the API takes no others; its own clients' are theirs.
            unknown_call_ids: if is_native {
                CallIdRule::AsSent
            } else {
                CallIdRule::Plain
            },
            ..self.accepts.clone()
        };
        let mut ids = FittedIds::new(request.to, &rules);
        for message in &request.messages {
            let way = self.way(message.origin.as_deref());
            let mut sent = Cow::Borrowed(*message);
            ids.fit(&mut sent);
            self.message(&sent, way);
        }
        if is_prefilled(request) {
            self.changes.add("prefill");
        }
        for round in &request.rounds {
            let fitted = ids.of_blocks(round.assistant, round.origin);
            let blocks = fitted.blocks(round.assistant);
            self.answer(&blocks, self.way(round.origin));
            for (id, shown) in &round.results {
                let text = Literal::from_text(shown);
                let result = ResultBlock::of_text(fitted.id(id), text);
                self.result(&result);
            }
        }
    }

    /// A request of which nothing can be said; a list of nothing is refused.
    fn nothing_left(&mut self) {
        self.changes.add("added_text");
        self.begin_message("user");
        write::key(self.out, "content");
        write::string(self.out, LEFT_OUT);
        self.out.push(b'}');
    }

    fn way(&self, origin: Option<&tw_core::native::AnswerOrigin>) -> Way {
        if is_foreign(origin, self.request.to) {
            Way::Elsewhere
        } else {
            Way::Back
        }
    }

    /// The message as this client wrote it, in this format.
    fn written<'m>(&self, message: &'m Message) -> Option<&'m Json> {
        let is_ours = self.request.input.format == FORMAT;
        message.raw.as_ref().filter(|_| is_ours)
    }

    fn message(&mut self, message: &Message, way: Way) {
        match message.role {
            Role::Assistant => self.answer(&message.blocks, way),
            Role::Tool => self.tool(message),
            Role::System | Role::Developer | Role::User => self.said_to_model(message),
        }
    }

    fn tool(&mut self, message: &Message) {
        for block in &message.blocks {
            let Block::Result(result) = block else {
                continue;
            };
            let kind = self.result_kind(&result.call_id);
            match self.written(message).filter(|raw| item::kind(raw) == kind) {
                Some(raw) => {
                    let changes = ItemChanges {
                        call_id: Some(&result.call_id),
                        text: None,
                    };
                    item::write_sent(self.out, raw, &changes);
                }
                None => self.result(result),
            }
        }
    }

    fn said_to_model(&mut self, message: &Message) {
        let role = match (message.role, self.accepts.system_role) {
            (Role::System, SystemRole::Developer) => "developer",
            (Role::Developer, SystemRole::System) => "system",
            (Role::System, _) => "system",
            (Role::Developer, _) => "developer",
            (Role::User | Role::Assistant | Role::Tool, _) => "user",
        };
        if let Some(raw) = self.written(message).filter(|_| !message.is_changed) {
            self.with_role(raw, message.role, role);
            return;
        }
        let natives = message.blocks.iter().filter_map(native_item);
        let natives: Vec<&Json> = natives.collect();
        for native in &natives {
            item::write_sent(self.out, native, &ItemChanges::default());
        }
        let has_more = message
            .blocks
            .iter()
            .any(|block| !matches!(block, Block::Native(_)));
        // An empty message is one as well, where it is no item of the client's.
        if has_more || natives.is_empty() {
            self.begin_message(role);
            write::key(self.out, "content");
            self.content(&message.blocks, "input_text");
            self.out.push(b'}');
        }
    }

    fn with_role(&mut self, raw: &Json, role: Role, wanted: &str) {
        let word = match role {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User | Role::Assistant | Role::Tool => wanted,
        };
        let fields = ObjectFields::parse(raw.as_str()).ok();
        let Some(fields) = fields.filter(|_| word != wanted) else {
            item::write_sent(self.out, raw, &ItemChanges::default());
            return;
        };
        write::separate(self.out);
        self.out.push(b'{');
        for (name, value) in &fields.0 {
            write::foreign_key(self.out, name);
            if name == "role" {
                write::quoted(self.out, wanted);
            } else {
                self.out.extend_from_slice(value.get().as_bytes());
            }
        }
        self.out.push(b'}');
    }

    fn begin_message(&mut self, role: &str) {
        write::separate(self.out);
        self.out.push(b'{');
        write::key(self.out, "type");
        write::quoted(self.out, "message");
        write::key(self.out, "role");
        write::quoted(self.out, role);
    }

    /// Writes text alone as a string, anything else as parts; `kind` is the type of a part of text.
    fn content(&mut self, blocks: &[Block], kind: &str) {
        if let [Block::Text(text)] = blocks {
            write::literal(self.out, text);
            return;
        }
        let is_said = |block: &Block| match block {
            Block::Text(_) | Block::Refusal(_) | Block::Part(_) => true,
            Block::Reasoning(_) | Block::Call(_) | Block::Result(_) | Block::Native(_) => false,
        };
        // A list of nothing is refused.
        if !blocks.iter().any(is_said) {
            self.out.extend_from_slice(b"\"\"");
            return;
        }
        self.out.push(b'[');
        for block in blocks {
            match block {
                Block::Text(text) => self.text_part(kind, "text", text),
                Block::Refusal(text) if kind == "output_text" => {
                    self.text_part("refusal", "refusal", text);
                }
                Block::Refusal(text) => self.text_part(kind, "text", text),
                Block::Part(part) => {
                    // The model's own words are text alone.
                    let is_sent = kind != "output_text" && content::write_part(self.out, part);
                    if !is_sent || content::is_text_of_file(part) {
                        self.changes.add(native_words::part_name(part.kind));
                    }
                    if !is_sent {
                        self.text_part(kind, "text", &Literal::from_text(LEFT_OUT));
                    }
                }
                Block::Reasoning(_) | Block::Call(_) | Block::Result(_) | Block::Native(_) => {}
            }
        }
        self.out.push(b']');
    }

    fn text_part(&mut self, kind: &str, name: &str, text: &Literal) {
        write::separate(self.out);
        self.out.push(b'{');
        write::key(self.out, "type");
        write::quoted(self.out, kind);
        write::key(self.out, name);
        write::literal(self.out, text);
        self.out.push(b'}');
    }

    /// The type of the item that answers a call.
    fn result_kind(&self, call_id: &str) -> &'static str {
        if self.custom.contains(call_id) {
            "custom_tool_call_output"
        } else {
            "function_call_output"
        }
    }

    fn result(&mut self, result: &ResultBlock) {
        let kind = self.result_kind(&result.call_id);
        write::separate(self.out);
        self.out.push(b'{');
        write::key(self.out, "type");
        write::quoted(self.out, kind);
        write::key(self.out, "call_id");
        write::string(self.out, &result.call_id);
        write::key(self.out, "output");
        self.output(result);
        self.out.push(b'}');
    }

    fn output(&mut self, result: &ResultBlock) {
        let says_error = |text: &Literal| {
            let beginning = text.as_str().trim_start_matches(['{', '\\', '"', ' ']);
            let word = beginning.get(..5).unwrap_or_default();
            word.eq_ignore_ascii_case("error")
        };
        self.changes
            .add_times("is_error", u32::from(result.is_error));
        match result.content.as_slice() {
            [] => self.out.extend_from_slice(b"\"\""),
            // There is no field for it.
            [Block::Text(text)] if result.is_error && !says_error(text) => {
                let said = format!("Error: {}", text.as_str());
                write::quoted(self.out, &said);
            }
            [Block::Text(text), more @ ..]
                if !self.accepts.images_in_results || more.is_empty() =>
            {
                let texts = more.iter().filter_map(|block| match block {
                    Block::Text(text) => Some(text),
                    Block::Refusal(_)
                    | Block::Reasoning(_)
                    | Block::Call(_)
                    | Block::Result(_)
                    | Block::Part(_)
                    | Block::Native(_) => None,
                });
                let mut said = text.as_str().to_owned();
                for more in texts {
                    said.push_str("\\n");
                    said.push_str(more.as_str());
                }
                for block in more {
                    if let Block::Part(part) = block {
                        self.changes.add(native_words::part_name(part.kind));
                    }
                }
                write::quoted(self.out, &said);
            }
            blocks => self.content(blocks, "input_text"),
        }
    }

    /// Writes an answer of a model as the items that it was.
    fn answer(&mut self, blocks: &[Block], way: Way) {
        let mut said: Vec<Block> = Vec::new();
        let mut thoughts: Vec<&ReasoningBlock> = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            match block {
                Block::Text(_) | Block::Refusal(_) | Block::Part(_) => {
                    self.think(&mut thoughts, way);
                    said.push(block.clone());
                }
                Block::Reasoning(reasoning) => {
                    self.say(&mut said);
                    match reasoning.native.as_ref().filter(|_| way == Way::Back) {
                        Some(part) if part.format == FORMAT => {
                            thoughts.clear();
                            self.thought_item(&part.json);
                        }
                        Some(_) | None => thoughts.push(reasoning),
                    }
                }
                Block::Call(call) => {
                    self.think(&mut thoughts, way);
                    self.say(&mut said);
                    let next = blocks.get(at + 1).and_then(native_item);
                    self.call(call, next, way);
                }
                Block::Native(_) => {
                    let Some(json) = native_item(block).filter(|_| way == Way::Back) else {
                        continue;
                    };
                    match item::kind(json).as_str() {
                        "message" => {
                            self.think(&mut thoughts, way);
                            said.clear();
                            item::write_sent(self.out, json, &ItemChanges::default());
                        }
                        "reasoning" => {
                            self.say(&mut said);
                            thoughts.clear();
                            self.thought_item(json);
                        }
                        // They were written with their calls; and fields that stand for no item.
                        "function_call" | "custom_tool_call" | "" => {}
                        _ => {
                            self.think(&mut thoughts, way);
                            self.say(&mut said);
                            item::write_sent(self.out, json, &ItemChanges::default());
                        }
                    }
                }
                Block::Result(_) => {}
            }
        }
        self.think(&mut thoughts, way);
        self.say(&mut said);
    }

    fn say(&mut self, said: &mut Vec<Block>) {
        let said = std::mem::take(said);
        let says_something = |block: &Block| match block {
            Block::Text(text) | Block::Refusal(text) => !text.is_empty(),
            Block::Reasoning(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Part(_)
            | Block::Native(_) => true,
        };
        if !said.iter().any(says_something) {
            return;
        }
        self.begin_message("assistant");
        write::key(self.out, "content");
        self.content(&said, "output_text");
        self.out.push(b'}');
    }

    fn thought_item(&mut self, json: &Json) {
        let goes = self.accepts.reasoning != ReasoningSent::Never;
        if goes && item::is_sendable_reasoning(json) {
            item::write_sent(self.out, json, &ItemChanges::default());
        } else {
            self.changes.add("reasoning");
        }
    }

    /// Writes reasoning of which there is only text, where the upstream is said to take it.
    fn think(&mut self, thoughts: &mut Vec<&ReasoningBlock>, way: Way) {
        let thoughts = std::mem::take(thoughts);
        let lost = u32::try_from(thoughts.len()).unwrap_or(u32::MAX);
        let place = match self.accepts.reasoning {
            ReasoningSent::Field(place) => place,
            ReasoningSent::AsSent | ReasoningSent::Never => {
                return self.changes.add_times("reasoning", lost);
            }
        };
        let texts = thoughts.iter().map(|thought| &thought.text);
        let texts: Vec<&Literal> = texts.filter(|text| !text.is_empty()).collect();
        if texts.is_empty() || (way == Way::Back && place != REASONING_TEXT && place != SUMMARY) {
            return self.changes.add_times("reasoning", lost);
        }
        let (summary, content) = if place == SUMMARY {
            (texts, Vec::new())
        } else {
            (Vec::new(), texts)
        };
        write::separate(self.out);
        self.out.extend_from_slice(b"{\"type\":\"reasoning\"");
        for (name, kind, texts) in [
            ("summary", "summary_text", summary),
            ("content", "reasoning_text", content),
        ] {
            if name == "content" && texts.is_empty() {
                continue;
            }
            write::key(self.out, name);
            self.out.push(b'[');
            for text in texts {
                self.text_part(kind, "text", text);
            }
            self.out.push(b']');
        }
        self.out.push(b'}');
    }

    fn call(&mut self, call: &CallBlock, item: Option<&Json>, way: Way) {
        let (kind, name) = match call.form {
            CallForm::Custom => ("custom_tool_call", "input"),
            CallForm::Function | CallForm::ByName => ("function_call", "arguments"),
        };
        if call.form == CallForm::Custom {
            self.custom.insert(call.id.clone());
        } else {
            // An id may come again, for a call of another kind.
            self.custom.remove(&call.id);
        }
        let sendable = match call.form {
            CallForm::Custom => None,
            CallForm::Function | CallForm::ByName => sendable_arguments(&call.arguments),
        };
        let text = sendable.as_ref().unwrap_or(&call.arguments);
        if let Some(item) = item.filter(|item| way == Way::Back && item::kind(item) == kind) {
            let changes = ItemChanges {
                call_id: Some(&call.id),
                text: Some((name, text)),
            };
            item::write_sent(self.out, item, &changes);
            return;
        }
        write::separate(self.out);
        self.out.push(b'{');
        write::key(self.out, "type");
        write::quoted(self.out, kind);
        write::key(self.out, "call_id");
        write::string(self.out, &call.id);
        write::key(self.out, "name");
        write::string(self.out, &call.name);
        write::key(self.out, name);
        write::literal(self.out, text);
        let native = call.native.as_deref().filter(|_| way == Way::Back);
        write::fields(self.out, native.map(|native| &native.beside));
        self.out.push(b'}');
    }
}

fn native_item(block: &Block) -> Option<&Json> {
    match block {
        Block::Native(part) if part.format == FORMAT => Some(&part.json),
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    }
}
