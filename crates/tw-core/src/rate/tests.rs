use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;

use super::{BucketStanding, RateLimits, TokenBucket};
use crate::time::Timestamp;

const MINUTE_US: i64 = 60_000_000;

fn limit(per_minute: u32) -> NonZeroU32 {
    NonZeroU32::new(per_minute).unwrap()
}

/// Takes one if one remains.
fn try_take(bucket: &mut TokenBucket, per_minute: u32, at: i64) -> bool {
    let (limit, now) = (limit(per_minute), Timestamp(at));
    let may = bucket.standing(limit, now).remaining > 0;
    if may {
        bucket.take(limit, now);
    }
    may
}

#[test]
fn a_minutes_requests_may_come_at_once_and_the_next_when_one_has_come_back() {
    let mut bucket = TokenBucket::full(Timestamp(0));
    for left in (0..60).rev() {
        assert!(try_take(&mut bucket, 60, 5));
        assert_eq!(bucket.standing(limit(60), Timestamp(5)).remaining, left);
    }
    let empty = bucket.standing(limit(60), Timestamp(5));
    assert_eq!(
        empty,
        BucketStanding {
            at: Timestamp(5),
            limit: limit(60),
            remaining: 0,
            next_in: Duration::from_secs(1),
            full_in: Duration::from_secs(60),
        }
    );
    assert!(!try_take(&mut bucket, 60, 1_000_004));
    assert!(try_take(&mut bucket, 60, 1_000_005));
    assert!(!try_take(&mut bucket, 60, 1_000_005));
}

#[test]
fn the_smallest_and_the_largest_limit_are_exact() {
    let mut one = TokenBucket::full(Timestamp(0));
    assert!(try_take(&mut one, 1, 0));
    assert!(!try_take(&mut one, 1, MINUTE_US - 1));
    assert!(try_take(&mut one, 1, MINUTE_US));
    let mut most = TokenBucket::full(Timestamp(i64::MIN));
    assert!(try_take(&mut most, u32::MAX, i64::MIN));
    let standing = most.standing(limit(u32::MAX), Timestamp(i64::MIN));
    assert_eq!(standing.remaining, u32::MAX - 1);
    assert!(most.is_full(Timestamp(i64::MAX)));
    // Seven a minute have a remainder in microseconds; after 7 minutes none is lost.
    let mut seven = TokenBucket::full(Timestamp(0));
    let taken = (0..=7 * MINUTE_US)
        .step_by(1_000)
        .filter(|at| try_take(&mut seven, 7, *at));
    assert_eq!(taken.count(), 7 + 7 * 7);
}

#[test]
fn a_clock_that_goes_back_neither_refills_nor_locks_out() {
    let mut bucket = TokenBucket::full(Timestamp(0));
    assert!(try_take(&mut bucket, 1, 100 * MINUTE_US));
    assert!(!try_take(&mut bucket, 1, 0));
    let told = bucket.standing(limit(1), Timestamp(0)).next_in;
    assert_eq!(told, Duration::from_secs(60));
    bucket.take(limit(1), Timestamp(0));
    assert!(!try_take(&mut bucket, 1, MINUTE_US - 1));
    assert!(try_take(&mut bucket, 1, MINUTE_US));
}

#[test]
fn what_is_given_back_late_is_not_given_twice() {
    let mut bucket = TokenBucket::full(Timestamp(0));
    bucket.take(limit(1), Timestamp(0));
    bucket.give_back(Timestamp(0), Timestamp(1));
    assert!(bucket.standing(limit(1), Timestamp(1)).next_in <= Duration::from_micros(1));
    // The first has come back by itself; the second is not paid by it.
    let mut bucket = TokenBucket::full(Timestamp(0));
    bucket.take(limit(1), Timestamp(0));
    bucket.take(limit(1), Timestamp(MINUTE_US));
    bucket.give_back(Timestamp(0), Timestamp(MINUTE_US));
    assert!(!try_take(&mut bucket, 1, MINUTE_US));
}

#[test]
fn a_limit_that_is_not_said_is_the_other_one_and_zero_is_none() {
    let own = RateLimits {
        requests_per_minute: Some(0),
        concurrency_max: None,
        streams_max: Some(3),
    };
    let others = RateLimits {
        requests_per_minute: Some(5),
        concurrency_max: Some(6),
        streams_max: Some(7),
    };
    let both = own.or(others);
    assert_eq!(both.requests_per_minute(), None);
    assert_eq!(both.concurrency_max(), Some(limit(6)));
    assert_eq!(both.streams_max(), Some(limit(3)));
}

proptest! {
    /// The doc comment's promise, over every span that begins and ends with a request that passed.
    #[test]
    fn no_span_lets_more_pass_than_promised(
        per_minute in 1u32..200,
        waits in prop::collection::vec(0i64..3_000_000, 1..400),
    ) {
        let mut bucket = TokenBucket::full(Timestamp(0));
        let mut at = 0;
        let mut passed = Vec::new();
        for wait in waits {
            at += wait;
            if try_take(&mut bucket, per_minute, at) {
                passed.push(at);
            }
        }
        for first in 0..passed.len() {
            for last in first..passed.len() {
                let count = (last - first + 1) as i64;
                let span = passed[last] - passed[first];
                let parts = i64::from(per_minute) * (MINUTE_US + span);
                prop_assert!(count * MINUTE_US <= parts, "{count} in {span} us");
            }
        }
    }

    /// Who comes when told passes, and not a microsecond earlier.
    #[test]
    fn the_time_that_is_told_is_exact(
        per_minute in 1u32..=u32::MAX,
        burst in 0u32..50,
        wait in 0i64..MINUTE_US,
    ) {
        let mut bucket = TokenBucket::full(Timestamp(0));
        let shared = per_minute.min(burst.max(1));
        for _ in 0..burst {
            try_take(&mut bucket, shared, 0);
        }
        let standing = bucket.standing(limit(shared), Timestamp(wait));
        let told = i64::try_from(standing.next_in.as_micros()).unwrap();
        prop_assert_eq!(told == 0, standing.remaining > 0);
        prop_assert!(try_take(&mut bucket.clone(), shared, wait + told));
        if told > 0 {
            prop_assert!(!try_take(&mut bucket.clone(), shared, wait + told - 1));
        }
        let full = i64::try_from(standing.full_in.as_micros()).unwrap();
        prop_assert!(bucket.is_full(Timestamp(wait + full)));
        prop_assert!(full == 0 || !bucket.is_full(Timestamp(wait + full - 1)));
    }

    /// Steady callers at the limit are never refused, whatever the clock's phase.
    #[test]
    fn whoever_keeps_to_the_limit_is_never_refused(per_minute in 1u32..10_000, phase in 0i64..MINUTE_US) {
        let mut bucket = TokenBucket::full(Timestamp(0));
        for n in 0..200i64 {
            let due = n * MINUTE_US;
            let at = phase + due.div_euclid(i64::from(per_minute))
                + i64::from(due % i64::from(per_minute) > 0);
            prop_assert!(try_take(&mut bucket, per_minute, at));
        }
    }
}
