//! How far a command is that moves many rows.

use std::time::Duration;

/// Time between two lines of progress.
pub const TELLS: Duration = Duration::from_secs(1);

pub fn per_second(rows: u64, took: Duration) -> u64 {
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    rows.saturating_mul(1000) / took_ms.max(1)
}
