//! The log of a turn: what happened in it that a client may see, in order.
//!
//! Every stream format is a pure fold over these from the turn's start, so whatever a fold
//! needs is in them.

use crate::call::CallEnd;
use crate::fault::Fault;
use crate::id::{CallId, CallRef};
use crate::json::{Json, Literal};
use crate::model::{CallPiece, Delta, Finish, Usage};

/// One event of a turn's log. Many of them wait at times, and nearly all are deltas: what makes it large is boxed.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEvent {
    /// The first event. `model` and `created_s` are what the answer will say of itself.
    Start {
        model: String,
        created_s: i64,
    },
    /// A round's model answer begins; rounds count from 1.
    Round {
        round: u32,
    },
    Delta(Delta),
    /// A piece of a call that the client is to run.
    ClientCall(CallPiece),
    /// A field beside the choices that the format passes on.
    Extra {
        key: Box<str>,
        value: Json,
    },
    /// A call that we run was accepted for running.
    CallStarted {
        call: CallRef,
        id: CallId,
        name: String,
    },
    /// A call that we run has its final state.
    CallEnded {
        call: CallRef,
        id: CallId,
        end: Box<CallEnd>,
    },
    /// The finish of one choice; only after the turn's end is durable.
    Finish {
        choice: u32,
        reason: Finish,
    },
    /// Tokens of the whole turn.
    Usage(Usage),
    /// The last event, once.
    End(Box<TurnEnd>),
}

impl LogEvent {
    /// How much memory it takes, in bytes, as far as that can be much.
    pub fn bytes(&self) -> usize {
        let texts = match self {
            Self::Delta(delta) => delta.bytes(),
            Self::ClientCall(piece) => {
                let texts = [piece.id.as_deref(), piece.name.as_deref()];
                let arguments = piece.arguments.as_ref().map(Literal::as_str);
                texts
                    .into_iter()
                    .chain([arguments])
                    .flatten()
                    .map(str::len)
                    .sum()
            }
            Self::Extra { key, value } => key.len() + value.as_str().len(),
            Self::CallEnded { end, .. } => {
                end.shown.len() + end.result.as_ref().map_or(0, String::len)
            }
            Self::Start { .. }
            | Self::Round { .. }
            | Self::CallStarted { .. }
            | Self::Finish { .. }
            | Self::Usage(_)
            | Self::End(_) => 0,
        };
        size_of::<Self>() + texts
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    pub status: TurnStatus,
    pub reason: Option<TurnReason>,
    /// What a client is told when it is not told a finish.
    pub fault: Option<Fault>,
    /// Names and outcomes of calls other than `read` that were dispatched, in call order.
    pub effects: Vec<EffectRan>,
}

/// A call that may have changed the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectRan {
    pub id: CallId,
    pub name: String,
    /// As the call table says it: `completed`, `failed` or `processing`.
    pub status: crate::call::CallStatus,
}

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

/// Why a turn ended otherwise than by the model's last word.
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
    /// Somebody asked for it.
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
