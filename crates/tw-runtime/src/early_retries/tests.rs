use std::time::Duration;

use tw_core::id::TurnId;
use tw_core::time::Timestamp;
use uuid::Uuid;

use super::{EARLY_RETRIES_MAX, EarlyRetries, FIRST_TRY_LATE_MAX};

const NOW: Timestamp = Timestamp(1_000_000_000);

fn turn(n: u128) -> TurnId {
    TurnId(Uuid::from_u128(n))
}

#[test]
fn one_first_try_is_known_for_a_while() {
    for (late, expected) in [
        (Duration::ZERO, Some(turn(1))),
        (FIRST_TRY_LATE_MAX, Some(turn(1))),
        (FIRST_TRY_LATE_MAX + Duration::from_micros(1), None),
    ] {
        let retries = EarlyRetries::default();
        retries.add([1; 32], turn(1), NOW);
        let now = NOW.after(late);
        assert_eq!(retries.take([2; 32], now), None);
        assert_eq!(retries.take([1; 32], now), expected, "{late:?}");
        assert_eq!(retries.take([1; 32], now), None);
    }
}

#[test]
fn so_many_are_kept_and_the_oldest_goes() {
    let retries = EarlyRetries::default();
    let fingerprint = |n: usize| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        bytes
    };
    for n in 0..=EARLY_RETRIES_MAX {
        let at = NOW.after(Duration::from_micros(n as u64));
        retries.add(fingerprint(n), turn(n as u128), at);
    }
    assert_eq!(retries.known().len(), EARLY_RETRIES_MAX);
    assert_eq!(retries.take(fingerprint(0), NOW), None);
    assert_eq!(retries.take(fingerprint(1), NOW), Some(turn(1)));
}
