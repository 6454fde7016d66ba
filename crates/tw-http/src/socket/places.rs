//! Room for WebSockets: so many may be open at once, and so many of one key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tw_core::id::ApiKeyId;

use crate::server::SocketLimits;

/// WebSockets that are open, by key.
#[derive(Debug)]
pub(crate) struct SocketPlaces {
    limits: SocketLimits,
    open: Mutex<OpenSockets>,
}

#[derive(Debug, Default)]
struct OpenSockets {
    all: usize,
    of_keys: HashMap<ApiKeyId, usize>,
}

/// The place of one WebSocket, which is free when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketPlace {
    places: Arc<SocketPlaces>,
    key: ApiKeyId,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSocketPlace {
    OfServer,
    /// The key has as many as one may have.
    OfKey(usize),
}

impl SocketPlaces {
    pub(crate) fn new(limits: SocketLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            open: Mutex::default(),
        })
    }

    /// A place for one more WebSocket of a key.
    pub(crate) fn take(self: &Arc<Self>, key: ApiKeyId) -> Result<SocketPlace, NoSocketPlace> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = open.of_keys.get(&key).copied().unwrap_or_default();
        if of_key >= self.limits.of_key {
            return Err(NoSocketPlace::OfKey(self.limits.of_key));
        }
        if open.all >= self.limits.all {
            return Err(NoSocketPlace::OfServer);
        }
        open.all += 1;
        open.of_keys.insert(key, of_key + 1);
        let places = Arc::clone(self);
        Ok(SocketPlace { places, key })
    }
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        let open = &self.places.open;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all = open.all.saturating_sub(1);
        let left = open.of_keys.get(&self.key).copied().unwrap_or_default();
        match left {
            0 | 1 => drop(open.of_keys.remove(&self.key)),
            more => drop(open.of_keys.insert(self.key, more - 1)),
        }
    }
}
