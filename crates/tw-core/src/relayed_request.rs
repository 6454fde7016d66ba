//! A request that an upstream answered without a turn: embeddings, images, sound and the like.

use crate::id::{ApiKeyId, OrgId};
use crate::time::Timestamp;

/// The record of a relayed request, written when it is over; it holds nothing of what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayedRequest {
    pub organization: OrgId,
    pub api_key: ApiKeyId,
    /// An end user's name; the row is made on first sight.
    pub end_user: Option<String>,
    /// The route that it came in by.
    pub path: &'static str,
    /// The model as the client wrote it, or the API's default where it wrote none.
    pub model: String,
    /// The upstream that was asked last.
    pub upstream: String,
    /// Requests that upstreams were sent for it.
    pub attempts: u32,
    pub outcome: RelayOutcome,
    /// The status of the answer that the client got; `None` if it left before there was one.
    pub http_status: Option<u16>,
    pub tokens: RelayedTokens,
    pub request_bytes: u64,
    /// Bytes of the answer's body, as far as it came.
    pub response_bytes: u64,
    pub request_id: String,
    pub started: Timestamp,
    pub ended: Timestamp,
}

/// The outcome of a relayed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayOutcome {
    /// The whole answer came.
    Completed,
    /// No upstream answered, or the answer broke off.
    Failed,
    /// The client left before the answer's end.
    Cancelled,
}

impl RelayOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The usage that an answer names, where it names any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayedTokens {
    pub input: Option<u64>,
    pub output: Option<u64>,
}
