use std::time::Duration;

use super::{
    DeliveryFault, DeliveryState, WebhookContents, WebhookDisabled, WebhookEvent, WebhookEvents,
    wait_before_next,
};

#[test]
fn waits_grow_over_about_a_day_and_then_end() {
    let hours = |wait: Duration| wait.as_secs() / 3600;
    let mut sums = [Duration::ZERO; 2];
    let mut tries = 0;
    while let Some(least) = wait_before_next(tries + 1, None, 0) {
        tries += 1;
        let most = wait_before_next(tries, None, 999).unwrap();
        assert!(least < most && most < least * 2, "{tries}");
        sums = [sums[0] + least, sums[1] + most];
    }
    assert_eq!(tries, 8);
    assert_eq!(sums.map(hours), [20, 30]);
    assert_eq!(wait_before_next(0, None, 0), None);
    assert_eq!(wait_before_next(u32::MAX, None, u32::MAX), None);
}

#[test]
fn an_endpoint_may_ask_for_an_hour_and_no_more() {
    let asked = |seconds| wait_before_next(1, Some(Duration::from_secs(seconds)), 500).unwrap();
    for (seconds, waits) in [(0, 5), (60, 60), (3_600, 3_600), (86_400, 3_600)] {
        assert_eq!(asked(seconds), Duration::from_secs(waits), "{seconds}");
    }
}

#[test]
fn words_and_sets_come_back() {
    for event in WebhookEvent::ALL.into_iter().chain([WebhookEvent::Test]) {
        assert_eq!(WebhookEvent::parse(event.as_str()), Some(event));
    }
    for known in WebhookContents::ALL {
        assert_eq!(WebhookContents::parse(known.as_str()), Some(known));
    }
    for known in WebhookDisabled::ALL {
        assert_eq!(WebhookDisabled::parse(known.as_str()), Some(known));
    }
    for known in DeliveryState::ALL {
        assert_eq!(DeliveryState::parse(known.as_str()), Some(known));
    }
    for known in DeliveryFault::ALL {
        assert_eq!(DeliveryFault::parse(known.as_str()), Some(known));
    }
    for bits in 0..64 {
        let events = WebhookEvents::of_bits(bits).unwrap();
        let listed: Vec<WebhookEvent> = events.iter().collect();
        assert_eq!(WebhookEvents::of(&listed), events);
        assert_eq!((events.bits(), events.is_empty()), (bits, bits == 0));
    }
    assert_eq!(WebhookEvents::of_bits(64), None);
}
