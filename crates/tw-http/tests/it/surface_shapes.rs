//! What clients of a format find around its routes: errors in its shape, its names of headers, its list of models.

use std::time::Duration;

use serde_json::{Value, json};
use tw_core::rate::RateLimits;
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_runtime::limiter::LimiterRules;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, upstream_body};
use crate::upstreams::{in_front_of, upstream};

/// A point in time at which the clock of these tests stands: 2027-01-15T08:00:00Z.
const START: Timestamp = Timestamp(1_800_000_000_000_000);

async fn hello() -> Listener {
    let reply = ListenerReply::json(upstream_body("Hello", &[]));
    Listener::in_turn(vec![reply]).await.unwrap()
}

#[tokio::test]
async fn errors_below_the_path_of_a_surface_have_its_shape() {
    let listener = Listener::start(|_| ListenerReply::json(LIST))
        .await
        .unwrap();
    let app = App::start(&listener, AppOptions::plain()).await;
    const VERSION: &[(&str, &str)] = &[("anthropic-version", "2023-06-01")];
    for (method, path, headers, status, is_messages) in [
        ("POST", "/v1/messages/batches", &[][..], 404, true),
        ("GET", "/v1/messages", &[], 405, true),
        ("DELETE", "/v1/messages/count_tokens", &[], 405, true),
        ("GET", "/v1/messages/", &[], 404, true),
        ("POST", "/v1/messagesx", &[], 404, false),
        ("POST", "/v1/responses/x/y/z", &[], 404, false),
        ("PUT", "/v1/responses", &[], 405, false),
        ("POST", "/v1/models", VERSION, 405, true),
        ("POST", "/v1/models", &[], 405, false),
        ("GET", "/v1/models/none", VERSION, 404, true),
        ("GET", "/v1/models/none", &[], 404, false),
        ("POST", "/v1/embedding", VERSION, 404, false),
    ] {
        let got = app.client.send(method, path, headers, "").await.unwrap();
        let what = format!("{method} {path}: {}", got.text());
        assert_eq!(got.status, status, "{what}");
        let error = got.json();
        assert_eq!(error["type"] == json!("error"), is_messages, "{what}");
        assert!(error["error"]["message"].is_string(), "{what}");
        // Clients of this format look for the id under its own name, and within the error.
        let id = got.header("x-request-id");
        assert!(id.starts_with("req_"), "{what}");
        assert_eq!(got.header("request-id") == id, is_messages, "{what}");
        if is_messages {
            assert_eq!(error["request_id"], json!(id), "{what}");
        }
    }
}

#[tokio::test]
async fn limits_are_told_in_the_names_of_the_surface() {
    let env = Env::seeded(7, START);
    let wanted = AppOptions {
        config: Box::new(|config| {
            config.rules = LimiterRules {
                key: RateLimits {
                    requests_per_minute: Some(2),
                    ..RateLimits::default()
                },
                ..LimiterRules::defaults()
            };
        }),
        env: env.clone(),
        ..AppOptions::plain()
    };
    let listener = hello().await;
    let app = App::start(&listener, wanted).await;
    let body =
        json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "Hi" }] });
    let ask = async || {
        let client = &app.client;
        client
            .send("POST", "/v1/messages", &[], body.to_string())
            .await
            .unwrap()
    };
    env.move_clock(START.after(Duration::from_millis(1)));
    for (status, remaining, reset) in [
        // Half a minute later, and rounded up to whole seconds.
        (200, "1", "2027-01-15T08:00:31Z"),
        (200, "0", "2027-01-15T08:01:01Z"),
        (429, "0", "2027-01-15T08:01:01Z"),
    ] {
        let got = ask().await;
        assert_eq!(got.status, status, "{}", got.text());
        let told = ["limit", "remaining", "reset"]
            .map(|what| got.header(&format!("anthropic-ratelimit-requests-{what}")));
        assert_eq!(told, ["2", remaining, reset]);
        assert!(got.headers.get("x-ratelimit-limit-requests").is_none());
        assert_eq!(got.header("retry-after").is_empty(), status == 200);
    }
}

const LIST: &str = r#"{"object":"list","data":[
    {"id":"gpt-1","object":"model","created":1715367049,"owned_by":"system"},
    {"id":"claude-1","type":"model","display_name":"Claude 1","created_at":"2025-01-02T00:00:00Z"},
    {"id":"org/c","name":"C"}]}"#;

#[tokio::test]
async fn models_are_listed_in_the_format_of_the_client_whichever_header_has_its_key() {
    let listener = Listener::start(|_| ListenerReply::json(LIST))
        .await
        .unwrap();
    let app = in_front_of(vec![upstream("one", listener.url("/v1"))]).await;
    let key = app.client.key.clone().unwrap();
    let bare = app.with_key(None);
    let bearer = format!("Bearer {key}");
    const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");
    for headers in [
        vec![("x-api-key", key.as_str())],
        vec![("authorization", bearer.as_str())],
    ] {
        let got = bare.send("GET", "/v1/models", &headers, "").await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(got.json()["object"], json!("list"));
        let mut headers = headers.clone();
        headers.push(VERSION);
        for (query, ids, has_more) in [
            ("", vec!["gpt-1", "claude-1", "org/c"], false),
            ("?limit=2", vec!["gpt-1", "claude-1"], true),
            ("?limit=2&after_id=claude-1", vec!["org/c"], false),
            ("?limit=1&after_id=gpt-1", vec!["claude-1"], true),
            ("?after_id=org/c", vec![], false),
            ("?limit=1&before_id=org/c", vec!["claude-1"], true),
            ("?before_id=claude-1", vec!["gpt-1"], false),
        ] {
            let path = format!("/v1/models{query}");
            let got = bare.send("GET", &path, &headers, "").await.unwrap();
            let listed = got.json();
            let shown: Vec<&str> = listed["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|model| {
                    assert_eq!(model["type"], json!("model"));
                    assert!(model["created_at"].as_str().unwrap().ends_with('Z'));
                    model["id"].as_str().unwrap()
                })
                .collect();
            assert_eq!(
                (shown, &listed["has_more"]),
                (ids.clone(), &json!(has_more)),
                "{query}"
            );
            assert_eq!(listed["first_id"], json!(ids.first()), "{query}");
            assert_eq!(listed["last_id"], json!(ids.last()), "{query}");
        }
        for query in [
            "limit=0",
            "limit=1001",
            "limit=x",
            "after_id=none",
            "after_id=gpt-1&before_id=org/c",
        ] {
            let path = format!("/v1/models?{query}");
            let got = bare.send("GET", &path, &headers, "").await.unwrap();
            assert_eq!(got.status, 400, "{query}");
            assert_eq!(got.json()["error"]["type"], json!("invalid_request_error"));
        }
        let got = bare
            .send("GET", "/v1/models/org/c", &headers, "")
            .await
            .unwrap();
        assert_eq!(
            got.json(),
            json!({ "type": "model", "id": "org/c", "display_name": "C", "created_at": "1970-01-01T00:00:00Z" })
        );
    }
    for (headers, told) in [
        (vec![], "Authorization"),
        (vec![("x-api-key", "tw-wrong")], "Incorrect API key"),
        (vec![VERSION], "x-api-key"),
    ] {
        let got = bare.send("GET", "/v1/models", &headers, "").await.unwrap();
        assert_eq!(got.status, 401);
        assert!(got.text().contains(told), "{}", got.text());
        let is_messages = headers.contains(&VERSION);
        assert_eq!(got.json()["type"] == json!("error"), is_messages);
        assert_eq!(got.json()["type"] == Value::Null, !is_messages);
    }
}
