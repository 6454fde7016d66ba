//! How a turn's end shows on this format, and the names that both writers share.

use tw_core::event::{TurnEnd, TurnReason, TurnStatus};
use tw_core::fault::{Fault, FaultClass};
use tw_core::id::TurnId;
use tw_core::model::Finish;

/// How many names a call's arguments may come under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `tool_calls`.
    Tools,
    /// The old `function_call`, for a request with `functions`.
    Functions,
}

/// The answer's id.
pub fn answer_id(turn: TurnId) -> String {
    format!("chatcmpl-{}", turn.plain())
}

/// An id for a call whose upstream gave none that could be used: the same for every reading of
/// the same log.
pub fn minted_id(turn: TurnId, round: u32, ordinal: usize) -> String {
    format!("call_{}_{round}_{ordinal}", turn.plain())
}

/// The word for a finish; the old form says calls otherwise.
pub fn finish_word(reason: Finish, dialect: Dialect) -> &'static str {
    match (reason, dialect) {
        (Finish::Stop, _) => "stop",
        (Finish::Length, _) => "length",
        (Finish::ContentFilter, _) => "content_filter",
        (Finish::ToolCalls | Finish::FunctionCall, Dialect::Tools) => "tool_calls",
        (Finish::ToolCalls | Finish::FunctionCall, Dialect::Functions) => "function_call",
    }
}

/// The fault to tell of; `None` if the answer ends with its finish.
pub fn fault_of(end: &TurnEnd) -> Option<Fault> {
    let limited = matches!(
        end.reason,
        Some(TurnReason::Length | TurnReason::Rounds | TurnReason::Calls | TurnReason::Cost)
    );
    match end.status {
        TurnStatus::Completed => None,
        TurnStatus::Incomplete if limited => None,
        TurnStatus::Incomplete
        | TurnStatus::Failed
        | TurnStatus::Cancelled
        | TurnStatus::Running => Some(
            end.fault
                .clone()
                .unwrap_or_else(|| fault_of_reason(end.reason)),
        ),
    }
}

fn fault_of_reason(reason: Option<TurnReason>) -> Fault {
    match reason {
        Some(TurnReason::Deadline) => Fault::new(FaultClass::Deadline, "the turn took too long"),
        Some(TurnReason::Interrupted) => Fault::new(
            FaultClass::Interrupted,
            "the answer was cut by a restart of the server",
        ),
        Some(TurnReason::Upstream) => {
            Fault::new(FaultClass::UpstreamFailed, "the model could not be reached")
        }
        Some(TurnReason::ClientLeft | TurnReason::Requested) => {
            Fault::new(FaultClass::Cancelled, "the turn was stopped")
        }
        Some(
            TurnReason::Internal
            | TurnReason::Length
            | TurnReason::Rounds
            | TurnReason::Calls
            | TurnReason::Cost,
        )
        | None => Fault::new(FaultClass::Internal, "the server failed"),
    }
}
