//! The tools that a request is sent with, and the choice among them.

use std::collections::BTreeSet;

use serde_json::Value;
use serde_json::value::RawValue;
use tw_core::accepts::{Accepts, StrictTools};
use tw_core::json::Json;
use tw_core::model::CallForm;
use tw_core::request::{
    Block, ChoiceSent, Message, MixedTool, ModelRequest, OfferedTools, ToolChoice, ToolEntry,
};
use tw_core::tool::Tool;

use super::cache_marks::MarkBudget;
use super::own_calls;
use super::tools::{fitted_name, forbids_parallel};
use crate::anthropic_messages::{FORMAT, models};
use crate::crossing;
use crate::openai_chat::content::{CACHE_CONTROL, tool_mark};
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::request::schema::is_strict;
use crate::openai_chat::write;

/// The tools of one request, as they are sent.
#[derive(Debug, Default)]
pub struct SentTools {
    pub entries: Vec<Vec<u8>>,
    /// Names of tools that the upstream would refuse.
    pub left_out: Vec<String>,
    /// Tools that asked to be strict and cannot be.
    pub not_strict: u32,
    /// Whether the tools differ from what was written.
    pub differs: bool,
    /// The tools are those of earlier calls alone, and none may be called.
    pub are_past: bool,
}

/// The description of a tool that was called once and is not offered.
const PAST_DESCRIPTION: &str = "This tool cannot be called now.";
/// A schema that any object fits.
const ANY_OBJECT: &str = "{\"type\":\"object\"}";
/// The schema of a tool whose input is any text, in the field `TEXT_INPUT_FIELD`.
const TEXT_INPUT: &str = "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":[\"input\"]}";

pub fn tools(request: &ModelRequest<'_>, accepts: &Accepts, marks: &mut MarkBudget) -> SentTools {
    let mut sent = SentTools::default();
    let rules = Rules {
        accepts,
        is_native: request.input.format == FORMAT,
        knows_strict: models::abilities(&request.to.model).schemas,
        allowed: allowed_names(request),
    };
    match &request.tools {
        OfferedTools::Ours(ours) => {
            sent.differs = true;
            for tool in ours {
                sent.ours(tool, &rules);
            }
        }
        OfferedTools::Mixed(tools) => {
            sent.differs = true;
            for tool in tools {
                match tool {
                    MixedTool::Ours(tool) => sent.ours(tool, &rules),
                    MixedTool::Client(entry) => sent.theirs(entry, &rules, marks),
                }
            }
        }
        OfferedTools::AsSent => {
            for entry in request.input.tools.entries() {
                sent.theirs(entry, &rules, marks);
            }
        }
    }
    // A history with calls is refused without tools.
    if sent.entries.is_empty() {
        for name in past_names(request) {
            sent.are_past = true;
            sent.past(&name);
        }
    }
    sent
}

struct Rules<'a> {
    accepts: &'a Accepts,
    /// The client wrote its tools in this format.
    is_native: bool,
    knows_strict: bool,
    /// The names to which the client's choice limits the tools.
    allowed: Option<BTreeSet<String>>,
}

impl Rules<'_> {
    fn allows(&self, name: &str) -> bool {
        let allowed = self.allowed.as_ref();
        allowed.is_none_or(|allowed| allowed.contains(name))
    }
}

impl SentTools {
    fn ours(&mut self, tool: &Tool, rules: &Rules<'_>) {
        if !rules.allows(&tool.name) {
            return;
        }
        let mut out = begin(&tool.name, Some(&tool.description));
        let Some(schema) = object_schema(&tool.parameters) else {
            self.left_out.push(tool.name.clone());
            return;
        };
        write::key(&mut out, "input_schema");
        out.extend_from_slice(schema.as_bytes());
        let is_wanted = rules.accepts.strict == StrictTools::WhereItFits;
        if is_wanted && rules.knows_strict && is_strict(&tool.parameters) {
            out.extend_from_slice(b",\"strict\":true");
        }
        out.push(b'}');
        self.entries.push(out);
    }

