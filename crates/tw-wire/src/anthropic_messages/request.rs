//! The request: reading a client's, writing an upstream's.
//!
//! Follows `message_create_params.py` of anthropic-sdk-python 0.121.0. What is not needed to run a turn is kept as
//! written and goes to the upstream unread.
//!
//! A `tool_result` is a message of its own here, as it is in other formats, and its `raw` is the block alone. What
//! else stands in the client's message follows it as a message of the user, whose `raw` is the client's whole message;
//! the writer leaves its results out and puts all in one message again. So blocks keep their bytes, and of a message
//! with results only what is around the blocks is written anew.
//!
//! Known differences:
//! - a name that stands twice in one object of the request is refused;
//! - `max_tokens` of 0, by which the API fills its cache, is refused: a turn has an answer;
//! - `thread` is refused, by the code that the API has for requests which it cannot hold;
//! - messages of the role `system` are read, as some clients send them;
//! - `tool_choice` without `tools` is accepted, since tools of ours may be offered.

use std::collections::BTreeSet;

use tw_core::accepts::Accepts;
use tw_core::history::FeltDifferences;
use tw_core::json::shared::SharedText;
use tw_core::limits::RequestLimits;
use tw_core::request::{ModelInput, ModelRequest};
use tw_core::request_changes::RequestChanges;

use self::cache_marks::MarkBudget;
use super::{FORMAT, error};
use crate::client_request::RequestError;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::request::{
    self as shared, Place, Reading, boolean, object, read_whole, without_halves,
};

/// Reads and checks a request body. What is read holds parts of it, so that it is there once.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn decode(source: &SharedText, limits: &RequestLimits) -> Result<ModelInput, RequestError> {
    decode_for(RequestGoal::Answer, source, limits)
}

/// Reads a request that is only to be counted: it need not say how long its answer may be.
///
/// # Errors
/// As [`decode`].
pub fn decode_count(
    source: &SharedText,
    limits: &RequestLimits,
) -> Result<ModelInput, RequestError> {
    decode_for(RequestGoal::Count, source, limits)
}

#[derive(Clone, Copy)]
enum RequestGoal {
    Answer,
    Count,
}

fn decode_for(
    goal: RequestGoal,
    source: &SharedText,
    limits: &RequestLimits,
) -> Result<ModelInput, RequestError> {
    let (mended, half_characters) = without_halves(source);
    let source = mended.as_ref().unwrap_or(source);
    let reading = &Reading { source, limits };
    let whole = read_whole(source.as_str(), limits)?;
    let fields = whole.fields;
    let Some(model) = raw::filled_string(fields.get("model")) else {
        return Err(match fields.get("model") {
            None => RequestError::missing("model"),
            Some(_) => RequestError::wrong_type("model", "a string that is not empty"),
        });
    };
    let max_tokens = match goal {
        RequestGoal::Answer => Some(read_max_tokens(&fields)?),
        RequestGoal::Count => None,
    };
    refuse_threads(&fields)?;
    let items = shared::items_of(&fields, whole.items, limits)?;
    let read = messages::read_all(&items, reading)?;
    Ok(ModelInput {
        model: model.into_owned(),
        instructions: messages::read_system(&fields, reading)?,
        messages: read.messages,
        tools: tools::read(&fields, reading)?,
        tool_choice: tools::read_choice(&fields)?,
        stream: boolean(&fields, "stream")?.unwrap_or(false),
        include_usage: true,
        choices: 1,
        completion_tokens_max: max_tokens,
        is_structured: is_structured(&fields)?,
        store: None,
        user: read_user(&fields)?,
        format: FORMAT,
        fields: shared::keep(&fields, source),
        ends: read.ends,
        empty_lists: 0,
        half_characters,
        shown_calls: BTreeSet::new(),
    })
}

fn read_max_tokens(fields: &ObjectFields<'_>) -> Result<u64, RequestError> {
    match shared::count(fields, "max_tokens")? {
        Some(max) if max > 0 => Ok(max),
        Some(_) => {
            let message =
                "Invalid 'max_tokens': expected a value of at least 1, but got 0 instead.";
            Err(RequestError::wrong_value("max_tokens", message.to_owned()))
        }
        None => Err(RequestError::missing("max_tokens")),
    }
}

/// Refuses a request that is part of a conversation which the API would hold. Its clients know the code, and send the
/// whole history then.
fn refuse_threads(fields: &ObjectFields<'_>) -> Result<(), RequestError> {
    const THREAD: &str = "thread";
    if fields.get(THREAD).is_none() {
        return Ok(());
    }
    let message = "Conversations are not held here: send the whole history, without 'thread'.";
    Err(RequestError {
        code: Some(error::NO_THREADS),
        ..RequestError::invalid(THREAD, message.to_owned())
    })
}

/// Whether the answer is to be one JSON text.
fn is_structured(fields: &ObjectFields<'_>) -> Result<bool, RequestError> {
    let config = fields.get("output_config");
    let config = config.map(|raw| object(raw, "output_config")).transpose()?;
    let format = config.as_ref().and_then(|config| config.get("format"));
    // The place of it before it was settled.
    Ok(format.or(fields.get("output_format")).is_some())
}

fn read_user(fields: &ObjectFields<'_>) -> Result<Option<String>, RequestError> {
    let Some(metadata) = fields.get("metadata") else {
        return Ok(None);
    };
    let place = Place::Whole("metadata");
    let Some(user) = object(metadata, place)?.get("user_id") else {
        return Ok(None);
    };
    let user = raw::string(user)
        .ok_or_else(|| RequestError::wrong_type(place.field("user_id"), "a string"))?;
    // An empty one names nobody: all who send it would be one person.
    Ok(Some(user.into_owned()).filter(|user| !user.trim().is_empty()))
}

/// Writes the body of the request as the upstream accepts it.
///
/// Of a request in this format, fields that need no change are byte for byte the client's, in the client's order.
pub fn encode(request: &ModelRequest<'_>, accepts: &Accepts) -> Vec<u8> {
    encode::body(request, accepts).out
}

/// Noticeable differences between the request as written and as the upstream gets it.
pub fn differences(request: &ModelRequest<'_>, accepts: &Accepts) -> FeltDifferences {
    let tools = tools_sent::tools(request, accepts, &mut MarkBudget::default());
    FeltDifferences {
        moved_parts: 0,
        joined_results: 0,
        tools_left_out: u32::try_from(tools.left_out.len()).unwrap_or(u32::MAX),
        not_strict: tools.not_strict,
    }
}

/// What the upstream does not get, or gets otherwise than the client meant it.
pub fn changes(request: &ModelRequest<'_>, accepts: &Accepts) -> RequestChanges {
    let is_written_anew = request.input.format != FORMAT || !accepts.fields.is_empty();
    if !is_written_anew && !has_thinking(request) && !history::may_change(request) {
        return RequestChanges::default();
    }
    encode::body(request, accepts).changes
}

fn has_thinking(request: &ModelRequest<'_>) -> bool {
    let mut fields = request.input.fields.iter();
    fields.any(|(name, _)| &**name == "thinking")
}

pub(super) use own_calls::shown_id;
pub(super) use tools::forbids_parallel;
pub(crate) use unshared::read as unshared;

mod blocks;
mod cache_marks;
mod crossing;
mod encode;
mod history;
mod messages;
mod overlay;
mod own_calls;
mod tools;
mod tools_sent;
mod unshared;
