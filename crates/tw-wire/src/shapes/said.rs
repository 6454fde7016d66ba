//! What was said in a turn, in one order: messages, and behind each call its result.

use std::collections::{BTreeMap, BTreeSet};

use tw_core::approval::ApprovalState;
use tw_core::call::{CallReason, CallRunner, CallStatus};
use tw_core::change::NewMessage;
use tw_core::id::{CallId, CallRef, TurnId};
use tw_core::json::Literal;
use tw_core::request::{Block, ResultBlock, Role};
use tw_core::time::Timestamp;

/// A turn as the record has it.
#[derive(Clone, Debug)]
pub struct TurnRecord {
    pub id: TurnId,
    /// The public id of its conversation.
    pub conversation: String,
    pub end_user: Option<String>,
    pub model: String,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// Messages in order of round and place; those of round 0 came with the request.
    pub messages: Vec<NewMessage>,
    /// Calls in order of round and position.
    pub calls: Vec<SaidCall>,
    /// The calls that results answer which the request brought, by the ids that the results name.
    pub answered: BTreeMap<String, KnownAnswer>,
    /// Ids by which what follows the turn answers its calls.
    pub answers: BTreeSet<String>,
    /// Something else was said since, so that no other result comes.
    pub answers_over: bool,
}

/// A call as the record has it.
#[derive(Clone, Debug)]
pub struct SaidCall {
    pub call: CallRef,
    pub id: CallId,
    pub runs: CallRunner,
    pub tool_name: String,
    pub tool_call_id: String,
    pub arguments: String,
    pub status: CallStatus,
    pub reason: Option<CallReason>,
    pub is_error: bool,
    /// The result that the model was given, and the whole one; none while there is none.
    pub shown: Option<String>,
    pub result: Option<String>,
    pub approval: Option<ApprovalState>,
    /// It acts on the approval of an earlier call.
    pub approves: bool,
    /// The id of its job at the service that runs it.
    pub external_id: Option<String>,
    pub cost_microusd: Option<i64>,
    pub created: Timestamp,
    pub updated: Timestamp,
}

/// The call that a result answers, as the record knows it.
#[derive(Clone, Debug)]
pub struct KnownAnswer {
    pub tool_call_id: String,
    pub tool_name: String,
    pub is_error: bool,
}

/// A turn with what was said in it, in order.
#[derive(Clone, Debug)]
pub struct SaidTurn {
    pub id: TurnId,
    pub conversation: String,
    pub end_user: Option<String>,
    pub model: String,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub said: Vec<SaidEntry>,
    pub calls: Vec<SaidCall>,
    /// Calls that wait for a result of the client's.
    pub open: Vec<WaitingCall>,
}

/// A call whose result a client is to bring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    pub tool_call_id: String,
    pub tool_name: String,
    /// The row of the call; `None` where the record has it only as part of a message.
    pub row: Option<WaitingCallRow>,
}

/// The row of a call whose result a client is to bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingCallRow {
    pub id: CallId,
    pub runs: CallRunner,
    /// It had a result, which is gone.
    pub is_final: bool,
}

#[derive(Clone, Debug)]
pub enum SaidEntry {
    Message(SaidMessage),
    Answer(CallAnswer),
}

impl SaidEntry {
    pub fn place(&self) -> &str {
        match self {
            Self::Message(message) => &message.place,
            Self::Answer(answer) => &answer.place,
        }
    }
}

#[derive(Clone, Debug)]
pub struct SaidMessage {
    /// Where it stands in the turn: its round and place.
    pub place: String,
    pub role: Role,
    pub blocks: Vec<Block>,
    pub at: Timestamp,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub struct CallAnswer {
    /// Where it stands in the turn: behind the message of its round, or of which it is a block.
    pub place: String,
    /// The id that the upstream gave the call.
    pub tool_call_id: String,
    /// `None` for a call that the record does not know.
    pub tool_name: Option<String>,
    pub status: AnswerStatus,
    /// As the model was given it.
    pub content: Vec<Block>,
    /// The whole result, where that is more.
    pub whole: Option<String>,
    pub at: Timestamp,
}

/// How a result stands, in LangChain's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerStatus {
    Pending,
    Success,
    Error,
}

