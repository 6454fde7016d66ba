use futures_util::FutureExt;
use tw_core::event::LogEvent;
use tw_core::id::{CallId, CallRef};
use tw_core::json::{Json, Literal};

use super::{WAITING_BYTES_MAX, new};

fn rounds(rounds: std::ops::Range<u32>) -> Vec<LogEvent> {
    rounds
        .map(|round| LogEvent::CallStarted {
            call: CallRef { round, position: 0 },
            id: CallId(uuid::Uuid::nil()),
            name: String::new(),
            arguments: Literal::default(),
            approves: None,
        })
        .collect()
}

fn long() -> LogEvent {
    LogEvent::Extra {
        key: "key".into(),
        value: Json::parse(&format!("{:?}", "x".repeat(WAITING_BYTES_MAX))).unwrap(),
    }
}

#[tokio::test]
async fn events_come_in_order_whatever_they_wait_for() {
    let (mut driver, mut client) = new();
    driver.give(rounds(0..2));
    driver.give(rounds(2..3));
    assert_eq!(client.next().await, Some(rounds(0..3)));
    let (taken, ()) = tokio::join!(client.next(), async { driver.give(rounds(3..4)) });
    assert_eq!(taken, Some(rounds(3..4)));
}

#[tokio::test]
async fn there_is_room_until_as_many_bytes_wait_and_again_when_they_are_taken() {
    let (mut driver, mut client) = new();
    let mut given = 0;
    while let Some(room) = driver.room().now_or_never() {
        room.unwrap();
        driver.give(rounds(given..given + 1));
        given += 1;
    }
    let bytes = rounds(0..1)[0].bytes();
    assert_eq!(given as usize, WAITING_BYTES_MAX.div_ceil(bytes));
    let (room, taken) = tokio::join!(driver.room(), client.next());
    room.unwrap();
    assert_eq!(taken, Some(rounds(0..given)));
    driver.give(vec![long()]);
    assert!(driver.room().now_or_never().is_none(), "texts count");
}

#[tokio::test]
async fn what_was_given_is_there_when_the_driver_is_gone() {
    let (mut driver, mut client) = new();
    driver.give(rounds(0..1));
    drop(driver);
    assert_eq!(client.next().await, Some(rounds(0..1)));
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn who_waits_hears_that_the_other_is_gone() {
    let (driver, mut client) = new();
    let (taken, ()) = tokio::join!(client.next(), async { drop(driver) });
    assert_eq!(taken, None);
    let (mut driver, client) = new();
    driver.give(vec![long()]);
    let (room, ()) = tokio::join!(driver.room(), async { drop(client) });
    assert!(room.is_err());
}
