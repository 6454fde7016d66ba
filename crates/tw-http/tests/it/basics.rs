//! One request of each kind, from the socket to the record.

use serde_json::json;
use tw_core::tool::EffectClass;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, ask, ask_streamed, probe, upstream_body, upstream_stream};

#[tokio::test]
async fn a_plain_request_is_relayed_and_recorded() {
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Hello", &[]))])
        .await
        .unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let got = app.client.chat(&ask("Hi")).await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(got.json()["choices"][0]["message"]["content"], "Hello");
    let turn = app.turn_of(&got).await;
    assert_eq!(turn["status"], "completed");
    assert_eq!(turn["usage"]["total_tokens"], 5);
    assert!(turn["answered_us"].is_i64() || turn["answered_us"].is_null());
}

#[tokio::test]
async fn a_streamed_tool_loop_gives_one_clean_stream() {
    let tool = Listener::in_turn(vec![ListenerReply::json(r#"{"degrees":21}"#)])
        .await
        .unwrap();
    let upstream = Listener::in_turn(vec![
        ListenerReply::sse(upstream_stream(
            "Looking.",
            &[("c1", "weather", r#"{"city":"Köln"}"#)],
        )),
        ListenerReply::sse(upstream_stream("It is 21.", &[])),
    ])
    .await
    .unwrap();
    let weather = probe("weather", EffectClass::Read, tool.url("/"));
    let app = App::start(&upstream, AppOptions::with_tools(vec![weather])).await;
    let got = app.client.chat(&ask_streamed("Weather?")).await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(got.streamed_text(), "Looking.\n\nIt is 21.");
    assert!(!got.text().contains("tool_calls"), "{}", got.text());
    assert_eq!(got.events().last().map(String::as_str), Some("[DONE]"));
    assert_eq!(tool.asked()[0].json(), json!({ "city": "Köln" }));
    let second = upstream.asked()[1].json();
    assert_eq!(second["messages"][2]["content"], r#"{"degrees":21}"#);
    let turn = app.turn_of(&got).await;
    assert_eq!(turn["rounds"][0]["calls"][0]["status"], "completed");
    assert_eq!(turn["rounds"][0]["calls"][0]["result"], r#"{"degrees":21}"#);
}

#[tokio::test]
async fn a_server_whose_disk_is_full_is_not_ready() {
    let upstream = Listener::in_turn(Vec::new()).await.unwrap();
    for (free_min, status) in [(0, 200), (u64::MAX, 503)] {
        let wanted = AppOptions {
            config: Box::new(move |config| config.disk_free_bytes_min = free_min),
            ..AppOptions::plain()
        };
        let app = App::start(&upstream, wanted).await;
        let got = app.client.send("GET", "/readyz", &[], "").await.unwrap();
        assert_eq!(got.status, status, "{}", got.text());
    }
}
