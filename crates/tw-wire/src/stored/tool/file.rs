//! Tool files: an array of exactly the bodies of the tools API, as JSON or TOML.

mod toml;

use std::collections::HashMap;

use serde_json::value::RawValue;
use tw_core::definition::{DefinitionError, ToolDefinition};
use tw_core::json::depth;
use tw_core::limits::JSON_DEPTH_DEFAULT;

use super::decode as decode_tool;
use super::value_at_path::{ValueAtPath, WHOLE, error};
use crate::openai_chat::raw;

/// Longest tool file, in bytes.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most tools in a file.
pub const FILE_TOOLS_MAX: usize = 1000;

/// The name of the file as a whole in an error.
const FILE: &str = "file";
/// The member that holds the tools, where they are not the file itself.
const TOOLS: &str = "tool";
/// Levels around a tool: the object and the array in it.
const LEVELS_AROUND: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// An array of tools, or an object whose `tool` is one.
    Json,
    /// `[[tool]]` for each.
    Toml,
}

/// The tools of a file in its order, each with its JSON text without white space.
///
/// # Errors
/// [`DefinitionError`] for the first thing that is wrong. The field begins with the tool's name,
/// or with its place in the file, as `[2]`, when it has none.
pub fn decode(
    text: &str,
    format: FileFormat,
) -> Result<Vec<(String, ToolDefinition)>, DefinitionError> {
    if text.len() > FILE_BYTES_MAX {
        let problem = format_args!("is longer than {FILE_BYTES_MAX} bytes");
        return Err(error(FILE, problem));
    }
    let texts = match format {
        FileFormat::Json => json_tools(text)?,
        FileFormat::Toml => toml::tools(text)?,
    };
    let mut first = HashMap::new();
    let mut tools = Vec::with_capacity(texts.len());
    for (at, text) in texts.into_iter().enumerate() {
        let definition = decode_tool(&text).map_err(|bad| of_tool(bad, at, name_in(&text)))?;
        if let Some(first) = first.insert(definition.name.clone(), at) {
            let problem = format_args!("is also the name of [{first}]");
            return Err(error(&format!("[{at}].name"), problem));
        }
        tools.push((text, definition));
    }
    Ok(tools)
}

fn json_tools(text: &str) -> Result<Vec<String>, DefinitionError> {
    if depth(text.as_bytes()) > JSON_DEPTH_DEFAULT + LEVELS_AROUND {
        let problem = format_args!("holds a tool nested deeper than {JSON_DEPTH_DEFAULT} levels");
        return Err(error(FILE, problem));
    }
    let raw: &RawValue = serde_json::from_str(text)
        .map_err(|bad| error(FILE, format_args!("is not valid JSON: {bad}")))?;
    let file = ValueAtPath {
        path: FILE.to_owned(),
        raw,
    };
    let list = if file.is_array() {
        file
    } else if file.is_object() {
        file.object(&[TOOLS])?.required(TOOLS)?.clone()
    } else {
        return Err(file.wrong_type("an array of tools, or an object with one in \"tool\""));
    };
    let elements = raw::array(list.raw).ok_or_else(|| list.wrong_type("an array"))?;
    few_enough(elements.len())?;
    Ok(elements
        .into_iter()
        .map(|tool| compact(tool.get()))
        .collect())
}

fn few_enough(count: usize) -> Result<(), DefinitionError> {
    if count > FILE_TOOLS_MAX {
        let problem = format_args!("holds {count} tools, more than {FILE_TOOLS_MAX}");
        return Err(error(FILE, problem));
    }
    Ok(())
}

/// Valid JSON without the white space between its tokens.
fn compact(json: &str) -> String {
    let (mut in_string, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        if !in_string {
            in_string = *c == '"';
            return !c.is_ascii_whitespace();
        }
        match *c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => in_string = false,
            _ => {}
        }
        true
    };
    json.chars().filter(is_kept).collect()
}

/// The name in a text that may be no definition, if it could be a tool's.
fn name_in(text: &str) -> Option<String> {
    let raw::ObjectFields(fields) = raw::ObjectFields::parse(text).ok()?;
    let (_, name) = fields.iter().find(|(have, _)| have == "name")?;
    let name = raw::string(name)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let could_be = (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    could_be.then(|| name.into_owned())
}

/// An error of the tool at `at`, whose field then begins with the tool.
fn of_tool(bad: DefinitionError, at: usize, name: Option<String>) -> DefinitionError {
    let tool = name.unwrap_or_else(|| format!("[{at}]"));
    let field = if bad.field == WHOLE {
        tool
    } else if bad.field.starts_with('[') {
        format!("{tool}{}", bad.field)
    } else {
        format!("{tool}.{}", bad.field)
    };
    DefinitionError { field, ..bad }
}
