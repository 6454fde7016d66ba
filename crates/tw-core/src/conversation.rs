//! Conversations that hold items: which turns add theirs, and behind which state of the conversation.

use crate::id::{ApiKeyId, OrgId, TurnId};
use crate::time::Timestamp;

/// Items of one request that a client may add to a conversation, as in the OpenAI API.
pub const ITEMS_ADDED_MAX: usize = 20;

/// Who the items of a turn are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemSource {
    /// A request and the model's answer to it.
    Answer,
    /// A client that added them; no model was asked.
    Client,
}

impl ItemSource {
    const ALL: [Self; 2] = [Self::Answer, Self::Client];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Client => "client",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == word)
    }
}

/// A turn's part in the items of its conversation: when it completes, its items stand at the end of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedItems {
    pub source: ItemSource,
    pub place: ItemPlace,
}

/// The place of a turn's items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemPlace {
    /// The conversation is made with them; the metadata is the JSON of an object.
    First { metadata: String },
    /// Behind the turn that was the conversation's head when the new one was prepared. A turn is accepted only while
    /// that is so, and no other one works on the conversation.
    Behind { head: Option<TurnId> },
}

/// A conversation that a client makes by itself, before anything is said in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConversation {
    pub organization: OrgId,
    /// The public id.
    pub id: String,
    /// The key that makes it, whose it is.
    pub api_key: ApiKeyId,
    /// The end user whose it is, if one was named.
    pub end_user: Option<String>,
    /// JSON of an object.
    pub metadata: String,
    pub at: Timestamp,
}

/// New metadata of a conversation that a client made by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeConversation {
    pub organization: OrgId,
    /// The public id.
    pub conversation: String,
    /// JSON of an object.
    pub metadata: String,
    pub at: Timestamp,
}

/// An item that a conversation is to have no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteItem {
    pub organization: OrgId,
    /// The turn that brought it or made it.
    pub turn: TurnId,
    pub item: String,
    pub at: Timestamp,
}