impl AnswerStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Error => "error",
        }
    }
}

/// The result of a call that its client left without one, so that no history has a call without its result.
const NOT_ANSWERED: &str = "The client gave no result for this call.";

impl SaidTurn {
    /// Puts a turn's record in order.
    pub fn of(record: TurnRecord) -> Self {
        let mut order = Order {
            calls: &record.calls,
            answered: &record.answered,
            answers: &record.answers,
            said: Vec::new(),
            open: Vec::new(),
        };
        let mut round = 0;
        for message in &record.messages {
            if message.round != round {
                order.results_of(round);
                round = message.round;
            }
            order.message(message);
        }
        order.results_of(round);
        order.open.retain(|call| !call.is_in(&record.answers));
        if record.answers_over {
            order.close(record.updated);
        }
        Self {
            open: order.open,
            said: order.said,
            id: record.id,
            conversation: record.conversation,
            end_user: record.end_user,
            model: record.model,
            created: record.created,
            updated: record.updated,
            calls: record.calls,
        }
    }
}

struct Order<'a> {
    calls: &'a [SaidCall],
    answered: &'a BTreeMap<String, KnownAnswer>,
    answers: &'a BTreeSet<String>,
    said: Vec<SaidEntry>,
    /// Calls that have no result yet.
    open: Vec<WaitingCall>,
}

impl WaitingCall {
    fn is_in(&self, answers: &BTreeSet<String>) -> bool {
        let is_handed = self
            .row
            .is_some_and(|row| answers.contains(&row.id.handed()));
        is_handed || answers.contains(&self.tool_call_id)
    }
}

