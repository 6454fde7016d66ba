//! Errors that a client is told, before a format gives them their shape.

use tw_core::event::TurnEnd;
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::turn_status::{TurnReason, TurnStatus};

use crate::client_request::{RequestError, RequestErrorKind};

/// An error as a client is told it, in no format yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError {
    pub kind: ErrorKind,
    pub message: String,
    /// The place of the problem in the request.
    pub param: Option<String>,
    /// A word for programs, ours or the upstream's own.
    pub code: Option<String>,
    /// The upstream's own word for the kind of its error, which a format may pass on.
    pub upstream_kind: Option<String>,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong in itself.
    Invalid,
    /// No key was given, or none that is known and lasts.
    Unauthenticated,
    /// The key may not do this.
    Forbidden,
    NotFound,
    MethodNotAllowed,
    /// The request's body did not arrive in time.
    BodyTimeout,
    /// What the request would change is otherwise than it assumes.
    Conflict,
    /// The place in a log is gone.
    Gone,
    TooLarge,
    /// The idempotency key belongs to another request.
    KeyReused,
    /// Calls that must not be repeated were made, so that the request is not tried again.
    EffectsRan,
    /// A limit of the caller's is reached.
    Limited,
    /// The server has no room, whoever asks.
    Overloaded,
    /// The server cannot serve this now.
    Unavailable,
    /// A fault of ours; the log knows more.
    Internal,
    /// The upstream refused the request itself, with this status.
    Refused {
        status: u16,
    },
    /// The upstream refused our credentials, failed or answered nonsense.
    UpstreamFailed,
    /// The upstream reported an error inside its answer.
    UpstreamReported,
    /// The upstream limits us for a while.
    UpstreamLimited,
    /// The quota at the upstream is used up.
    QuotaUsedUp,
    /// The upstream was silent for too long.
    UpstreamSilent,
    /// The turn took too long.
    Deadline,
    /// A restart of ours cut the answer.
    Interrupted,
    /// The turn was stopped.
    Cancelled,
}

impl ErrorKind {
    /// The HTTP status, where a format has no other one.
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::BodyTimeout => 408,
            Self::Conflict | Self::Cancelled => 409,
            Self::Gone => 410,
            Self::TooLarge => 413,
            Self::KeyReused => 422,
            Self::EffectsRan => 424,
            Self::Limited | Self::UpstreamLimited | Self::QuotaUsedUp => 429,
            Self::Internal => 500,
            Self::UpstreamFailed | Self::UpstreamReported => 502,
            Self::Overloaded | Self::Unavailable | Self::Interrupted => 503,
            Self::UpstreamSilent | Self::Deadline => 504,
            Self::Refused { status } => status,
        }
    }
}

impl ClientError {
    pub fn new(kind: ErrorKind, code: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            param: None,
            code: code.map(str::to_owned),
            upstream_kind: None,
        }
    }

    /// The error of a turn's fault.
    pub fn of_fault(fault: &TurnFault) -> Self {
        use ErrorKind as Kind;
        let (kind, code) = match fault.class {
            FaultClass::Refused { status } => (Kind::Refused { status }, fault.code.as_deref()),
            FaultClass::UpstreamFailed => (Kind::UpstreamFailed, Some("upstream_failed")),
            FaultClass::UpstreamReported => (Kind::UpstreamReported, fault.code.as_deref()),
            // A client that watches for it finds the upstream's own name of it.
            FaultClass::UpstreamLimited if fault.is_used_up() => {
                (Kind::QuotaUsedUp, fault.code.as_deref())
            }
            FaultClass::UpstreamLimited => (Kind::UpstreamLimited, Some("rate_limit_exceeded")),
            FaultClass::UpstreamSilent => (Kind::UpstreamSilent, Some("upstream_timeout")),
            FaultClass::Deadline => (Kind::Deadline, Some("deadline")),
            FaultClass::Interrupted => (Kind::Interrupted, Some("interrupted")),
            FaultClass::Cancelled => (Kind::Cancelled, Some("cancelled")),
            FaultClass::Internal => (Kind::Internal, None),
        };
        let told = |word: &Option<String>, is_told: bool| word.clone().filter(|_| is_told);
        let of_request = matches!(kind, Kind::Refused { .. } | Kind::UpstreamReported);
        let is_upstreams = of_request || kind == Kind::QuotaUsedUp;
        Self {
            param: told(&fault.param, of_request),
            upstream_kind: told(&fault.kind, is_upstreams),
            ..Self::new(kind, code, fault.message.as_str())
        }
    }

    /// The error of a request that is refused.
    pub fn of_request(error: &RequestError) -> Self {
        let kind = match error.kind {
            RequestErrorKind::Invalid => ErrorKind::Invalid,
            RequestErrorKind::TooLarge => ErrorKind::TooLarge,
            RequestErrorKind::NotFound => ErrorKind::NotFound,
        };
        Self {
            param: error.param.clone(),
            ..Self::new(kind, error.code, error.message.as_str())
        }
    }
}

/// The fault that a turn ended with; `None` if its answer is whole.
pub fn fault_of(end: &TurnEnd) -> Option<TurnFault> {
    let limited = matches!(
        end.reason,
        Some(TurnReason::Length | TurnReason::Rounds | TurnReason::Calls | TurnReason::Cost)
    );
    match end.status {
        TurnStatus::Completed => None,
        TurnStatus::Incomplete if limited => None,
        TurnStatus::Incomplete
        | TurnStatus::Failed
        | TurnStatus::Cancelled
        | TurnStatus::Running => Some(
            end.fault
                .clone()
                .unwrap_or_else(|| fault_of_reason(end.reason)),
        ),
    }
}

fn fault_of_reason(reason: Option<TurnReason>) -> TurnFault {
    match reason {
        Some(TurnReason::Deadline) => {
            TurnFault::new(FaultClass::Deadline, "the turn took too long")
        }
        Some(TurnReason::Interrupted) => TurnFault::new(
            FaultClass::Interrupted,
            "the answer was cut by a restart of the server",
        ),
        Some(TurnReason::Upstream) => {
            TurnFault::new(FaultClass::UpstreamFailed, "the model could not be reached")
        }
        Some(TurnReason::ClientLeft | TurnReason::Requested) => {
            TurnFault::new(FaultClass::Cancelled, "the turn was stopped")
        }
        Some(
            TurnReason::Internal
            | TurnReason::Length
            | TurnReason::Rounds
            | TurnReason::Calls
            | TurnReason::Cost,
        )
        | None => TurnFault::new(FaultClass::Internal, "the server failed"),
    }
}
