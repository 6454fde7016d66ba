//! The tools that a request is sent with, and the choice among them.

use serde_json::value::RawValue;
use tw_core::accepts::{Accepts, SchemaDialect, StrictTools};
use tw_core::json::Json;
use tw_core::model::CallForm;
use tw_core::request::{ChoiceSent, MixedTool, ModelRequest, OfferedTools, ToolChoice, ToolEntry};
use tw_core::tool::Tool;

use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::request::schema::{self, UnsayableSchema};
use crate::openai_chat::write;
use crate::openai_responses::FORMAT;

/// The tools of one request, as they are sent.
#[derive(Debug, Default)]
pub struct ResponsesTools {
    pub entries: Vec<Vec<u8>>,
    /// Names of tools that the upstream would refuse.
    pub left_out: Vec<String>,
    /// Tools that asked to be strict and cannot be.
    pub not_strict: u32,
    /// Whether the tools differ from what was written.
    pub differs: bool,
}

pub fn tools(request: &ModelRequest<'_>, accepts: &Accepts) -> ResponsesTools {
    let is_native = request.input.format == FORMAT;
    let mut sent = ResponsesTools::default();
    match &request.tools {
        OfferedTools::Ours(ours) => {
            sent.differs = true;
            for tool in ours {
                sent.ours(tool, accepts);
            }
        }
        OfferedTools::Mixed(tools) => {
            sent.differs = true;
            for tool in tools {
                match tool {
                    MixedTool::Ours(tool) => sent.ours(tool, accepts),
                    MixedTool::Client(entry) => sent.theirs(entry, is_native, accepts),
                }
            }
        }
        OfferedTools::AsSent => {
            for entry in request.input.tools.entries() {
                sent.theirs(entry, is_native, accepts);
            }
        }
    }
    sent.differs |= !is_native;
    sent
}

fn compiled(schema: &Json, accepts: &Accepts) -> Result<Option<Json>, UnsayableSchema> {
    match accepts.schemas {
        SchemaDialect::JsonSchema => Ok(None),
        SchemaDialect::OpenApi => schema::open_api(schema),
    }
}

impl ResponsesTools {
    fn ours(&mut self, tool: &Tool, accepts: &Accepts) {
        let Ok(changed) = compiled(&tool.parameters, accepts) else {
            self.left_out.push(tool.name.clone());
            return;
        };
        let parameters = changed.as_ref().unwrap_or(&tool.parameters);
        // What is not said is strict here.
        let strict = match accepts.strict {
            StrictTools::WhereItFits => Some(schema::is_strict(parameters)),
            StrictTools::AsSent => Some(false),
            StrictTools::Never => None,
        };
        let description = Some(tool.description.as_str());
        self.function(&tool.name, description, Some(parameters), strict);
    }

    fn function(
        &mut self,
        name: &str,
        description: Option<&str>,
        parameters: Option<&Json>,
        strict: Option<bool>,
    ) {
        let mut out = b"{\"type\":\"function\"".to_vec();
        write::key(&mut out, "name");
        write::string(&mut out, name);
        if let Some(description) = description {
            write::key(&mut out, "description");
            write::string(&mut out, description);
        }
        write::key(&mut out, "parameters");
        match parameters {
            Some(parameters) => write::raw(&mut out, parameters),
            None => out.extend_from_slice(b"{\"type\":\"object\",\"properties\":{}}"),
        }
        if let Some(strict) = strict {
            write::key(&mut out, "strict");
            out.extend_from_slice(if strict { b"true" } else { b"false" });
        }
        out.push(b'}');
        self.entries.push(out);
    }

    fn theirs(&mut self, entry: &ToolEntry, is_native: bool, accepts: &Accepts) {
        let schema = entry.parameters.as_ref();
        let Ok(changed) = schema.map_or(Ok(None), |schema| compiled(schema, accepts)) else {
            self.differs = true;
            self.left_out.push(entry.name.clone());
            return;
        };
        let parameters = changed.as_ref().or(schema);
        let fits = parameters.is_some_and(schema::is_strict);
        // Of a tool that does not say so, this format takes it for granted.
        let says_strict = entry.strict.unwrap_or(is_native && fits);
        let strict = match accepts.strict {
            StrictTools::AsSent => Some(says_strict),
            StrictTools::WhereItFits => Some(says_strict && fits),
            StrictTools::Never => None,
        };
        let drops = entry.strict == Some(true) && strict != Some(true);
        self.not_strict += u32::from(drops);
        if is_native {
            let says_other = entry.strict.is_some() && strict != entry.strict;
            if changed.is_none() && !says_other {
                self.entries.push(entry.raw.as_str().as_bytes().to_vec());
            } else {
                self.differs = true;
                self.rewritten(entry, changed.as_ref(), strict);
            }
            return;
        }
        match entry.form {
            _ if entry.is_of_provider => self.left_out.push(entry.name.clone()),
            CallForm::Custom => self.custom(entry),
            CallForm::Function | CallForm::ByName => {
                let description = entry.description.as_deref();
                self.function(&entry.name, description, parameters, strict);
            }
        }
    }

