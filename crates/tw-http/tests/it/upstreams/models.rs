//! `GET /v1/models`: one list of what all upstreams have.

use std::time::Duration;

use serde_json::json;
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_egress::secret::Secret;
use tw_egress::upstream::UpstreamKind;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest};

use super::{in_front_of, in_front_of_with, serves, upstream};
use crate::app::App;

async fn get(app: &App, path: &str) -> ReadAnswer {
    app.client.send("GET", path, &[], "").await.unwrap()
}

async fn ids(app: &App) -> Vec<String> {
    let got = get(app, "/v1/models").await;
    assert_eq!(got.status, 200, "{}", got.text());
    let listed = got.json();
    let entries = listed["data"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect()
}

/// The message of a list that could not be given.
async fn refused(app: &App, path: &str) -> String {
    let got = get(app, path).await;
    assert_eq!(got.status, 502, "{}", got.text());
    let error = &got.json()["error"];
    assert_eq!(error["code"], json!("upstream_failed"));
    error["message"].as_str().unwrap().to_owned()
}

/// A listener that has these models.
async fn has(entries: &'static str) -> Listener {
    Listener::start(move |asked: &ReceivedRequest| {
        assert_eq!(
            (asked.method.as_str(), asked.target.as_str()),
            ("GET", "/v1/models")
        );
        ListenerReply::json(entries)
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn the_lists_of_all_upstreams_are_one_and_entries_stay_as_they_are() {
    let first = has(r#"{"object":"list","data":[{"id":"gpt-4o","object":"model","created":1715367049,"owned_by":"system", "x":1.50},{"id":"tts-1","object":"model"}]}"#).await;
    let second =
        has(r#"[{"id":"gpt-4o","from":"second"},{"id":"org/llama"},{"id":"gpt-5"}]"#).await;
    let mut openai = upstream("openai", first.url("/v1"));
    openai.kind = UpstreamKind::Http {
        base_url: first.url("/v1"),
        api_key: Some(Secret::new("sk-4711".to_owned())),
    };
    openai.models = serves(
        &["gpt-4*"],
        &[("fast", "gpt-4o"), ("odd", "no-such"), ("any-*", "x")],
    );
    let local = upstream("local", second.url("/v1"));
    let app = in_front_of(vec![openai, local]).await;
    let got = get(&app, "/v1/models").await;
    assert_eq!(got.header("content-type"), "application/json");
    assert_eq!(
        got.text(),
        concat!(
            r#"{"object":"list","data":["#,
            r#"{"id":"fast","object":"model","created":1715367049,"owned_by":"system","x":1.50},"#,
            r#"{"id":"odd","object":"model","created":0,"owned_by":"openai"},"#,
            r#"{"id":"gpt-4o","object":"model","created":1715367049,"owned_by":"system", "x":1.50},"#,
            r#"{"id":"org/llama"},{"id":"gpt-5"}]}"#
        )
    );
    assert_eq!(first.asked()[0].header("authorization"), "Bearer sk-4711");
    // Both were asked once, however often clients ask.
    for id in ["gpt-4o", "org/llama", "org%2Fllama"] {
        let got = get(&app, &format!("/v1/models/{id}")).await;
        assert_eq!(got.status, 200, "{id}: {}", got.text());
        assert_eq!(got.json()["id"], json!(id.replace("%2F", "/")));
    }
    for id in ["tts-1", "any-1", "x"] {
        let got = get(&app, &format!("/v1/models/{id}")).await;
        assert_eq!(got.status, 404, "{id}");
        assert_eq!(got.json()["error"]["code"], json!("model_not_found"));
    }
    assert_eq!((first.asked().len(), second.asked().len()), (1, 1));
}

#[tokio::test]
async fn one_that_is_down_does_not_fail_the_rest_and_its_last_word_is_used() {
    let good = has(r#"{"data":[{"id":"a"}]}"#).await;
    let flaky = Listener::in_turn(vec![
        ListenerReply::json(r#"{"data":[{"id":"b"}]}"#),
        ListenerReply::status(500, r#"{"error":{"message":"secret-4711"}}"#),
    ])
    .await
    .unwrap();
    let upstreams = || {
        let mut last = upstream("last", "http://127.0.0.1:1/v1".to_owned());
        last.models = serves(&["z-*", "z-1"], &[]);
        let mut middle = upstream("middle", flaky.url("/v1"));
        middle.models = serves(&["b"], &[]);
        let mut first = upstream("first", good.url("/v1"));
        first.models = serves(&["a"], &[]);
        vec![first, middle, last]
    };
    // Nothing is kept, so that each request asks again.
    let app = in_front_of_with(upstreams(), |config| config.models_kept = Duration::ZERO).await;
    assert_eq!(ids(&app).await, ["a", "b", "z-1"]);
    flaky.asked_times(1).await;
    assert_eq!(ids(&app).await, ["a", "b", "z-1"]);
    flaky.asked_times(2).await;
    let got = get(&app, "/v1/models/b").await;
    assert_eq!(
        got.text(),
        r#"{"id":"b"}"#,
        "the entry is the upstream's own"
    );
}

#[tokio::test]
async fn a_list_is_not_asked_for_again_while_it_is_new_nor_at_once_after_a_failure() {
    let down = Listener::in_turn(vec![ListenerReply::status(503, "{}")])
        .await
        .unwrap();
    let app = in_front_of(vec![upstream("down", down.url("/v1"))]).await;
    for _ in 0..3 {
        assert_eq!(
            refused(&app, "/v1/models").await,
            "No upstream gave its list of models: 'down' answered with status 503."
        );
    }
    assert_eq!(down.asked().len(), 1);
}

#[tokio::test]
async fn requests_that_come_together_ask_once() {
    let slow = has(r#"{"data":[{"id":"a"}]}"#).await;
    let app = in_front_of(vec![upstream("slow", slow.url("/v1"))]).await;
    let (a, b, c) = tokio::join!(ids(&app), ids(&app), ids(&app));
    assert_eq!([&a[..], &b[..], &c[..]], [["a"]; 3]);
    assert_eq!(slow.asked().len(), 1);
}

#[tokio::test]
async fn the_list_needs_a_key_that_may_chat() {
    let listener = has(r#"{"data":[{"id":"a"}]}"#).await;
    let app = in_front_of(vec![upstream("u", listener.url("/v1"))]).await;
    let reads = app
        .key("default", ToolGrant::None, vec![KeyScope::TurnsRead])
        .await;
    for path in ["/v1/models", "/v1/models/a"] {
        for (key, status) in [
            (None, 401),
            (Some("tw-wrong".to_owned()), 401),
            (Some(reads.clone()), 403),
        ] {
            let got = app.with_key(key).send("GET", path, &[], "").await.unwrap();
            assert_eq!(got.status, status, "{path}");
        }
    }
    assert_eq!(listener.asked().len(), 0);
}

#[tokio::test]
async fn nonsense_is_no_list() {
    for reply in [
        ListenerReply::json("<html>"),
        ListenerReply::json(r#"{"data":null}"#),
        ListenerReply::hang_up(),
        ListenerReply::json(format!("[{}]", "1,".repeat(5 * 1024 * 1024))),
    ] {
        let odd = Listener::in_turn(vec![reply]).await.unwrap();
        let app = in_front_of(vec![upstream("odd", odd.url("/v1"))]).await;
        refused(&app, "/v1/models").await;
    }
}

#[tokio::test]
async fn no_list_at_all_is_an_error_that_says_why_and_shows_no_address() {
    const KEY: &str = "sk-0815-of-the-operator";
    for (status, body, reason) in [
        (
            401,
            r#"{"error":{"message":"wrong key sk-0815-of-the-operator"}}"#,
            "'wrong' refused this server's credentials",
        ),
        (
            404,
            "",
            "'wrong' has no list of models at its address; its base URL may lack /v1",
        ),
        (
            200,
            "<html>",
            "'wrong' answered with something else than a list; its base URL may be a wrong one",
        ),
    ] {
        let listener = Listener::start(move |_| ListenerReply::status(status, body))
            .await
            .unwrap();
        let mut wrong = upstream("wrong", listener.url(""));
        wrong.kind = UpstreamKind::Http {
            base_url: listener.url(""),
            api_key: Some(Secret::new(KEY.to_owned())),
        };
        let app = in_front_of(vec![wrong]).await;
        for path in ["/v1/models", "/v1/models/some"] {
            let message = refused(&app, path).await;
            let expected = format!("No upstream gave its list of models: {reason}.");
            assert_eq!(message, expected, "{path}");
        }
    }
}

#[tokio::test]
async fn a_list_that_is_not_whole_names_whose_models_are_missing() {
    let good = has(r#"{"data":[{"id":"a"}]}"#).await;
    let bad = Listener::start(|_| ListenerReply::status(401, "{}"))
        .await
        .unwrap();
    let mut named = upstream("named", bad.url("/v1"));
    named.models = serves(&["z-1"], &[]);
    for (upstreams, listed, missing) in [
        (vec![upstream("good", good.url("/v1"))], vec!["a"], ""),
        (
            vec![
                upstream("good", good.url("/v1")),
                upstream("bad", bad.url("/v1")),
            ],
            vec!["a"],
            "bad",
        ),
        // What the config names is listed, whatever the upstream says.
        (vec![named], vec!["z-1"], "named"),
    ] {
        let app = in_front_of(upstreams).await;
        assert_eq!(ids(&app).await, listed);
        let got = get(&app, "/v1/models").await;
        assert_eq!(got.header("turnwright-unlisted-upstreams"), missing);
    }
}

#[tokio::test]
async fn an_address_without_chat_completions_is_told_from_a_model_that_is_not_there() {
    let nothing = "the upstream 'u' answered 404: there are no chat completions at its address; \
                   most likely its base URL lacks /v1 (the server's log says more)";
    for (body, expected) in [
        ("", nothing),
        (r#"{"detail":"Not Found"}"#, nothing),
        ("404 page not found", nothing),
        (
            r#"{"error":{"message":"The model `m` does not exist"}}"#,
            "The model `m` does not exist",
        ),
    ] {
        let listener = Listener::start(move |_| ListenerReply::status(404, body))
            .await
            .unwrap();
        let app = in_front_of(vec![upstream("u", listener.url(""))]).await;
        let ask = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
        let got = app.client.chat(&ask).await.unwrap();
        assert_eq!(got.status, 404, "{body}");
        assert_eq!(got.json()["error"]["message"], json!(expected), "{body}");
    }
}
