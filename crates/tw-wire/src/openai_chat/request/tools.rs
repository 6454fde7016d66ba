//! Reading the tools of a request and the choice among them.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;
use tw_core::json::{Json, depth};
use tw_core::model::CallForm;
use tw_core::request::{RequestTools, ToolChoice, ToolEntry};

use super::{Reading, RequestError, object};
use crate::openai_chat::raw::{self, ObjectFields};

/// Longest name of a tool, in bytes: OpenAI's own limit.
pub const NAME_BYTES_MAX: usize = 64;

pub fn read(
    fields: &ObjectFields<'_>,
    reading: &Reading<'_>,
) -> Result<RequestTools, RequestError> {
    match (fields.get("tools"), fields.get("functions")) {
        (None, None) => Ok(RequestTools::Absent),
        (Some(raw), None) => Ok(RequestTools::List(read_list(
            raw, "tools", read_entry, reading,
        )?)),
        (None, Some(raw)) => Ok(RequestTools::ByName(read_list(
            raw,
            "functions",
            read_function,
            reading,
        )?)),
        (Some(_), Some(_)) => {
            let message =
                "Only one of 'tools' and 'functions' can be given; 'functions' is the old form.";
            Err(RequestError::invalid("functions", message))
        }
    }
}

type ReadEntry = fn(&RawValue, &str, &Reading<'_>) -> Result<ToolEntry, RequestError>;

fn read_list(
    raw: &RawValue,
    param: &str,
    read_entry: ReadEntry,
    reading: &Reading<'_>,
) -> Result<Vec<ToolEntry>, RequestError> {
    let items = raw::array(raw).ok_or_else(|| RequestError::wrong_type(param, "an array"))?;
    if items.len() > reading.limits.tools_max {
        let message = format!(
            "Invalid '{param}': array too long. Expected an array with maximum length {}, but got one with length {}.",
            reading.limits.tools_max,
            items.len()
        );
        return Err(RequestError {
            code: Some("array_above_max_length"),
            ..RequestError::invalid(param, message)
        });
    }
    let mut names = HashSet::new();
    let mut entries = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let param = format!("{param}[{at}]");
        let entry = read_entry(item, &param, reading)?;
        if !names.insert(entry.name.clone()) {
            let message = format!("'{param}' has the name '{}' of an earlier one.", entry.name);
            return Err(RequestError::wrong_value(param, message));
        }
        entries.push(entry);
    }
    Ok(entries)
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
    let form = match &*kind {
        "function" => CallForm::Function,
        "custom" => CallForm::Custom,
        _ => return Ok(read_of_provider(raw, &fields, &kind, param, reading)),
    };
    let param = format!("{param}.{kind}");
    let named = fields
        .get(&kind)
        .ok_or_else(|| RequestError::missing(&param))?;
    let named = object(named, &param)?;
    Ok(ToolEntry {
        name: read_name(&named, &param)?,
        form,
        description: text_of(&named, "description"),
        strict: named.get("strict").and_then(raw::boolean),
        is_of_provider: false,
        parameters: if form == CallForm::Function {
            read_parameters(&named, &param, reading)?
        } else {
            None
        },
        raw: Json::of_part(reading.source, raw.get()),
    })
}

/// A tool of the provider's own, such as `browser_search`: the provider knows what it is. Where the model calls it by a
/// name (`builtin_function`), the client answers the call.
fn read_of_provider(
    raw: &RawValue,
    fields: &ObjectFields<'_>,
    kind: &str,
    param: &str,
    reading: &Reading<'_>,
) -> ToolEntry {
    let inner = fields
        .get("function")
        .and_then(|raw| object(raw, param).ok());
    let named = inner.as_ref().unwrap_or(fields).get("name");
    let name = named
        .and_then(raw::string)
        // No tool has such a name, and several of one kind may stand in a list.
        .map_or_else(|| format!("{kind} {param}"), Cow::into_owned);
    ToolEntry {
        name,
        form: CallForm::Function,
        description: None,
        strict: None,
        is_of_provider: true,
        parameters: None,
        raw: Json::of_part(reading.source, raw.get()),
    }
}

