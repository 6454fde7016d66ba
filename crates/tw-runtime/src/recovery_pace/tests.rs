use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tw_store::read::unfinished::UnfinishedTurn;

use super::{RecoveryPace, RecoveryPermit};

const KIB: u64 = 1024;

fn turn(kib: u64, claims_open: u32) -> UnfinishedTurn {
    UnfinishedTurn {
        body_bytes: kib * KIB / 2,
        record_bytes: kib * KIB / 2,
        claims_open,
    }
}

fn now<T>(waits: impl Future<Output = T>) -> Option<T> {
    match pin!(waits).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

fn permit(pace: &RecoveryPace, kib: u64, claims_open: u32) -> Option<RecoveryPermit> {
    now(pace.permit(&turn(kib, claims_open)))
}

#[test]
fn turns_go_together_as_far_as_their_bytes_have_room() {
    // What runs, in KiB and with its claims that came to nothing; then one more of 100 KiB.
    for (running, next) in [
        (&[][..], true),
        (&[(400, 0), (400, 0)], true),
        (&[(400, 0), (400, 0), (150, 0)], false),
        (&[(5000, 0)], false),
        (&[(10, 1)], false),
    ] {
        let pace = RecoveryPace::new(1000 * KIB);
        let held: Vec<_> = running
            .iter()
            .map(|&(kib, open)| permit(&pace, kib, open).unwrap())
            .collect();
        assert_eq!(permit(&pace, 100, 0).is_some(), next, "{running:?}");
        drop(held);
        assert!(permit(&pace, 100, 0).is_some(), "{running:?}");
    }
}

#[test]
fn one_that_was_left_before_waits_for_all_others_and_lets_them_in_once_it_goes_on() {
    let pace = RecoveryPace::new(1000 * KIB);
    let other = permit(&pace, 10, 0).unwrap();
    assert!(permit(&pace, 10, 1).is_none());
    drop(other);
    let mut alone = permit(&pace, 400, 1).unwrap();
    assert!(permit(&pace, 10, 0).is_none());
    alone.share();
    assert!(permit(&pace, 500, 0).is_some());
    assert!(permit(&pace, 700, 0).is_none());
}
