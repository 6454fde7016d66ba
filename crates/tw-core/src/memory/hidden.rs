//! Hashes by which two hidden halves of turns are the same.

use sha2::{Digest, Sha256};

use super::HistoryHash;
use super::read::put;

/// The text at the start of each hash of a hidden half.
const FORM: &[u8] = b"turnwright hidden 1";

/// The hash of the hidden calls of a turn and of the turns that it continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HiddenHash(pub [u8; 32]);

/// A call that the client never saw, as the model saw it.
#[derive(Clone, Copy, Debug)]
pub struct HiddenCall<'a> {
    pub name: &'a str,
    /// Arguments as the model wrote them.
    pub arguments: &'a str,
    /// The result that the model was given.
    pub shown: &'a str,
}

impl HiddenHash {
    /// The hidden half of a turn whose answer is `at`, and which continues a turn with the hidden
    /// half `before`; `None` when there is nothing hidden in either.
    pub fn of<'a>(
        before: Option<Self>,
        at: HistoryHash,
        calls: impl Iterator<Item = HiddenCall<'a>>,
    ) -> Option<Self> {
        let mut calls = calls.peekable();
        if calls.peek().is_none() {
            return before;
        }
        let mut hash = Sha256::new();
        hash.update(FORM);
        put(
            &mut hash,
            b'B',
            before.as_ref().map_or(&[][..], |hash| &hash.0),
        );
        hash.update(at.0);
        for call in calls {
            put(&mut hash, b'N', call.name.as_bytes());
            put(&mut hash, b'A', call.arguments.as_bytes());
            put(&mut hash, b'S', call.shown.as_bytes());
        }
        Some(Self(hash.finalize().into()))
    }
}