fn read_function(
    raw: &RawValue,
    param: &str,
    reading: &Reading<'_>,
) -> Result<ToolEntry, RequestError> {
    let fields = object(raw, param)?;
    Ok(ToolEntry {
        name: read_name(&fields, param)?,
        form: CallForm::ByName,
        description: text_of(&fields, "description"),
        strict: None,
        is_of_provider: false,
        parameters: read_parameters(&fields, param, reading)?,
        raw: Json::of_part(reading.source, raw.get()),
    })
}

fn text_of(fields: &ObjectFields<'_>, name: &str) -> Option<String> {
    fields.get(name).and_then(raw::string).map(Cow::into_owned)
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

fn read_parameters(
    fields: &ObjectFields<'_>,
    param: &str,
    reading: &Reading<'_>,
) -> Result<Option<Json>, RequestError> {
    let Some(raw) = fields.get("parameters") else {
        return Ok(None);
    };
    read_schema(raw, format!("{param}.parameters"), reading).map(Some)
}

/// Reads the schema of a tool's arguments.
pub(crate) fn read_schema(
    raw: &RawValue,
    param: String,
    reading: &Reading<'_>,
) -> Result<Json, RequestError> {
    if !raw::is_object(raw) {
        return Err(RequestError::wrong_type(
            param,
            "an object, the JSON Schema of the arguments",
        ));
    }
    let message = if raw.get().len() > reading.limits.schema_bytes_max {
        format!(
            "Invalid '{param}': the schema is longer than {} bytes.",
            reading.limits.schema_bytes_max
        )
    } else if depth(raw.get().as_bytes()) > reading.limits.schema_depth_max {
        format!(
            "Invalid '{param}': the schema is nested deeper than {} levels.",
            reading.limits.schema_depth_max
        )
    } else {
        return Ok(Json::of_part(reading.source, raw.get()));
    };
    Err(RequestError::wrong_value(param, message))
}

/// Reads `tool_choice`.
pub fn read_choice(raw: &RawValue) -> Result<ToolChoice, RequestError> {
    const PARAM: &str = "tool_choice";
    if let Some(word) = raw::string(raw) {
        return match &*word {
            "none" => Ok(ToolChoice::None),
            "auto" => Ok(ToolChoice::Auto),
            "required" => Ok(ToolChoice::Required),
            // Such as Mistral's 'any': the upstream knows its own words.
            _ => Ok(ToolChoice::Other(Json::from_raw(raw))),
        };
    }
    if !raw::is_object(raw) {
        return Err(RequestError::wrong_type(PARAM, "a string or an object"));
    }
    let fields = object(raw, PARAM)?;
    let kind = fields
        .get("type")
        .ok_or_else(|| RequestError::missing("tool_choice.type"))?;
    let kind = raw::string(kind)
        .ok_or_else(|| RequestError::wrong_type("tool_choice.type", "a string"))?;
    match &*kind {
        "function" => {
            let named = fields
                .get("function")
                .ok_or_else(|| RequestError::missing("tool_choice.function"))?;
            read_named(named, "tool_choice.function")
        }
        // `custom`, `allowed_tools`, and a tool of the provider's own.
        _ => Ok(ToolChoice::Other(Json::from_raw(raw))),
    }
}

/// Reads the old `function_call`.
pub fn read_old_choice(raw: &RawValue) -> Result<ToolChoice, RequestError> {
    const PARAM: &str = "function_call";
    match raw::string(raw).as_deref() {
        Some("none") => Ok(ToolChoice::None),
        Some("auto") => Ok(ToolChoice::Auto),
        Some(other) => {
            let message =
                format!("Invalid value: '{other}'. Supported values are: 'none' and 'auto'.");
            Err(RequestError::wrong_value(PARAM, message))
        }
        None if raw::is_object(raw) => read_named(raw, PARAM),
        None => Err(RequestError::wrong_type(PARAM, "a string or an object")),
    }
}

fn read_named(raw: &RawValue, param: &str) -> Result<ToolChoice, RequestError> {
    read_name(&object(raw, param)?, param).map(ToolChoice::Named)
}
