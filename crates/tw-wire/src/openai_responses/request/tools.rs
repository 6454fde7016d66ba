//! Reading the tools of a request and the choice among them.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;
use tw_core::json::Json;
use tw_core::model::CallForm;
use tw_core::request::{RequestTools, ToolChoice, ToolEntry};

use crate::client_request::RequestError;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::request::tools::read_schema;
use crate::openai_chat::request::{Reading, object};

/// Longest name of a tool, in bytes: OpenAI's own limit here.
const NAME_BYTES_MAX: usize = 128;

pub fn read(
    fields: &ObjectFields<'_>,
    reading: &Reading<'_>,
) -> Result<RequestTools, RequestError> {
    let Some(raw) = fields.get("tools") else {
        return Ok(RequestTools::Absent);
    };
    let items = raw::array(raw).ok_or_else(|| RequestError::wrong_type("tools", "an array"))?;
    if items.len() > reading.limits.tools_max {
        let message = format!(
            "Invalid 'tools': array too long. Expected an array with maximum length {}, but got one with length {}.",
            reading.limits.tools_max,
            items.len()
        );
        return Err(RequestError {
            code: Some("array_above_max_length"),
            ..RequestError::invalid("tools", message)
        });
    }
    let mut names = HashSet::new();
    let mut entries = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let param = format!("tools[{at}]");
        let entry = read_entry(item, &param, reading)?;
        if !names.insert(entry.name.clone()) {
            let message = format!("'{param}' has the name '{}' of an earlier one.", entry.name);
            return Err(RequestError::wrong_value(param, message));
        }
        entries.push(entry);
    }
    Ok(RequestTools::List(entries))
}

fn read_entry(
    raw: &RawValue,
    param: &str,
    reading: &Reading<'_>,
) -> Result<ToolEntry, RequestError> {
    let fields = object(raw, param)?;
    let kind_param = format!("{param}.type");
    let kind = fields
        .get("type")
        .ok_or_else(|| RequestError::missing(&kind_param))?;
    let kind =
        raw::string(kind).ok_or_else(|| RequestError::wrong_type(&kind_param, "a string"))?;
    let whole = Json::of_part(reading.source, raw.get());
    let form = match &*kind {
        "function" => CallForm::Function,
        "custom" => CallForm::Custom,
        _ => return Ok(of_provider(&fields, &kind, param, whole)),
    };
    let parameters = fields
        .get("parameters")
        .filter(|_| form == CallForm::Function);
    let parameters = parameters.map(|raw| read_schema(raw, format!("{param}.parameters"), reading));
    Ok(ToolEntry {
        name: read_name(&fields, param)?,
        form,
        description: raw::filled_string(fields.get("description")).map(Cow::into_owned),
        strict: fields.get("strict").and_then(raw::boolean),
        is_of_provider: false,
        parameters: parameters.transpose()?,
        raw: whole,
    })
}

/// A tool of the provider's own, such as `web_search` or an MCP server that it asks: the provider knows what it is.
fn of_provider(fields: &ObjectFields<'_>, kind: &str, param: &str, whole: Json) -> ToolEntry {
    // No tool of a client has such a name, and several of one kind may stand in a list.
    let label = ["server_label", "name"]
        .iter()
        .find_map(|name| raw::filled_string(fields.get(name)));
    let name = match label {
        Some(label) => format!("{kind} {label}"),
        None => format!("{kind} {param}"),
    };
    ToolEntry {
        name,
        form: CallForm::Function,
        description: None,
        strict: None,
        is_of_provider: true,
        parameters: None,
        raw: whole,
    }
}

fn read_name(fields: &ObjectFields<'_>, param: &str) -> Result<String, RequestError> {
    let param = format!("{param}.name");
    let raw = fields
        .get("name")
        .ok_or_else(|| RequestError::missing(&param))?;
    let name = raw::string(raw).ok_or_else(|| RequestError::wrong_type(&param, "a string"))?;
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if !is_plain || name.is_empty() || name.len() > NAME_BYTES_MAX {
        let message = format!(
            "Invalid '{param}': expected 1 to {NAME_BYTES_MAX} characters, each a letter, a digit, an underscore or a hyphen."
        );
        return Err(RequestError::wrong_value(param, message));
    }
    Ok(name.into_owned())
}

/// Reads `tool_choice`.
pub fn read_choice(fields: &ObjectFields<'_>) -> Result<ToolChoice, RequestError> {
    const PARAM: &str = "tool_choice";
    let Some(raw) = fields.get(PARAM) else {
        return Ok(ToolChoice::Absent);
    };
    if let Some(word) = raw::string(raw) {
        return match &*word {
            "none" => Ok(ToolChoice::None),
            "auto" => Ok(ToolChoice::Auto),
            "required" => Ok(ToolChoice::Required),
            other => {
                let message = format!(
                    "Invalid value: '{other}'. Supported values are: 'none', 'auto', and 'required'."
                );
                Err(RequestError::wrong_value(PARAM, message))
            }
        };
    }
    if !raw::is_object(raw) {
        return Err(RequestError::wrong_type(PARAM, "a string or an object"));
    }
    let choice = object(raw, PARAM)?;
    let kind = choice
        .get("type")
        .ok_or_else(|| RequestError::missing("tool_choice.type"))?;
    let kind = raw::string(kind)
        .ok_or_else(|| RequestError::wrong_type("tool_choice.type", "a string"))?;
    match &*kind {
        "function" => read_name(&choice, PARAM).map(ToolChoice::Named),
        "allowed_tools" => {
            check_allowed(&choice)?;
            Ok(ToolChoice::Other(Json::from_raw(raw)))
        }
        // `custom`, `mcp`, and a tool of the provider's own.
        _ => Ok(ToolChoice::Other(Json::from_raw(raw))),
    }
}

fn check_allowed(choice: &ObjectFields<'_>) -> Result<(), RequestError> {
    let mode = choice.get("mode").and_then(raw::string);
    if !matches!(mode.as_deref(), None | Some("none" | "auto" | "required")) {
        let message = "Invalid value. Supported values are: 'none', 'auto', and 'required'.";
        return Err(RequestError::wrong_value(
            "tool_choice.mode",
            message.to_owned(),
        ));
    }
    let tools = choice
        .get("tools")
        .ok_or_else(|| RequestError::missing("tool_choice.tools"))?;
    let tools = raw::array(tools)
        .ok_or_else(|| RequestError::wrong_type("tool_choice.tools", "an array"))?;
    for (at, tool) in tools.into_iter().enumerate() {
        let param = format!("tool_choice.tools[{at}]");
        if object(tool, &param)?.get("type").is_none() {
            return Err(RequestError::missing(format!("{param}.type")));
        }
    }
    Ok(())
}
