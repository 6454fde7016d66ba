//! The way of a turn's events to the client that started it, bounded in bytes.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tw_core::event::LogEvent;

/// Bytes that may wait for a client; beyond that the upstream is not read. What is given at once is
/// taken whole, so a batch may come on top.
const WAITING_BYTES_MAX: usize = 8 * 1024;

/// The driver's end of the way.
#[derive(Debug)]
pub(crate) struct ToClient(Arc<Way>);

/// The client's end of the way.
#[derive(Debug)]
pub(crate) struct FromDriver(Arc<Way>);

#[derive(Debug, Default)]
struct Way(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<LogEvent>,
    bytes: usize,
    /// Whether one end is gone.
    closed: bool,
    for_room: Option<Waker>,
    for_events: Option<Waker>,
}

/// The other end is gone.
#[derive(Debug)]
pub(crate) struct ReceiverGone;

pub(crate) fn new() -> (ToClient, FromDriver) {
    let way = Arc::new(Way::default());
    (ToClient(Arc::clone(&way)), FromDriver(way))
}

impl ToClient {
    /// Waits until there is room.
    ///
    /// # Errors
    /// [`ReceiverGone`], at once.
    ///
    /// # Cancel safety
    /// Waiting changes nothing.
    pub(crate) async fn room(&mut self) -> Result<(), ReceiverGone> {
        poll_fn(|context| {
            let mut waiting = self.0.lock();
            if waiting.closed {
                Poll::Ready(Err(ReceiverGone))
            } else if waiting.bytes < WAITING_BYTES_MAX {
                Poll::Ready(Ok(()))
            } else {
                waiting.for_room = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// Gives events, room or not. Nobody may be there to take them.
    pub(crate) fn give(&mut self, events: Vec<LogEvent>) {
        let mut waiting = self.0.lock();
        waiting.bytes += events.iter().map(LogEvent::bytes).sum::<usize>();
        if waiting.events.is_empty() {
            waiting.events = events;
        } else {
            waiting.events.extend(events);
        }
        let taker = waiting.for_events.take();
        drop(waiting);
        wake(taker);
    }
}

impl FromDriver {
    /// Everything that waits, once there is something; `None` after the last when the driver is gone.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub(crate) async fn next(&mut self) -> Option<Vec<LogEvent>> {
        poll_fn(|context| {
            let mut waiting = self.0.lock();
            if !waiting.events.is_empty() {
                waiting.bytes = 0;
                let events = std::mem::take(&mut waiting.events);
                let giver = waiting.for_room.take();
                drop(waiting);
                wake(giver);
                Poll::Ready(Some(events))
            } else if waiting.closed {
                Poll::Ready(None)
            } else {
                waiting.for_events = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

impl Way {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let wakers = (waiting.for_room.take(), waiting.for_events.take());
        drop(waiting);
        wake(wakers.0);
        wake(wakers.1);
    }
}

impl Drop for ToClient {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for FromDriver {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
