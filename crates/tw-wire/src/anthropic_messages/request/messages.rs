//! Reading the messages of a request.

use std::cell::Cell;

use serde_json::value::RawValue;
use tw_core::json::{Json, Literal};
use tw_core::model::CallForm;
use tw_core::native::NativePart;
use tw_core::request::{Block, CallBlock, Message, MessageEnds, ReasoningBlock, ResultBlock, Role};

use super::own_calls;
use crate::anthropic_messages::content::part_block;
use crate::anthropic_messages::{FORMAT, THINKING};
use crate::client_request::RequestError;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::request::{
    HISTORY_CALLS_MAX, Item, MESSAGES, Place, Reading, check_result, object, object_in,
};

/// The messages of a request.
pub struct ReadMessages {
    pub messages: Vec<Message>,
    pub ends: MessageEnds,
}

/// Reads all messages.
pub fn read_all(items: &[Item<'_>], reading: &Reading<'_>) -> Result<ReadMessages, RequestError> {
    let mut messages = Vec::with_capacity(items.len());
    let mut last_answer = None;
    for (at, item) in items.iter().enumerate() {
        let before = messages.len();
        let place = MESSAGES.item(at);
        read(item, place, reading, &mut messages)?;
        let read = &messages[before..];
        if read.iter().any(|message| message.role == Role::Assistant) {
            last_answer = Some(at);
        }
        for message in read {
            check_result(message, place.field("content"), reading.limits)?;
        }
    }
    let calls: usize = messages.iter().map(|message| message.calls().count()).sum();
    if calls > HISTORY_CALLS_MAX {
        let message = format!(
            "Invalid 'messages': they hold {calls} tool calls; at most {HISTORY_CALLS_MAX} are allowed."
        );
        return Err(RequestError::invalid("messages", message));
    }
    // Each item is a piece of the body.
    let start = reading.source.as_str().as_ptr().addr();
    let end = |item: &Item<'_>| item.text.as_ptr().addr() - start + item.text.len();
    let before = last_answer.and_then(|answer: usize| items[..answer].last());
    Ok(ReadMessages {
        messages,
        ends: MessageEnds {
            before_answer: before.map(end),
            last: items.last().map_or(0, end),
        },
    })
}

/// Reads `system`.
pub fn read_system(
    fields: &ObjectFields<'_>,
    reading: &Reading<'_>,
) -> Result<Vec<Block>, RequestError> {
    let Some(system) = fields.get("system") else {
        return Ok(Vec::new());
    };
    let place = Place::Whole("system");
    let read = |fields: &ObjectFields<'_>, _: &RawValue, place: Place<'_>| {
        literal(fields, "text", place, reading).map(Block::Text)
    };
    read_content(system, place, reading, &read)
}

fn read(
    item: &Item<'_>,
    place: Place<'_>,
    reading: &Reading<'_>,
    out: &mut Vec<Message>,
) -> Result<(), RequestError> {
    let read;
    let fields = match &item.fields {
        Some(fields) => fields,
        None => {
            read = object_in(item.text, place)?;
            &read
        }
    };
    let role = text(fields, "role", place)?;
    let content_place = place.field("content");
    let content = fields
        .get("content")
        .ok_or_else(|| RequestError::missing(content_place))?;
    let raw = Json::of_part(reading.source, item.text);
    let role = match role.as_str() {
        "user" => return read_user(content, content_place, raw, reading, out),
        "assistant" => Role::Assistant,
        "system" => Role::System,
        other => {
            let place = place.field("role");
            let message = format!(
                "Invalid '{place}': '{other}'. Supported values are: 'user' and 'assistant'."
            );
            return Err(RequestError::wrong_value(place, message));
        }
    };
    let (blocks, is_changed) = if role == Role::Assistant {
        read_assistant(content, content_place, reading)?
    } else {
        (read_said(content, content_place, reading)?, false)
    };
    out.push(Message {
        raw: Some(raw),
        is_changed,
        ..Message::made(role, blocks)
    });
    Ok(())
}

/// A message of the user: its results are messages of their own, before the rest.
fn read_user(
    content: &RawValue,
    place: Place<'_>,
    raw: Json,
    reading: &Reading<'_>,
    out: &mut Vec<Message>,
) -> Result<(), RequestError> {
    let blocks = read_said(content, place, reading)?;
    let (results, rest): (Vec<ReadBlock>, Vec<ReadBlock>) = blocks_with_raw(content, blocks)
        .into_iter()
        .partition(|(block, _)| matches!(block, Block::Result(_)));
    let is_split = !results.is_empty();
    for (block, part) in results {
        out.push(Message {
            raw: part.map(|part| Json::of_part(reading.source, part.get())),
            ..Message::made(Role::Tool, vec![block])
        });
    }
    if rest.is_empty() && is_split {
        return Ok(());
    }
    out.push(Message {
        raw: Some(raw),
        ..Message::made(
            Role::User,
            rest.into_iter().map(|(block, _)| block).collect(),
        )
    });
    Ok(())
}

/// A block and the part that it was read from; a string has none.
type ReadBlock<'a> = (Block, Option<&'a RawValue>);

fn blocks_with_raw(content: &RawValue, blocks: Vec<Block>) -> Vec<ReadBlock<'_>> {
    let parts = raw::array(content).unwrap_or_default();
    let parts = parts.into_iter().map(Some).chain(std::iter::repeat(None));
    blocks.into_iter().zip(parts).collect()
}

