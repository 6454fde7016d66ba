//! The log of a turn: what happened in it that a client may see, in order.
//!
//! Every stream format is a pure fold over these from the turn's start, so whatever a fold
//! needs is in them.

use crate::call::CallEnd;
use crate::fault::TurnFault;
use crate::id::{CallId, CallRef};
use crate::json::{Json, Literal};
use crate::model::{AnswerDelta, BlockEnd, CallDelta, CallNative, Finish, TokenUsage};
use crate::native::{FormatName, NativePart};
use crate::time::Timestamp;
use crate::turn_status::{TurnReason, TurnStatus};

/// An event of a turn's log. Many of them wait at times, and nearly all are deltas: what makes it large is boxed.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEvent {
    /// The first event. `model` and `created_s` are what the answer will say of itself.
    Start {
        model: String,
        created_s: i64,
    },
    /// A round's model answer begins; rounds count from 1.
    ///
    /// Its blocks are in the order in which the model gave them: a block begins with its first piece, and ends with the
    /// first piece of another kind, with [`LogEvent::BlockEnd`], or with the round.
    Round {
        round: u32,
        /// The format in which the upstream answered, whose native fields and parts these are.
        format: FormatName,
    },
    Delta(AnswerDelta),
    BlockEnd(Box<BlockEnd>),
    /// A block that only its format understands.
    Native {
        choice: u32,
        part: Box<NativePart>,
    },
    /// A piece of a call that the client is to run.
    ClientCall(CallDelta),
    /// A field beside the choices that the format passes on.
    Extra {
        key: Box<str>,
        value: Json,
    },
    /// A field that tells how far the upstream is before its answer begins. It may be of an upstream whose attempt
    /// fails after it.
    Progress {
        key: Box<str>,
        value: Json,
    },
    /// A call that we run was accepted for running.
    CallStarted {
        call: CallRef,
        id: CallId,
        name: String,
        /// Arguments as the model wrote them.
        arguments: Literal,
        /// The call whose approval it runs by, or does not.
        approves: Option<CallId>,
    },
    /// A call that we run only once it is approved; the turn ends by asking.
    ApprovalAsked {
        call: CallRef,
        id: CallId,
        name: String,
        /// Arguments as the model wrote them.
        arguments: Literal,
    },
    /// A call that we run has its final state.
    CallEnded {
        call: CallRef,
        id: CallId,
        end: Box<CallEnd>,
    },
    /// A call of ours goes on without the turn; its end comes into the record alone.
    CallDetached {
        call: CallRef,
        id: CallId,
        /// What the model is told in place of a result.
        told: Box<str>,
    },
    /// The finish of one choice; only after the turn's end is durable.
    Finish {
        choice: u32,
        reason: Finish,
    },
    /// Tokens of the whole turn.
    Usage(Box<TokenUsage>),
    /// The last event, once.
    End(Box<TurnEnd>),
}

impl LogEvent {
    /// Bytes of memory that the event takes, with those of its texts that can be long.
    pub fn bytes(&self) -> usize {
        let texts = match self {
            Self::Delta(delta) => delta.bytes(),
            Self::ClientCall(piece) => {
                let texts = [piece.id.as_deref(), piece.name.as_deref()];
                let arguments = piece.arguments.as_ref().map(Literal::as_str);
                let texts = texts.into_iter().chain([arguments]).flatten();
                let native = piece.native.as_deref().map_or(0, CallNative::bytes);
                texts.map(str::len).sum::<usize>() + native
            }
            Self::BlockEnd(end) => end.bytes(),
            Self::Native { part, .. } => part.json.as_str().len(),
            Self::CallStarted { arguments, .. } | Self::ApprovalAsked { arguments, .. } => {
                arguments.as_str().len()
            }
            Self::Extra { key, value } | Self::Progress { key, value } => {
                key.len() + value.as_str().len()
            }
            Self::CallEnded { end, .. } => {
                end.shown.len() + end.result.as_ref().map_or(0, String::len)
            }
            Self::CallDetached { told, .. } => told.len(),
            Self::Start { .. }
            | Self::Round { .. }
            | Self::Finish { .. }
            | Self::Usage(_)
            | Self::End(_) => 0,
        };
        size_of::<Self>() + texts
    }
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    pub status: TurnStatus,
    pub reason: Option<TurnReason>,
    /// The failure that a client is told when it is not told a finish.
    pub fault: Option<TurnFault>,
    /// Names and outcomes of calls other than `read` that were dispatched, in call order.
    pub effects: Vec<EffectRan>,
    /// When it ended; `None` in logs that were written before this was in them.
    pub at: Option<Timestamp>,
}

/// A call that may have changed the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectRan {
    pub id: CallId,
    pub name: String,
    /// The call's status as the call table has it: `completed`, `failed` or `processing`.
    pub status: crate::call::CallStatus,
}
