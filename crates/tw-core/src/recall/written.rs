//! Ids of ours in the text of messages, where clients write them that show calls to a model as words.

use std::collections::HashSet;

use crate::id::CallId;
use crate::json::Literal;
use crate::request::{Block, Message, Role};

/// An id of ours in the text of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenId {
    /// The message's place in the history.
    pub at: usize,
    pub id: CallId,
}

/// The ids that stand in what the assistant said, and in what the user says now, newest message first; each once for a
/// message. At most `max` different ones.
pub fn written_ids(messages: &[Message], max: usize) -> Vec<WrittenId> {
    let said_last = messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let now_from = said_last.map_or(0, |at| at + 1);
    let told = messages.iter().enumerate().rev();
    let told = told.filter(|(at, message)| match message.role {
        Role::Assistant => true,
        Role::User => *at >= now_from,
        Role::System | Role::Developer | Role::Tool => false,
    });
    let (mut ids, mut written) = (HashSet::new(), Vec::new());
    for (at, message) in told {
        let mut here = HashSet::new();
        for text in texts(message).filter(|text| text.as_str().contains(CallId::HANDED_PREFIX)) {
            for id in CallId::all_handed_in(&text.to_text()) {
                if ids.len() == max && !ids.contains(&id) {
                    return written;
                }
                ids.insert(id);
                if here.insert(id) {
                    written.push(WrittenId { at, id });
                }
            }
        }
    }
    written
}

/// Whether a name stands in the text of a message.
pub fn mentions(message: &Message, name: &str) -> bool {
    texts(message).any(|text| text.to_text().contains(name))
}

fn texts(message: &Message) -> impl Iterator<Item = &Literal> {
    message.blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text),
        Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    })
}

#[cfg(test)]
mod tests;
