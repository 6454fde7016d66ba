//! Requests at a fixed rate.

use std::time::Duration;

use anyhow::Context;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

/// Says when requests are due.
pub struct Pace(Mutex<mpsc::Receiver<Instant>>);

/// More than any server leaves waiting; a longer queue only makes the pace wait, and times count from when they were due.
const DUE_MAX: usize = 65_536;

impl Pace {
    /// From `starts` until `ends`.
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

    /// When the next request is due, which is now or was before; `None` at the end.
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
