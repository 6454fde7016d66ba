//! Which header names the end user.

use http::HeaderName;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask, upstream_body};
use crate::surfaces::{self, on_each_surface};

on_each_surface!(
    the_configured_header_names_the_end_user_and_no_other_does,
    two_headers_that_name_one_are_refused_like_one_that_is_there_twice,
    without_a_header_only_the_body_names_one,
);

const OPEN_WEBUI: &str = "x-openwebui-user-id";
const OURS: &str = "turnwright-user";

async fn app(headers: &[&'static str]) -> (App, Listener) {
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Hello", &[]))])
        .await
        .unwrap();
    let mut wanted = AppOptions::plain();
    wanted.options.end_user_headers = headers
        .iter()
        .map(|name| HeaderName::from_static(name))
        .collect();
    (App::start(&upstream, wanted).await, upstream)
}

/// The status of a chat with these headers, and what names the turn.
async fn chat(client: &TestClient, surface: WireFormat, headers: &[(&str, &str)]) -> (u16, String) {
    let got = surfaces::send(client, surface, headers, &ask("Hi")).await;
    (
        got.status,
        format!("/v1/turns/{}", got.header("turnwright-turn")),
    )
}

async fn see(client: &TestClient, path: &str, headers: &[(&str, &str)]) -> u16 {
    client.send("GET", path, headers, "").await.unwrap().status
}

async fn the_configured_header_names_the_end_user_and_no_other_does(surface: WireFormat) {
    for (configured, heeded, ignored) in [
        (&[OURS][..], OURS, OPEN_WEBUI),
        (&[OPEN_WEBUI], OPEN_WEBUI, OURS),
        (&[OURS, OPEN_WEBUI], OPEN_WEBUI, "x-user"),
        (&[OPEN_WEBUI, OURS], OURS, "x-user"),
    ] {
        let (app, _upstream) = app(configured).await;
        let (status, path) = chat(&app.client, surface, &[(heeded, "ann"), (ignored, "bob")]).await;
        assert_eq!(status, 200, "{configured:?}");
        for (header, user, expected) in [
            (heeded, "ann", 200),
            (heeded, "bob", 404),
            (ignored, "bob", 200),
        ] {
            let seen = see(&app.client, &path, &[(header, user)]).await;
            assert_eq!(seen, expected, "{configured:?}: {header}: {user}");
        }
    }
}

async fn two_headers_that_name_one_are_refused_like_one_that_is_there_twice(surface: WireFormat) {
    let (app, upstream) = app(&[OPEN_WEBUI, OURS]).await;
    for headers in [
        &[(OURS, "ann"), (OPEN_WEBUI, "bob")][..],
        &[(OURS, "ann"), (OPEN_WEBUI, "ann")],
        &[(OURS, "ann"), (OURS, "ann")],
    ] {
        assert_eq!(
            chat(&app.client, surface, headers).await.0,
            400,
            "{headers:?}"
        );
        assert_eq!(
            see(&app.client, "/v1/turns/x", headers).await,
            400,
            "{headers:?}"
        );
    }
    assert!(upstream.asked().is_empty());
    // One that is empty names nobody.
    assert_eq!(
        chat(&app.client, surface, &[(OURS, "ann"), (OPEN_WEBUI, "")])
            .await
            .0,
        200
    );
}

async fn without_a_header_only_the_body_names_one(surface: WireFormat) {
    let (app, _upstream) = app(&[]).await;
    let (status, path) = chat(&app.client, surface, &[(OURS, "ann")]).await;
    assert_eq!(status, 200);
    assert_eq!(see(&app.client, &path, &[(OURS, "bob")]).await, 200);
}
