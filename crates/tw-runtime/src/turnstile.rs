//! Equal requests go through one by one until the first of them is on disk.
//!
//! Without this, a request that is sent again while its first try is being accepted would find
//! nothing, and begin a second turn.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// What makes requests equal, hashed.
pub(crate) type Equal = [u8; 32];

/// Held from the look-up of earlier tries until the accepting transaction has ended.
pub(crate) type Passing = OwnedMutexGuard<()>;

#[derive(Debug, Default)]
pub(crate) struct Turnstile(Mutex<BTreeMap<Equal, Weak<AsyncMutex<()>>>>);

/// Entries beyond which those that nobody holds are dropped.
const ENTRIES_SWEPT_AT: usize = 1024;

impl Turnstile {
    /// Waits until no equal request is being looked up or accepted.
    ///
    /// # Cancel safety
    /// A dropped wait passes nothing.
    pub(crate) async fn pass(&self, equal: Equal) -> Passing {
        self.gate(equal).lock_owned().await
    }

    fn gate(&self, equal: Equal) -> Arc<AsyncMutex<()>> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(&equal).and_then(Weak::upgrade) {
            return gate;
        }
        if gates.len() >= ENTRIES_SWEPT_AT {
            gates.retain(|_, gate| gate.strong_count() > 0);
        }
        let gate = Arc::new(AsyncMutex::new(()));
        gates.insert(equal, Arc::downgrade(&gate));
        gate
    }
}
