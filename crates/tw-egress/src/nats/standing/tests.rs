use std::time::Duration;

use async_nats::{ClientError, Event, ServerError};
use tokio::time::Instant;

use super::{PROVEN_AFTER, StandingNews, StandingState};

fn pauses<const N: usize>(mut next: impl FnMut() -> Duration) -> [u128; N] {
    [(); N].map(|()| next().as_millis())
}

#[test]
fn pauses_grow_to_the_longest() {
    let mut state = StandingState::default();
    let found = pauses(|| state.next_pause());
    assert_eq!(found, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]);
    let found = pauses(|| state.break_down().0);
    let seconds = [1, 2, 4, 8, 16, 32, 60, 60].map(|seconds: u128| seconds * 1000);
    assert_eq!(found, seconds);
    (state.tries, state.breaks) = (u32::MAX, u32::MAX);
    assert_eq!(state.next_pause().as_millis(), 1000);
    assert_eq!(state.break_down().0.as_millis(), 60_000);
}

/// It is told of once, and not tried more often than one that is not there.
#[test]
fn a_server_that_takes_connections_and_drops_them_is_none() {
    let mut state = StandingState::default();
    let refusal = Event::ServerError(ServerError::Other("no".to_owned()));
    let mut now = Instant::now();
    let (mut news, mut pause) = (Vec::new(), Duration::ZERO);
    for _ in 0..100 {
        pause = state.next_pause();
        news.extend(state.on(&Event::Connected, now));
        news.extend(state.on(&refusal, now));
        now += PROVEN_AFTER - Duration::from_millis(1);
        news.extend(state.prove(now));
        news.extend(state.on(&Event::Disconnected, now));
        news.extend(state.break_down().1);
        assert_eq!(state.proven_at(), None);
    }
    let lost = |cause: &str| StandingNews::Lost(cause.to_owned());
    let [connected, refused, first_lost] = &news[..] else {
        panic!("{news:?}");
    };
    assert_eq!(*connected, StandingNews::Connected);
    assert!(matches!(refused, StandingNews::Refused(_)), "{refused:?}");
    assert_eq!(*first_lost, lost("the connection ended"));
    assert_eq!(pause.as_millis(), 1000);

    // Once one has stood, all begins anew.
    assert_eq!(state.on(&Event::Connected, now), None);
    now += PROVEN_AFTER;
    assert_eq!(state.proven_at(), Some(now));
    assert_eq!(state.prove(now), Some(StandingNews::Connected));
    assert_eq!((state.prove(now), state.proven_at()), (None, None));
    let complaint = Event::ClientError(ClientError::Other("odd".to_owned()));
    assert_eq!(state.on(&complaint, now), None);
    assert!(state.on(&refusal, now).is_some());
    assert!(state.on(&Event::Disconnected, now).is_some());
    assert_eq!(state.on(&complaint, now), None);
    assert_eq!(state.next_pause().as_millis(), 2);
    assert_eq!(state.break_down().0.as_millis(), 1000);
}

#[test]
fn a_server_that_is_not_there_is_told_of_once() {
    let mut state = StandingState::default();
    let now = Instant::now();
    let complaint = Event::ClientError(ClientError::Other("refused".to_owned()));
    let news: Vec<_> = (0..3).filter_map(|_| state.on(&complaint, now)).collect();
    assert_eq!(news.len(), 1);
    assert!(matches!(&news[0], StandingNews::Lost(cause) if cause.contains("refused")));
}
