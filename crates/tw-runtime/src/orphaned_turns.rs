//! Turns whose drivers stopped before their end, on their way to the task that takes turns over.

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
    added: Notify,
}

impl OrphanedTurns {
    pub(crate) fn add(&self, orphan: OrphanedTurn) {
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

    fn waiting(&self) -> MutexGuard<'_, Vec<OrphanedTurn>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
