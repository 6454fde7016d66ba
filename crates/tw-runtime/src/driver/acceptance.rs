//! What came of the transaction that accepts a turn.

use tw_core::change::Outcome;
use tw_core::id::TurnId;

/// The outcome of the accepting transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AcceptedTurn {
    New,
    /// A turn was accepted under the same idempotency key in the meantime.
    KeyTaken {
        turn: TurnId,
        same_request: bool,
    },
    /// The turn that this one continues was deleted in the meantime.
    ParentDeleted,
    /// A question that it answers was closed in the meantime.
    ApprovalClosed,
    /// See [`Outcome::ConversationBusy`].
    ConversationBusy,
}

impl AcceptedTurn {
    pub(super) fn of(outcomes: Vec<Outcome>) -> Self {
        match outcomes.first() {
            Some(Outcome::KeyTaken { turn, same_request }) => Self::KeyTaken {
                turn: *turn,
                same_request: *same_request,
            },
            Some(Outcome::ParentDeleted) => Self::ParentDeleted,
            Some(Outcome::ApprovalClosed { .. }) => Self::ApprovalClosed,
            Some(Outcome::ConversationBusy) => Self::ConversationBusy,
            Some(_) | None => Self::New,
        }
    }
}
