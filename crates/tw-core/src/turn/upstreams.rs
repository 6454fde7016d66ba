//! The upstream that an attempt of a turn asks.
//!
//! A round goes round the turn's chain; a later round begins with the upstream that answered the
//! one before, which knows its own call ids and signatures.
//!
//! A turn that is taken over in the middle of a round does not know which have failed how.

use std::sync::Arc;

use super::{FoundTurn, Phase, Turn};
use crate::change::AttemptOutcome;
use crate::native::{AnswerOrigin, FormatName};

impl Turn {
    /// The place in the chain of the upstream that is asked by attempt `n` of the open round.
    pub fn upstream_of(&self, n: u32) -> usize {
        self.chain.place(n)
    }

    /// The origin of the answer to attempt `n` of the open round.
    pub fn origin_of(&self, n: u32) -> Arc<AnswerOrigin> {
        // The chain walks round as many places as there are upstreams, at least one.
        Arc::clone(&self.setup.upstreams[self.upstream_of(n)])
    }

    /// The format of the upstream that is asked now.
    pub(super) fn asked_format(&self) -> FormatName {
        let n = match &self.phase {
            Phase::Asking { n, .. } | Phase::WaitingToAsk { n } => *n,
            // The upstream that answered last is the one that is asked first.
            Phase::RunningTools | Phase::Ended => 1,
        };
        self.origin_of(n).format
    }

    /// The upstream that answered the last whole round of a turn that was found.
    pub(super) fn recall_upstream(&mut self, found: &FoundTurn) {
        let answered = found.attempts.iter().rfind(|attempt| {
            attempt.position.is_none()
                && attempt.outcome.as_deref() == Some(AttemptOutcome::Ok.as_str())
        });
        let name = answered.and_then(|attempt| attempt.upstream.as_deref());
        let mut chain = self.setup.upstreams.iter();
        let place = chain
            .position(|one| Some(&*one.upstream) == name)
            .unwrap_or(0);
        self.chain.begin_at(place);
    }
}
