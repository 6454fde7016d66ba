//! A time-out for silence whose moving costs nothing.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A timer that passes when nothing has happened for a while.
///
/// Each happening moves the moment by writing a number; the timer itself is set again only when
/// it fires too early, so a busy stream does not pay for a timer with every event.
#[derive(Debug)]
pub struct IdleTimer {
    until: Instant,
    timer: Pin<Box<Sleep>>,
}

impl IdleTimer {
    pub fn new(span: Duration) -> Self {
        let until = Instant::now() + span;
        Self {
            until,
            timer: Box::pin(tokio::time::sleep_until(until)),
        }
    }

    /// Begins the silence anew, since something happened.
    pub fn begin_anew(&mut self, span: Duration) {
        self.until = Instant::now() + span;
        // The span before may have been longer.
        if self.until < self.timer.deadline() {
            self.timer.as_mut().reset(self.until);
        }
    }

    /// Waits until the silence has lasted.
    ///
    /// # Cancel safety
    /// The moment stays as it was.
    pub async fn passed(&mut self) {
        loop {
            self.timer.as_mut().await;
            if Instant::now() >= self.until {
                return;
            }
            self.timer.as_mut().reset(self.until);
        }
    }
}
