//! Ids as types, so that one is never taken for another.
//!
//! Public ids are text outside (UUIDs in hyphenated form); organizations, keys and end users
//! also have integer keys, which never leave the process.

use std::fmt;

use uuid::Uuid;

macro_rules! integer_key {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub i64);
    )*};
}

integer_key! {
    /// An organization, the tenant.
    OrgId,
    /// An API key's row, not the key itself.
    ApiKeyId,
    /// An end user's row.
    EndUserId,
    /// A version of a tool, by its row.
    ToolVersionKey,
    /// A webhook's row.
    WebhookKey,
    /// A delivery's row.
    WebhookDeliveryKey,
    /// A job that a call of ours has started.
    JobKey,
}

impl TurnId {
    /// The second in which an id of ours was made, since 1970: its first 48 bits are milliseconds.
    pub fn created_s(self) -> i64 {
        let millis = self.0.as_u128() >> 80;
        i64::try_from(millis / 1000).unwrap_or(i64::MAX)
    }
}

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl $name {
            /// Reads the hyphenated or the plain form.
            pub fn parse(text: &str) -> Option<Self> {
                Uuid::try_parse(text).ok().map(Self)
            }

            /// The form without hyphens, which surfaces put behind their prefix.
            pub fn plain(self) -> String {
                self.0.simple().to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }
    )*};
}

uuid_id! {
    /// A turn; UUIDv7.
    TurnId,
    /// A stored tool; UUIDv7.
    ToolId,
    /// An API key as it is told; UUIDv7.
    ApiKeyUuid,
    /// A webhook; UUIDv7.
    WebhookId,
    /// A conversation; UUIDv7.
    ConversationId,
    /// A file that a call made; UUIDv7.
    FileId,
    /// Our own id of a tool call, with 74 random bits behind its time, so that it cannot be guessed.
    CallId,
}

const PLAIN_ID_CHARS: usize = 32;

impl CallId {
    /// The prefix of the id of a call that a client is handed.
    pub const HANDED_PREFIX: &str = "call_";
    /// Length of an id as a client is handed it.
    pub const HANDED_BYTES: usize = Self::HANDED_PREFIX.len() + PLAIN_ID_CHARS;

    /// The id under which a client is handed a call that it is to run.
    pub fn handed(self) -> String {
        format!("{}{}", Self::HANDED_PREFIX, self.plain())
    }

    /// Reads what [`CallId::handed`] wrote; `None` for an id of somebody else.
    pub fn parse_handed(text: &str) -> Option<Self> {
        let plain = text.strip_prefix(Self::HANDED_PREFIX)?;
        let is_ours = plain.len() == PLAIN_ID_CHARS
            && plain
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        is_ours.then(|| Self::parse(plain)).flatten()
    }

    /// The ids in a text that [`CallId::handed`] wrote, in their order; none that is part of a longer word.
    pub fn all_handed_in(text: &str) -> impl Iterator<Item = Self> {
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let starts = text.match_indices(Self::HANDED_PREFIX);
        starts.filter_map(move |(at, _)| {
            let end = at + Self::HANDED_BYTES;
            let around = [at.checked_sub(1), Some(end)].into_iter().flatten();
            let mut around = around.filter_map(|at| text.as_bytes().get(at));
            let id = text.get(at..end).and_then(Self::parse_handed)?;
            (!around.any(is_of_word)).then_some(id)
        })
    }
}

/// The key of a row that an application inserted by SQL and that no turn holds yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueuedRowId(pub i64);

/// The place of a call in its turn: the round that asked for it and its position in that round, both from the
/// upstream's order; rounds count from 1, positions from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallRef {
    pub round: u32,
    pub position: u32,
}
