//! Turns made of the messages of a conversation.

use uuid::Uuid;

use super::{
    ForeignCall, ForeignCallRef, ForeignConversation, ForeignMessage, ForeignPart, ForeignResult,
    ForeignRole, ForeignStatus, IMPORTED_MESSAGES_MAX, ImportedCall, ImportedTurn, Repair,
    RepairedRow,
};
use crate::call::{CallEnd, CallReason};
use crate::change::NewMessage;
use crate::id::{CallId, CallRef, TurnId};
use crate::json::Literal;
use crate::model::CallForm;
use crate::request::{Block, CallBlock, ResultBlock, Role};
use crate::time::Timestamp;
use crate::turn_status::{TurnReason, TurnStatus};

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
                                result.answers.into_id(),
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
        turn.rows.extend(message.rows);
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
    let is_meant = |call: &&mut ImportedCall| match &result.answers {
        ForeignCallRef::Id(id) => call.tool_call_id == *id,
        ForeignCallRef::OfTool(name) => call.tool_name == *name,
        ForeignCallRef::Next => true,
    };
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