    fn theirs(&mut self, entry: &ToolEntry, rules: &Rules<'_>, marks: &mut MarkBudget) {
        if !rules.allows(&entry.name) {
            self.differs = true;
            return;
        }
        if rules.is_native {
            let mut out = Vec::new();
            let is_told = entry.strict.is_some() && rules.accepts.strict == StrictTools::Never;
            if is_told {
                self.differs = true;
                self.not_strict += u32::from(entry.strict == Some(true));
                without_strict(&mut out, entry);
            } else {
                write::raw(&mut out, &entry.raw);
            }
            self.entries.push(out);
            return;
        }
        self.differs = true;
        let schema = match (entry.form, &entry.parameters) {
            // What another provider runs, nobody here can.
            _ if entry.is_of_provider => None,
            (CallForm::Custom, _) => Some(TEXT_INPUT.to_owned()),
            (CallForm::Function | CallForm::ByName, Some(schema)) => object_schema(schema),
            (CallForm::Function | CallForm::ByName, None) => Some(ANY_OBJECT.to_owned()),
        };
        let Some(schema) = schema else {
            self.left_out.push(entry.name.clone());
            return;
        };
        let mut out = begin(&entry.name, entry.description.as_deref());
        write::key(&mut out, "input_schema");
        out.extend_from_slice(schema.as_bytes());
        if entry.strict == Some(true) {
            let fits = entry.parameters.as_ref().is_some_and(is_strict);
            if fits && rules.knows_strict && rules.accepts.strict != StrictTools::Never {
                out.extend_from_slice(b",\"strict\":true");
            } else {
                self.not_strict += 1;
            }
        }
        if let Some(mark) = marks.take(tool_mark(&entry.raw)) {
            write::key(&mut out, CACHE_CONTROL);
            write::raw(&mut out, &mark);
        }
        out.push(b'}');
        self.entries.push(out);
    }

    fn past(&mut self, name: &str) {
        let mut out = begin(name, Some(PAST_DESCRIPTION));
        write::key(&mut out, "input_schema");
        out.extend_from_slice(ANY_OBJECT.as_bytes());
        out.push(b'}');
        self.entries.push(out);
        self.differs = true;
    }
}

fn begin(name: &str, description: Option<&str>) -> Vec<u8> {
    let mut out = vec![b'{'];
    write::key(&mut out, "name");
    write::string(&mut out, name);
    if let Some(description) = description.filter(|text| !text.is_empty()) {
        write::key(&mut out, "description");
        write::string(&mut out, description);
    }
    out
}

/// A schema as the API takes it: of an object, and no choice at its top. `None` for one that cannot be said so.
fn object_schema(schema: &Json) -> Option<String> {
    let fields = ObjectFields::parse(schema.as_str()).ok()?;
    let is_choice = |name: &str| fields.get(name).is_some();
    if ["anyOf", "oneOf", "allOf"].into_iter().any(is_choice) {
        return None;
    }
    match fields.get("type").map(raw::string) {
        Some(Some(kind)) if kind == "object" => Some(schema.as_str().to_owned()),
        Some(_) => None,
        None => {
            let mut out = b"{\"type\":\"object\"".to_vec();
            for (name, value) in &fields.0 {
                if name != "type" {
                    write::foreign_key(&mut out, name);
                    out.extend_from_slice(value.get().as_bytes());
                }
            }
            out.push(b'}');
            String::from_utf8(out).ok()
        }
    }
}

