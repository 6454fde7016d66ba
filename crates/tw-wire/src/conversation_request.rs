//! Requests about conversations and their items, and what they are answered with.
//!
//! Follows `resources/conversations/` and `types/conversations/` of openai-python 3.3.1. Known differences: a field that
//! is not known is refused, and `items` are told by their ids in the order in which they were given.

use tw_core::conversation::ITEMS_ADDED_MAX;
use tw_core::json::Json;
use tw_core::json::shared::SharedText;
use tw_core::limits::RequestLimits;

use crate::client_request::RequestError;
use crate::format::WireFormat;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_responses::request::{read_metadata, whole_fields};

/// What a client wants of a conversation that it makes.
#[derive(Clone, Debug)]
pub struct ConversationWanted {
    /// JSON of an object.
    pub metadata: String,
    /// A body whose input the items are; `None` where there are none.
    pub items: Option<SharedText>,
}

/// Reads the request for a new conversation; an empty body asks for an empty one.
///
/// # Errors
/// The first thing that is wrong with it; of the items only how many they are.
pub fn read_new(
    body: &SharedText,
    limits: &RequestLimits,
) -> Result<ConversationWanted, RequestError> {
    if body.as_str().trim().is_empty() {
        return Ok(ConversationWanted {
            metadata: NO_METADATA.to_owned(),
            items: None,
        });
    }
    let fields = whole_fields(body.as_str(), limits)?;
    check_known(&fields, &["metadata", "items"])?;
    Ok(ConversationWanted {
        metadata: read_metadata(&fields)?.as_str().to_owned(),
        items: match fields.get("items") {
            None => None,
            Some(_) => {
                let items = read_list(&fields)?;
                (!items.is_empty()).then(|| WireFormat::body_of_items(&items))
            }
        },
    })
}

/// Reads the request for other metadata of a conversation, as the JSON of an object.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn read_change(body: &SharedText, limits: &RequestLimits) -> Result<String, RequestError> {
    let fields = whole_fields(body.as_str(), limits)?;
    check_known(&fields, &["metadata"])?;
    if fields.written("metadata").is_none() {
        return Err(RequestError::missing("metadata"));
    }
    Ok(read_metadata(&fields)?.as_str().to_owned())
}

/// Reads the request for more items, as a body whose input they are.
///
/// # Errors
/// The first thing that is wrong with it; of the items only how many they are.
pub fn read_items(body: &SharedText, limits: &RequestLimits) -> Result<SharedText, RequestError> {
    let fields = whole_fields(body.as_str(), limits)?;
    check_known(&fields, &["items"])?;
    if fields.get("items").is_none() {
        return Err(RequestError::missing("items"));
    }
    let items = read_list(&fields)?;
    if items.is_empty() {
        let message = "Invalid 'items': empty array. Expected an array with minimum length 1, but got an empty array instead.";
        return Err(RequestError {
            code: Some("empty_array"),
            ..RequestError::invalid("items", message)
        });
    }
    Ok(WireFormat::body_of_items(&items))
}

/// The error of an item, which was read as one of a request, as one of this request.
#[must_use]
pub fn in_items(error: RequestError) -> RequestError {
    let param = error.param.map(|param| match param.strip_prefix("input") {
        Some(rest) => format!("items{rest}"),
        None => param,
    });
    RequestError {
        message: error.message.replace("'input", "'items"),
        param,
        ..error
    }
}

const NO_METADATA: &str = "{}";

fn check_known(fields: &ObjectFields<'_>, known: &[&str]) -> Result<(), RequestError> {
    let unknown = fields.0.iter().find(|(name, _)| !known.contains(&&**name));
    let Some((name, _)) = unknown else {
        return Ok(());
    };
    let message = format!("Unknown parameter: '{name}'.");
    Err(RequestError {
        code: Some("unknown_parameter"),
        ..RequestError::invalid(name.clone().into_owned(), message)
    })
}

fn read_list(fields: &ObjectFields<'_>) -> Result<Vec<Json>, RequestError> {
    let list = fields.get("items").and_then(raw::array);
    let items = list.ok_or_else(|| RequestError::wrong_type("items", "an array"))?;
    if items.len() > ITEMS_ADDED_MAX {
        let message = format!(
            "Invalid 'items': array too long. Expected an array with maximum length {ITEMS_ADDED_MAX}, but got an array with length {} instead.",
            items.len()
        );
        return Err(RequestError {
            code: Some("array_above_max_length"),
            ..RequestError::invalid("items", message)
        });
    }
    Ok(items.into_iter().map(Json::from_raw).collect())
}

#[cfg(test)]
mod tests;
