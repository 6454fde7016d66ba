//! The request: reading a client's, writing an upstream's.
//!
//! Follows `response_create_params.py` of openai-python 3.3.1 and `CreateResponseBody` of the Open Responses document.
//! What is not needed to run a turn is kept as written and goes to an upstream of this format unread.
//!
//! Known differences:
//! - a name that stands twice in one object of the request is refused;
//! - items of types that are not known are kept for an upstream that knows them;
//! - `max_output_tokens` may be less than 16, which is the upstream's to refuse;
//! - `tool_choice` without `tools` is accepted, since tools of ours may be offered.

use std::borrow::Cow;

use tw_core::accepts::Accepts;
use tw_core::history::FeltDifferences;
use tw_core::json::shared::SharedText;
use tw_core::json::{Json, Literal, depth};
use tw_core::limits::RequestLimits;
use tw_core::request::{Block, ModelInput, ModelRequest};
use tw_core::request_changes::RequestChanges;

use super::FORMAT;
use super::options::ResponsesOptions;
use crate::client_request::{RequestError, RequestErrorKind};
use crate::format::KeptItems;
use crate::openai_chat::raw::{self, NotFields, ObjectFields};
use crate::openai_chat::request::{
    Place, Reading, boolean, count, name, object, string, without_halves,
};

/// A request, and what its response needs beside it.
#[derive(Clone, Debug)]
pub struct ResponsesRequest {
    pub input: ModelInput,
    pub options: ResponsesOptions,
}

/// Reads and checks a request body. What is read holds parts of it, so that it is there once.
///
/// # Errors
/// The first thing that is wrong with it; a reference to an item is one, see [`with_items`].
pub fn decode(
    source: &SharedText,
    limits: &RequestLimits,
) -> Result<ResponsesRequest, RequestError> {
    let (mended, half_characters) = without_halves(source);
    let source = mended.as_ref().unwrap_or(source);
    let reading = &Reading { source, limits };
    let fields = whole_fields(source.as_str(), limits)?;
    let Some(model) = raw::filled_string(fields.get("model")) else {
        return Err(match fields.get("model") {
            None => RequestError::missing("model"),
            Some(_) => RequestError::wrong_type("model", "a string that is not empty"),
        });
    };
    let tools = tools::read(&fields, reading)?;
    let items = items::read(&fields, reading)?;
    let options = echo::read(&fields, items.approvals)?;
    Ok(ResponsesRequest {
        input: ModelInput {
            model: model.into_owned(),
            instructions: read_instructions(&fields, source)?,
            messages: items.messages,
            tools,
            tool_choice: tools::read_choice(&fields)?,
            stream: boolean(&fields, "stream")?.unwrap_or(false),
            include_usage: true,
            choices: 1,
            completion_tokens_max: count(&fields, "max_output_tokens")?,
            is_structured: is_structured(&fields),
            store: boolean(&fields, "store")?,
            user: match name(&fields, "safety_identifier")? {
                Some(user) => Some(user),
                None => name(&fields, "user")?,
            },
            format: FORMAT,
            fields: keep(&fields, source),
            ends: items.ends,
            empty_lists: 0,
            half_characters,
            shown_calls: items.shown_calls,
        },
        options,
    })
}

/// The ids of the items that a request refers to, each once; empty also for a body that is no request.
pub fn item_references(source: &SharedText) -> Vec<String> {
    let mut ids = Vec::new();
    // Most requests have nothing that has an id.
    if !source.as_str().contains("id\"") {
        return ids;
    }
    let Ok(fields) = ObjectFields::parse(source.as_str()) else {
        return ids;
    };
    let items = fields.get("input").and_then(raw::array);
    for item in items.into_iter().flatten() {
        let Ok(item) = ObjectFields::parse(item.get()) else {
            continue;
        };
        if let Some(id) = items::reference(&item)
            && !ids.contains(&id)
        {
            ids.push(id);
        }
    }
    ids
}

/// The body with the items themselves where it refers to those that are known; what it says else is as it was.
pub fn with_items(source: &SharedText, items: &KeptItems) -> SharedText {
    let body = source.as_str();
    let mut out = String::new();
    let mut copied = 0;
    let Ok(fields) = ObjectFields::parse(body) else {
        return source.clone();
    };
    for item in fields
        .get("input")
        .and_then(raw::array)
        .into_iter()
        .flatten()
    {
        let id = ObjectFields::parse(item.get()).ok();
        let id = id.and_then(|fields| items::reference(&fields));
        let Some(found) = id.and_then(|id| items.get(&id)) else {
            continue;
        };
        let from = item.get().as_ptr().addr() - body.as_ptr().addr();
        out.push_str(&body[copied..from]);
        out.push_str(found.as_str());
        copied = from + item.get().len();
    }
    if copied == 0 {
        return source.clone();
    }
    out.push_str(&body[copied..]);
    SharedText::new(out)
}

