//! Turns whose drivers stopped before their end, on their way to the task that takes turns over.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tw_core::id::{OrgId, TurnId};

/// After a failed write, the store is given this long before the turn is taken over.
pub(crate) const AFTER_FAILED_WRITE: Duration = Duration::from_secs(1);

/// A turn without a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrphanedTurn {
    pub(crate) organization: OrgId,
    pub(crate) turn: TurnId,
    /// How long the first try to take it over waits.
    pub(crate) after: Duration,
}

/// The orphaned turns of this process that nobody has taken from here yet: each had a driver until now, so there are
/// never more than turns may run.
#[derive(Debug, Default)]
pub(crate) struct OrphanedTurns {
    waiting: Mutex<Vec<OrphanedTurn>>,
    /// Those that somebody tries to take over, and how often they were added.
    in_hand: Mutex<BTreeMap<TurnId, u32>>,
    added: Notify,
}

impl OrphanedTurns {
    pub(crate) fn add(&self, orphan: OrphanedTurn) {
        *self.in_hand().entry(orphan.turn).or_default() += 1;
        self.waiting().push(orphan);
        self.added.notify_one();
    }

    /// All that wait, once there are any.
    ///
    /// # Cancel safety
    /// No turn is lost.
    pub(crate) async fn taken(&self) -> Vec<OrphanedTurn> {
        loop {
            let taken = std::mem::take(&mut *self.waiting());
            if !taken.is_empty() {
                return taken;
            }
            // A note given before this is kept.
            self.added.notified().await;
        }
    }

    /// Whether somebody tries to take the turn over.
    pub(crate) fn has(&self, turn: TurnId) -> bool {
        self.in_hand().contains_key(&turn)
    }

    /// A turn that was added is taken over.
    pub(crate) fn settle(&self, turn: TurnId) {
        let mut in_hand = self.in_hand();
        if let Some(times) = in_hand.get_mut(&turn) {
            *times -= 1;
            if *times == 0 {
                in_hand.remove(&turn);
            }
        }
    }

    fn in_hand(&self) -> MutexGuard<'_, BTreeMap<TurnId, u32>> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<OrphanedTurn>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
