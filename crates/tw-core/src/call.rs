//! The state of a tool call.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    /// Asked for, arguments valid, not started.
    Pending,
    /// Started; durable before it is dispatched.
    Processing,
    Completed,
    Failed,
}

impl CallStatus {
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Pending,
            Self::Processing,
            Self::Completed,
            Self::Failed,
        ]
        .into_iter()
        .find(|status| status.as_str() == text)
    }
}

/// The reason for which a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallReason {
    InvalidArguments,
    UnknownTool,
    Quota,
    Denied,
    ApprovalExpired,
    Cancelled,
    Interrupted,
    ToolError,
    NotSent,
    TargetNotAllowed,
    Reset,
    Timeout,
    Deadline,
    Panicked,
    OutcomeUnknown,
}

impl CallReason {
    pub const ALL: [Self; 15] = [
        Self::InvalidArguments,
        Self::UnknownTool,
        Self::Quota,
        Self::Denied,
        Self::ApprovalExpired,
        Self::Cancelled,
        Self::Interrupted,
        Self::ToolError,
        Self::NotSent,
        Self::TargetNotAllowed,
        Self::Reset,
        Self::Timeout,
        Self::Deadline,
        Self::Panicked,
        Self::OutcomeUnknown,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArguments => "invalid_arguments",
            Self::UnknownTool => "unknown_tool",
            Self::Quota => "quota",
            Self::Denied => "denied",
            Self::ApprovalExpired => "approval_expired",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::ToolError => "tool_error",
            Self::NotSent => "not_sent",
            Self::TargetNotAllowed => "target_not_allowed",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Deadline => "deadline",
            Self::Panicked => "panicked",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// The side that runs a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRunner {
    Server,
    Client,
    /// An application that writes the call and its result itself.
    Outside,
}

impl CallRunner {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Outside => "outside",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Server, Self::Client, Self::Outside]
            .into_iter()
            .find(|runs| runs.as_str() == text)
    }
}

/// The second half of a call: its result, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnd {
    /// `None` for a completed call.
    pub reason: Option<CallReason>,
    /// The result in full, up to the cap that is kept; `None` when there is none.
    pub result: Option<String>,
    /// The result that the model is given, always present.
    pub shown: String,
    /// The model is told that this is an error.
    pub is_error: bool,
    /// The answer of an earlier call was given; nothing was sent.
    pub cached: bool,
}

impl CallEnd {
    pub fn status(&self) -> CallStatus {
        if self.reason.is_none() {
            CallStatus::Completed
        } else {
            CallStatus::Failed
        }
    }

    /// Whether the end says that this call itself was made.
    pub fn says_done(&self) -> bool {
        self.reason.is_none() && !self.cached
    }
}
