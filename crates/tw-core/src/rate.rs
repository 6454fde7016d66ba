//! Limits on what one key or one organization may ask for, and the count of its requests.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::time::Timestamp;

/// Limits on what a key or an organization may ask for. A limit that is `None` is not set, so that
/// another rule holds; zero is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Requests that begin a turn.
    pub requests_per_minute: Option<u32>,
    /// Turns that run at once.
    pub concurrency_max: Option<u32>,
    /// Streams that are open at once.
    pub streams_max: Option<u32>,
}

impl RateLimits {
    /// The limits of `self`, and where one is not set, that of `those`.
    #[must_use]
    pub fn or(self, those: Self) -> Self {
        Self {
            requests_per_minute: self.requests_per_minute.or(those.requests_per_minute),
            concurrency_max: self.concurrency_max.or(those.concurrency_max),
            streams_max: self.streams_max.or(those.streams_max),
        }
    }

    pub fn requests_per_minute(&self) -> Option<NonZeroU32> {
        self.requests_per_minute.and_then(NonZeroU32::new)
    }

    pub fn concurrency_max(&self) -> Option<NonZeroU32> {
        self.concurrency_max.and_then(NonZeroU32::new)
    }

    pub fn streams_max(&self) -> Option<NonZeroU32> {
        self.streams_max.and_then(NonZeroU32::new)
    }
}

/// Counts requests against a limit for each minute.
///
/// A full bucket holds a minute's requests, all of which may come at once; then it refills evenly,
/// one request each minute / limit. So of any span of `s` seconds, at most `limit + limit * s / 60`
/// requests pass. A clock that goes back refills nothing for the span that it goes back, and keeps
/// nobody waiting for it to come there again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Parts that were taken and have not come back, as of `at`; a request is [`REQUEST`] of them.
    taken: u64,
    at: Timestamp,
    /// The limit under which it refills.
    per_minute: u32,
}

/// The parts of one request. The limit's number of such parts comes back each microsecond, so that
/// no limit has a remainder.
const REQUEST: u64 = 60_000_000;

/// The standing of a bucket under a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketStanding {
    /// The time of it.
    pub at: Timestamp,
    /// Requests for each minute.
    pub limit: NonZeroU32,
    /// Requests that may come now.
    pub remaining: u32,
    /// Time until the next request may come; zero when one may come now.
    pub next_in: Duration,
    /// Time until the bucket is full, if nothing comes.
    pub full_in: Duration,
}

impl TokenBucket {
    /// A full bucket.
    pub fn full(now: Timestamp) -> Self {
        Self {
            taken: 0,
            at: now,
            per_minute: 0,
        }
    }

    /// Whether the bucket is full, so that there is nothing to remember of it.
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.taken_by(now) == 0
    }

    /// The bucket's standing under a limit, which may be another one than before.
    pub fn standing(&self, limit: NonZeroU32, now: Timestamp) -> BucketStanding {
        let room = REQUEST.saturating_mul(u64::from(limit.get()));
        let taken = self.taken_by(now).min(room);
        let left = room - taken;
        BucketStanding {
            at: now,
            limit,
            remaining: u32::try_from(left / REQUEST).unwrap_or(u32::MAX),
            next_in: refill(REQUEST.saturating_sub(left), limit),
            full_in: refill(taken, limit),
        }
    }

    /// Takes one request, for whoever has seen that one remains.
    pub fn take(&mut self, limit: NonZeroU32, now: Timestamp) {
        let room = REQUEST.saturating_mul(u64::from(limit.get()));
        *self = Self {
            taken: self.taken_by(now).saturating_add(REQUEST).min(room),
            at: now,
            per_minute: limit.get(),
        };
    }

    /// Gives back a request that was taken at `taken_at`, less what may have come back since.
    pub fn give_back(&mut self, taken_at: Timestamp, now: Timestamp) {
        let come_back = refilled(self.per_minute, now.since(taken_at));
        *self = Self {
            taken: self
                .taken_by(now)
                .saturating_sub(REQUEST.saturating_sub(come_back)),
            at: now,
            per_minute: self.per_minute,
        };
    }

    fn taken_by(&self, now: Timestamp) -> u64 {
        self.taken
            .saturating_sub(refilled(self.per_minute, now.since(self.at)))
    }
}

fn refilled(per_minute: u32, span: Duration) -> u64 {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    micros.saturating_mul(u64::from(per_minute))
}

/// The time that `parts` take to come back, rounded up.
fn refill(parts: u64, limit: NonZeroU32) -> Duration {
    Duration::from_micros(parts.div_ceil(u64::from(limit.get())))
}

#[cfg(test)]
mod tests;
