//! Ids of ours in a client's message, exchanged for those that the upstream knows.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::CallId;
use crate::json::Json;
use crate::request::{Block, CallBlock, Message, ResultBlock};

/// The upstream's id of a call that was handed over under `id`.
pub(super) fn sent_id<'a>(id: &str, sent_ids: &'a BTreeMap<CallId, String>) -> Option<&'a str> {
    let sent = sent_ids.get(&CallId::parse_handed(id)?)?;
    Some(sent)
}

/// Whether the message holds an id of ours for a call that the upstream knows by another one.
pub(super) fn has_sent_id(message: &Message, sent_ids: &BTreeMap<CallId, String>) -> bool {
    let is_known = |id: &str| sent_id(id, sent_ids).is_some();
    !sent_ids.is_empty()
        && message.blocks.iter().any(|block| match block {
            Block::Call(CallBlock { id, .. }) => is_known(id),
            Block::Result(ResultBlock { call_id, .. }) => is_known(call_id),
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::ReasoningDetails(_)
            | Block::Part(_) => false,
        })
}

/// The message with the upstream's ids; nothing else of it changes.
pub(super) fn to_sent(message: &Message, sent_ids: &BTreeMap<CallId, String>) -> Message {
    let mut renamed = message.clone();
    let mut exchanged = BTreeSet::new();
    for block in &mut renamed.blocks {
        let id = match block {
            Block::Call(CallBlock { id, .. }) => id,
            Block::Result(ResultBlock { call_id, .. }) => call_id,
            Block::Text(_)
            | Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::ReasoningDetails(_)
            | Block::Part(_) => continue,
        };
        if let Some(known) = CallId::parse_handed(id)
            && let Some(sent) = sent_ids.get(&known)
        {
            exchanged.insert(known);
            sent.clone_into(id);
        }
    }
    if !exchanged.is_empty() {
        renamed.raw = renamed
            .raw
            .and_then(|raw| in_text(raw.as_str(), &exchanged, sent_ids));
    }
    renamed
}

/// The same text with other ids, in one pass; `None` if one of them does not stand in it as we
/// write it, and the message has to be written anew.
fn in_text(
    text: &str,
    exchanged: &BTreeSet<CallId>,
    sent_ids: &BTreeMap<CallId, String>,
) -> Option<Json> {
    let mut renamed = String::with_capacity(text.len());
    let mut found = BTreeSet::new();
    let mut written = 0;
    for (at, _) in text.match_indices('"') {
        // It may be the quote that ended an id.
        if at < written {
            continue;
        }
        let id = text.get(at + 1..at + 1 + CallId::HANDED_BYTES);
        let Some(id) =
            id.filter(|_| text.as_bytes().get(at + 1 + CallId::HANDED_BYTES) == Some(&b'"'))
        else {
            continue;
        };
        let Some(known) = CallId::parse_handed(id).filter(|known| exchanged.contains(known)) else {
            continue;
        };
        if !is_value_of_id(&text[..at]) {
            continue;
        }
        let sent = sent_ids.get(&known)?;
        renamed.push_str(&text[written..at]);
        renamed.push_str(&serde_json::Value::from(sent.as_str()).to_string());
        written = at + CallId::HANDED_BYTES + 2;
        found.insert(known);
    }
    if found != *exchanged {
        return None;
    }
    renamed.push_str(&text[written..]);
    Json::parse(&renamed).ok()
}

/// Whether the next value in the JSON is that of a field that holds a call's id. A quote inside a
/// string would have a backslash before it, so that none is taken for a field.
fn is_value_of_id(before: &str) -> bool {
    let Some(name) = before.trim_ascii_end().strip_suffix(':') else {
        return false;
    };
    let name = name.trim_ascii_end();
    ["\"id\"", "\"tool_call_id\""].iter().any(|field| {
        name.strip_suffix(field)
            .is_some_and(|rest| !rest.ends_with('\\'))
    })
}