impl Order<'_> {
    fn message(&mut self, message: &NewMessage) {
        let mut blocks = Vec::new();
        for (at, block) in message.blocks.iter().enumerate() {
            match block {
                Block::Result(result) => {
                    self.say(message, &mut blocks);
                    self.answer(
                        result,
                        format!("{}.{}.{at}", message.round, message.seq),
                        message.at,
                    );
                }
                Block::Text(_)
                | Block::Refusal(_)
                | Block::Reasoning(_)
                | Block::Call(_)
                | Block::Part(_)
                | Block::Native(_) => blocks.push(block.clone()),
            }
        }
        self.say(message, &mut blocks);
    }

    fn say(&mut self, message: &NewMessage, blocks: &mut Vec<Block>) {
        if blocks.is_empty() {
            return;
        }
        // A client may have brought what a model said in pieces: the text by itself, and each call.
        let is_piece = message.round == 0 && message.role == Role::Assistant;
        let is_begun = matches!(self.said.last(), Some(SaidEntry::Message(last)) if last.role == Role::Assistant);
        if !(is_piece && is_begun) {
            self.close(message.at);
        }
        let calls = self.calls;
        let mut of_round = calls
            .iter()
            .filter(|row| row.call.round == message.round)
            .collect::<Vec<_>>();
        let mut held = Vec::new();
        for block in blocks.iter() {
            if let Block::Call(call) = block {
                // Two calls of a round may have one id: the first is meant, and then the next.
                let at = of_round.iter().position(|row| row.tool_call_id == call.id);
                let row = at.map(|at| of_round.remove(at));
                match row {
                    Some(row) if holds_result(row, self.answers) => held.push(result_of(row)),
                    Some(_) | None => self.open.push(WaitingCall {
                        tool_call_id: call.id.clone(),
                        tool_name: call.name.clone(),
                        row: row.map(|row| WaitingCallRow {
                            id: row.id,
                            runs: row.runs,
                            is_final: row.status.is_final(),
                        }),
                    }),
                }
            }
        }
        let blocks = std::mem::take(blocks);
        match self.said.last_mut() {
            Some(SaidEntry::Message(begun)) if is_piece && is_begun => begun.blocks.extend(blocks),
            Some(_) | None => self.said.push(SaidEntry::Message(SaidMessage {
                place: format!("{}.{}", message.round, message.seq),
                role: message.role,
                blocks,
                at: message.at,
            })),
        }
        self.said.extend(held.into_iter().map(SaidEntry::Answer));
    }

    /// A result that a client brought.
    fn answer(&mut self, result: &ResultBlock, place: String, at: Timestamp) {
        let known = self.answered.get(&result.call_id);
        let id = known.map_or(&result.call_id, |known| &known.tool_call_id);
        let open = self.open.iter().position(|call| {
            call.tool_call_id == *id
                || call
                    .row
                    .is_some_and(|row| row.id.handed() == result.call_id)
        });
        let open = open.map(|at| self.open.remove(at));
        let name = known.map(|known| known.tool_name.clone());
        let is_error = result.is_error || known.is_some_and(|known| known.is_error);
        self.said.push(SaidEntry::Answer(CallAnswer {
            place,
            tool_call_id: id.clone(),
            tool_name: name.or(open.map(|call| call.tool_name)),
            status: if is_error {
                AnswerStatus::Error
            } else {
                AnswerStatus::Success
            },
            content: result.content.clone(),
            whole: None,
            at,
        }));
    }

    /// The results of the calls of a round that this server ran.
    fn results_of(&mut self, round: u32) {
        let calls = self.calls;
        for call in calls.iter().filter(|row| row.call.round == round) {
            if call.runs != CallRunner::Server {
                continue;
            }
            let mut open = self.open.iter();
            if let Some(at) = open.position(|open| open.tool_call_id == call.tool_call_id) {
                self.open.remove(at);
            }
            if !is_told_elsewhere(call) {
                self.said.push(SaidEntry::Answer(result_of(call)));
            }
        }
    }

    /// Gives calls that are left behind a result.
    fn close(&mut self, at: Timestamp) {
        for call in self.open.drain(..) {
            let place = format!("{}.left", self.said.len());
            self.said.push(SaidEntry::Answer(CallAnswer {
                place,
                tool_call_id: call.tool_call_id,
                tool_name: Some(call.tool_name),
                status: AnswerStatus::Error,
                content: vec![Block::Text(Literal::from_text(NOT_ANSWERED))],
                whole: None,
                at,
            }));
        }
    }
}

/// Whether the row of a call that ran elsewhere holds its result, as an import writes it. The result of another one is
/// a block of its own turn or of a later one.
fn holds_result(call: &SaidCall, answers: &BTreeSet<String>) -> bool {
    let (CallRunner::Outside, Some(shown)) = (call.runs, &call.shown) else {
        return false;
    };
    let is_answered = answers.contains(&call.id.handed()) || answers.contains(&call.tool_call_id);
    !shown.is_empty() || (call.call.round > 0 && !is_answered)
}

/// What became of a question is told once: by the turn that acts on the answer, or where it was asked if nobody answered
/// in time.
fn is_told_elsewhere(call: &SaidCall) -> bool {
    match call.approval {
        Some(ApprovalState::Approved | ApprovalState::Denied) => !call.approves,
        Some(ApprovalState::Needed | ApprovalState::Asked | ApprovalState::Expired) | None => {
            call.approves && call.reason == Some(CallReason::ApprovalExpired)
        }
    }
}

fn result_of(call: &SaidCall) -> CallAnswer {
    let status = match (call.status.is_final(), call.is_error) {
        (false, _) => AnswerStatus::Pending,
        (true, false) => AnswerStatus::Success,
        (true, true) => AnswerStatus::Error,
    };
    let text = Literal::from_text(call.shown.as_deref().unwrap_or_default());
    CallAnswer {
        place: format!("{}.c{}", call.call.round, call.call.position),
        tool_call_id: call.tool_call_id.clone(),
        tool_name: Some(call.tool_name.clone()),
        status,
        content: vec![Block::Text(text)],
        whole: call.result.clone(),
        at: call.updated,
    }
}