pub(crate) fn whole_fields<'a>(
    text: &'a str,
    limits: &RequestLimits,
) -> Result<ObjectFields<'a>, RequestError> {
    if text.len() > limits.body_bytes_max {
        let message = format!(
            "The request body is longer than {} bytes.",
            limits.body_bytes_max
        );
        return Err(RequestError {
            code: Some("request_too_large"),
            ..RequestError::whole(RequestErrorKind::TooLarge, message)
        });
    }
    if depth(text.as_bytes()) > limits.json_depth_max {
        let message = format!(
            "The request body is nested deeper than {} levels.",
            limits.json_depth_max
        );
        return Err(RequestError::whole(RequestErrorKind::Invalid, message));
    }
    ObjectFields::parse(text).map_err(|error| match error {
        NotFields::Json(error) => RequestError::whole(
            RequestErrorKind::Invalid,
            format!("The request body is not a JSON object: {error}."),
        ),
        NotFields::Duplicate(name) => {
            RequestError::invalid(name.clone(), format!("'{name}' is given twice."))
        }
    })
}

fn read_instructions(
    fields: &ObjectFields<'_>,
    source: &SharedText,
) -> Result<Vec<Block>, RequestError> {
    let Some(raw) = fields.get("instructions") else {
        return Ok(Vec::new());
    };
    let text = Literal::of_part(source, raw.get());
    let text = text.ok_or_else(|| RequestError::wrong_type("instructions", "a string"))?;
    Ok(vec![Block::Text(text)])
}

/// Whether the answer is to be one JSON text; a form that is not known is one too, since only `text` is for people.
fn is_structured(fields: &ObjectFields<'_>) -> bool {
    let kind = || {
        let text = object(fields.get("text")?, Place::Whole("text")).ok()?;
        let format = object(text.get("format")?, Place::Whole("text")).ok()?;
        raw::string(format.get("type")?).map(Cow::into_owned)
    };
    kind().is_some_and(|kind| kind != "text")
}

/// Every field but those that are read as something else, as written.
fn keep(fields: &ObjectFields<'_>, source: &SharedText) -> Vec<(Box<str>, Json)> {
    let is_kept = |name: &str| !matches!(name, "input" | "instructions");
    let kept = fields.0.iter().filter(|(name, _)| is_kept(name));
    kept.map(|(name, raw)| (Box::from(&**name), Json::of_part(source, raw.get())))
        .collect()
}

/// A field that is a string and not longer than this many bytes.
fn short_string(
    fields: &ObjectFields<'_>,
    name: &str,
    bytes_max: usize,
) -> Result<Option<String>, RequestError> {
    match string(fields, name)? {
        Some(text) if text.len() > bytes_max => {
            let message = format!(
                "Invalid '{name}': string too long. Expected a string with maximum length {bytes_max}, but got a string with length {} instead.",
                text.len()
            );
            Err(RequestError {
                code: Some("string_above_max_length"),
                ..RequestError::invalid(name, message)
            })
        }
        text => Ok(text),
    }
}

/// Writes the body of the request as the upstream accepts it.
///
/// Of a request in this format, what needs no change is byte for byte the client's.
pub fn encode(request: &ModelRequest<'_>, accepts: &Accepts) -> Vec<u8> {
    encode::body(request, accepts).out
}

/// Noticeable differences between the request as written and as the upstream gets it.
pub fn differences(request: &ModelRequest<'_>, accepts: &Accepts) -> FeltDifferences {
    let tools = tools_sent::tools(request, accepts);
    FeltDifferences {
        moved_parts: 0,
        joined_results: 0,
        tools_left_out: u32::try_from(tools.left_out.len()).unwrap_or(u32::MAX),
        not_strict: tools.not_strict,
    }
}

/// What the upstream does not get, or gets otherwise than the client meant it.
pub fn changes(request: &ModelRequest<'_>, accepts: &Accepts) -> RequestChanges {
    let is_written_anew = request.input.format != FORMAT
        || !accepts.fields.is_empty()
        || !accepts.all_messages()
        || !accepts.all_tools();
    let mut blocks = request.messages.iter().flat_map(|message| &message.blocks);
    // Some reasoning is of no use where nothing is kept.
    let has_thoughts = blocks.any(|block| matches!(block, Block::Reasoning(_)));
    if !is_written_anew && !has_thoughts {
        return RequestChanges::default();
    }
    encode::body(request, accepts).changes
}

pub(crate) use echo::metadata as read_metadata;
pub(super) use items::PART_GAP;
pub(crate) use unshared::read as unshared;

mod echo;
mod encode;
mod items;
mod items_sent;
mod tools;
mod tools_sent;
mod unshared;
