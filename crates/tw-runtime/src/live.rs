//! Turns that this process drives, for those who want to follow, attach to or stop them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tw_core::id::TurnId;

/// What others may know of a turn that runs.
#[derive(Debug)]
pub(crate) struct Live {
    /// The client that started the turn waits for it, and takes what it is given.
    starter: AtomicBool,
    /// Clients that attached.
    attached: AtomicUsize,
    client_left: Notify,
    pub(crate) cancel: CancellationToken,
    stopping: AtomicBool,
    /// How many events of the log are durable.
    pub(crate) durable: watch::Sender<u64>,
}

impl Live {
    pub(crate) fn new(durable: u64) -> Arc<Self> {
        Arc::new(Self {
            starter: AtomicBool::new(false),
            attached: AtomicUsize::new(0),
            client_left: Notify::new(),
            cancel: CancellationToken::new(),
            stopping: AtomicBool::new(false),
            durable: watch::Sender::new(durable),
        })
    }

    pub(crate) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until no client is left.
    ///
    /// # Cancel safety
    /// Nothing is consumed.
    pub(crate) async fn all_left(&self) {
        loop {
            let left = self.client_left.notified();
            if !self.has_clients() {
                return;
            }
            left.await;
        }
    }

    fn has_clients(&self) -> bool {
        self.starter.load(Ordering::Acquire) || self.attached.load(Ordering::Acquire) > 0
    }

    /// The client that started the turn left, or counts as gone although its connection is open.
    pub(crate) fn starter_left(&self) {
        self.starter.store(false, Ordering::Release);
        self.tell_of_leaving();
    }

    fn tell_of_leaving(&self) {
        if !self.has_clients() {
            self.client_left.notify_waiters();
            self.client_left.notify_one();
        }
    }
}

/// A client that waits for a turn's answer; dropping it is leaving.
#[derive(Debug)]
pub(crate) struct Client {
    live: Arc<Live>,
    is: ClientIs,
}

#[derive(Debug)]
enum ClientIs {
    Starter,
    Attached,
}

impl Client {
    /// The one that starts the turn.
    pub(crate) fn starter(live: &Arc<Live>) -> Self {
        live.starter.store(true, Ordering::Release);
        Self {
            live: Arc::clone(live),
            is: ClientIs::Starter,
        }
    }

    /// One that attaches to a turn that runs.
    pub(crate) fn attached(live: &Arc<Live>) -> Self {
        live.attached.fetch_add(1, Ordering::AcqRel);
        Self {
            live: Arc::clone(live),
            is: ClientIs::Attached,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        match self.is {
            ClientIs::Starter => self.live.starter_left(),
            ClientIs::Attached => {
                self.live.attached.fetch_sub(1, Ordering::AcqRel);
                self.live.tell_of_leaving();
            }
        }
    }
}

/// All turns that this process drives.
#[derive(Debug)]
pub(crate) struct LiveTurns {
    turns: Mutex<BTreeMap<TurnId, Arc<Live>>>,
    /// Changes whenever a turn begins or ends being driven.
    pub(crate) changed: watch::Sender<u64>,
}

impl LiveTurns {
    pub(crate) fn new() -> Self {
        Self {
            turns: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }

    pub(crate) fn add(&self, turn: TurnId, live: Arc<Live>) {
        self.lock().insert(turn, live);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn remove(&self, turn: TurnId) {
        self.lock().remove(&turn);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn get(&self, turn: TurnId) -> Option<Arc<Live>> {
        self.lock().get(&turn).cloned()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TurnId, Arc<Live>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
