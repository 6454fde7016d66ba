//! Reading one message of a request.

use serde_json::value::RawValue;
use tw_core::json::{Json, Literal};
use tw_core::model::{CallForm, ReasoningField, ReasoningText};
use tw_core::request::{Block, CallBlock, Message, ResultBlock, Role};

use super::{RequestError, object};
use crate::openai_chat::content::{self, Part};
use crate::openai_chat::raw::{self, Fields};

/// Reads a message; `param` is its place in the request.
pub fn read(raw: &RawValue, param: &str) -> Result<Message, RequestError> {
    let fields = object(raw, param)?;
    let role_param = format!("{param}.role");
    let role = fields
        .get("role")
        .ok_or_else(|| RequestError::missing(&role_param))?;
    let role =
        raw::string(role).ok_or_else(|| RequestError::wrong_type(&role_param, "a string"))?;
    let (role, blocks) = match &*role {
        "system" => (Role::System, read_said(&fields, param)?),
        "developer" => (Role::Developer, read_said(&fields, param)?),
        "user" => (Role::User, read_said(&fields, param)?),
        "assistant" => (Role::Assistant, read_assistant(&fields, param)?),
        "tool" => (Role::Tool, read_result(&fields, "tool_call_id", param)?),
        "function" => (Role::Tool, read_result(&fields, "name", param)?),
        other => {
            let message = format!(
                "Invalid value: '{other}'. Supported values are: 'system', 'developer', 'user', 'assistant', 'tool', and 'function'."
            );
            return Err(RequestError::wrong_value(role_param, message));
        }
    };
    Ok(Message {
        role,
        blocks,
        raw: Some(Json::from_raw(raw)),
    })
}

fn read_said(fields: &Fields<'_>, param: &str) -> Result<Vec<Block>, RequestError> {
    let param = format!("{param}.content");
    let content = fields
        .get("content")
        .ok_or_else(|| no_content(fields, &param))?;
    read_content(content, &param)
}

fn no_content(fields: &Fields<'_>, param: &str) -> RequestError {
    match fields.written("content") {
        None => RequestError::missing(param),
        Some(_) => {
            RequestError::wrong_type(param, "a string or an array of content parts, but got null")
        }
    }
}

fn read_content(content: &RawValue, param: &str) -> Result<Vec<Block>, RequestError> {
    if let Some(text) = raw::literal(content) {
        return Ok(vec![Block::Text(text)]);
    }
    let parts = raw::array(content)
        .ok_or_else(|| RequestError::wrong_type(param, "a string or an array of content parts"))?;
    parts
        .iter()
        .enumerate()
        .map(|(at, part)| read_part(part, &format!("{param}[{at}]")))
        .collect()
}

fn read_part(part: &RawValue, param: &str) -> Result<Block, RequestError> {
    let fields = object(part, param)?;
    let kind_param = format!("{param}.type");
    let kind = fields
        .get("type")
        .ok_or_else(|| RequestError::missing(&kind_param))?;
    let kind =
        raw::string(kind).ok_or_else(|| RequestError::wrong_type(&kind_param, "a string"))?;
    match &*kind {
        "text" => Ok(Block::Text(literal(&fields, "text", param)?)),
        "refusal" => Ok(Block::Refusal(literal(&fields, "refusal", param)?)),
        _ => Ok(match content::read_part(part) {
            Some(Part::Thinking(text)) => Block::Reasoning(ReasoningText {
                field: ReasoningField::ThinkingPart,
                text,
            }),
            Some(Part::Text(_)) | None => Block::Part(Json::from_raw(part)),
        }),
    }
}

