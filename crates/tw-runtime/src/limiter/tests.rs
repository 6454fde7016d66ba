use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tw_core::id::{ApiKeyId, OrgId};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;

use super::{
    BodyPermit, COUNTED_MAX, LimitKind, LimitSubject, Limiter, LimiterRules, ReachedLimit,
    RoomPermit, RoomRefused, SWEPT_AT,
};
use crate::auth::Principal;

const ACME: i64 = 1;
const OTHER: i64 = 2;

fn caller(organization: i64, key: i64) -> Principal {
    Principal {
        key_shown: "tw-00000".into(),
        organization: OrgId(organization),
        organization_slug: if organization == ACME {
            "acme"
        } else {
            "other"
        }
        .into(),
        api_key: ApiKeyId(key),
        scopes: Vec::new(),
        tools: ToolGrant::None,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Full,
        limits: RateLimits::default(),
        memory: KeyMemory::Off,
        expires: None,
    }
}

fn per_minute(requests: u32) -> RateLimits {
    RateLimits {
        requests_per_minute: Some(requests),
        ..RateLimits::default()
    }
}

fn at_once(turns: u32) -> RateLimits {
    RateLimits {
        concurrency_max: Some(turns),
        ..RateLimits::default()
    }
}

/// A limiter and its clock, which stands.
fn limiter(rules: LimiterRules) -> (Arc<Limiter>, Env) {
    let env = Env::seeded(1, Timestamp(0));
    (Limiter::new(rules, Arc::default(), env.clone()), env)
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000_000)
}

fn limited(outcome: Result<RoomPermit, RoomRefused>) -> ReachedLimit {
    match outcome.unwrap_err() {
        RoomRefused::Limited(limited) => limited,
        RoomRefused::Overloaded => panic!("the server is not full"),
    }
}

#[test]
fn without_limits_nothing_is_counted() {
    let (limiter, _) = limiter(LimiterRules::defaults());
    let _turn = limiter.begin(&caller(ACME, 1), 0).unwrap();
    let _stream = limiter.open_stream(&caller(ACME, 1)).unwrap();
    assert!(limiter.lock().of.is_empty());
    assert_eq!(limiter.requests(&caller(ACME, 1)), None);
}

#[test]
fn each_key_has_its_requests_and_those_of_one_organization_share_its() {
    let (limiter, env) = limiter(LimiterRules {
        key: per_minute(2),
        organization: per_minute(3),
        ..LimiterRules::defaults()
    });
    for key in [1, 1, 2] {
        drop(limiter.begin(&caller(ACME, key), 0).unwrap());
    }
    let of_key = limited(limiter.begin(&caller(ACME, 1), 0));
    assert_eq!(
        (of_key.whose, of_key.what),
        (LimitSubject::Key, LimitKind::RequestsPerMinute)
    );
    assert_eq!(of_key.retry_after, Duration::from_secs(30));
    let of_organization = limited(limiter.begin(&caller(ACME, 2), 0));
    assert_eq!(of_organization.whose, LimitSubject::Organization);
    assert_eq!(of_organization.retry_after, Duration::from_secs(20));
    let standing = of_organization.requests.unwrap();
    assert_eq!((standing.limit.get(), standing.remaining), (3, 0));
    // The other organization has seen nothing of it.
    drop(limiter.begin(&caller(OTHER, 3), 0).unwrap());
    assert_eq!(limiter.requests(&caller(OTHER, 3)).unwrap().remaining, 1);
    // A refusal takes nothing, neither of the key nor of the organization.
    env.move_clock(seconds(20));
    drop(limiter.begin(&caller(ACME, 2), 0).unwrap());
}

