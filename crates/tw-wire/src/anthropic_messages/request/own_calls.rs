//! Calls that this server ran, as clients were shown them and send them back.
//!
//! A client sees them as those of an MCP server. The API would not know that server; the model is given them as what
//! they were: calls and results.

use serde_json::value::RawValue;
use tw_core::id::CallId;

use crate::anthropic_messages::SERVER_NAME;
use crate::openai_chat::raw::{self, ObjectFields};

/// The prefix of the id under which a client is shown a call that this server ran.
const SHOWN_PREFIX: &str = "mcptoolu_";

/// The id under which a client is shown a call that this server ran.
pub fn shown_id(id: CallId) -> String {
    format!("{SHOWN_PREFIX}{}", id.plain())
}

/// Whether an id is one that [`shown_id`] wrote: other servers' are shorter.
fn is_shown_id(text: &str) -> bool {
    let plain = text.strip_prefix(SHOWN_PREFIX);
    plain.is_some_and(|plain| CallId::parse(plain).is_some_and(|id| id.plain() == plain))
}

/// Whether a block of an assistant message is a call that this server ran, or the result of one.
pub fn is_own(fields: &ObjectFields<'_>) -> bool {
    let word = |name| raw::filled_string(fields.get(name)).unwrap_or_default();
    match &*word("type") {
        "mcp_tool_use" => word("server_name") == SERVER_NAME && is_shown_id(&word("id")),
        "mcp_tool_result" => is_shown_id(&word("tool_use_id")),
        _ => false,
    }
}

/// The ids of the calls among the blocks of a message that have both halves there.
pub fn whole_calls(blocks: &[&RawValue]) -> Vec<String> {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for block in blocks {
        let Ok(fields) = ObjectFields::parse(block.get()) else {
            continue;
        };
        if !is_own(&fields) {
            continue;
        }
        let id = |name| raw::filled_string(fields.get(name)).map(|id| id.into_owned());
        calls.extend(id("id"));
        results.extend(id("tool_use_id"));
    }
    calls.retain(|id| results.contains(id));
    calls
}
