//! Tools of a request of another format, and the choice among them, as this one writes them.

use serde_json::{Value, json};
use tw_core::json::Json;
use tw_core::model::CallForm;
use tw_core::request::{MixedTool, ModelRequest, OfferedTools, RequestTools, ToolEntry};

use super::tools::NAME_BYTES_MAX;
use crate::openai_chat::raw::{self, ObjectFields};

/// A choice as Responses writes it, of a custom tool or among several; `None` for one that this format does not have.
pub fn flat_choice(choice: &Json, left_out: &[String]) -> Option<Value> {
    let fields = ObjectFields::parse(choice.as_str()).ok()?;
    match &*raw::string(fields.get("type")?)? {
        "allowed_tools" => {
            let tools = raw::array(fields.get("tools")?)?.into_iter();
            let tools = tools.map(|tool| entry_of_choice(&ObjectFields::parse(tool.get()).ok()?));
            let tools: Vec<Value> = tools.collect::<Option<_>>()?;
            let is_sent = |tool: &Value| {
                let kind = tool["type"].as_str().unwrap_or_default();
                let name = tool[kind]["name"].as_str().unwrap_or_default();
                !left_out.iter().any(|lost| lost == name)
            };
            if !tools.iter().all(is_sent) {
                return None;
            }
            let mode = raw::filled_string(fields.get("mode"));
            let mode = mode.as_deref().unwrap_or("auto");
            Some(
                json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": tools } }),
            )
        }
        _ => entry_of_choice(&fields),
    }
}

fn entry_of_choice(fields: &ObjectFields<'_>) -> Option<Value> {
    let name = raw::filled_string(fields.get("name"))?;
    let kind = raw::filled_string(fields.get("type"))?;
    match &*kind {
        "function" | "custom" => Some(json!({ "type": kind, (&*kind): { "name": name } })),
        _ => None,
    }
}

pub fn of_provider(request: &ModelRequest<'_>) -> usize {
    let is_of_provider = |entry: &&ToolEntry| entry.is_of_provider;
    match &request.tools {
        OfferedTools::AsSent => {
            let entries = request.input.tools.entries().iter();
            entries.filter(is_of_provider).count()
        }
        OfferedTools::Ours(_) => 0,
        OfferedTools::Mixed(listed) => {
            let clients = listed.iter().filter_map(|tool| match tool {
                MixedTool::Client(entry) => Some(*entry),
                MixedTool::Ours(_) => None,
            });
            clients.filter(is_of_provider).count()
        }
    }
}

/// The client's tools as this format writes them, and the names of those that it cannot name. Those that a provider
/// runs itself are unknown to all others.
pub fn tools(from: &RequestTools) -> (RequestTools, Vec<String>) {
    let entries = match from {
        RequestTools::Absent => return (RequestTools::Absent, Vec::new()),
        RequestTools::List(entries) | RequestTools::ByName(entries) => entries,
    };
    let known = entries.iter().filter(|entry| !entry.is_of_provider);
    let (named, others): (Vec<&ToolEntry>, Vec<&ToolEntry>) =
        known.partition(|entry| entry.name.len() <= NAME_BYTES_MAX);
    let others = others.into_iter().map(|entry| entry.name.clone());
    let tools = RequestTools::List(named.into_iter().map(tool).collect());
    (tools, others.collect())
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
        CallForm::Custom => {
            if let Some(format) = custom_format(entry) {
                named["format"] = format;
            }
            json!({ "type": "custom", "custom": named })
        }
        CallForm::Function | CallForm::ByName => json!({ "type": "function", "function": named }),
    };
    ToolEntry {
        raw: Json::from_value(&raw),
        ..entry.clone()
    }
}

/// The form of a custom tool's input, whose grammar stands in an object of its own here.
fn custom_format(entry: &ToolEntry) -> Option<Value> {
    let fields = ObjectFields::parse(entry.raw.as_str()).ok()?;
    let mut format: Value = serde_json::from_str(fields.get("format")?.get()).ok()?;
    if format["type"] != json!("grammar") {
        return Some(format);
    }
    let mut grammar = format.as_object_mut()?.clone();
    grammar.remove("type");
    Some(json!({ "type": "grammar", "grammar": grammar }))
}

pub fn listed(tools: &RequestTools) -> Option<Value> {
    let entries = tools.entries();
    let raw = entries.iter().map(|entry| entry.raw.to_value());
    (!entries.is_empty()).then(|| raw.collect())
}