fn without_strict(out: &mut Vec<u8>, entry: &ToolEntry) {
    let fields = ObjectFields::parse(entry.raw.as_str()).ok();
    out.push(b'{');
    let kept = fields.into_iter().flat_map(|fields| fields.0);
    for (name, value) in kept.filter(|(name, _)| name != "strict") {
        write::foreign_key(out, &name);
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
}

/// The names of the tools that were called in the history, in their order.
fn past_names(request: &ModelRequest<'_>) -> Vec<String> {
    let of_history = request
        .messages
        .iter()
        .flat_map(|message| names_in(message));
    let of_rounds = request
        .rounds
        .iter()
        .flat_map(|round| called(round.assistant));
    let mut seen = BTreeSet::new();
    let names = of_history.chain(of_rounds);
    names.filter(|name| seen.insert(name.clone())).collect()
}

fn names_in(message: &Message) -> Vec<String> {
    called(&message.blocks)
}

fn called(blocks: &[Block]) -> Vec<String> {
    let names = blocks.iter().filter_map(|block| match block {
        Block::Call(call) => Some(fitted_name(&call.name).into_owned()),
        Block::Native(part) if part.format == FORMAT => {
            let fields = ObjectFields::parse(part.json.as_str()).ok()?;
            let name = raw::filled_string(fields.get("name"))?;
            own_calls::is_own(&fields).then(|| fitted_name(&name).into_owned())
        }
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    });
    names.collect()
}

/// A choice among some tools, as OpenAI's formats write it.
struct AllowedTools {
    is_required: bool,
    names: BTreeSet<String>,
}

fn allowed_tools(choice: &ToolChoice) -> Option<AllowedTools> {
    let ToolChoice::Other(json) = choice else {
        return None;
    };
    let fields = ObjectFields::parse(json.as_str()).ok()?;
    if raw::string(fields.get("type")?)? != "allowed_tools" {
        return None;
    }
    let inner = fields.get("allowed_tools");
    let inner = inner.and_then(|inner| ObjectFields::parse(inner.get()).ok());
    let fields = inner.as_ref().unwrap_or(&fields);
    let names = raw::array(fields.get("tools")?)?;
    let names = names.into_iter().filter_map(tool_name);
    Some(AllowedTools {
        is_required: raw::filled_string(fields.get("mode")).as_deref() == Some("required"),
        names: names.collect(),
    })
}

/// The name in `{"type": "function", "function": {"name"}}` or `{"type": "function", "name"}`.
fn tool_name(tool: &RawValue) -> Option<String> {
    let value: Value = serde_json::from_str(tool.get()).ok()?;
    let kind = value["type"].as_str()?;
    let name = value["name"].as_str().or(value[kind]["name"].as_str())?;
    Some(name.to_owned())
}

fn allowed_names(request: &ModelRequest<'_>) -> Option<BTreeSet<String>> {
    if request.input.format == FORMAT {
        return None;
    }
    allowed_tools(&request.input.tool_choice).map(|allowed| allowed.names)
}

/// The choice that a request is sent with; `None` if it needs no words.
pub fn choice(request: &ModelRequest<'_>, tools: &SentTools) -> Option<Vec<u8>> {
    if tools.entries.is_empty() {
        return None;
    }
    if tools.are_past || request.tool_choice == ChoiceSent::None {
        return Some(b"{\"type\":\"none\"}".to_vec());
    }
    let (word, name) = match (request.tool_choice, &request.input.tool_choice) {
        (ChoiceSent::Auto, _) => ("auto", None),
        (ChoiceSent::None, _) | (ChoiceSent::AsSent, ToolChoice::None) => ("none", None),
        (ChoiceSent::AsSent, ToolChoice::Absent | ToolChoice::Auto) => ("auto", None),
        (ChoiceSent::AsSent, ToolChoice::Required) => ("any", None),
        (ChoiceSent::AsSent, ToolChoice::Named(name)) => named(name, tools),
        (ChoiceSent::AsSent, ToolChoice::Other(json)) => {
            match allowed_tools(&request.input.tool_choice) {
                Some(allowed) if allowed.is_required => ("any", None),
                Some(_) => ("auto", None),
                None => {
                    let raw = serde_json::from_str::<&RawValue>(json.as_str()).ok();
                    match raw.and_then(tool_name) {
                        Some(name) => return Some(of(named(&name, tools), request)),
                        // Mistral's word for it.
                        None if json.as_str() == "\"any\"" => ("any", None),
                        None => ("auto", None),
                    }
                }
            }
        }
    };
    let needs_none = request.input.tool_choice == ToolChoice::Absent
        && request.tool_choice == ChoiceSent::AsSent
        && !is_single(request);
    (!needs_none).then(|| of((word, name), request))
}

/// Whether the client's choice cannot be said, or names a tool that is left out.
pub fn is_weakened(request: &ModelRequest<'_>, tools: &SentTools) -> bool {
    let is_left_out = |name: &String| tools.left_out.contains(name);
    match &request.input.tool_choice {
        _ if request.tool_choice != ChoiceSent::AsSent => false,
        ToolChoice::Named(name) => is_left_out(name),
        choice @ ToolChoice::Other(json) => match allowed_tools(choice) {
            Some(allowed) => allowed.names.iter().any(is_left_out),
            None => {
                let raw = serde_json::from_str::<&RawValue>(json.as_str()).ok();
                match raw.and_then(tool_name) {
                    Some(name) => is_left_out(&name),
                    None => json.as_str() != "\"any\"",
                }
            }
        },
        ToolChoice::Absent | ToolChoice::None | ToolChoice::Auto | ToolChoice::Required => false,
    }
}

/// Whether the model is made to call a tool by what is sent.
pub fn is_forced(choice: Option<&[u8]>) -> bool {
    let is = |word: &[u8]| choice.is_some_and(|choice| choice.starts_with(word));
    is(b"{\"type\":\"any\"") || is(b"{\"type\":\"tool\"")
}

fn named(name: &str, tools: &SentTools) -> (&'static str, Option<String>) {
    if tools.left_out.iter().any(|left_out| left_out == name) {
        ("auto", None)
    } else {
        ("tool", Some(name.to_owned()))
    }
}

fn is_single(request: &ModelRequest<'_>) -> bool {
    if request.input.format == FORMAT {
        let mut fields = request.input.fields.iter();
        let choice = fields.find(|(name, _)| &**name == "tool_choice");
        return choice.is_some_and(|(_, choice)| forbids_parallel(choice));
    }
    crossing::settings(request.input).parallel_calls == Some(false)
}

fn of((word, name): (&str, Option<String>), request: &ModelRequest<'_>) -> Vec<u8> {
    let mut out = b"{\"type\":".to_vec();
    write::quoted(&mut out, word);
    if let Some(name) = &name {
        write::key(&mut out, "name");
        write::string(&mut out, name);
    }
    if word != "none" && is_single(request) {
        out.extend_from_slice(b",\"disable_parallel_tool_use\":true");
    }
    out.push(b'}');
    out
}
