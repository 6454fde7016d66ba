//! Points in time, as integers.

use std::time::Duration;

/// Microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub fn after(self, wait: Duration) -> Self {
        let micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    pub fn before(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// Time from `earlier` until this; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Whole seconds since 1970, as the OpenAI format's `created` wants them.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }
}
