//! Hashes by which two histories are the same, for clients that keep the history and never saw our calls.
//!
//! A history is known by a chain of hashes: one for each message, over the hash before it and
//! what counts of the message. The hash at an assistant message thus stands for all before it,
//! and a turn is found again by the hash at its own answer. The chain begins with the [`MemoryScope`],
//! so that the histories of two people never have a hash in common, whatever they say.
//!
//! What counts, and nothing else:
//! - the role; messages of the system and of the developer do not count at all;
//! - text and refusals: neighbouring parts joined, line ends as `\n`, white space at the end off;
//! - an image by its URL, which for one that is sent along holds the image itself; any other part
//!   as written, without white space between its tokens;
//! - of an answer all text before all calls: formats of blocks may have it behind a call, too;
//! - a call by its id, which is the one that its client was handed; a call of the old form, which
//!   has none, by its name and arguments;
//! - a result of a client's call by that id and its content, read like the content of a message.
//!
//! Reasoning does not count: clients drop it.
//!
//! Hashes are stored, so [`FORM`] has to change with what counts.

mod hidden;
mod read;

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::request::{Block, CallBlock, Message, Role};

pub use hidden::{HiddenCall, HiddenHash};

/// The text at the start of every chain of hashes, which sets apart what another version counted.
const FORM: &[u8] = b"turnwright history 1";

/// The scope within which a history is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryScope {
    /// The histories of one end user, by name.
    User(String),
    /// The histories of one conversation that its client named, of no end user.
    Conversation(String),
    /// The histories that came in by a key made for one person, of no end user and in no named conversation.
    Key,
}

/// The hash of a history up to an assistant message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HistoryHash(pub [u8; 32]);

/// A history that is being hashed, message by message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryHasher([u8; 32]);

/// A history, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The hash after the history's last message.
    pub end: HistoryHasher,
    /// The place of each answer, which is that of its last message, and the hash there.
    pub answers: Vec<(usize, HistoryHash)>,
}

impl MemoryScope {
    /// The scope of a request; `None` for one that nobody in particular makes.
    ///
    /// A named end user is the scope, whatever conversation is named beside it: two people in one
    /// conversation have one history and two memories.
    pub fn of(
        user: Option<&str>,
        conversation: Option<&str>,
        key_of_one: KeyHolder,
    ) -> Option<Self> {
        match (user, conversation, key_of_one) {
            (Some(user), _, _) => Some(Self::User(user.to_owned())),
            (None, Some(conversation), _) => Some(Self::Conversation(conversation.to_owned())),
            (None, None, KeyHolder::OnePerson) => Some(Self::Key),
            (None, None, KeyHolder::Many) => None,
        }
    }

    /// The conversation whose turns are meant before all others of the scope, if the request names one: what one
    /// person said there tells which of their equal histories goes on.
    pub fn preferred<'a>(&self, conversation: Option<&'a str>) -> Option<&'a str> {
        match self {
            Self::User(_) => conversation,
            // Here the scope is the conversation, or there is none.
            Self::Conversation(_) | Self::Key => None,
        }
    }
}

/// The result of looking for the turn that a request continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryVerdict {
    /// The turn was found.
    Attached,
    /// The history holds no answer, so that no turn comes before the request.
    New,
    /// Several turns have this history, their hidden calls differ, and no conversation that is named tells them apart.
    Ambiguous,
    /// No turn has this history.
    Mismatch,
    /// No turn was looked for.
    Off,
}

impl MemoryVerdict {
    const ALL: [Self; 5] = [
        Self::Attached,
        Self::New,
        Self::Ambiguous,
        Self::Mismatch,
        Self::Off,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attached => "attached",
            Self::New => "new",
            Self::Ambiguous => "ambiguous",
            Self::Mismatch => "mismatch",
            Self::Off => "off",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|verdict| verdict.as_str() == text)
    }
}

/// The memory of a running turn: hashes from which those are made by which the next request finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnMemory {
    /// The whole history of the turn's request, as its client sent it.
    pub history: HistoryHasher,
    /// The hidden half of the turn that it continues.
    pub hidden: Option<HiddenHash>,
    /// Hidden calls of earlier turns are put back into what the model is sent.
    pub restores: bool,
    /// What stands between the texts of two rounds where the client has them in one text; empty in a format that has
    /// a block for each.
    pub round_gap: &'static str,
}

/// The hashes by which an ended turn is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedHash {
    /// The history up to and with the turn's answer.
    pub history: HistoryHash,
    pub hidden: Option<HiddenHash>,
}

/// The holder of a key: the one person that it was made for, or many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHolder {
    OnePerson,
    Many,
}

impl HistoryHasher {
    pub fn new(scope: &MemoryScope) -> Self {
        let (kind, name) = match scope {
            MemoryScope::User(name) => (b'u', name.as_str()),
            MemoryScope::Conversation(name) => (b'c', name.as_str()),
            MemoryScope::Key => (b'k', ""),
        };
        let mut hash = Sha256::new();
        hash.update(FORM);
        read::put(&mut hash, kind, name.as_bytes());
        Self(hash.finalize().into())
    }

    /// The chain with one more message.
    #[must_use]
    pub fn then(self, message: &Message) -> Self {
        let role = match message.role {
            Role::System | Role::Developer => return self,
            Role::User => b'u',
            Role::Assistant => b'a',
            Role::Tool => b't',
        };
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update([role]);
        read::message(message, &mut hash);
        Self(hash.finalize().into())
    }

    /// The hash by which a history that ends here is known.
    pub fn hash(self) -> HistoryHash {
        HistoryHash(self.0)
    }
}

impl History {
    /// The hashes of a history. `shown` are the ids of calls in it that this server ran: they do not count, nor their
    /// results, and what the model said before and behind them is one answer, as where a client never sees them.
    pub fn read(scope: &MemoryScope, messages: &[Message], shown: &BTreeSet<String>) -> Self {
        let mut history = Self {
            end: HistoryHasher::new(scope),
            answers: Vec::new(),
        };
        let is_shown = |call: &CallBlock| shown.contains(&call.id);
        let mut open: Option<OpenAnswer> = None;
        for (at, message) in messages.iter().enumerate() {
            let result = message.result().filter(|_| message.role == Role::Tool);
            if result.is_some_and(|result| shown.contains(&result.call_id)) {
                continue;
            }
            if message.role != Role::Assistant {
                history.close(open.take());
                history.end = history.end.then(message);
                continue;
            }
            let goes_on = message.calls().any(is_shown);
            if open.is_none() && !goes_on {
                history.answer(at, message);
                continue;
            }
            let answer = open.get_or_insert_default();
            answer.at = at;
            let others = message.blocks.iter();
            let others =
                others.filter(|block| !matches!(block, Block::Call(call) if is_shown(call)));
            answer.blocks.extend(others.cloned());
            if !goes_on {
                history.close(open.take());
            }
        }
        history.close(open);
        history
    }

    fn close(&mut self, open: Option<OpenAnswer>) {
        if let Some(OpenAnswer { at, blocks }) = open {
            self.answer(at, &Message::made(Role::Assistant, blocks));
        }
    }

    fn answer(&mut self, at: usize, message: &Message) {
        self.end = self.end.then(message);
        self.answers.push((at, self.end.hash()));
    }
}

/// An answer in which calls of this server stand, so far.
#[derive(Default)]
struct OpenAnswer {
    at: usize,
    blocks: Vec<Block>,
}

#[cfg(test)]
mod tests;
