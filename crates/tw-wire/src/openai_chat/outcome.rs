//! The end of a turn as this format shows it, and the names that both writers share.

use tw_core::event::TurnEnd;
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::TurnId;
use tw_core::model::Finish;
use tw_core::turn_status::{TurnReason, TurnStatus};

/// The form in which a client is sent calls: that of its own request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatDialect {
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
pub fn finish_word(reason: Finish, dialect: ChatDialect) -> &'static str {
    match (reason, dialect) {
        (Finish::Stop, _) => "stop",
        (Finish::Length, _) => "length",
        (Finish::ContentFilter, _) => "content_filter",
        (Finish::ToolCalls | Finish::FunctionCall, ChatDialect::Tools) => "tool_calls",
        (Finish::ToolCalls | Finish::FunctionCall, ChatDialect::Functions) => "function_call",
    }
}

/// The fault to tell of; `None` if the answer ends with its finish.
pub fn fault_of(end: &TurnEnd) -> Option<TurnFault> {
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

fn fault_of_reason(reason: Option<TurnReason>) -> TurnFault {
    match reason {
        Some(TurnReason::Deadline) => {
            TurnFault::new(FaultClass::Deadline, "the turn took too long")
        }
        Some(TurnReason::Interrupted) => TurnFault::new(
            FaultClass::Interrupted,
            "the answer was cut by a restart of the server",
        ),
        Some(TurnReason::Upstream) => {
            TurnFault::new(FaultClass::UpstreamFailed, "the model could not be reached")
        }
        Some(TurnReason::ClientLeft | TurnReason::Requested) => {
            TurnFault::new(FaultClass::Cancelled, "the turn was stopped")
        }
        Some(
            TurnReason::Internal
            | TurnReason::Length
            | TurnReason::Rounds
            | TurnReason::Calls
            | TurnReason::Cost,
        )
        | None => TurnFault::new(FaultClass::Internal, "the server failed"),
    }
}
