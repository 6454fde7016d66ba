//! Turns that another system has recorded: how its messages become turns, and what becomes of those that do not fit.
//!
//! A turn begins with what a person said and goes on until they say something again. A call and its result are one
//! record; each half that is alone is kept and told of. Nothing is left out: a turn keeps every row that it was made of.

use uuid::Uuid;

use crate::call::{CallEnd, CallReason, CallStatus};
use crate::change::NewMessage;
use crate::id::{ApiKeyId, CallId, CallRef, OrgId, TurnId};
use crate::json::{Json, Literal};
use crate::model::CallForm;
use crate::request::{Block, CallBlock, ResultBlock, Role};
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
    /// The row as JSON.
    pub row: Json,
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
    pub call_id: String,
    pub content: String,
    pub status: ForeignStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignStatus {
    /// There is no result yet.
    Pending,
    Success,
    Error,
}

/// What a row did not say, or said wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    CallWithoutResult,
    ResultWithoutCall,
    SecondResult,
    CallIdTaken,
    CallWithoutId,
    CallsUnreadable,
    UnknownStatus,
    UnknownRole,
    NoTime,
    WrongEncoding,
    UnreadableRow,
    NoConversation,
    TurnSplit,
    /// The turn was imported before, of other rows.
    ChangedSince,
}

impl Repair {
    /// The word of a report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CallWithoutResult => "call_without_result",
            Self::ResultWithoutCall => "result_without_call",
            Self::SecondResult => "second_result",
            Self::CallIdTaken => "call_id_taken",
            Self::CallWithoutId => "call_without_id",
            Self::CallsUnreadable => "calls_unreadable",
            Self::UnknownStatus => "unknown_status",
            Self::UnknownRole => "unknown_role",
            Self::NoTime => "no_time",
            Self::WrongEncoding => "wrong_encoding",
            Self::UnreadableRow => "unreadable_row",
            Self::NoConversation => "no_conversation",
            Self::TurnSplit => "turn_split",
            Self::ChangedSince => "changed_since",
        }
    }

    /// What became of the row.
    pub fn done(self) -> &'static str {
        match self {
            Self::CallWithoutResult => "the call is recorded as pending",
            Self::ResultWithoutCall => "the result is recorded as a message of its own",
            Self::SecondResult => {
                "the first result of the call stands, this one is a message of its own"
            }
            Self::CallIdTaken => {
                "two calls of the turn have this id; the first open one gets the next result"
            }
            Self::CallWithoutId => "the call is recorded under an empty id",
            Self::CallsUnreadable => "the message is recorded without calls",
            Self::UnknownStatus => "the result is recorded as a success",
            Self::UnknownRole => "the message is recorded as a user's",
            Self::NoTime => "the time of the message before it is taken",
            Self::WrongEncoding => "bytes that are no UTF-8 are U+FFFD now",
            Self::UnreadableRow => "the row is not imported",
            Self::NoConversation => "the conversation is made by its id alone",
            Self::TurnSplit => "the turn was too long and goes on as another one",
            Self::ChangedSince => "the turn stays as it was imported before",
        }
    }
}

/// A repair, and the row that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairedRow {
    pub conversation: String,
    /// The row's id.
    pub row: String,
    pub repair: Repair,
}

/// A call with what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedCall {
    pub call: CallRef,
    pub id: CallId,
    pub callback_token: Uuid,
    pub tool_name: String,
    pub tool_call_id: String,
    pub arguments: String,
    /// `None` while it is pending, for good unless the application completes it.
    pub end: Option<CallEnd>,
    pub at: Timestamp,
    /// The time of its result.
    pub ended: Timestamp,
    /// The row that it was in.
    row: String,
    /// A row said that its result is to come.
    is_awaited: bool,
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
    pub conversation_row: Option<Json>,
    pub rows: Vec<Json>,
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
    pub row: Option<Json>,
}

/// Makes turns of the messages of one conversation, which come in order.
pub struct TurnAssembler {
    conversation: ForeignConversation,
    parent: Option<TurnId>,
    open: Option<ImportedTurn>,
    /// The round of the open turn, and the place of the next message in it.
    round: u32,
    seq: u32,
    pub repairs: Vec<RepairedRow>,
}

impl TurnAssembler {
    pub fn of(conversation: ForeignConversation) -> Self {
        Self {
            conversation,
            parent: None,
            open: None,
            round: 0,
            seq: 0,
            repairs: Vec::new(),
        }
    }

    pub fn conversation(&self) -> &str {
        &self.conversation.id
    }

