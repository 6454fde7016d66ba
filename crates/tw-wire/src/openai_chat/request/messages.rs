//! Reading one message of a request.

use serde_json::value::RawValue;
use tw_core::json::shared::SharedText;
use tw_core::json::{Json, Literal};
use tw_core::model::CallForm;
use tw_core::native::NativePart;
use tw_core::request::{Block, CallBlock, Message, ReasoningBlock, ResultBlock, Role};

use super::{Item, Place, RequestError, object, object_in};
use crate::openai_chat::content::{self, TextPart};
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::{FORMAT, REASONING, REASONING_CONTENT, REASONING_DETAILS, THINKING_PART};

/// Reads a message.
pub fn read(
    source: &SharedText,
    item: &Item<'_>,
    place: Place<'_>,
) -> Result<Message, RequestError> {
    let read;
    let fields = match &item.fields {
        Some(fields) => fields,
        None => {
            read = object_in(item.text, place)?;
            &read
        }
    };
    let role_place = place.field("role");
    let role = fields
        .get("role")
        .ok_or_else(|| RequestError::missing(role_place))?;
    let role = raw::string(role).ok_or_else(|| RequestError::wrong_type(role_place, "a string"))?;
    let (role, blocks) = match &*role {
        "system" => (Role::System, read_said(source, fields, place)?),
        "developer" => (Role::Developer, read_said(source, fields, place)?),
        "user" => (Role::User, read_said(source, fields, place)?),
        "assistant" => (Role::Assistant, read_assistant(source, fields, place)?),
        "tool" => (
            Role::Tool,
            read_result(source, fields, "tool_call_id", place)?,
        ),
        "function" => (Role::Tool, read_result(source, fields, "name", place)?),
        other => {
            let message = format!(
                "Invalid value: '{other}'. Supported values are: 'system', 'developer', 'user', 'assistant', 'tool', and 'function'."
            );
            return Err(RequestError::wrong_value(role_place, message));
        }
    };
    // Some upstreams refuse an empty list of calls; it is left out.
    let has_empty_list =
        role == Role::Assistant && fields.get("tool_calls").is_some_and(is_empty_list);
    Ok(Message {
        raw: Some(Json::of_part(source, item.text)),
        is_changed: has_empty_list,
        ..Message::made(role, blocks)
    })
}

fn is_empty_list(raw: &RawValue) -> bool {
    raw::array(raw).is_some_and(|list| list.is_empty())
}

fn read_said(
    source: &SharedText,
    fields: &ObjectFields<'_>,
    place: Place<'_>,
) -> Result<Vec<Block>, RequestError> {
    let place = place.field("content");
    let content = fields
        .get("content")
        .ok_or_else(|| no_content(fields, place))?;
    read_content(source, content, place)
}

fn no_content(fields: &ObjectFields<'_>, place: Place<'_>) -> RequestError {
    match fields.written("content") {
        None => RequestError::missing(place),
        Some(_) => {
            RequestError::wrong_type(place, "a string or an array of content parts, but got null")
        }
    }
}

fn read_content(
    source: &SharedText,
    content: &RawValue,
    place: Place<'_>,
) -> Result<Vec<Block>, RequestError> {
    if let Some(text) = Literal::of_part(source, content.get()) {
        return Ok(vec![Block::Text(text)]);
    }
    let parts = raw::array(content)
        .ok_or_else(|| RequestError::wrong_type(place, "a string or an array of content parts"))?;
    parts
        .iter()
        .enumerate()
        .map(|(at, part)| read_part(source, part, place.item(at)))
        .collect()
}

fn read_part(
    source: &SharedText,
    part: &RawValue,
    place: Place<'_>,
) -> Result<Block, RequestError> {
    let fields = object(part, place)?;
    let kind_place = place.field("type");
    let kind = fields
        .get("type")
        .ok_or_else(|| RequestError::missing(kind_place))?;
    let kind = raw::string(kind).ok_or_else(|| RequestError::wrong_type(kind_place, "a string"))?;
    match &*kind {
        "text" => Ok(Block::Text(literal(source, &fields, "text", place)?)),
        "refusal" => Ok(Block::Refusal(literal(source, &fields, "refusal", place)?)),
        _ => Ok(match content::read_part(part) {
            Some(TextPart::Thinking(text)) => {
                Block::Reasoning(ReasoningBlock::of(THINKING_PART, text))
            }
            Some(TextPart::Text(_)) | None => {
                Block::Part(content::part_block(Json::of_part(source, part.get())))
            }
        }),
    }
}

