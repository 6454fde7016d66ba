//! Marks of the prompt cache in a request of another format.

use tw_core::json::Json;
use tw_core::request::{Message, ModelRequest};

use crate::crossing;
use crate::openai_chat::content::tool_mark;
use crate::unshared::client_tools;

/// Most marks in one request: the API's own limit.
const MARKS_MAX: usize = 4;

/// The marks that a request may still have. They are given out in the order of the prompt, and where there are too many
/// the first go: a later one covers what stands before it.
#[derive(Debug, Default)]
pub struct MarkBudget {
    to_drop: usize,
    /// Marks that were dropped.
    pub dropped: u32,
}

impl MarkBudget {
    pub fn of(request: &ModelRequest<'_>) -> Self {
        let in_messages = request.messages.iter();
        let in_messages = in_messages.flat_map(|message| crossing::cache_marks(message));
        let in_tools = client_tools(request).into_iter();
        let in_tools = in_tools.filter_map(|entry| tool_mark(&entry.raw));
        let marks = in_messages.flatten().chain(in_tools).count();
        Self {
            to_drop: marks.saturating_sub(MARKS_MAX),
            dropped: 0,
        }
    }

    /// The mark, if it may be set.
    pub fn take(&mut self, mark: Option<Json>) -> Option<Json> {
        if mark.is_some() && self.to_drop > 0 {
            self.to_drop -= 1;
            self.dropped += 1;
            return None;
        }
        mark
    }

    /// The marks on the blocks of a message that may be set.
    pub fn of_message(&mut self, message: &Message) -> Vec<Option<Json>> {
        let marks = crossing::cache_marks(message).into_iter();
        marks.map(|mark| self.take(mark)).collect()
    }
}
