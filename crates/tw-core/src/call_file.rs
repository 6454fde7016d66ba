//! Files that jobs have made, in our own storage.

use std::sync::Arc;

use crate::id::FileId;

/// A file that the result of a call names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFile {
    pub id: FileId,
    /// Its place among the files of its call, from 0.
    pub n: u32,
    pub content: FileContent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    Kept {
        bytes: Arc<[u8]>,
        /// SHA-256.
        hash: [u8; 32],
        content_type: String,
    },
    /// It stays where its tool put it, for as long as that keeps it.
    Missing(FileFault),
}

/// Why a file is not in our storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// It is not there any more, or nobody gives it away.
    Gone,
    /// Its place may not be reached from here.
    NotAllowed,
    /// Nobody answered, however often it was asked for.
    Unanswered,
    TooLarge,
    /// It is not of a type that the tool says.
    WrongType,
    /// The organization has no room for it.
    NoRoom,
}

impl FileFault {
    pub const ALL: [Self; 6] = [
        Self::Gone,
        Self::NotAllowed,
        Self::Unanswered,
        Self::TooLarge,
        Self::WrongType,
        Self::NoRoom,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::NotAllowed => "not_allowed",
            Self::Unanswered => "unanswered",
            Self::TooLarge => "too_large",
            Self::WrongType => "wrong_type",
            Self::NoRoom => "no_room",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == text)
    }

    /// Whether it may be had a little later.
    pub fn may_pass(self) -> bool {
        match self {
            Self::Unanswered => true,
            Self::Gone | Self::NotAllowed | Self::TooLarge | Self::WrongType | Self::NoRoom => {
                false
            }
        }
    }
}
