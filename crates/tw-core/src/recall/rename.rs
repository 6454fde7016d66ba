//! Ids of ours in a client's message, exchanged for those that the upstream knows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::id::CallId;
use crate::json::Json;
use crate::request::{Block, CallBlock, Message, ResultBlock};

/// What the upstream knows a call by that was handed over under this id.
pub(super) fn sent_id<'a>(id: &str, sent_ids: &'a BTreeMap<CallId, String>) -> Option<&'a str> {
    let sent = sent_ids.get(&CallId::parse_handed(id)?)?;
    Some(sent)
}

/// The message with the upstream's ids; nothing else of it changes.
pub(super) fn to_sent(message: &Message, sent_ids: &BTreeMap<CallId, String>) -> Message {
    let mut renamed = message.clone();
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
        if let Some(sent) = sent_id(id, sent_ids) {
            renamed.raw = renamed.raw.and_then(|raw| in_text(&raw, id, sent));
            sent.clone_into(id);
        }
    }
    renamed
}

/// The same text with another id; `None` if the id does not stand in it as we write it, and the
/// message has to be written anew.
fn in_text(raw: &Json, id: &str, sent: &str) -> Option<Json> {
    let quoted = format!("\"{id}\"");
    let text = raw.as_str();
    let mut renamed: Cow<'_, str> = Cow::Borrowed(text);
    let mut end = text.len();
    while let Some(at) = text[..end].rfind(&quoted) {
        if is_value_of_id(&text[..at]) {
            let sent = serde_json::Value::from(sent).to_string();
            renamed.to_mut().replace_range(at..at + quoted.len(), &sent);
        }
        end = at;
    }
    match renamed {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Json::parse(&text).ok(),
    }
}

/// Whether what comes next in the JSON is the value of a field that holds a call's id. A quote
/// inside a string would have a backslash before it, so that none is taken for a field.
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
