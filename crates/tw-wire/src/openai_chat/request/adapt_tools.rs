//! Tools for an upstream that takes them otherwise than they are.

use tw_core::accepts::{Accepts, SchemaDialect, StrictTools};
use tw_core::json::Json;
use tw_core::model::CallForm;
use tw_core::request::{MixedTool, ModelRequest, OfferedTools, RequestTools, ToolEntry};
use tw_core::tool::Tool;

use super::render::{self, StrictMark};
use super::schema::{self, UnsayableSchema};
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// The tools of one request, as they are sent.
#[derive(Debug, Default)]
pub struct AdaptedTools {
    /// The entries, one after the other.
    pub entries: Vec<Vec<u8>>,
    /// Names of tools that the upstream would refuse.
    pub left_out: Vec<String>,
    /// Tools that asked to be strict and cannot be.
    pub not_strict: u32,
    /// Whether the tools differ from what was written.
    pub differs: bool,
}

pub fn tools(request: &ModelRequest<'_>, accepts: &Accepts) -> AdaptedTools {
    let mut adapted = AdaptedTools::default();
    let is_old_form = matches!(request.input.tools, RequestTools::ByName(_));
    match &request.tools {
        OfferedTools::Ours(ours) => {
            adapted.differs = true;
            for tool in ours {
                adapted.ours(tool, is_old_form, accepts);
            }
        }
        OfferedTools::Mixed(tools) => {
            adapted.differs = true;
            for tool in tools {
                match tool {
                    MixedTool::Ours(tool) => adapted.ours(tool, is_old_form, accepts),
                    MixedTool::Client(entry) => adapted.theirs(entry, accepts),
                }
            }
        }
        OfferedTools::AsSent => {
            for entry in request.input.tools.entries() {
                adapted.theirs(entry, accepts);
            }
        }
    }
    adapted
}

/// The schema as the upstream reads it; `None` for the one that was given.
fn compiled(schema: &Json, accepts: &Accepts) -> Result<Option<Json>, UnsayableSchema> {
    match accepts.schemas {
        SchemaDialect::JsonSchema => Ok(None),
        SchemaDialect::OpenApi => schema::open_api(schema),
    }
}

impl AdaptedTools {
    fn ours(&mut self, tool: &Tool, is_old_form: bool, accepts: &Accepts) {
        let Ok(changed) = compiled(&tool.parameters, accepts) else {
            self.left_out.push(tool.name.clone());
            return;
        };
        let parameters = changed.as_ref().unwrap_or(&tool.parameters);
        let strict = match accepts.strict {
            StrictTools::WhereItFits if schema::is_strict(parameters) => StrictMark::Said,
            StrictTools::AsSent | StrictTools::WhereItFits | StrictTools::Never => {
                StrictMark::Unsaid
            }
        };
        let mut out = Vec::new();
        if is_old_form {
            render::function(&mut out, tool, parameters, StrictMark::Unsaid);
        } else {
            render::tool(&mut out, tool, parameters, strict);
        }
        self.entries.push(out);
    }

    fn theirs(&mut self, entry: &ToolEntry, accepts: &Accepts) {
        let changed = match entry
            .parameters
            .as_ref()
            .map(|json| compiled(json, accepts))
        {
            Some(Err(UnsayableSchema)) => {
                self.left_out.push(entry.name.clone());
                self.differs = true;
                return;
            }
            Some(Ok(changed)) => changed,
            None => None,
        };
        let says_strict = strict_of(entry);
        let drops_strict = match accepts.strict {
            StrictTools::AsSent => false,
            StrictTools::Never => says_strict.is_some(),
            StrictTools::WhereItFits => {
                let parameters = changed.as_ref().or(entry.parameters.as_ref());
                says_strict == Some(true) && !parameters.is_some_and(schema::is_strict)
            }
        };
        self.not_strict += u32::from(drops_strict && says_strict == Some(true));
        let mut out = Vec::new();
        if changed.is_none() && !drops_strict {
            write::raw(&mut out, &entry.raw);
        } else {
            self.differs = true;
            rewritten(&mut out, entry, changed.as_ref(), drops_strict);
        }
        self.entries.push(out);
    }
}

/// The object that holds name and parameters: inside the entry, or itself in the old form.
fn with_function<T>(entry: &ToolEntry, read: impl FnOnce(&ObjectFields<'_>) -> T) -> Option<T> {
    let whole = ObjectFields::parse(entry.raw.as_str()).ok()?;
    match entry.form {
        CallForm::ByName => Some(read(&whole)),
        CallForm::Function => Some(read(
            &ObjectFields::parse(whole.get("function")?.get()).ok()?,
        )),
        CallForm::Custom => None,
    }
}

fn strict_of(entry: &ToolEntry) -> Option<bool> {
    with_function(entry, |fields| fields.get("strict").and_then(raw::boolean)).flatten()
}

fn rewritten(out: &mut Vec<u8>, entry: &ToolEntry, parameters: Option<&Json>, drops_strict: bool) {
    let mut function = vec![b'{'];
    let _ = with_function(entry, |fields| {
        for (name, value) in &fields.0 {
            match (&**name, parameters) {
                ("strict", _) if drops_strict => {}
                ("parameters", Some(parameters)) => {
                    write::key(&mut function, "parameters");
                    write::raw(&mut function, parameters);
                }
                _ => {
                    write::foreign_key(&mut function, name);
                    function.extend_from_slice(value.get().as_bytes());
                }
            }
        }
    });
    function.push(b'}');
    if entry.form == CallForm::ByName {
        out.append(&mut function);
        return;
    }
    let whole = ObjectFields::parse(entry.raw.as_str()).map(|fields| fields.0);
    out.push(b'{');
    // It was read as an object when the request came in.
    for (name, value) in whole.unwrap_or_default() {
        write::foreign_key(out, &name);
        let text = if name == "function" {
            function.as_slice()
        } else {
            value.get().as_bytes()
        };
        out.extend_from_slice(text);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests;