#[test]
fn a_place_is_free_again_when_it_is_dropped() {
    let (limiter, _) = limiter(LimiterRules {
        key: at_once(1),
        organization: at_once(2),
        ..LimiterRules::defaults()
    });
    let first = limiter.begin(&caller(ACME, 1), 0).unwrap();
    let again = limited(limiter.begin(&caller(ACME, 1), 0));
    assert_eq!(
        (again.whose, again.what),
        (LimitSubject::Key, LimitKind::TurnsAtOnce)
    );
    assert_eq!(again.requests, None);
    let _second = limiter.begin(&caller(ACME, 2), 0).unwrap();
    let third = limited(limiter.begin(&caller(ACME, 3), 0));
    assert_eq!(
        (third.whose, third.max.get()),
        (LimitSubject::Organization, 2)
    );
    drop(first);
    assert!(limiter.begin(&caller(ACME, 3), 0).is_ok());
}

#[test]
fn a_refused_turn_takes_no_place_of_the_server() {
    let (limiter, _) = limiter(LimiterRules {
        turns_max: 2,
        key: at_once(1),
        ..LimiterRules::defaults()
    });
    let _first = limiter.begin(&caller(ACME, 1), 0).unwrap();
    limited(limiter.begin(&caller(ACME, 1), 0));
    let _second = limiter.begin(&caller(ACME, 2), 0).unwrap();
    assert_eq!(
        limiter.begin(&caller(OTHER, 3), 0).unwrap_err(),
        RoomRefused::Overloaded
    );
    assert_eq!(
        limiter.may_begin(&caller(OTHER, 3)),
        Err(RoomRefused::Overloaded)
    );
}

#[test]
fn a_turn_that_was_taken_over_counts_for_those_who_come_later() {
    let (limiter, _) = limiter(LimiterRules {
        organization: at_once(1),
        ..LimiterRules::defaults()
    });
    let places = [1, 1].map(|key| {
        let body = body_permit(&limiter, 0).unwrap();
        limiter.taken_over(OrgId(ACME), ApiKeyId(key), body)
    });
    limited(limiter.begin(&caller(ACME, 2), 0));
    drop(places);
    assert!(limiter.begin(&caller(ACME, 2), 0).is_ok());
    assert!(limiter.lock().of.is_empty());
}

#[test]
fn a_turn_that_did_not_begin_gives_its_request_back() {
    let (limiter, _) = limiter(LimiterRules {
        key: per_minute(1),
        organization: per_minute(1),
        ..LimiterRules::defaults()
    });
    limiter.begin(&caller(ACME, 1), 0).unwrap().give_back();
    drop(limiter.begin(&caller(ACME, 1), 0).unwrap());
    limited(limiter.begin(&caller(ACME, 1), 0));
}

#[test]
fn streams_are_counted_by_themselves() {
    let (limiter, _) = limiter(LimiterRules {
        streams_max: 2,
        key: RateLimits {
            streams_max: Some(1),
            ..RateLimits::default()
        },
        ..LimiterRules::defaults()
    });
    let first = limiter.open_stream(&caller(ACME, 1)).unwrap();
    assert!(limiter.begin(&caller(ACME, 1), 0).is_ok());
    let again = limited(limiter.open_stream(&caller(ACME, 1)));
    assert_eq!(
        (again.whose, again.what),
        (LimitSubject::Key, LimitKind::StreamsAtOnce)
    );
    let _second = limiter.open_stream(&caller(ACME, 2)).unwrap();
    let third = limiter.open_stream(&caller(OTHER, 3)).unwrap_err();
    assert_eq!(third, RoomRefused::Overloaded);
    drop(first);
    assert!(limiter.open_stream(&caller(OTHER, 3)).is_ok());
}

#[test]
fn own_limits_go_before_those_of_all() {
    let (limiter, _) = limiter(LimiterRules {
        key: per_minute(1),
        organization: at_once(1),
        organizations: BTreeMap::from([("acme".to_owned(), at_once(0))]),
        ..LimiterRules::defaults()
    });
    let free = Principal {
        limits: per_minute(0),
        ..caller(ACME, 1)
    };
    let _held = [1, 2, 3].map(|_| limiter.begin(&free, 0).unwrap());
    let _other = limiter.begin(&caller(OTHER, 2), 0).unwrap();
    assert_eq!(
        limited(limiter.begin(&caller(OTHER, 3), 0)).whose,
        LimitSubject::Organization
    );
}

