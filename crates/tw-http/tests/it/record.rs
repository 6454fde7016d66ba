//! What the record of a turn shows, and what is left of it when its contents are erased.

use std::time::Duration;

use serde_json::{Value, json};
use tw_core::change::{Change, Outcome};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_core::turn_policy::MINIMAL_KEPT;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask, probe, upstream_body};
use crate::surfaces::{self, Wish, on_each_surface};

on_each_surface!(
    rounds_attempts_usage_and_calls_are_shown,
    the_full_result_is_shown_only_when_asked_for,
    only_what_follows_the_last_answer_is_recorded_of_a_history,
    a_result_that_the_client_brings_is_a_block_of_its_turn,
    a_call_of_the_clients_own_tool_is_recorded_as_handed_over,
    contents_that_are_not_to_be_stored_are_erased_after_ten_minutes,
    an_erased_answer_is_made_anew_unless_it_had_effects,
);

/// What a model wrote, oddly and validly.
const ARGUMENTS: &str = "{ \"city\" : \"K\\u00f6ln\",\n\"digits\":12345678901234567890.10 }";
const RESULT: &str = r#"{"degrees":21}"#;

async fn answering(replies: Vec<ListenerReply>) -> Listener {
    Listener::in_turn(replies).await.unwrap()
}

/// An upstream whose first answer calls `act`, for as many turns as are asked.
async fn calling_once() -> Listener {
    Listener::start(|asked| {
        let request = asked.json();
        let last = request["messages"].as_array().unwrap().last().cloned();
        ListenerReply::json(if last.unwrap()["role"] == "tool" {
            upstream_body("It is 21.", &[])
        } else {
            upstream_body("Looking.", &[("c1", "act", ARGUMENTS)])
        })
    })
    .await
    .unwrap()
}

async fn with_act(upstream: &Listener, tool: &Listener, effect: EffectClass) -> App {
    let act = probe("act", effect, tool.url("/"));
    App::start(upstream, AppOptions::with_tools(vec![act])).await
}

async fn erase_at(app: &App, now: Timestamp) -> u64 {
    let erase = Change::EraseDue { now, turns_max: 10 };
    let outcomes = app.store.apply(vec![erase]).await.unwrap();
    match outcomes[..] {
        [Outcome::Count(count)] => count,
        _ => panic!("{outcomes:?}"),
    }
}

fn ended(turn: &Value) -> Timestamp {
    Timestamp(turn["ended_us"].as_i64().unwrap())
}

