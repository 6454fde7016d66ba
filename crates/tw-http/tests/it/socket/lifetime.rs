//! How a connection ends: by its client, by its age, and with the server.

use std::time::Duration;

use serde_json::json;
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_http::server::{SocketLimits, SurfaceOptions};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;

use super::client::{Socket, SocketTold};
use super::{app, create, says};
use crate::app::{App, AppOptions, upstream_stream};

/// An upstream that answers when the gate is open.
async fn gated() -> Listener {
    let pieces = vec![
        ReplyPiece::HeadGate("go"),
        ReplyPiece::Bytes(upstream_stream("OK.", &[]).into()),
    ];
    let reply = ListenerReply::pieces("text/event-stream", pieces);
    Listener::in_turn(vec![reply]).await.unwrap()
}

#[tokio::test]
async fn who_leaves_stops_the_turn_unless_it_is_to_finish() {
    for (headers, status) in [
        (&[][..], "cancelled"),
        (&[("turnwright-on-leave", "finish")], "completed"),
    ] {
        let upstream = gated().await;
        let app = app(&upstream).await;
        let mut socket = Socket::open_with(&app, headers).await.unwrap();
        socket.say(&create("Hi")).await;
        upstream.asked_times(1).await;
        socket.close().await;
        if status == "completed" {
            upstream.open("go");
        }
        app.settled().await;
        let page = app.client.send("GET", "/v1/conversations", &[], "").await;
        let conversation = page.unwrap().json()["data"][0]["id"].clone();
        let path = format!("/v1/conversations/{}/turns", conversation.as_str().unwrap());
        let turns = app.client.send("GET", &path, &[], "").await.unwrap().json();
        assert_eq!(turns["data"][0]["status"], json!(status));
    }
}

#[tokio::test]
async fn a_connection_that_is_too_old_is_closed_between_two_responses() {
    let upstream = says(&["OK."]).await;
    let wanted = AppOptions {
        options: SurfaceOptions {
            socket_life: Duration::from_millis(20),
            ..SurfaceOptions::defaults()
        },
        ..AppOptions::plain()
    };
    let app = App::start(&upstream, wanted).await;
    let mut socket = Socket::open(&app).await;
    let error = socket.error().await;
    assert_eq!(
        error,
        (400, "websocket_connection_limit_reached".to_owned())
    );
    assert_eq!(socket.next().await, SocketTold::Closed(1000));
}

#[tokio::test]
async fn a_server_that_ends_closes_behind_what_is_being_told() {
    let upstream = gated().await;
    let app = app(&upstream).await;
    let mut idle = Socket::open(&app).await;
    let mut busy = Socket::open(&app).await;
    busy.say(&create("Hi")).await;
    upstream.asked_times(1).await;
    app.surfaces.close_connections();
    assert_eq!(idle.next().await, SocketTold::Closed(1001));
    let refused = Socket::open_with(&app, &[]).await.err().unwrap();
    assert_eq!(refused.0, 503);
    upstream.open("go");
    let events = busy.rest().await;
    assert_eq!(events.last().unwrap()["type"], json!("response.completed"));
    assert_eq!(busy.next().await, SocketTold::Closed(1001));
    drop((idle, busy));
    // It ends, since both are closed.
    app.surfaces
        .sockets_closed_within(Duration::from_secs(60))
        .await;
}

#[tokio::test]
async fn a_key_has_a_part_of_the_connections_and_gets_it_back() {
    let upstream = says(&["OK."]).await;
    let sockets = SocketLimits { all: 3, of_key: 2 };
    let wanted = AppOptions {
        options: SurfaceOptions {
            sockets,
            ..SurfaceOptions::defaults()
        },
        ..AppOptions::plain()
    };
    let mut app = App::start(&upstream, wanted).await;
    let own = app.client.key.clone();
    let other = app
        .key("other", ToolGrant::None, vec![KeyScope::Chat])
        .await;
    let first = Socket::open(&app).await;
    let mut second = Socket::open(&app).await;
    let (status, body) = Socket::open_with(&app, &[]).await.err().unwrap();
    assert_eq!(
        (status, &body["error"]["code"]),
        (429, &json!("rate_limit_exceeded"))
    );
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("has 2 WebSockets open"), "{message}");
    // Those that it has work on, and another key has room as long as there is some.
    second.answered(&create("Hi")).await;
    app.client.key = Some(other);
    let others = Socket::open(&app).await;
    let (status, body) = Socket::open_with(&app, &[]).await.err().unwrap();
    assert_eq!(
        (status, &body["error"]["code"]),
        (503, &json!("overloaded"))
    );
    others.close().await;
    first.close().await;
    app.client.key = own;
    // The place is free when the server has seen the end.
    poll_until("a place for a connection", async || {
        Socket::open_with(&app, &[]).await.ok()
    })
    .await;
}