fn read_assistant(
    source: &SharedText,
    fields: &ObjectFields<'_>,
    place: Place<'_>,
) -> Result<Vec<Block>, RequestError> {
    let mut blocks = Vec::new();
    for place in [REASONING_CONTENT, REASONING] {
        if let Some(text) = fields
            .get(place.as_str())
            .and_then(|raw| Literal::of_part(source, raw.get()))
        {
            blocks.push(Block::Reasoning(ReasoningBlock::of(place, text)));
        }
    }
    if let Some(details) = fields.get(REASONING_DETAILS) {
        let details = Json::of_part(source, details.get());
        blocks.push(Block::Native(NativePart {
            format: FORMAT,
            json: Json::of_fields(&[(REASONING_DETAILS.into(), details)]),
        }));
    }
    if let Some(content) = fields.get("content") {
        blocks.extend(read_content(source, content, place.field("content"))?);
    }
    if fields.get("refusal").is_some() {
        blocks.push(Block::Refusal(literal(source, fields, "refusal", place)?));
    }
    if let Some(calls) = fields.get("tool_calls") {
        let place = place.field("tool_calls");
        let calls = raw::array(calls).ok_or_else(|| RequestError::wrong_type(place, "an array"))?;
        for (at, call) in calls.iter().enumerate() {
            blocks.push(Block::Call(read_call(source, call, place.item(at))?));
        }
    }
    if let Some(call) = fields.get("function_call") {
        let place = place.field("function_call");
        let (name, arguments) = read_named(source, &object(call, place)?, "arguments", place)?;
        // The old form has no ids: its results name the function.
        blocks.push(Block::Call(CallBlock {
            id: name.clone(),
            name,
            form: CallForm::ByName,
            arguments,
            native: None,
        }));
    }
    Ok(blocks)
}

fn read_call(
    source: &SharedText,
    call: &RawValue,
    place: Place<'_>,
) -> Result<CallBlock, RequestError> {
    let fields = object(call, place)?;
    let id = required_string(&fields, "id", place)?;
    let (form, name_of_object, name_of_text) = if fields.get("custom").is_some() {
        (CallForm::Custom, "custom", "input")
    } else {
        (CallForm::Function, "function", "arguments")
    };
    let place = place.field(name_of_object);
    let named = fields
        .get(name_of_object)
        .ok_or_else(|| RequestError::missing(place))?;
    let (name, arguments) = read_named(source, &object(named, place)?, name_of_text, place)?;
    Ok(CallBlock {
        id,
        name,
        form,
        arguments,
        native: None,
    })
}

fn read_named(
    source: &SharedText,
    fields: &ObjectFields<'_>,
    text: &str,
    place: Place<'_>,
) -> Result<(String, Literal), RequestError> {
    let name = required_string(fields, "name", place)?;
    let text = if fields.get(text).is_some() {
        literal(source, fields, text, place)?
    } else {
        Literal::default()
    };
    Ok((name, text))
}

fn read_result(
    source: &SharedText,
    fields: &ObjectFields<'_>,
    id: &str,
    place: Place<'_>,
) -> Result<Vec<Block>, RequestError> {
    let call_id = required_string(fields, id, place)?;
    let content_place = place.field("content");
    let content = match (fields.get("content"), id) {
        // Null was allowed for results of the old form.
        (None, "name") => {
            let result = ResultBlock::of_text(call_id, Literal::default());
            return Ok(vec![Block::Result(result)]);
        }
        (content, _) => content.ok_or_else(|| no_content(fields, content_place))?,
    };
    Ok(vec![Block::Result(ResultBlock {
        call_id,
        content: read_content(source, content, content_place)?,
        is_error: false,
    })])
}

fn required_string(
    fields: &ObjectFields<'_>,
    name: &str,
    place: Place<'_>,
) -> Result<String, RequestError> {
    let place = place.field(name);
    let raw = fields
        .get(name)
        .ok_or_else(|| RequestError::missing(place))?;
    let text = raw::string(raw).ok_or_else(|| RequestError::wrong_type(place, "a string"))?;
    Ok(text.into_owned())
}

fn literal(
    source: &SharedText,
    fields: &ObjectFields<'_>,
    name: &str,
    place: Place<'_>,
) -> Result<Literal, RequestError> {
    let place = place.field(name);
    let raw = fields
        .get(name)
        .ok_or_else(|| RequestError::missing(place))?;
    Literal::of_part(source, raw.get()).ok_or_else(|| RequestError::wrong_type(place, "a string"))
}
