//! Pages of lists: the one that is wanted, and how it is rendered.

use serde_json::{Value, json};
use tw_store::read::conversations::ListOrder;
use url::form_urlencoded;

use crate::access::NAME_BYTES_MAX;
use crate::error::ApiError;

/// Items of a page unless the request says otherwise, as in the OpenAI API.
const LIMIT_DEFAULT: usize = 20;
/// Most items of a page, as in the OpenAI API.
const LIMIT_MAX: usize = 100;

/// The part of a list that is wanted.
#[derive(Debug)]
pub struct PageRequest {
    pub limit: usize,
    /// Id of the item that the part follows.
    pub after: Option<String>,
    pub order: ListOrder,
    /// What items leave out unless it is asked for.
    pub include: Vec<String>,
}

/// Words of `include` that are read.
const INCLUDES_MAX: usize = 64;

impl PageRequest {
    /// Reads the query of a list of conversations: newest first.
    pub fn of_conversations(query: Option<&str>) -> Result<Self, ApiError> {
        read(query, ListOrder::NewestFirst, &["limit", "after"])
    }

    /// Reads the query of a list of items: newest first, unless `order` says otherwise.
    pub fn of_items(query: Option<&str>) -> Result<Self, ApiError> {
        const KNOWN: [&str; 5] = ["limit", "after", "order", "include", "include[]"];
        read(query, ListOrder::NewestFirst, &KNOWN)
    }

    /// Reads the query of a list of messages in a shape: oldest first, unless `order` says otherwise.
    pub fn of_messages(query: Option<&str>) -> Result<Self, ApiError> {
        const KNOWN: [&str; 4] = ["shape", "limit", "after", "order"];
        read(query, ListOrder::OldestFirst, &KNOWN)
    }

    /// Reads the query of rows that are appended, which says only their shape.
    pub fn of_rows(query: Option<&str>) -> Result<Self, ApiError> {
        read(query, ListOrder::OldestFirst, &["shape"])
    }

    /// Reads the query of a list of calls: newest first.
    pub fn of_calls(query: Option<&str>) -> Result<Self, ApiError> {
        const KNOWN: [&str; 4] = ["tool_call_id", "status", "limit", "after"];
        read(query, ListOrder::NewestFirst, &KNOWN)
    }

    /// Reads the query of a list of open calls: oldest first.
    pub fn of_open_calls(query: Option<&str>) -> Result<Self, ApiError> {
        read(query, ListOrder::OldestFirst, &["which", "limit", "after"])
    }

    /// Reads the query of one item, or of items that are added, which says only what more of them is shown.
    pub fn of_item(query: Option<&str>) -> Result<Self, ApiError> {
        read(query, ListOrder::NewestFirst, &["include", "include[]"])
    }

    /// Reads the query of a list of turns: oldest first, unless `order` says otherwise.
    pub fn of_turns(query: Option<&str>) -> Result<Self, ApiError> {
        read(query, ListOrder::OldestFirst, &["limit", "after", "order"])
    }
}

fn read(query: Option<&str>, order: ListOrder, known: &[&str]) -> Result<PageRequest, ApiError> {
    let mut wanted = PageRequest {
        limit: LIMIT_DEFAULT,
        after: None,
        order,
        include: Vec::new(),
    };
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if !known.contains(&&*name) {
            let name: String = name.chars().take(NAME_BYTES_MAX).collect();
            let message = format!("The parameters of this list are: {}.", known.join(", "));
            return Err(ApiError::invalid(Some(&name), None, message));
        }
        match &*name {
            "limit" => {
                let limit = value.parse().ok();
                let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
                wanted.limit = limit.ok_or_else(|| {
                    let message = format!("limit is a number from 1 to {LIMIT_MAX}.");
                    ApiError::invalid(Some("limit"), None, message)
                })?;
            }
            "order" => {
                wanted.order = match &*value {
                    "asc" => ListOrder::OldestFirst,
                    "desc" => ListOrder::NewestFirst,
                    _ => {
                        let message = "order is 'asc' or 'desc'.";
                        return Err(ApiError::invalid(Some("order"), None, message));
                    }
                };
            }
            "after" => wanted.after = Some(value.into_owned()),
            "include" | "include[]" if wanted.include.len() < INCLUDES_MAX => {
                wanted.include.push(value.into_owned());
            }
            _ => {}
        }
    }
    Ok(wanted)
}

/// The error of an `after` that is none of the list's ids.
pub fn no_cursor() -> ApiError {
    ApiError::invalid(
        Some("after"),
        None,
        "after is the id of something in this list; what it named may have been deleted.",
    )
}

pub fn listed(data: Vec<Value>, has_more: bool) -> Value {
    let id = |item: Option<&Value>| item.map(|item| item["id"].clone());
    json!({
        "object": "list",
        "first_id": id(data.first()),
        "last_id": id(data.last()),
        "has_more": has_more,
        "data": data,
    })
}
