//! Ids of responses and of their items: ours with a prefix, made from the turn and the item's place in it.
//!
//! The same log gives the same ids whenever it is read. A call that this server runs has an id that tells which one it
//! is, so that a client's answer to a question about it finds the call.

use tw_core::id::{CallId, TurnId};

use crate::format::ItemOrigin;

/// Prefixes of ids.
pub const RESPONSE: &str = "resp_";
pub const MESSAGE: &str = "msg_";
pub const REASONING: &str = "rs_";
pub const FUNCTION_CALL: &str = "fc_";
pub const FUNCTION_OUTPUT: &str = "fco_";
pub const CUSTOM_CALL: &str = "ctc_";
pub const MCP_CALL: &str = "mcp_";
pub const APPROVAL: &str = "mcpr_";
pub const OTHER_ITEM: &str = "item_";
pub const COMPACTION: &str = "cmp_";

const PLACED: [&str; 7] = [
    MESSAGE,
    REASONING,
    FUNCTION_CALL,
    FUNCTION_OUTPUT,
    CUSTOM_CALL,
    MCP_CALL,
    OTHER_ITEM,
];

/// Digits of an id without hyphens.
const PLAIN_CHARS: usize = 32;

/// The id of a turn's response.
pub fn response_id(turn: TurnId) -> String {
    format!("{RESPONSE}{}", turn.plain())
}

/// Reads what [`response_id`] wrote; `None` for an id of somebody else.
pub fn parse_response_id(text: &str) -> Option<TurnId> {
    of_plain(text.strip_prefix(RESPONSE)?, TurnId::parse)
}

/// The id of an item by its place: the round, and its position among the round's items.
pub fn item_id(prefix: &str, turn: TurnId, round: u32, position: u32) -> String {
    format!("{prefix}{}_{round}_{position}", turn.plain())
}

/// The turn of an item whose id [`item_id`] wrote; `None` for an id of somebody else.
pub fn turn_of_item(text: &str) -> Option<TurnId> {
    let rest = PLACED.iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let (plain, place) = rest.split_at_checked(PLAIN_CHARS)?;
    let place = place.strip_prefix('_')?;
    let is_place = place
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'_');
    of_plain(plain, TurnId::parse).filter(|_| is_place)
}

/// What an item's id tells of its turn; `None` for an id of somebody else.
pub fn item_origin(text: &str) -> Option<ItemOrigin> {
    let turn = turn_of_item(text).map(ItemOrigin::Turn);
    let call = || parse_own_call_id(text).or_else(|| parse_approval_id(text));
    turn.or_else(|| call().map(ItemOrigin::Call))
}

/// The id of the item of a call that this server runs.
pub fn own_call_id(call: CallId) -> String {
    format!("{MCP_CALL}{}", call.plain())
}

/// Reads what [`own_call_id`] wrote.
pub fn parse_own_call_id(text: &str) -> Option<CallId> {
    of_plain(text.strip_prefix(MCP_CALL)?, CallId::parse)
}

/// The id of the question whether a call may run.
pub fn approval_id(call: CallId) -> String {
    format!("{APPROVAL}{}", call.plain())
}

/// Reads what [`approval_id`] wrote; the ids of other servers' questions are longer.
pub fn parse_approval_id(text: &str) -> Option<CallId> {
    of_plain(text.strip_prefix(APPROVAL)?, CallId::parse)
}

/// Whether an item's id is one of ours, which no upstream knows.
pub fn is_own(text: &str) -> bool {
    item_origin(text).is_some()
}

fn of_plain<T>(plain: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let is_plain = plain.len() == PLAIN_CHARS
        && plain
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    is_plain.then(|| parse(plain)).flatten()
}
