//! The states of a turn in the record, and why it ended.

/// The state of a turn in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStatus {
    Running,
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

impl TurnStatus {
    pub fn is_final(self) -> bool {
        self != Self::Running
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Running,
            Self::Completed,
            Self::Incomplete,
            Self::Failed,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|status| status.as_str() == text)
    }
}

/// The reason for which a turn ended otherwise than by the model's last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnReason {
    Length,
    Rounds,
    Calls,
    Cost,
    Deadline,
    /// A crash or shutdown of ours while a streamed round was open.
    Interrupted,
    /// The model request failed.
    Upstream,
    /// A fault of ours.
    Internal,
    ClientLeft,
    /// A stop that somebody asked for.
    Requested,
}

impl TurnReason {
    const ALL: [Self; 10] = [
        Self::Length,
        Self::Rounds,
        Self::Calls,
        Self::Cost,
        Self::Deadline,
        Self::Interrupted,
        Self::Upstream,
        Self::Internal,
        Self::ClientLeft,
        Self::Requested,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Rounds => "rounds",
            Self::Calls => "calls",
            Self::Cost => "cost",
            Self::Deadline => "deadline",
            Self::Interrupted => "interrupted",
            Self::Upstream => "upstream",
            Self::Internal => "internal",
            Self::ClientLeft => "client_left",
            Self::Requested => "requested",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}