#[test]
fn those_who_are_idle_are_forgotten_and_the_number_of_the_others_is_bounded() {
    let (limiter, env) = limiter(LimiterRules {
        key: per_minute(1),
        ..LimiterRules::defaults()
    });
    let many = i64::try_from(COUNTED_MAX).unwrap();
    for key in 0..many {
        drop(limiter.begin(&caller(ACME, key), 0).unwrap());
    }
    let one_more = limiter.begin(&caller(ACME, many), 0).unwrap_err();
    assert_eq!(one_more, RoomRefused::Overloaded);
    env.move_clock(seconds(60));
    drop(limiter.begin(&caller(ACME, many), 0).unwrap());
    assert!(limiter.lock().of.len() < SWEPT_AT);
}

/// The room for a body of a turn that is taken over, if it is there now.
fn body_permit(limiter: &Arc<Limiter>, bytes: u64) -> Option<BodyPermit> {
    let waits = std::pin::pin!(limiter.body_permit(bytes));
    match waits.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(permit) => Some(permit),
        Poll::Pending => None,
    }
}

#[test]
fn bodies_of_running_turns_have_room_together() {
    const MIB: u64 = 1024 * 1024;
    // What runs, in MiB; a new turn that has no room beside it; and one that has.
    for (running, refused, taken) in [
        (&[4, 4][..], Some(3), 2),
        (&[9], Some(2), 1),
        (&[], None, 10),
        // Larger than all of it: alone.
        (&[], None, 50),
        (&[1], Some(50), 9),
    ] {
        let (limiter, _) = limiter(LimiterRules {
            running_bodies_bytes_max: 10 * MIB,
            ..LimiterRules::defaults()
        });
        let caller = caller(ACME, 1);
        let held: Vec<_> = running
            .iter()
            .map(|mib| limiter.begin(&caller, mib * MIB).unwrap())
            .collect();
        if let Some(refused) = refused {
            assert_eq!(
                limiter.begin(&caller, refused * MIB).unwrap_err(),
                RoomRefused::Overloaded
            );
        }
        let last = limiter.begin(&caller, taken * MIB).unwrap();
        let is_full = running.iter().sum::<u64>() + taken >= 10;
        assert_eq!(limiter.may_begin(&caller).is_err(), is_full, "{running:?}");
        drop((held, last));
        assert!(limiter.begin(&caller, 10 * MIB).is_ok());
        assert_eq!(limiter.turns.load(Ordering::Acquire), 0);
    }
}

#[test]
fn a_turn_that_is_taken_over_waits_for_room_and_goes_before_new_ones() {
    const MIB: u64 = 1024 * 1024;
    let (limiter, _) = limiter(LimiterRules {
        running_bodies_bytes_max: 10 * MIB,
        ..LimiterRules::defaults()
    });
    let caller = caller(ACME, 1);
    let first = limiter.begin(&caller, 6 * MIB).unwrap();
    let mut waits = Box::pin(limiter.body_permit(5 * MIB));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    // What is free already waits for it.
    assert!(limiter.begin(&caller, 2 * MIB).is_err());
    drop(first);
    let Poll::Ready(body) = waits.as_mut().poll(&mut context) else {
        panic!("there is room");
    };
    let place = limiter.taken_over(OrgId(ACME), ApiKeyId(1), body);
    assert!(limiter.begin(&caller, 6 * MIB).is_err());
    assert!(limiter.begin(&caller, 5 * MIB).is_ok());
    drop(place);
    assert!(limiter.begin(&caller, 10 * MIB).is_ok());
}
