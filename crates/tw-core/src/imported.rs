//! Turns that another system has recorded: how its messages become turns, and what becomes of those that do not fit.
//!
//! A turn begins with what a person said and goes on until they say something again. A call and its result are one
//! record; each half that is alone is kept and told of. Nothing is left out: a turn keeps every row that it was made of.

mod assembly;
mod repair;
mod tool_row;

pub use assembly::TurnAssembler;
pub use repair::{Repair, RepairedRow};
pub use tool_row::{ToolRowNote, ToolRowProblem};

use crate::call::{CallEnd, CallStatus};
use crate::change::NewMessage;
use crate::id::{ApiKeyId, CallId, CallRef, OrgId, TurnId};
use crate::json::{Json, Literal};
use crate::time::Timestamp;
use crate::turn_status::{TurnReason, TurnStatus};

/// Messages that one imported turn may have; a longer one is split.
pub const IMPORTED_MESSAGES_MAX: usize = 4096;

/// Who says something in the other system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignRole {
    System,
    User,
    Assistant,
    /// A row that brings results alone.
    Tool,
}

/// A message of the other system.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignMessage {
    /// Its id there.
    pub id: String,
    pub role: ForeignRole,
    /// In order.
    pub parts: Vec<ForeignPart>,
    pub at: Timestamp,
    /// The rows that it was read from, of which a row that holds several messages is with the first.
    pub rows: Vec<ForeignRow>,
}

/// A row of the other system.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignRow {
    /// Its table.
    pub table: &'static str,
    /// What names it there, where something does.
    pub name: Option<String>,
    /// The row as a JSON object.
    pub json: Json,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ForeignPart {
    Text(Literal),
    Call(ForeignCall),
    Result(ForeignResult),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignCall {
    pub id: String,
    pub name: String,
    /// As written; may not be JSON.
    pub arguments: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignResult {
    pub answers: ForeignCallRef,
    pub content: String,
    pub status: ForeignStatus,
}

/// The call that a result is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeignCallRef {
    /// That of this id.
    Id(String),
    /// The first that has no result, of the tool of this name: a call of a time when there were no ids.
    OfTool(String),
    /// The first that has no result.
    Next,
}

impl ForeignCallRef {
    /// The id that a result names; empty where it names none.
    pub fn into_id(self) -> String {
        match self {
            Self::Id(id) => id,
            Self::OfTool(_) | Self::Next => String::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignStatus {
    /// There is no result yet.
    Pending,
    Success,
    Error,
}

/// A call with what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedCall {
    pub call: CallRef,
    pub id: CallId,
    pub tool_name: String,
    pub tool_call_id: String,
    pub arguments: String,
    /// `None` while it is pending, for good unless the application completes it.
    pub end: Option<CallEnd>,
    pub at: Timestamp,
    /// The time of its result.
    pub ended: Timestamp,
    /// The row that it was in.
    pub(in crate::imported) row: String,
    /// A row said that its result is to come.
    pub(in crate::imported) is_awaited: bool,
}

impl ImportedCall {
    pub fn status(&self) -> CallStatus {
        self.end
            .as_ref()
            .map_or(CallStatus::Pending, CallEnd::status)
    }
}

/// A turn as it is to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedTurn {
    pub id: TurnId,
    /// The conversation's public id.
    pub conversation: String,
    pub end_user: Option<String>,
    /// The turn before it in the conversation.
    pub parent: Option<TurnId>,
    pub messages: Vec<NewMessage>,
    pub calls: Vec<ImportedCall>,
    pub status: TurnStatus,
    pub reason: Option<TurnReason>,
    pub at: Timestamp,
    pub ended: Timestamp,
    /// The conversation's row, in its first turn.
    pub conversation_row: Option<ForeignRow>,
    pub rows: Vec<ForeignRow>,
    /// The id of the first row.
    pub first_row: String,
}

/// Turns that are to be recorded together, each after its parent.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportTurns {
    pub organization: OrgId,
    /// Whose turns they become.
    pub api_key: ApiKeyId,
    /// The word of the other system's layout.
    pub shape: &'static str,
    pub turns: Vec<ImportedTurn>,
    /// Rows that are of no turn.
    pub kept: Vec<KeptRow>,
    pub at: Timestamp,
}

/// A row that is of no turn, kept so that it can go back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRow {
    /// Its table, or what it says of tables.
    pub table: String,
    /// What names it there; where nothing does, its hash, and which of those that are equal it is. The same each time.
    pub id: String,
    /// The conversation whose row it is. It is kept unless it is with that one's turns.
    pub conversation: Option<String>,
    /// Of whom it tells, and with whom it is erased.
    pub end_user: Option<String>,
    pub json: String,
}

/// What became of a turn that was to be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    Written,
    /// It was imported before.
    There,
    /// It was imported before, of other rows, and stays as it is.
    Differs,
}

/// The conversation that messages are of.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignConversation {
    pub id: String,
    pub end_user: Option<String>,
    pub row: Option<ForeignRow>,
}

#[cfg(test)]
mod tests;
