//! Places and ids of the calls that a client is handed.
//!
//! Official clients demand indexes from 0 without gaps and an id that never changes, so both are
//! given out here, whatever the upstream wrote.

use tw_core::id::TurnId;
use tw_core::model::CallDelta;

use super::outcome::minted_id;

/// The calls of one choice that a client has seen.
#[derive(Clone, Debug, Default)]
pub struct ClientCalls {
    seen: Vec<Seen>,
}

#[derive(Clone, Debug)]
struct Seen {
    round: u32,
    call: u32,
    id: String,
}

/// The place of a call's piece in what the client is sent.
pub struct ClientCallSlot<'a> {
    pub index: usize,
    /// Set for the first piece of a call.
    pub id: Option<&'a str>,
}

impl ClientCalls {
    pub fn slot(&mut self, turn: TurnId, round: u32, piece: &CallDelta) -> ClientCallSlot<'_> {
        let known = self
            .seen
            .iter()
            .position(|seen| seen.round == round && seen.call == piece.call);
        if let Some(index) = known {
            return ClientCallSlot { index, id: None };
        }
        let index = self.seen.len();
        let own = piece
            .id
            .as_deref()
            .filter(|id| !id.is_empty() && self.seen.iter().all(|seen| seen.id != *id));
        let id = own.map_or_else(|| minted_id(turn, round, index), str::to_owned);
        self.seen.push(Seen {
            round,
            call: piece.call,
            id,
        });
        ClientCallSlot {
            index,
            id: self.seen.last().map(|seen| seen.id.as_str()),
        }
    }
}
