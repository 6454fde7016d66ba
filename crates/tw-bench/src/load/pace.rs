//! Requests at a fixed rate.

use std::time::Duration;

use anyhow::Context;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

/// The times at which requests are due.
pub struct Pace(Mutex<mpsc::Receiver<Instant>>);

/// Most requests that are due and wait: more than any server leaves waiting; a longer queue only
/// makes the pace wait, and times count from when they were due.
const DUE_MAX: usize = 65_536;

impl Pace {
    /// Starts the pace, from `starts` until `ends`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(per_second: f64, starts: Instant, ends: Instant) -> anyhow::Result<Self> {
        let (due, dues) = mpsc::channel(DUE_MAX);
        // The runtime's timer counts in milliseconds, which is too coarse.
        std::thread::Builder::new()
            .name("pace".to_owned())
            .spawn(move || {
                let mut after = Duration::ZERO;
                let step = Duration::from_secs_f64(1.0 / per_second);
                while starts + after < ends {
                    wait_until(starts + after);
                    if due.blocking_send(starts + after).is_err() {
                        return;
                    }
                    after += step;
                }
            })
            .context("starting the pace's thread")?;
        Ok(Self(Mutex::new(dues)))
    }

    /// Waits for the next request to be due, and returns when it was; `None` at the end.
    pub async fn next(&self) -> Option<Instant> {
        self.0.lock().await.recv().await
    }
}

fn wait_until(due: Instant) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left);
    }
}
