//! The upstream that an attempt of a turn asks.
//!
//! A round goes round the turn's chain; a later round begins with the upstream that answered the
//! one before, which knows its own call ids and signatures.
//!
//! A turn that is taken over in the middle of a round does not know which have failed how.

use super::{FoundTurn, Turn};
use crate::change::AttemptOutcome;

impl Turn {
    /// The place in the chain of the upstream that is asked by attempt `n` of the open round.
    pub fn upstream_of(&self, n: u32) -> usize {
        self.chain.place(n)
    }

    pub(super) fn upstream_name(&self, n: u32) -> Option<String> {
        self.setup.upstreams.get(self.upstream_of(n)).cloned()
    }

    /// The upstream that answered the last whole round of a turn that was found.
    pub(super) fn recall_upstream(&mut self, found: &FoundTurn) {
        let answered = found.attempts.iter().rfind(|attempt| {
            attempt.position.is_none()
                && attempt.outcome.as_deref() == Some(AttemptOutcome::Ok.as_str())
        });
        let name = answered.and_then(|attempt| attempt.upstream.as_ref());
        let mut chain = self.setup.upstreams.iter();
        let place = chain.position(|one| Some(one) == name).unwrap_or(0);
        self.chain.begin_at(place);
    }
}
