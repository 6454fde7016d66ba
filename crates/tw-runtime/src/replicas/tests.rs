use tw_core::rate::RateLimits;

use super::*;

fn share(instances: u32) -> LimitShare {
    let share = LimitShare::default();
    share.set(instances);
    share
}

#[test]
fn a_limit_is_divided_by_those_who_serve() {
    let rows = [
        (1, 10, 10),
        (3, 10, 3),
        (4, 10, 2),
        (0, 10, 10),
        // Whoever asks here must be served some time.
        (3, 2, 1),
        // No limit stays none.
        (3, 0, 0),
    ];
    for (instances, limit, part) in rows {
        assert_eq!(share(instances).of(limit), part, "{limit} of {instances}");
    }
}

#[test]
fn a_limit_that_is_not_set_stays_so() {
    let limits = RateLimits {
        requests_per_minute: Some(60),
        concurrency_max: None,
        streams_max: Some(0),
    };
    let part = RateLimits {
        requests_per_minute: Some(30),
        ..limits
    };
    assert_eq!(share(2).of_all(limits), part);
}
