//! Turns of another system as they are written: made before the writer takes them.

use sha2::{Digest, Sha256};
use tw_core::imported::{ImportTurns, ImportedTurn};
use tw_wire::stored;

/// The turns of an import, in order.
pub struct EncodedImport {
    pub turns: Vec<EncodedTurn>,
}

pub struct EncodedTurn {
    pub body: String,
    /// SHA-256.
    pub body_hash: [u8; 32],
    /// The blocks of each message.
    pub messages: Vec<String>,
}

impl EncodedImport {
    pub fn of(import: &ImportTurns) -> Self {
        let turns = import.turns.iter();
        let turns = turns.map(|turn| EncodedTurn::of(import.shape, turn));
        Self {
            turns: turns.collect(),
        }
    }
}

impl EncodedTurn {
    fn of(shape: &str, turn: &ImportedTurn) -> Self {
        let body = stored::imported::encode_body(shape, turn);
        let messages = turn.messages.iter();
        let messages = messages
            .map(|message| stored::blocks::encode(&message.blocks, message.origin.as_deref()));
        Self {
            body_hash: Sha256::digest(body.as_bytes()).into(),
            body,
            messages: messages.collect(),
        }
    }
}
