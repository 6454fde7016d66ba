//! Turns whose drivers panicked, so that one that brings down every driver ends.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tw_core::id::TurnId;

/// Drivers of one turn that may panic before it ends `failed (internal)`: as many as attempts of anything else.
pub const DRIVER_PANICS_MAX: u32 = 3;

/// Counts of one process, by turn. A turn is in it from its first panic to its end.
#[derive(Debug, Default)]
pub(crate) struct DriverPanics(Mutex<BTreeMap<TurnId, u32>>);

impl DriverPanics {
    pub(crate) fn add(&self, turn: TurnId) {
        *self.counts().entry(turn).or_default() += 1;
    }

    /// Whether the turn had so many panics that another driver would only panic again.
    pub(crate) fn are_too_many(&self, turn: TurnId) -> bool {
        self.counts()
            .get(&turn)
            .is_some_and(|count| *count >= DRIVER_PANICS_MAX)
    }

    /// Forgets the turn, since it has ended.
    pub(crate) fn forget(&self, turn: TurnId) {
        self.counts().remove(&turn);
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<TurnId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