    /// The client's entry, of which the schema or the word `strict` is another one.
    fn rewritten(&mut self, entry: &ToolEntry, parameters: Option<&Json>, strict: Option<bool>) {
        let mut out = vec![b'{'];
        let fields = ObjectFields::parse(entry.raw.as_str()).ok();
        for (name, value) in fields.into_iter().flat_map(|fields| fields.0) {
            match (&*name, parameters, strict) {
                ("strict", _, None) => {}
                ("strict", _, Some(strict)) => {
                    write::key(&mut out, "strict");
                    out.extend_from_slice(if strict { b"true" } else { b"false" });
                }
                ("parameters", Some(parameters), _) => {
                    write::key(&mut out, "parameters");
                    write::raw(&mut out, parameters);
                }
                _ => {
                    write::foreign_key(&mut out, &name);
                    out.extend_from_slice(value.get().as_bytes());
                }
            }
        }
        out.push(b'}');
        self.entries.push(out);
    }

    /// A custom tool as chat completions has it: the same in an object of its own.
    fn custom(&mut self, entry: &ToolEntry) {
        let mut out = b"{\"type\":\"custom\"".to_vec();
        let whole = ObjectFields::parse(entry.raw.as_str()).ok();
        let inner = whole.and_then(|whole| ObjectFields::parse(whole.get("custom")?.get()).ok());
        for (name, value) in inner.into_iter().flat_map(|inner| inner.0) {
            write::foreign_key(&mut out, &name);
            match grammar(&name, value) {
                Some(grammar) => out.extend_from_slice(&grammar),
                None => out.extend_from_slice(value.get().as_bytes()),
            }
        }
        out.push(b'}');
        self.entries.push(out);
    }
}

/// A grammar, whose fields stand in an object of their own there.
fn grammar(name: &str, value: &RawValue) -> Option<Vec<u8>> {
    let format = ObjectFields::parse(value.get()).ok()?;
    let inner = format.get("grammar").filter(|_| name == "format")?;
    let mut out = b"{\"type\":\"grammar\"".to_vec();
    for (name, value) in ObjectFields::parse(inner.get()).ok()?.0 {
        write::foreign_key(&mut out, &name);
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
    Some(out)
}

/// The choice as it is sent; `None` where the client's stands, or nothing was said.
pub fn choice(request: &ModelRequest<'_>, tools: &ResponsesTools) -> Option<Vec<u8>> {
    let word = |word: &str| Some(format!("\"{word}\"").into_bytes());
    match request.tool_choice {
        ChoiceSent::Auto => return word("auto"),
        ChoiceSent::None => return word("none"),
        ChoiceSent::AsSent => {}
    }
    let is_left_out = |name: &String| tools.left_out.contains(name);
    match &request.input.tool_choice {
        ToolChoice::Named(name) if is_left_out(name) => word("auto"),
        _ if request.input.format == FORMAT => None,
        ToolChoice::Absent => None,
        ToolChoice::None => word("none"),
        ToolChoice::Auto => word("auto"),
        ToolChoice::Required => word("required"),
        ToolChoice::Named(name) => Some(named("function", name)),
        ToolChoice::Other(other) => of_chat(other),
    }
}

fn named(kind: &str, name: &str) -> Vec<u8> {
    let mut out = b"{\"type\":".to_vec();
    write::quoted(&mut out, kind);
    write::key(&mut out, "name");
    write::string(&mut out, name);
    out.push(b'}');
    out
}

/// A choice as chat completions writes it, of a custom tool or among several.
fn of_chat(choice: &Json) -> Option<Vec<u8>> {
    let fields = ObjectFields::parse(choice.as_str()).ok()?;
    match &*raw::string(fields.get("type")?)? {
        "custom" | "function" => entry_of_chat(&fields),
        "allowed_tools" => {
            let allowed = ObjectFields::parse(fields.get("allowed_tools")?.get()).ok()?;
            let mode = raw::string(allowed.get("mode")?)?;
            let mut out = b"{\"type\":\"allowed_tools\"".to_vec();
            write::key(&mut out, "mode");
            write::string(&mut out, &mode);
            write::key(&mut out, "tools");
            out.push(b'[');
            for tool in raw::array(allowed.get("tools")?)? {
                let tool = ObjectFields::parse(tool.get()).ok()?;
                write::separate(&mut out);
                out.extend_from_slice(&entry_of_chat(&tool)?);
            }
            out.extend_from_slice(b"]}");
            Some(out)
        }
        _ => None,
    }
}

fn entry_of_chat(fields: &ObjectFields<'_>) -> Option<Vec<u8>> {
    let kind = raw::string(fields.get("type")?)?;
    let inner = ObjectFields::parse(fields.get(&kind)?.get()).ok()?;
    let name = raw::string(inner.get("name")?)?;
    Some(named(&kind, &name))
}