fn read_said(
    content: &RawValue,
    place: Place<'_>,
    reading: &Reading<'_>,
) -> Result<Vec<Block>, RequestError> {
    let read = |fields: &ObjectFields<'_>, part: &RawValue, place: Place<'_>| match text(
        fields, "type", place,
    )?
    .as_str()
    {
        "text" => literal(fields, "text", place, reading).map(Block::Text),
        "tool_result" => read_result(fields, place, reading).map(Block::Result),
        _ => Ok(Block::Part(part_block(Json::of_part(
            reading.source,
            part.get(),
        )))),
    };
    read_content(content, place, reading, &read)
}

fn read_result(
    fields: &ObjectFields<'_>,
    place: Place<'_>,
    reading: &Reading<'_>,
) -> Result<ResultBlock, RequestError> {
    let read = |fields: &ObjectFields<'_>, part: &RawValue, place: Place<'_>| match text(
        fields, "type", place,
    )?
    .as_str()
    {
        "text" => literal(fields, "text", place, reading).map(Block::Text),
        _ => Ok(Block::Part(part_block(Json::of_part(
            reading.source,
            part.get(),
        )))),
    };
    let content = match fields.get("content") {
        Some(content) => read_content(content, place.field("content"), reading, &read)?,
        None => Vec::new(),
    };
    let is_error = match fields.get("is_error") {
        Some(raw) => raw::boolean(raw)
            .ok_or_else(|| RequestError::wrong_type(place.field("is_error"), "a boolean"))?,
        None => false,
    };
    Ok(ResultBlock {
        call_id: text(fields, "tool_use_id", place)?,
        content,
        is_error,
    })
}

/// Reads the model's own blocks, and whether they cannot go out as they were written.
fn read_assistant(
    content: &RawValue,
    place: Place<'_>,
    reading: &Reading<'_>,
) -> Result<(Vec<Block>, bool), RequestError> {
    let is_changed = Cell::new(false);
    let read = |fields: &ObjectFields<'_>, part: &RawValue, place: Place<'_>| {
        let json = || Json::of_part(reading.source, part.get());
        Ok(match text(fields, "type", place)?.as_str() {
            "text" => Block::Text(literal(fields, "text", place, reading)?),
            "thinking" => {
                let thinking = literal(fields, "thinking", place, reading)?;
                Block::Reasoning(ReasoningBlock {
                    signature: fields.get("signature").and_then(raw::literal),
                    ..ReasoningBlock::of(THINKING, thinking)
                })
            }
            "tool_use" => {
                let call = read_call(fields, place)?;
                // It ought to be an object.
                is_changed
                    .set(is_changed.get() || !fields.get("input").is_some_and(raw::is_object));
                Block::Call(call)
            }
            "image" | "document" => Block::Part(part_block(json())),
            _ => {
                is_changed.set(is_changed.get() || own_calls::is_own(fields));
                Block::Native(NativePart {
                    format: FORMAT,
                    json: json(),
                })
            }
        })
    };
    let blocks = read_content(content, place, reading, &read)?;
    Ok((blocks, is_changed.get()))
}

fn read_call(fields: &ObjectFields<'_>, place: Place<'_>) -> Result<CallBlock, RequestError> {
    let arguments = match fields.get("input") {
        None => Literal::default(),
        // Some clients write it as a string.
        Some(input) => raw::literal(input).unwrap_or_else(|| Literal::from_text(input.get())),
    };
    Ok(CallBlock {
        id: text(fields, "id", place)?,
        name: text(fields, "name", place)?,
        form: CallForm::Function,
        arguments,
        native: None,
    })
}

type ReadPart<'a> =
    dyn Fn(&ObjectFields<'_>, &RawValue, Place<'_>) -> Result<Block, RequestError> + 'a;

/// A string, or a list of blocks that `read` reads.
fn read_content(
    content: &RawValue,
    place: Place<'_>,
    reading: &Reading<'_>,
    read: &ReadPart<'_>,
) -> Result<Vec<Block>, RequestError> {
    if let Some(text) = Literal::of_part(reading.source, content.get()) {
        return Ok(vec![Block::Text(text)]);
    }
    let parts = raw::array(content)
        .ok_or_else(|| RequestError::wrong_type(place, "a string or an array of content blocks"))?;
    let read = |(at, part): (usize, &&RawValue)| {
        let place = place.item(at);
        read(&object(part, place)?, part, place)
    };
    parts.iter().enumerate().map(read).collect()
}

fn text(fields: &ObjectFields<'_>, name: &str, place: Place<'_>) -> Result<String, RequestError> {
    let place = place.field(name);
    let raw = fields
        .get(name)
        .ok_or_else(|| RequestError::missing(place))?;
    let text = raw::string(raw).ok_or_else(|| RequestError::wrong_type(place, "a string"))?;
    Ok(text.into_owned())
}

fn literal(
    fields: &ObjectFields<'_>,
    name: &str,
    place: Place<'_>,
    reading: &Reading<'_>,
) -> Result<Literal, RequestError> {
    let place = place.field(name);
    let raw = fields
        .get(name)
        .ok_or_else(|| RequestError::missing(place))?;
    Literal::of_part(reading.source, raw.get())
        .ok_or_else(|| RequestError::wrong_type(place, "a string"))
}
