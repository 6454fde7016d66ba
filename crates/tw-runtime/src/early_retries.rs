//! Repetitions that came before the first try of the same request.
//!
//! A client that waits too long sends a request again while its first try still waits somewhere: before a server that
//! stands still or restarts, or in a proxy that did not see the client leave. The two may arrive in either order.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tw_core::id::TurnId;
use tw_core::time::Timestamp;

use crate::equal_requests::RequestFingerprint;

/// How long after its repetition a first try is known as such.
pub(crate) const FIRST_TRY_LATE_MAX: Duration = Duration::from_secs(30);
/// Repetitions that are kept; beyond them the oldest are forgotten.
const EARLY_RETRIES_MAX: usize = 10_000;

/// Turns that began with a repetition of which no earlier try had been seen, by the request's fingerprint.
#[derive(Debug, Default)]
pub(crate) struct EarlyRetries(Mutex<BTreeMap<RequestFingerprint, EarlyRetry>>);

#[derive(Clone, Copy, Debug)]
struct EarlyRetry {
    turn: TurnId,
    at: Timestamp,
}

impl EarlyRetries {
    /// Notes the turn of a repetition, before it is accepted.
    pub(crate) fn add(&self, fingerprint: RequestFingerprint, turn: TurnId, at: Timestamp) {
        let mut known = self.known();
        if known.len() >= EARLY_RETRIES_MAX {
            known.retain(|_, retry| at.since(retry.at) <= FIRST_TRY_LATE_MAX);
        }
        if known.len() >= EARLY_RETRIES_MAX
            && let Some((&oldest, _)) = known.iter().min_by_key(|(_, retry)| retry.at)
        {
            known.remove(&oldest);
        }
        known.insert(fingerprint, EarlyRetry { turn, at });
    }

    /// The turn of the repetition that a first try comes behind, for one first try.
    pub(crate) fn take(&self, fingerprint: RequestFingerprint, now: Timestamp) -> Option<TurnId> {
        let retry = self.known().remove(&fingerprint)?;
        (now.since(retry.at) <= FIRST_TRY_LATE_MAX).then_some(retry.turn)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<RequestFingerprint, EarlyRetry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
