//! Words for the end of an answer.

use tw_core::model::Finish;

use crate::openai_chat::ending::{self, ChoiceEnding};

/// Reads a `stop_reason`; `None` is none. Words that the API does not have are read as those of other formats are.
pub fn read(word: &str) -> Option<ChoiceEnding> {
    Some(ChoiceEnding::As(match word {
        "end_turn" => Finish::Stop,
        "stop_sequence" => Finish::StopSequence,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "tool_use" => Finish::ToolCalls,
        "pause_turn" => Finish::Pause,
        "refusal" => Finish::Refusal,
        _ => return ending::read(word),
    }))
}

/// The word for a finish.
pub fn word(reason: Finish) -> &'static str {
    match reason {
        Finish::Stop => "end_turn",
        Finish::StopSequence => "stop_sequence",
        Finish::Length => "max_tokens",
        Finish::ToolCalls => "tool_use",
        Finish::Pause => "pause_turn",
        Finish::ContentFilter | Finish::Refusal => "refusal",
    }
}