fn read_assistant(fields: &Fields<'_>, param: &str) -> Result<Vec<Block>, RequestError> {
    let mut blocks = Vec::new();
    let reasoning = [
        (ReasoningField::ReasoningContent, "reasoning_content"),
        (ReasoningField::Reasoning, "reasoning"),
    ];
    for (field, name) in reasoning {
        if let Some(text) = fields.get(name).and_then(raw::literal) {
            blocks.push(Block::Reasoning(ReasoningText { field, text }));
        }
    }
    if let Some(details) = fields.get("reasoning_details") {
        blocks.push(Block::ReasoningDetails(Json::from_raw(details)));
    }
    if let Some(content) = fields.get("content") {
        blocks.extend(read_content(content, &format!("{param}.content"))?);
    }
    if fields.get("refusal").is_some() {
        blocks.push(Block::Refusal(literal(fields, "refusal", param)?));
    }
    if let Some(calls) = fields.get("tool_calls") {
        let param = format!("{param}.tool_calls");
        let calls =
            raw::array(calls).ok_or_else(|| RequestError::wrong_type(&param, "an array"))?;
        for (at, call) in calls.iter().enumerate() {
            blocks.push(Block::Call(read_call(call, &format!("{param}[{at}]"))?));
        }
    }
    if let Some(call) = fields.get("function_call") {
        let param = format!("{param}.function_call");
        let (name, arguments) = read_named(&object(call, &param)?, "arguments", &param)?;
        // The old form has no ids: its results name the function.
        blocks.push(Block::Call(CallBlock {
            id: name.clone(),
            name,
            form: CallForm::Legacy,
            arguments,
        }));
    }
    Ok(blocks)
}

fn read_call(call: &RawValue, param: &str) -> Result<CallBlock, RequestError> {
    let fields = object(call, param)?;
    let id = required_string(&fields, "id", param)?;
    let (form, name_of_object, name_of_text) = if fields.get("custom").is_some() {
        (CallForm::Custom, "custom", "input")
    } else {
        (CallForm::Function, "function", "arguments")
    };
    let param = format!("{param}.{name_of_object}");
    let named = fields
        .get(name_of_object)
        .ok_or_else(|| RequestError::missing(&param))?;
    let (name, arguments) = read_named(&object(named, &param)?, name_of_text, &param)?;
    Ok(CallBlock {
        id,
        name,
        form,
        arguments,
    })
}

fn read_named(
    fields: &Fields<'_>,
    text: &str,
    param: &str,
) -> Result<(String, Literal), RequestError> {
    let name = required_string(fields, "name", param)?;
    let text = if fields.get(text).is_some() {
        literal(fields, text, param)?
    } else {
        Literal::default()
    };
    Ok((name, text))
}

fn read_result(fields: &Fields<'_>, id: &str, param: &str) -> Result<Vec<Block>, RequestError> {
    let call_id = required_string(fields, id, param)?;
    let content_param = format!("{param}.content");
    let content = match (fields.get("content"), id) {
        // Null was allowed for results of the old form.
        (None, "name") => {
            return Ok(vec![Block::Result(ResultBlock {
                call_id,
                content: Json::from_value(&"".into()),
            })]);
        }
        (content, _) => content.ok_or_else(|| no_content(fields, &content_param))?,
    };
    read_content(content, &content_param)?;
    Ok(vec![Block::Result(ResultBlock {
        call_id,
        content: Json::from_raw(content),
    })])
}

fn required_string(fields: &Fields<'_>, name: &str, param: &str) -> Result<String, RequestError> {
    let param = format!("{param}.{name}");
    let raw = fields
        .get(name)
        .ok_or_else(|| RequestError::missing(&param))?;
    let text = raw::string(raw).ok_or_else(|| RequestError::wrong_type(&param, "a string"))?;
    Ok(text.into_owned())
}

fn literal(fields: &Fields<'_>, name: &str, param: &str) -> Result<Literal, RequestError> {
    let param = format!("{param}.{name}");
    let raw = fields
        .get(name)
        .ok_or_else(|| RequestError::missing(&param))?;
    raw::literal(raw).ok_or_else(|| RequestError::wrong_type(&param, "a string"))
}
