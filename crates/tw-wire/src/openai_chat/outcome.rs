//! The names that both writers share.

use tw_core::id::TurnId;
use tw_core::model::Finish;

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
        (Finish::Stop | Finish::StopSequence | Finish::Pause, _) => "stop",
        (Finish::Length, _) => "length",
        (Finish::ContentFilter | Finish::Refusal, _) => "content_filter",
        (Finish::ToolCalls, ChatDialect::Tools) => "tool_calls",
        (Finish::ToolCalls, ChatDialect::Functions) => "function_call",
    }
}
