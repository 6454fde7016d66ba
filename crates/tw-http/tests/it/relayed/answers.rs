//! Answers on their way: as they come, broken off, and left.

use std::pin::pin;
use std::task::{Context, Waker};

use tw_core::rate::RateLimits;
use tw_runtime::limiter::LimiterRules;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::{EMBEDDINGS, post, rows};
use crate::app::{App, AppOptions};

const GATE: &str = "go";
const STREAMED: &str = r#"{"model":"m","prompt":"x","stream":true}"#;
const FIRST: &str = "data: {\"choices\":[{\"text\":\"one\"}]}\n\n";
const LAST: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";

fn events(rest: Vec<ReplyPiece>) -> ListenerReply {
    let mut pieces = vec![ReplyPiece::Bytes(FIRST.into())];
    pieces.extend(rest);
    ListenerReply::pieces("text/event-stream", pieces)
}

#[tokio::test]
async fn a_stream_passes_as_it_comes() {
    let rest = vec![ReplyPiece::Gate(GATE), ReplyPiece::Bytes(LAST.into())];
    let listener = Listener::in_turn(vec![events(rest)]).await.unwrap();
    let app = App::start(&listener, AppOptions::plain()).await;
    let open = app
        .client
        .open("POST", "/v1/completions", &[], STREAMED)
        .await;
    let mut open = open.unwrap();
    assert_eq!(open.header("content-type"), "text/event-stream");
    assert_eq!(open.next().await.unwrap(), FIRST);
    listener.open(GATE);
    let got = open.read().await;
    assert_eq!((&*got.text(), got.broken), (LAST, false));
    let row = rows(&app, 1).await.pop().unwrap();
    assert_eq!(
        (&*row.outcome, row.tokens),
        ("completed", (Some(2), Some(1)))
    );
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_request_at_the_upstream() {
    let waits = ListenerReply::pieces("application/json", vec![ReplyPiece::HeadGate(GATE)]);
    for (reply, http_status) in [
        (events(vec![ReplyPiece::Silence]), Some(200)),
        (waits, None),
    ] {
        let listener = Listener::in_turn(vec![reply]).await.unwrap();
        let app = App::start(&listener, AppOptions::plain()).await;
        let client = app.client.clone();
        let mut asking = Box::pin(client.open("POST", "/v1/completions", &[], STREAMED));
        if http_status.is_some() {
            let mut open = asking.await.unwrap();
            assert_eq!(open.next().await.unwrap(), FIRST);
            drop(open);
        } else {
            tokio::select! {
                _ = &mut asking => unreachable!("the head waits"),
                () = listener.asked_times(1) => {}
            }
            drop(asking);
        }
        listener.abandoned_times(1).await;
        let row = rows(&app, 1).await.pop().unwrap();
        assert_eq!((&*row.outcome, row.http_status), ("cancelled", http_status));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_whole_one() {
    let half = "{\"data\":[";
    for (content_type, first, broken) in [
        ("application/json", half, true),
        ("text/event-stream; charset=utf-8", FIRST, false),
    ] {
        let pieces = vec![
            ReplyPiece::Bytes(first.into()),
            ReplyPiece::Gate(GATE),
            ReplyPiece::Cut,
        ];
        let reply = ListenerReply::pieces(content_type, pieces);
        let listener = Listener::in_turn(vec![reply]).await.unwrap();
        let app = App::start(&listener, AppOptions::plain()).await;
        let open = app.client.open("POST", EMBEDDINGS, &[], STREAMED).await;
        let mut open = open.unwrap();
        assert_eq!(open.next().await.unwrap(), first);
        listener.open(GATE);
        let got = open.read().await;
        assert_eq!((got.status, got.broken), (200, broken), "{}", got.text());
        if !broken {
            let last = got.events().pop().unwrap();
            let told = "{\"error\":{\"message\":\"the upstream's answer broke off\"";
            assert!(last.starts_with(told), "{last}");
        }
        let row = rows(&app, 1).await.pop().unwrap();
        assert_eq!(
            (&*row.outcome, row.http_status, row.attempts),
            ("failed", Some(200), 1)
        );
    }
}

#[tokio::test]
async fn a_place_is_taken_until_the_answer_is_over() {
    let one = |limits: fn(&mut RateLimits)| {
        let mut key = RateLimits::default();
        limits(&mut key);
        LimiterRules {
            key,
            ..LimiterRules::defaults()
        }
    };
    let cases: [(LimiterRules, &str); 4] = [
        (
            one(|limits| limits.concurrency_max = Some(1)),
            "requests at once",
        ),
        (one(|limits| limits.streams_max = Some(1)), "open streams"),
        (
            one(|limits| limits.requests_per_minute = Some(1)),
            "requests per minute",
        ),
        (
            LimiterRules {
                turns_max: 1,
                ..LimiterRules::defaults()
            },
            "no room",
        ),
    ];
    for (rules, says) in cases {
        let rest = vec![ReplyPiece::Gate(GATE), ReplyPiece::Bytes(LAST.into())];
        let listener = Listener::in_turn(vec![events(rest)]).await.unwrap();
        let wanted = AppOptions {
            config: Box::new(|config| config.rules = rules),
            ..AppOptions::plain()
        };
        let app = App::start(&listener, wanted).await;
        let open = app
            .client
            .open("POST", "/v1/completions", &[], STREAMED)
            .await;
        let open = open.unwrap();
        let refused = post(&app, "/v1/completions", STREAMED).await;
        assert!([429, 503].contains(&refused.status), "{}", refused.text());
        assert!(refused.text().contains(says), "{}", refused.text());
        assert_eq!(listener.asked().len(), 1);
        listener.open(GATE);
        assert_eq!(open.read().await.text(), format!("{FIRST}{LAST}"));
        if says != "requests per minute" {
            assert_eq!(
                post(&app, "/v1/completions", STREAMED).await.status,
                200,
                "{says}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_stops_lets_an_answer_end_and_records_it() {
    let rest = vec![ReplyPiece::Gate(GATE), ReplyPiece::Bytes(LAST.into())];
    let listener = Listener::in_turn(vec![events(rest)]).await.unwrap();
    let app = App::start(&listener, AppOptions::plain()).await;
    let open = app
        .client
        .open("POST", "/v1/completions", &[], STREAMED)
        .await;
    let mut open = open.unwrap();
    assert_eq!(open.next().await.unwrap(), FIRST);
    let mut stopping = pin!(app.runtime.shut_down());
    let mut unwoken = Context::from_waker(Waker::noop());
    assert!(stopping.as_mut().poll(&mut unwoken).is_pending());
    let refused = post(&app, EMBEDDINGS, r#"{"model":"m"}"#).await;
    assert_eq!(refused.status, 503);
    assert!(stopping.as_mut().poll(&mut unwoken).is_pending());
    listener.open(GATE);
    assert_eq!(open.read().await.text(), LAST);
    stopping.await;
    assert_eq!(rows(&app, 1).await.len(), 1);
}
