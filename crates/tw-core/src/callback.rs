//! Callbacks: what comes to the address of a call whose end somebody else knows.

use crate::call::CallEnd;
use crate::id::{CallId, OrgId};
use crate::time::Timestamp;

/// Whether a callback is from whom it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackVerdict {
    Genuine,
    Forged,
    /// Its address is that of no call.
    Unknown,
}

impl CallbackVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Genuine => "genuine",
            Self::Forged => "forged",
            Self::Unknown => "unknown",
        }
    }
}

/// What a callback says of its call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallbackMeaning {
    /// The job goes on.
    Progress,
    Ended(CallEnd),
    /// The job has ended, by this body, and more is to be done before its call does; without a body the job is asked
    /// about first.
    Over {
        answer: Option<String>,
    },
    /// It does not say what it should.
    Malformed,
    /// Nobody asked what it says.
    Refused,
}

/// What became of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackOutcome {
    Completed,
    Failed,
    /// The job goes on; nothing changed.
    Progress,
    /// What it says is on disk, and its call ends once the job was asked about.
    Kept,
    /// The same came before.
    Duplicate,
    /// The call had ended before.
    Late,
    Malformed,
    Refused,
}

impl CallbackOutcome {
    pub const ALL: [Self; 8] = [
        Self::Completed,
        Self::Failed,
        Self::Progress,
        Self::Kept,
        Self::Duplicate,
        Self::Late,
        Self::Malformed,
        Self::Refused,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Progress => "progress",
            Self::Kept => "kept",
            Self::Duplicate => "duplicate",
            Self::Late => "late",
            Self::Malformed => "malformed",
            Self::Refused => "refused",
        }
    }
}

/// A callback that came in, with what is to become of it.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenCallback {
    pub id: String,
    /// `None` for one of no call.
    pub call: Option<(OrgId, CallId)>,
    /// The tool that its address names.
    pub tool: String,
    /// What makes two callbacks of a call the same.
    pub sender_id: String,
    pub source: String,
    pub verdict: CallbackVerdict,
    /// Why it is not genuine.
    pub fault: Option<&'static str>,
    pub meaning: CallbackMeaning,
    /// The id of the job that it is about, if it says one: of a call whose job has another, it is malformed.
    pub external_id: Option<String>,
    pub body: Vec<u8>,
    /// SHA-256.
    pub body_hash: [u8; 32],
    pub at: Timestamp,
}
