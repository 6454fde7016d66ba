//! Messages that are none, and connections that are refused.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_runtime::limiter::LimiterRules;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::client::{Socket, SocketTold};
use super::{RESPONSES, app, create, says};
use crate::app::{App, AppOptions, upstream_stream};

#[tokio::test]
async fn messages_that_are_none_are_told_so_and_the_connection_goes_on() {
    let upstream = says(&["OK."]).await;
    let app = app(&upstream).await;
    let mut socket = Socket::open(&app).await;
    for (message, status, code) in [
        (Message::text(""), 400, "invalid_request_error"),
        (Message::text("{"), 400, "invalid_request_error"),
        (Message::text("[]"), 400, "invalid_request_error"),
        (Message::text("{}"), 400, "missing_required_parameter"),
        (
            Message::text(r#"{"type":"response.cancel"}"#),
            400,
            "invalid_value",
        ),
        (
            Message::text(r#"{"type":"response.create"}"#),
            400,
            "missing_required_parameter",
        ),
        (
            Message::text(r#"{"type":"response.create","model":"m","input":"x","generate":0}"#),
            400,
            "invalid_type",
        ),
        (
            Message::text(
                r#"{"type":"response.create","model":"m","input":"x","background":true}"#,
            ),
            400,
            "unsupported_parameter",
        ),
        (
            Message::text("[".repeat(100_000)),
            400,
            "invalid_request_error",
        ),
        (Message::binary(vec![0; 100]), 400, "invalid_message"),
    ] {
        let shown: String = format!("{message:?}").chars().take(100).collect();
        socket.send(message).await;
        assert_eq!(socket.error().await, (status, code.to_owned()), "{shown}");
    }
    assert_eq!(upstream.asked().len(), 0);
    socket.answered(&create("Hi")).await;
}

#[tokio::test]
async fn what_cannot_be_read_ends_the_connection_and_no_other() {
    let upstream = says(&["OK."]).await;
    let wanted = AppOptions {
        config: Box::new(|config| config.request.body_bytes_max = 1000),
        ..AppOptions::plain()
    };
    let app = App::start(&upstream, wanted).await;
    let mut other = Socket::open(&app).await;
    let not_utf8 = Frame::message(vec![0xff; 3], OpCode::Data(Data::Text), true);
    for (message, error, code) in [
        (
            Message::text("x".repeat(1001)),
            (413, "request_too_large"),
            1009,
        ),
        (Message::Frame(not_utf8), (400, "invalid_message"), 1002),
    ] {
        let mut socket = Socket::open(&app).await;
        socket.send(message).await;
        assert_eq!(socket.error().await, (error.0, error.1.to_owned()));
        assert_eq!(socket.next().await, SocketTold::Closed(code));
    }
    other.answered(&create("Hi")).await;
}

#[tokio::test]
async fn a_message_while_a_response_is_under_way_does_it_no_harm() {
    let pieces = vec![
        ReplyPiece::HeadGate("go"),
        ReplyPiece::Bytes(upstream_stream("OK.", &[]).into()),
    ];
    let reply = ListenerReply::pieces("text/event-stream", pieces);
    let upstream = Listener::in_turn(vec![reply]).await.unwrap();
    let app = app(&upstream).await;
    let mut socket = Socket::open(&app).await;
    socket.say(&create("Hi")).await;
    upstream.asked_times(1).await;
    for message in [
        Message::text(create("Ho").to_string()),
        Message::binary(vec![1]),
    ] {
        socket.send(message).await;
        assert_eq!(socket.error().await, (409, "response_under_way".to_owned()));
    }
    upstream.open("go");
    let events = socket.rest().await;
    assert_eq!(events.last().unwrap()["type"], json!("response.completed"));
    assert_eq!(upstream.asked().len(), 1);
    socket.answered(&create("Ho")).await;
}

#[tokio::test]
async fn a_fault_before_anything_is_told_is_an_error_and_later_a_failed_response() {
    let begun = upstream_stream("Half", &[]);
    // Up to the text; the end is missing.
    let half: String = begun.split_inclusive("\n\n").take(2).collect();
    let cut = vec![ReplyPiece::Bytes(half.into()), ReplyPiece::Cut];
    for (reply, types) in [
        (ListenerReply::status(503, "{}"), vec!["error"]),
        (
            ListenerReply::pieces("text/event-stream", cut),
            vec!["response.created", "response.failed"],
        ),
    ] {
        let upstream = Listener::in_turn(vec![reply]).await.unwrap();
        let app = app(&upstream).await;
        let mut socket = Socket::open(&app).await;
        let events = socket.ask(&create("Hi")).await;
        let ends = [&events[0], &events[events.len() - 1]].map(|event| event["type"].clone());
        assert_eq!(ends[0], json!(types[0]), "{events:?}");
        assert_eq!(ends[1], json!(types[types.len() - 1]), "{events:?}");
    }
}

#[tokio::test]
async fn an_opening_without_a_key_or_without_a_socket_is_refused() {
    let upstream = says(&["OK."]).await;
    let mut app = app(&upstream).await;
    let got = app.client.send("GET", RESPONSES, &[], "").await.unwrap();
    let code = got.json()["error"]["code"].clone();
    assert_eq!((got.status, code), (405, json!("websocket_required")));
    let reads = app
        .key("default", ToolGrant::All, vec![KeyScope::TurnsRead])
        .await;
    for (key, status, code) in [
        (None, 401, "missing_api_key"),
        (Some("tw-wrong".to_owned()), 401, "invalid_api_key"),
        (Some(reads), 403, "insufficient_scope"),
    ] {
        app.client.key = key;
        let Err((got, body)) = Socket::open_with(&app, &[]).await else {
            panic!("it is open");
        };
        // The client reads as much of the body as came with the head.
        let told = &body["error"]["code"];
        assert_eq!(got, status);
        assert!(told == &json!(code) || told == &Value::Null, "{body}");
    }
}

#[tokio::test]
async fn each_message_is_a_request_of_the_limit() {
    let upstream = says(&["OK."]).await;
    let wanted = AppOptions {
        config: Box::new(|config| {
            config.rules = LimiterRules {
                key: RateLimits {
                    requests_per_minute: Some(1),
                    ..RateLimits::default()
                },
                ..LimiterRules::defaults()
            };
        }),
        ..AppOptions::plain()
    };
    let app = App::start(&upstream, wanted).await;
    let mut socket = Socket::open(&app).await;
    socket.answered(&create("Hi")).await;
    let refused = socket.refused(&create("Ho")).await;
    assert_eq!(refused, (429, "rate_limit_exceeded".to_owned()));
}
