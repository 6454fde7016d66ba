//! The turnstile of equal requests: a repetition waits until those that are being accepted are on disk.
//!
//! Without this, a request that is sent again while its first try is being accepted would find
//! nothing, and begin a second turn. Requests that are no repetitions do not wait for each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Hash of all that makes requests equal.
pub(crate) type RequestFingerprint = [u8; 32];

/// Right of a request to go on, held from the look-up of earlier tries until the accepting transaction has ended.
#[derive(Debug)]
pub(crate) enum TurnstilePass {
    First { _gate: OwnedRwLockReadGuard<()> },
    Repetition { _gate: OwnedRwLockWriteGuard<()> },
}

/// Ways in which a request passes the turnstile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PassMode {
    /// The request passes beside any number of equal ones.
    First,
    /// The request passes alone, after those that are being accepted.
    Repetition,
}

#[derive(Debug, Default)]
pub(crate) struct Turnstile(Mutex<BTreeMap<RequestFingerprint, Weak<RwLock<()>>>>);

/// Entries beyond which those that nobody holds are dropped.
const ENTRIES_SWEPT_AT: usize = 1024;

impl Turnstile {
    /// Waits until the request may look for earlier tries.
    ///
    /// # Cancel safety
    /// A dropped wait passes nothing.
    pub(crate) async fn pass(&self, equal: RequestFingerprint, passes: PassMode) -> TurnstilePass {
        let gate = self.gate(equal);
        match passes {
            PassMode::First => TurnstilePass::First {
                _gate: gate.read_owned().await,
            },
            PassMode::Repetition => TurnstilePass::Repetition {
                _gate: gate.write_owned().await,
            },
        }
    }

    fn gate(&self, equal: RequestFingerprint) -> Arc<RwLock<()>> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(&equal).and_then(Weak::upgrade) {
            return gate;
        }
        if gates.len() >= ENTRIES_SWEPT_AT {
            gates.retain(|_, gate| gate.strong_count() > 0);
        }
        let gate = Arc::new(RwLock::new(()));
        gates.insert(equal, Arc::downgrade(&gate));
        gate
    }
}
