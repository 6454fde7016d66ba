//! The pace of recovery: a limit of the turns without a driver that are taken over at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tw_store::read::unfinished::UnfinishedTurn;

use crate::byte_units::units;

/// Bytes of turns that are taken over at once: one body of the largest size. While it is loaded and until its upstream
/// has answered, a turn takes three to four times its body: what the database hands over, the body, and the request.
pub const RECOVERIES_BYTES_DEFAULT: u64 = 32 * 1024 * 1024;
/// Claims of a turn that came to nothing before it is ended instead of being loaded again. Each of them is a process
/// that ended while it loaded the turn, or lost its database just then. Three, since the first may have been another
/// turn's fault, and the second somebody's who ended the process.
pub(crate) const CLAIMS_OPEN_MAX: u32 = 3;

/// Lets turns through, in the order in which they come.
#[derive(Debug)]
pub(crate) struct RecoveryPace {
    free: Arc<Semaphore>,
    units_max: u32,
}

/// The right to load a turn and to go on with it.
#[derive(Debug)]
pub(crate) struct RecoveryPermit {
    held: Option<OwnedSemaphorePermit>,
    own_units: u32,
}

impl RecoveryPace {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let units_max = units(bytes_max).max(1);
        Self {
            free: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
        }
    }

    /// Waits until there is room. A turn that is larger than all of it goes alone; so does one of which a claim came to
    /// nothing, lest another one be counted with it.
    ///
    /// # Cancel safety
    /// A dropped call takes nothing.
    pub(crate) async fn permit(&self, turn: &UnfinishedTurn) -> RecoveryPermit {
        let bytes = turn.body_bytes.saturating_add(turn.record_bytes);
        let own_units = units(bytes).clamp(1, self.units_max);
        let wanted = if turn.claims_open > 0 {
            self.units_max
        } else {
            own_units
        };
        // It is never closed.
        let held = Arc::clone(&self.free).acquire_many_owned(wanted).await.ok();
        RecoveryPermit { held, own_units }
    }
}

impl RecoveryPermit {
    /// The turn goes on, so that it need not be alone any more.
    pub(crate) fn share(&mut self) {
        let Some(held) = &mut self.held else {
            return;
        };
        let beyond = held.num_permits().saturating_sub(self.own_units as usize);
        drop(held.split(beyond));
    }
}

#[cfg(test)]
mod tests;
