//! Which upstream an attempt asks.
//!
//! The attempts of a round go round the turn's chain: a failed one is followed by the next
//! upstream, and after the last one by the first. One that would fail again is left out, and one
//! that may do better is asked again also when another has failed for good. A later round begins
//! with the upstream that answered the one before, which knows its own call ids and signatures.
//!
//! A turn that is taken over in the middle of a round does not know which have failed how.

use std::time::Duration;

use super::{FoundTurn, ModelFailure, Turn};
use crate::change::AttemptOutcome;
use crate::limits;
use crate::time::Timestamp;

/// Whether an upstream that failed may do better when it is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    Maybe,
    No,
}

impl Turn {
    /// The place in the chain of the upstream that is asked by attempt `n` of the open round.
    pub fn upstream_of(&self, n: u32) -> usize {
        let turned = usize::try_from(n.saturating_sub(1)).unwrap_or(0);
        (self.asks_from.saturating_add(turned)) % self.setup.upstreams.len().max(1)
    }

    pub(super) fn upstream_name(&self, n: u32) -> Option<String> {
        self.setup.upstreams.get(self.upstream_of(n)).cloned()
    }

    /// Lets the next attempt of the open round ask the upstream of this one again.
    pub(super) fn stay_with_upstream(&mut self) {
        let chain = self.setup.upstreams.len().max(1);
        self.asks_from = (self.asks_from + chain - 1) % chain;
    }

    /// Whether attempt `n` is the round's first of its upstream.
    fn is_first_of_upstream(&self, n: u32) -> bool {
        usize::try_from(n).is_ok_and(|n| n <= self.setup.upstreams.len())
    }

    /// Whether attempt `n` can go better than the one before it, which failed so.
    pub(super) fn may_follow(&self, failure: &ModelFailure, n: u32) -> bool {
        let next = self.upstream_of(n);
        // What another upstream says of the request or the model may be true of that one alone.
        let may_return = failure.is_of_the_upstream() || failure.is_not_found();
        failure.may_be_repeated()
            || (failure.is_of_the_upstream() && self.is_first_of_upstream(n))
            || (may_return && self.failed.get(&next) == Some(&Again::Maybe))
    }

    /// Lets attempt `n` ask an upstream that does not fail again for certain, if there is one.
    pub(super) fn pass_over_hopeless(&mut self, n: u32) {
        let chain = self.setup.upstreams.len();
        for _ in 0..chain {
            if self.failed.get(&self.upstream_of(n)) != Some(&Again::No) {
                return;
            }
            self.asks_from = (self.asks_from + 1) % chain;
        }
    }

    /// Notes how the upstream of attempt `n` failed, and how long it wants to be left alone.
    pub(super) fn note_failure(&mut self, n: u32, failure: &ModelFailure, at: Timestamp) {
        let place = self.upstream_of(n);
        let again = if failure.may_be_repeated() {
            Again::Maybe
        } else {
            Again::No
        };
        self.failed.insert(place, again);
        match failure.retry_after {
            Some(asked) => {
                let wait = asked.min(self.setup.limits.retry_after_max);
                self.not_before.insert(place, at.after(wait));
            }
            None => {
                self.not_before.remove(&place);
            }
        }
    }

    /// The wait before attempt `n`: none for an upstream that this round has not asked.
    pub(super) fn wait_before(&self, n: u32, at: Timestamp) -> Duration {
        if self.is_first_of_upstream(n) {
            return Duration::ZERO;
        }
        if let Some(asked) = self.not_before.get(&self.upstream_of(n)) {
            return asked.since(at);
        }
        let chain = u32::try_from(self.setup.upstreams.len().max(1)).unwrap_or(u32::MAX);
        let passes = n.saturating_sub(1) / chain;
        let doublings = passes.saturating_sub(1).min(limits::BACKOFF_DOUBLINGS_MAX);
        let backoff = self.setup.limits.model_backoff;
        backoff.saturating_mul(1 << doublings)
    }

    /// The upstream that answered the last whole round of a turn that was found.
    pub(super) fn recall_upstream(&mut self, found: &FoundTurn) {
        let answered = found.attempts.iter().rfind(|attempt| {
            attempt.position.is_none()
                && attempt.outcome.as_deref() == Some(AttemptOutcome::Ok.as_str())
        });
        let name = answered.and_then(|attempt| attempt.upstream.as_ref());
        let mut chain = self.setup.upstreams.iter();
        self.asks_from = chain.position(|one| Some(one) == name).unwrap_or(0);
    }
}