    /// Takes the next message; the turn that it ends. Ids of calls come from `new_id`, and that of a turn whose first
    /// row's id is none from `turn_id`.
    pub fn push(
        &mut self,
        message: ForeignMessage,
        turn_id: &dyn Fn(&str) -> TurnId,
        new_id: &mut dyn FnMut() -> Uuid,
    ) -> Option<ImportedTurn> {
        let is_too_long =
            (self.open.as_ref()).is_some_and(|open| open.rows.len() >= IMPORTED_MESSAGES_MAX);
        let begins = match message.role {
            ForeignRole::User | ForeignRole::System => self.round > 0,
            ForeignRole::Assistant | ForeignRole::Tool => false,
        };
        if is_too_long && !begins {
            self.note(&message.id, Repair::TurnSplit);
        }
        let ended = if begins || is_too_long {
            self.end()
        } else {
            None
        };
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin(&message, turn_id),
        };
        self.add(&mut open, message, new_id);
        self.open = Some(open);
        ended
    }

    /// Ends the open turn.
    pub fn end(&mut self) -> Option<ImportedTurn> {
        let mut turn = self.open.take()?;
        let mut is_answered = self.round > 0;
        let mut alone = Vec::new();
        for call in turn.calls.iter().filter(|call| call.end.is_none()) {
            is_answered = false;
            if !call.is_awaited {
                alone.push(call.row.clone());
            }
        }
        for row in alone {
            self.note(&row, Repair::CallWithoutResult);
        }
        let last = turn.messages.iter().rev().find(|message| message.round > 0);
        let awaits = last.is_none_or(|message| {
            message
                .blocks
                .iter()
                .any(|block| matches!(block, Block::Call(_) | Block::Result(_)))
        });
        if is_answered && !awaits {
            turn.status = TurnStatus::Completed;
            turn.reason = None;
        }
        self.parent = Some(turn.id);
        self.round = 0;
        self.seq = 0;
        Some(turn)
    }

    fn note(&mut self, row: &str, repair: Repair) {
        self.repairs.push(RepairedRow {
            conversation: self.conversation.id.clone(),
            row: row.to_owned(),
            repair,
        });
    }

    fn begin(
        &mut self,
        message: &ForeignMessage,
        turn_id: &dyn Fn(&str) -> TurnId,
    ) -> ImportedTurn {
        ImportedTurn {
            id: TurnId::parse(&message.id).unwrap_or_else(|| turn_id(&message.id)),
            conversation: self.conversation.id.clone(),
            end_user: self.conversation.end_user.clone(),
            parent: self.parent,
            messages: Vec::new(),
            calls: Vec::new(),
            status: TurnStatus::Incomplete,
            reason: Some(TurnReason::Interrupted),
            at: message.at,
            ended: message.at,
            conversation_row: self.conversation.row.take(),
            rows: Vec::new(),
            first_row: message.id.clone(),
        }
    }

    fn add(
        &mut self,
        turn: &mut ImportedTurn,
        message: ForeignMessage,
        new_id: &mut dyn FnMut() -> Uuid,
    ) {
        let role = match message.role {
            ForeignRole::System => Role::System,
            ForeignRole::User => Role::User,
            ForeignRole::Assistant => {
                self.round += 1;
                self.seq = 0;
                Role::Assistant
            }
            ForeignRole::Tool => Role::Tool,
        };
        let mut blocks = Vec::new();
        // Several rows before the first answer are one round.
        let earlier = turn.calls.iter().rev();
        let earlier = earlier.take_while(|call| call.call.round == self.round);
        let mut position = u32::try_from(earlier.count()).unwrap_or(u32::MAX);
        for part in message.parts {
            match part {
                ForeignPart::Text(text) if text.is_empty() => {}
                ForeignPart::Text(text) => blocks.push(Block::Text(text)),
                ForeignPart::Call(call) => {
                    if turn.calls.iter().any(|known| known.tool_call_id == call.id) {
                        self.note(&message.id, Repair::CallIdTaken);
                    }
                    blocks.push(Block::Call(block_of(&call)));
                    turn.calls.push(ImportedCall {
                        call: CallRef {
                            round: self.round,
                            position,
                        },
                        id: CallId(new_id()),
                        callback_token: new_id(),
                        tool_name: call.name,
                        tool_call_id: call.id,
                        arguments: call.arguments,
                        end: None,
                        at: message.at,
                        ended: message.at,
                        row: message.id.clone(),
                        is_awaited: false,
                    });
                    position += 1;
                }
                ForeignPart::Result(result) => {
                    if let Some(repair) = answer(turn, &result, message.at) {
                        self.note(&message.id, repair);
                        blocks.push(Block::Result(ResultBlock {
                            is_error: result.status == ForeignStatus::Error,
                            ..ResultBlock::of_text(
                                result.call_id,
                                Literal::from_text(&result.content),
                            )
                        }));
                    }
                }
            }
        }
        // What brought results alone stands in its calls.
        if role != Role::Tool || !blocks.is_empty() {
            turn.messages.push(NewMessage {
                round: self.round,
                seq: self.seq,
                role,
                blocks,
                origin: None,
                at: message.at,
            });
            self.seq += 1;
        }
        turn.ended = turn.ended.max(message.at);
        turn.rows.push(message.row);
    }
}

fn block_of(call: &ForeignCall) -> CallBlock {
    CallBlock {
        id: call.id.clone(),
        name: call.name.clone(),
        form: CallForm::Function,
        arguments: Literal::from_text(&call.arguments),
        native: None,
    }
}

/// Gives a call its result; `None` where it has it now, or what hinders.
fn answer(turn: &mut ImportedTurn, result: &ForeignResult, at: Timestamp) -> Option<Repair> {
    let is_meant = |call: &&mut ImportedCall| call.tool_call_id == result.call_id;
    let mut meant = turn.calls.iter_mut().filter(is_meant).peekable();
    if meant.peek().is_none() {
        return Some(Repair::ResultWithoutCall);
    }
    let Some(call) = meant.find(|call| call.end.is_none()) else {
        return Some(Repair::SecondResult);
    };
    let is_error = match result.status {
        ForeignStatus::Pending => {
            call.is_awaited = true;
            return None;
        }
        ForeignStatus::Success => false,
        ForeignStatus::Error => true,
    };
    call.ended = at.max(call.at);
    call.end = Some(CallEnd {
        reason: is_error.then_some(CallReason::ToolError),
        result: Some(result.content.clone()),
        shown: result.content.clone(),
        is_error,
        cached: false,
    });
    None
}

#[cfg(test)]
mod tests;
