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
use crate::openai_chat::request::{Place, Reading, object};

/// Longest name of a tool, in bytes: Anthropic's own limit.
const NAME_BYTES_MAX: usize = 128;
const TOOLS: Place<'static> = Place::Whole("tools");
const CHOICE: Place<'static> = Place::Whole("tool_choice");

pub fn read(
    fields: &ObjectFields<'_>,
    reading: &Reading<'_>,
) -> Result<RequestTools, RequestError> {
    let Some(raw) = fields.get("tools") else {
        return Ok(RequestTools::Absent);
    };
    let items = raw::array(raw).ok_or_else(|| RequestError::wrong_type(TOOLS, "an array"))?;
    if items.len() > reading.limits.tools_max {
        let message = format!(
            "Invalid 'tools': array too long. Expected an array with maximum length {}, but got one with length {}.",
            reading.limits.tools_max,
            items.len()
        );
        return Err(RequestError::invalid("tools", message));
    }
    let mut names = HashSet::new();
    let mut entries = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let place = TOOLS.item(at);
        let entry = read_entry(item, place, reading)?;
        if !names.insert(entry.name.clone()) {
            let message = format!("'{place}' has the name '{}' of an earlier one.", entry.name);
            return Err(RequestError::wrong_value(place, message));
        }
        entries.push(entry);
    }
    Ok(RequestTools::List(entries))
}

fn read_entry(
    raw: &RawValue,
    place: Place<'_>,
    reading: &Reading<'_>,
) -> Result<ToolEntry, RequestError> {
    let fields = object(raw, place)?;
    let kind = match fields.get("type") {
        Some(kind) => raw::string(kind)
            .ok_or_else(|| RequestError::wrong_type(place.field("type"), "a string"))?,
        None => Cow::Borrowed("custom"),
    };
    let is_of_provider = kind != "custom";
    let name = match (fields.get("name"), is_of_provider) {
        // No tool has such a name, and several of one kind may stand in a list.
        (None, true) => format!("{kind} {place}"),
        _ => read_name(&fields, place)?,
    };
    let parameters = if is_of_provider {
        None
    } else {
        let place = place.field("input_schema");
        let schema = fields
            .get("input_schema")
            .ok_or_else(|| RequestError::missing(place))?;
        Some(read_schema(schema, place.into(), reading)?)
    };
    Ok(ToolEntry {
        name,
        form: CallForm::Function,
        description: fields
            .get("description")
            .and_then(raw::string)
            .map(Cow::into_owned),
        strict: fields.get("strict").and_then(raw::boolean),
        is_of_provider,
        parameters,
        raw: Json::of_part(reading.source, raw.get()),
    })
}

fn read_name(fields: &ObjectFields<'_>, place: Place<'_>) -> Result<String, RequestError> {
    let place = place.field("name");
    let raw = fields
        .get("name")
        .ok_or_else(|| RequestError::missing(place))?;
    let name = raw::string(raw).ok_or_else(|| RequestError::wrong_type(place, "a string"))?;
    if !is_plain_name(&name) {
        let message = format!(
            "Invalid '{place}': expected 1 to {NAME_BYTES_MAX} characters, each a letter, a digit, an underscore or a hyphen."
        );
        return Err(RequestError::wrong_value(place, message));
    }
    Ok(name.into_owned())
}

fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
}

fn is_plain_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain)
}

/// The name of a tool in a history, as the API takes it.
pub fn fitted_name(name: &str) -> Cow<'_, str> {
    if is_plain_name(name) {
        return Cow::Borrowed(name);
    }
    let fitted = name.chars().take(NAME_BYTES_MAX);
    let fitted: String = fitted
        .map(|char| if is_plain(char) { char } else { '_' })
        .collect();
    Cow::Owned(if fitted.is_empty() {
        "_".to_owned()
    } else {
        fitted
    })
}

/// Reads `tool_choice`.
pub fn read_choice(fields: &ObjectFields<'_>) -> Result<ToolChoice, RequestError> {
    let Some(raw) = fields.get("tool_choice") else {
        return Ok(ToolChoice::Absent);
    };
    let fields = object(raw, CHOICE)?;
    let place = CHOICE.field("type");
    let kind = fields
        .get("type")
        .ok_or_else(|| RequestError::missing(place))?;
    let kind = raw::string(kind).ok_or_else(|| RequestError::wrong_type(place, "a string"))?;
    Ok(match &*kind {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Named(read_name(&fields, CHOICE)?),
        _ => ToolChoice::Other(Json::from_raw(raw)),
    })
}

/// Whether a choice says that the model makes one call at most.
pub fn forbids_parallel(choice: &Json) -> bool {
    let fields = ObjectFields::parse(choice.as_str()).ok();
    let forbidden = fields
        .as_ref()
        .and_then(|fields| fields.get("disable_parallel_tool_use"));
    forbidden.and_then(raw::boolean) == Some(true)
}
