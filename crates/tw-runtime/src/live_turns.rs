//! Turns that this process drives, for those who want to follow, attach to or stop them.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;
use tokio::sync::watch;
use tw_core::call::CallEnd;
use tw_core::id::{CallRef, TurnId};

/// The part of a running turn that others see, and through which they reach its driver.
#[derive(Debug)]
pub(crate) struct LiveTurn {
    /// Whether the client that started the turn waits for it, and takes what it is given.
    starter: AtomicBool,
    /// Clients that attached.
    attached: AtomicUsize,
    cancelled: AtomicBool,
    drained: AtomicBool,
    stopping: AtomicBool,
    /// Calls whose end came into the record from elsewhere, for the driver to take.
    ended: Mutex<Vec<(CallRef, CallEnd)>>,
    has_ended: AtomicBool,
    /// The driver, which alone waits for signals.
    driver: AtomicWaker,
    /// Number of events of the log that are durable.
    pub(crate) durable: watch::Sender<u64>,
}

/// A signal to a driver from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DriverSignal {
    /// The record holds this end of a call, which this driver did not write.
    CallEnded(CallRef, CallEnd),
    /// Somebody asked for the turn to stop.
    Cancel,
    /// The process ends.
    Drain,
    /// No client is left.
    AllLeft,
}

/// Signals that a driver still waits for; a drain is always one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedSignals {
    /// Ends of calls, each of which is told once.
    pub(crate) ends: bool,
    pub(crate) cancel: bool,
    pub(crate) all_left: bool,
}

impl LiveTurn {
    pub(crate) fn new(durable: u64) -> Arc<Self> {
        Arc::new(Self {
            starter: AtomicBool::new(false),
            attached: AtomicUsize::new(0),
            cancelled: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            ended: Mutex::default(),
            has_ended: AtomicBool::new(false),
            driver: AtomicWaker::new(),
            durable: watch::Sender::new(durable),
        })
    }

    pub(crate) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.driver.wake();
    }

    fn drain(&self) {
        self.drained.store(true, Ordering::Release);
        self.driver.wake();
    }

    /// Tells the driver of an end that the record holds.
    pub(crate) fn call_ended(&self, call: CallRef, end: CallEnd) {
        self.ended().push((call, end));
        self.has_ended.store(true, Ordering::Release);
        self.driver.wake();
    }

    fn next_ended(&self) -> Option<DriverSignal> {
        if !self.has_ended.load(Ordering::Acquire) {
            return None;
        }
        let mut ended = self.ended();
        let next = ended.pop();
        if next.is_none() {
            self.has_ended.store(false, Ordering::Release);
        }
        next.map(|(call, end)| DriverSignal::CallEnded(call, end))
    }

    fn ended(&self) -> MutexGuard<'_, Vec<(CallRef, CallEnd)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a signal. Only the driver may wait.
    ///
    /// # Cancel safety
    /// Signals stay set; an end of a call is taken with the poll that gives it.
    pub(crate) async fn signal(&self, wanted: WantedSignals) -> DriverSignal {
        poll_fn(|context| {
            // Registered before looking, so that a signal in between is not missed.
            self.driver.register(context.waker());
            if self.drained.load(Ordering::Acquire) {
                Poll::Ready(DriverSignal::Drain)
            } else if wanted.ends
                && let Some(signal) = self.next_ended()
            {
                Poll::Ready(signal)
            } else if wanted.cancel && self.cancelled.load(Ordering::Acquire) {
                Poll::Ready(DriverSignal::Cancel)
            } else if wanted.all_left && !self.has_clients() {
                Poll::Ready(DriverSignal::AllLeft)
            } else {
                Poll::Pending
            }
        })
        .await
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
        // The driver looks for itself: two that leave at once may each still see the other here.
        self.driver.wake();
    }
}

/// A client that waits for a turn's answer; dropping it is leaving.
#[derive(Debug)]
pub(crate) struct WaitingClient {
    live: Arc<LiveTurn>,
    is: ClientIs,
}

#[derive(Debug)]
enum ClientIs {
    Starter,
    Attached,
}

impl WaitingClient {
    /// The client that starts the turn.
    pub(crate) fn starter(live: &Arc<LiveTurn>) -> Self {
        live.starter.store(true, Ordering::Release);
        Self {
            live: Arc::clone(live),
            is: ClientIs::Starter,
        }
    }

    /// A client that attaches to a turn that runs.
    pub(crate) fn attached(live: &Arc<LiveTurn>) -> Self {
        live.attached.fetch_add(1, Ordering::AcqRel);
        Self {
            live: Arc::clone(live),
            is: ClientIs::Attached,
        }
    }
}

impl Drop for WaitingClient {
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

/// Turns that this process drives.
#[derive(Debug)]
pub(crate) struct LiveTurns {
    turns: Mutex<BTreeMap<TurnId, Arc<LiveTurn>>>,
    draining: AtomicBool,
    /// Changes whenever a turn begins or ends being driven.
    pub(crate) changed: watch::Sender<u64>,
}

impl LiveTurns {
    pub(crate) fn new() -> Self {
        Self {
            turns: Mutex::default(),
            draining: AtomicBool::new(false),
            changed: watch::Sender::new(0),
        }
    }

    pub(crate) fn add(&self, turn: TurnId, live: Arc<LiveTurn>) {
        let mut turns = self.lock();
        if self.draining.load(Ordering::Acquire) {
            live.drain();
        }
        turns.insert(turn, live);
        drop(turns);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn remove(&self, turn: TurnId) {
        let removed = self.lock().remove(&turn);
        if let Some(live) = removed {
            // Whoever waits for more of its log looks again.
            live.durable.send_modify(|_| {});
        }
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn get(&self, turn: TurnId) -> Option<Arc<LiveTurn>> {
        self.lock().get(&turn).cloned()
    }

    /// Tells all drivers, also those that come later, that the process ends.
    pub(crate) fn drain(&self) {
        let turns = self.lock();
        self.draining.store(true, Ordering::Release);
        for live in turns.values() {
            live.drain();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TurnId, Arc<LiveTurn>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
