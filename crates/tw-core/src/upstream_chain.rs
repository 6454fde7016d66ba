//! The upstreams that may answer a request, and which one an attempt asks.
//!
//! The attempts go round the chain: a failed one is followed by the next upstream, and after the
//! last one by the first. One that would fail again is left out, and one that may do better is
//! asked again also when another has failed for good.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits;
use crate::time::Timestamp;
use crate::turn::ModelFailure;

/// A walk round the upstreams that serve a model; they are named by their place.
#[derive(Clone, Debug)]
pub struct UpstreamChain {
    /// Number of upstreams, at least 1.
    upstreams: usize,
    /// The place that attempts are counted from.
    asks_from: usize,
    failed: BTreeMap<usize, Again>,
    /// Times before which upstreams that said so do not want to be asked again.
    not_before: BTreeMap<usize, Timestamp>,
}

/// Whether an upstream that failed may do better when it is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Maybe,
    No,
}

impl UpstreamChain {
    pub fn new(upstreams: usize) -> Self {
        Self {
            upstreams: upstreams.max(1),
            asks_from: 0,
            failed: BTreeMap::new(),
            not_before: BTreeMap::new(),
        }
    }

    /// The place of the upstream that is asked by attempt `n`, which is counted from 1.
    pub fn place(&self, n: u32) -> usize {
        let turned = usize::try_from(n.saturating_sub(1)).unwrap_or(0);
        (self.asks_from.saturating_add(turned)) % self.upstreams
    }

    /// Begins anew at a place, with no failures; how long upstreams want to be left alone is kept.
    pub fn begin_at(&mut self, place: usize) {
        self.asks_from = place;
        self.failed.clear();
    }

    /// Lets the next attempt ask the upstream of this one again.
    pub fn stay(&mut self) {
        self.asks_from = (self.asks_from + self.upstreams - 1) % self.upstreams;
    }

    /// Whether attempt `n` is the first of its upstream.
    pub fn is_first_of_upstream(&self, n: u32) -> bool {
        usize::try_from(n).is_ok_and(|n| n <= self.upstreams)
    }

    /// Whether attempt `n` can go better than the one before it, which failed so.
    pub fn may_follow(&self, failure: &ModelFailure, n: u32) -> bool {
        let next = self.place(n);
        // What another upstream says of the request or the model may be true of that one alone.
        let may_return = failure.is_of_the_upstream() || failure.is_not_found();
        failure.may_be_repeated()
            || (failure.is_of_the_upstream() && self.is_first_of_upstream(n))
            || (may_return && self.failed.get(&next) == Some(&Again::Maybe))
    }

    /// Lets attempt `n` ask an upstream that does not fail again for certain, if there is one.
    pub fn pass_over_hopeless(&mut self, n: u32) {
        for _ in 0..self.upstreams {
            if self.failed.get(&self.place(n)) != Some(&Again::No) {
                return;
            }
            self.asks_from = (self.asks_from + 1) % self.upstreams;
        }
    }

    /// Notes how the upstream of attempt `n` failed, and how long it wants to be left alone, of which at most
    /// `retry_after_max` is heeded.
    pub fn note_failure(
        &mut self,
        n: u32,
        failure: &ModelFailure,
        at: Timestamp,
        retry_after_max: Duration,
    ) {
        let place = self.place(n);
        let again = if failure.may_be_repeated() {
            Again::Maybe
        } else {
            Again::No
        };
        self.failed.insert(place, again);
        match failure.retry_after {
            Some(asked) => {
                let wait = asked.min(retry_after_max);
                self.not_before.insert(place, at.after(wait));
            }
            None => {
                self.not_before.remove(&place);
            }
        }
    }

    /// The wait before attempt `n`: none for an upstream that was not asked.
    pub fn wait_before(&self, n: u32, at: Timestamp, backoff: Duration) -> Duration {
        if self.is_first_of_upstream(n) {
            return Duration::ZERO;
        }
        if let Some(asked) = self.not_before.get(&self.place(n)) {
            return asked.since(at);
        }
        let chain = u32::try_from(self.upstreams).unwrap_or(u32::MAX);
        let passes = n.saturating_sub(1) / chain;
        let doublings = passes.saturating_sub(1).min(limits::BACKOFF_DOUBLINGS_MAX);
        backoff.saturating_mul(1 << doublings)
    }
}