async fn rounds_attempts_usage_and_calls_are_shown(surface: WireFormat) {
    let tool = answering(vec![ListenerReply::json(RESULT)]).await;
    let upstream = answering(vec![
        ListenerReply::status(503, r#"{"error":{"message":"busy"}}"#),
        ListenerReply::json(upstream_body("Looking.", &[("c1", "act", ARGUMENTS)])),
        ListenerReply::json(upstream_body("It is 21.", &[])),
    ])
    .await;
    let app = with_act(&upstream, &tool, EffectClass::Read).await;
    let got = app.ask_on(surface, &[], &ask("Weather?")).await;
    let turn = app.turn_of(&got).await;
    assert_eq!(turn["status"], "completed");
    assert_eq!(turn["request_id"], got.header("x-request-id"));
    assert_eq!(turn["tool_count"], 1);
    assert_eq!(turn["usage"]["total_tokens"], 10);
    assert_eq!(
        turn["input"],
        json!([{ "role": "user", "blocks": [{ "type": "text", "text": "Weather?" }] }])
    );
    let rounds = turn["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    let attempts = rounds[0]["attempts"].as_array().unwrap();
    assert_eq!(attempts[0]["outcome"], "status");
    assert_eq!(attempts[0]["http_status"], 503);
    assert_eq!(attempts[1]["outcome"], "ok");
    assert_eq!(attempts[1]["n"], 2);
    assert_eq!(attempts[1]["upstream"], "test");
    assert_eq!(attempts[1]["usage"]["total_tokens"], 5);
    let call = &rounds[0]["calls"][0];
    assert_eq!(call["name"], "act");
    assert_eq!(call["effect"], "read");
    assert_eq!(call["runs"], "server");
    assert_eq!(call["tool_call_id"], "c1");
    assert_eq!(call["arguments"], ARGUMENTS);
    assert_eq!(call["shown"], RESULT);
    assert_eq!(call["attempts"][0]["outcome"], "ok");
    let blocks = rounds[0]["messages"][0]["blocks"].as_array().unwrap();
    assert_eq!(blocks[0]["text"], "Looking.");
    assert_eq!(blocks[1]["arguments"], ARGUMENTS);
    assert_eq!(rounds[1]["messages"][0]["blocks"][0]["text"], "It is 21.");
}

async fn the_full_result_is_shown_only_when_asked_for(surface: WireFormat) {
    let long = "x".repeat(100_000);
    let tool = answering(vec![ListenerReply::json(long.clone())]).await;
    let upstream = calling_once().await;
    let app = with_act(&upstream, &tool, EffectClass::Read).await;
    let got = app.ask_on(surface, &[], &ask("Hi")).await;
    let full = app.turn_of(&got).await["rounds"][0]["calls"][0].clone();
    let path = format!("/v1/turns/{}", got.header("turnwright-turn"));
    let plain = app.client.send("GET", &path, &[], "").await.unwrap().json();
    let plain = &plain["rounds"][0]["calls"][0];
    assert_eq!(full["result"], long);
    assert!(plain.get("result").is_none());
    let shown = plain["shown"].as_str().unwrap();
    assert!(shown.len() < 17_000 && shown.contains("[cut"), "{shown}");
    assert_eq!(
        upstream.asked()[1].json()["messages"][2]["content"],
        shown,
        "the record shows what the model was given"
    );
}

async fn only_what_follows_the_last_answer_is_recorded_of_a_history(surface: WireFormat) {
    let upstream = answering(vec![ListenerReply::json(upstream_body("Hello", &[]))]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let mut request = ask("new");
    request["messages"] = json!([
        { "role": "system", "content": "rules" },
        { "role": "user", "content": "old" },
        { "role": "assistant", "content": "answer" },
        { "role": "user", "content": "new" },
        { "role": "user", "content": "newer" },
    ]);
    let got = app.ask_on(surface, &[], &request).await;
    let input = app.turn_of(&got).await["input"].clone();
    let texts: Vec<_> = input
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["blocks"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["new", "newer"]);
    assert_eq!(upstream.asked()[0].json()["messages"], request["messages"]);
}

async fn a_result_that_the_client_brings_is_a_block_of_its_turn(surface: WireFormat) {
    let upstream = answering(vec![ListenerReply::json(upstream_body("Hello", &[]))]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let mut request = ask("");
    request["messages"] = json!([
        { "role": "user", "content": "old" },
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "c9", "type": "function", "function": { "name": "mine", "arguments": "{}" } }
        ]},
        { "role": "tool", "tool_call_id": "c9", "content": "brought" },
    ]);
    let got = app.ask_on(surface, &[], &request).await;
    let turn = app.turn_of(&got).await;
    assert_eq!(
        turn["input"],
        json!([{ "role": "user", "blocks": [
            { "type": "result", "tool_call_id": "c9", "content": "brought" }
        ]}])
    );
    // Calls found in a history are not ours.
    assert_eq!(turn["tool_count"], 0);
    assert_eq!(turn["rounds"][0]["calls"], json!([]));
}

async fn a_call_of_the_clients_own_tool_is_recorded_as_handed_over(surface: WireFormat) {
    let body = upstream_body("", &[("c1", "mine", r#"{"a":1}"#)]);
    let upstream = answering(vec![ListenerReply::json(body)]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let mut request = ask("Hi");
    request["tools"] = json!([{ "type": "function", "function": { "name": "mine" } }]);
    let got = app.ask_on(surface, &[], &request).await;
    let call = app.turn_of(&got).await["rounds"][0]["calls"][0].clone();
    assert_eq!(call["runs"], "client");
    assert_eq!(call["status"], "completed");
    assert_eq!(call["arguments"], r#"{"a":1}"#);
    assert_eq!(call["effect"], Value::Null);
}

async fn contents_that_are_not_to_be_stored_are_erased_after_ten_minutes(surface: WireFormat) {
    let tool = answering(vec![ListenerReply::json(RESULT)]).await;
    let upstream = calling_once().await;
    let app = with_act(&upstream, &tool, EffectClass::Read).await;
    let kept = app.ask_on(surface, &[], &ask("Weather?")).await;
    let minimal = app.with_key(Some(app.minimal_key().await));
    let mut answers = vec![surfaces::send(&minimal, surface, &[], &ask("Weather?")).await];
    if Wish::Unstored.refusal(surface).is_none() {
        let storing = |store: bool| {
            let mut request = ask("Weather?");
            request["store"] = json!(store);
            request
        };
        answers.push(app.ask_on(surface, &[], &storing(false)).await);
        answers.push(surfaces::send(&minimal, surface, &[], &storing(true)).await);
    }
    app.settled().await;
    assert_eq!(MINIMAL_KEPT, Duration::from_secs(600));
    let mut last = Timestamp(0);
    for got in answers {
        let before = unmarked(app.turn_of(&got).await);
        assert_eq!(before["record"], "minimal");
        let due = ended(&before).after(MINIMAL_KEPT);
        assert_eq!(
            erase_at(&app, due.before(Duration::from_micros(1))).await,
            0
        );
        assert_eq!(unmarked(app.turn_of(&got).await), before);
        assert_eq!(erase_at(&app, due).await, 1);
        let after = unmarked(app.turn_of(&got).await);
        assert_erased(&before, &after, due);
        assert_eq!(erase_at(&app, due).await, 0);
        assert_eq!(unmarked(app.turn_of(&got).await), after);
        last = due;
    }
    assert_eq!(erase_at(&app, last.after(MINIMAL_KEPT)).await, 0);
    let kept = app.turn_of(&kept).await;
    assert_eq!(kept["erased_us"], Value::Null);
    assert_eq!(kept["rounds"][0]["calls"][0]["arguments"], ARGUMENTS);
}

/// The record without the note that the answer was handed over, which is written when it suits.
fn unmarked(mut record: Value) -> Value {
    record["answered_us"].take();
    record
}

fn assert_erased(before: &Value, after: &Value, at: Timestamp) {
    assert_eq!(before["erased_us"], Value::Null);
    assert_eq!(after["erased_us"], at.0);
    for stays in [
        "status",
        "reason",
        "usage",
        "created_us",
        "ended_us",
        "tool_count",
        "model",
    ] {
        assert_eq!(after[stays], before[stays], "{stays}");
    }
    for round in 0..2 {
        let (before, after) = (&before["rounds"][round], &after["rounds"][round]);
        assert_eq!(after["attempts"], before["attempts"]);
    }
    let call = &after["rounds"][0]["calls"][0];
    for stays in ["status", "name", "started_us", "ended_us", "attempts"] {
        assert_eq!(call[stays], before["rounds"][0]["calls"][0][stays]);
    }
    let text = after.to_string();
    for said in ["Weather?", "Looking", "It is", "degrees", "city"] {
        assert!(before.to_string().contains(said), "{said} in {before}");
        assert!(!text.contains(said), "{said} in {text}");
    }
    assert_eq!(call["result"], Value::Null);
    assert_eq!(call["shown"], "");
    assert_eq!(call["arguments"], "");
}

async fn an_erased_answer_is_made_anew_unless_it_had_effects(surface: WireFormat) {
    for effect in [EffectClass::Read, EffectClass::Once] {
        let tool = answering(vec![ListenerReply::json(RESULT)]).await;
        let upstream = calling_once().await;
        let mut app = with_act(&upstream, &tool, effect).await;
        let mut request = ask("Weather?");
        match Wish::Unstored.refusal(surface) {
            None => request["store"] = json!(false),
            Some(_why) => app.client.key = Some(app.minimal_key().await),
        }
        let headers = [("idempotency-key", "k")];
        let first = app.ask_on(surface, &headers, &request).await;
        let turn = app.turn_of(&first).await;
        let replayed = app.ask_on(surface, &headers, &request).await;
        assert_eq!(replayed.body, first.body);
        assert_eq!(erase_at(&app, ended(&turn).after(MINIMAL_KEPT)).await, 1);
        let again = app.ask_on(surface, &headers, &request).await;
        let id = first.header("turnwright-turn");
        if effect == EffectClass::Read {
            assert_eq!(again.status, 200, "{}", again.text());
            assert_ne!(again.header("turnwright-turn"), id);
            assert_eq!(tool.asked().len(), 2);
        } else {
            assert_eq!(again.status, 424, "{}", again.text());
            assert_eq!(again.header("turnwright-turn"), id);
            assert_eq!(again.header("x-should-retry"), "false");
            assert_eq!(tool.asked().len(), 1);
        }
    }
}

#[tokio::test]
async fn the_writer_syncs_fully() {
    let upstream = answering(vec![ListenerReply::json("{}")]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    assert_eq!(app.store.synchronous().await.unwrap(), 2);
}
