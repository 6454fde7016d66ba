//! Approvals: calls that run only once somebody has said that they may.
//!
//! The turn whose model makes such a call ends by asking for its approval. The turn that brings the answer acts on it
//! first, by a call of its own in the round [`ANSWERED_ROUND`].

use std::sync::Arc;

use crate::id::CallId;
use crate::tool::{EffectClass, Tool};

/// The round of the calls that a turn runs because its request brought answers; the model's own begin at 1.
pub const ANSWERED_ROUND: u32 = 0;

/// Longest reason that may be given for an answer, in bytes.
pub const APPROVAL_REASON_BYTES_MAX: usize = 4096;

/// How it stands with the approval of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalState {
    /// The call's tool requires it; nobody was asked yet.
    Needed,
    Asked,
    Approved,
    Denied,
    Expired,
}

impl ApprovalState {
    pub const ALL: [Self; 5] = [
        Self::Needed,
        Self::Asked,
        Self::Approved,
        Self::Denied,
        Self::Expired,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Needed => "needed",
            Self::Asked => "asked",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// Whether a client can be asked for approvals, by the format that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalWords {
    Known,
    /// The format has no words for it.
    Missing,
}

/// A client's answer to the question whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalGiven {
    /// The call that was asked about.
    pub asked: CallId,
    pub verdict: ApprovalVerdict,
}

/// What became of the question whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalVerdict {
    Approved,
    Denied {
        reason: Option<String>,
    },
    /// The answer came too late.
    Expired,
}

impl ApprovalVerdict {
    pub fn state(&self) -> ApprovalState {
        match self {
            Self::Approved => ApprovalState::Approved,
            Self::Denied { .. } => ApprovalState::Denied,
            Self::Expired => ApprovalState::Expired,
        }
    }
}

/// A call of an earlier turn that a request brings the answer for.
#[derive(Clone, Debug)]
pub struct AnsweredCall {
    /// The call that was asked about.
    pub asked: CallId,
    pub verdict: ApprovalVerdict,
    pub tool_name: String,
    /// The tool in the version that the call was made with; `None` if it may not run any more.
    pub tool: Option<Arc<Tool>>,
    /// The tool's effect when the call was made.
    pub effect: Option<EffectClass>,
    /// The id by which the upstream knows the call.
    pub sent_id: String,
    /// Arguments as the model wrote them.
    pub arguments: String,
}
