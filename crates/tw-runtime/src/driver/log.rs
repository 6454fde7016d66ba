//! The driver's end of the turn's log: numbering, and flushes to the store in groups.

use std::future::Future;
use std::pin::Pin;

use tokio::time::Instant;
use tw_core::change::{EventFlush, Fence, TurnChange};
use tw_core::event::LogEvent;
use tw_core::time::Timestamp;
use tw_store::apply::StoreApplyError;
use tw_store::store::Store;

type Flush = Pin<Box<dyn Future<Output = Result<u64, StoreApplyError>> + Send>>;

/// Bytes that may wait to be written; beyond that they are written at once, and while that is under
/// way the upstream is not read.
const PENDING_BYTES_MAX: usize = 16 * 1024;

pub(super) struct TurnLog {
    /// Number of the first pending event.
    next: u64,
    pending: Vec<LogEvent>,
    pending_bytes: usize,
    due: Option<Instant>,
    /// A flush that is on its way; later ones wait for it, so that numbers have no gaps.
    under_way: Option<Flush>,
}

/// A state of a log that nothing was flushed since.
pub(super) struct LogMark {
    next: u64,
    pending: Vec<LogEvent>,
    pending_bytes: usize,
    due: Option<Instant>,
}

impl TurnLog {
    pub(super) fn new(stored: u64) -> Self {
        Self {
            next: stored + 1,
            pending: Vec::new(),
            pending_bytes: 0,
            due: None,
            under_way: None,
        }
    }

    /// Takes events that are shown now and not yet written.
    pub(super) fn add(&mut self, events: &[LogEvent]) {
        self.pending.extend_from_slice(events);
        self.pending_bytes += events.iter().map(LogEvent::bytes).sum::<usize>();
    }

    /// Whether events are pending, and nobody has said by when they are to be written.
    pub(super) fn wants_due(&self) -> bool {
        self.due.is_none() && !self.pending.is_empty()
    }

    pub(super) fn set_due(&mut self, write_by: Instant) {
        self.due = Some(write_by);
    }

    /// The time by which the pending events should be written; `None` while a flush is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.under_way.is_some() {
            None
        } else {
            self.due
        }
    }

    /// Whether no more events should come before the pending ones are on their way.
    pub(super) fn is_full(&self) -> bool {
        self.pending_bytes >= PENDING_BYTES_MAX
    }

    pub(super) fn is_flushing(&self) -> bool {
        self.under_way.is_some()
    }

    /// Takes the pending events as a change, to go with a step's own writes.
    pub(super) fn take(&mut self, at: Timestamp) -> Option<EventFlush> {
        self.due = None;
        if self.pending.is_empty() {
            return None;
        }
        let events = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        let first = self.next;
        self.next += events.len() as u64;
        Some(EventFlush { first, events, at })
    }

    /// The state of the log before a step's events, to go back to if the step is not written.
    pub(super) fn mark(&self) -> LogMark {
        LogMark {
            next: self.next,
            pending: self.pending.clone(),
            pending_bytes: self.pending_bytes,
            due: self.due,
        }
    }

    pub(super) fn go_back(&mut self, mark: LogMark) {
        let LogMark {
            next,
            pending,
            pending_bytes,
            due,
        } = mark;
        self.next = next;
        self.pending = pending;
        self.pending_bytes = pending_bytes;
        self.due = due;
    }

    /// Number of events that are numbered so far.
    pub(super) fn numbered(&self) -> u64 {
        self.next - 1
    }

    pub(super) fn start_flush(&mut self, store: &Store, fence: Fence, at: Timestamp) {
        let Some(flush) = self.take(at) else {
            return;
        };
        let (store, last) = (store.clone(), self.numbered());
        self.under_way = Some(Box::pin(async move {
            store
                .apply_to_turn(fence, vec![TurnChange::AppendEvents(flush)])
                .await
                .map(|_| last)
        }));
    }

    /// The end of the flush that is under way, with the number of the last durable event.
    ///
    /// # Cancel safety
    /// The flush goes on when polled again.
    pub(super) async fn flushed(&mut self) -> Result<u64, StoreApplyError> {
        match &mut self.under_way {
            Some(flush) => {
                let flushed = flush.await;
                self.under_way = None;
                flushed
            }
            None => std::future::pending().await,
        }
    }
}
