//! What webhooks are told: an event, and the turn or call that it is about.

use super::WebhookEvent;
use crate::call::{CallReason, CallStatus};
use crate::id::{CallId, ToolVersionKey, TurnId};
use crate::time::Timestamp;
use crate::turn_status::{TurnReason, TurnStatus};

/// An event with what it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct ToldEvent {
    pub event: WebhookEvent,
    /// Time of what it tells of.
    pub at: Timestamp,
    /// `None` for a test.
    pub turn: Option<ToldTurn>,
    pub call: Option<ToldCall>,
}

/// A turn as its webhooks are told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToldTurn {
    pub id: TurnId,
    pub conversation: String,
    pub end_user: Option<String>,
    pub model: String,
    pub status: TurnStatus,
    pub reason: Option<TurnReason>,
    pub tool_count: u32,
    pub created: Timestamp,
    pub ended: Option<Timestamp>,
    /// Text of the last round's answer; `None` unless contents are wanted and are still there.
    pub answer: Option<String>,
}

/// A call as its webhooks are told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToldCall {
    pub id: CallId,
    pub tool_name: String,
    pub tool_version: Option<ToolVersionKey>,
    pub status: CallStatus,
    pub reason: Option<CallReason>,
    pub is_error: bool,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// The arguments as the model wrote them, and what it was given; `None` unless contents are wanted and are still
    /// there.
    pub contents: Option<(String, String)>,
}
