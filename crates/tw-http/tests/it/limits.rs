//! What is offered, what is refused, and where a turn ends.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tw_core::tool::{EffectClass, Tool};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask, probe, upstream_body};
use crate::surfaces::{self, Wish, assert_refused, on_each_surface};

on_each_surface!(
    with_tools_disabled_everything_is_relayed,
    one_turn_too_many_for_the_server_is_told_when_to_come_back,
    the_keys_tools_are_offered_sorted_by_name,
    an_explicit_list_is_exact_and_keeps_its_order,
    an_empty_list_offers_nothing,
    a_tool_outside_the_list_does_not_run,
    our_schema_replaces_another_and_the_answer_says_so,
    at_the_round_limit_the_model_must_answer_or_ends_by_length,
    a_body_that_is_too_large_is_refused_before_it_is_sent,
);

async fn answering(replies: Vec<ListenerReply>) -> Listener {
    Listener::in_turn(replies).await.unwrap()
}

async fn hello() -> Listener {
    answering(vec![ListenerReply::json(upstream_body("Hello", &[]))]).await
}

/// Tools that are never reached.
fn tools(names: &[&str]) -> Vec<Tool> {
    names
        .iter()
        .map(|name| probe(name, EffectClass::Read, "http://127.0.0.1:9/".to_owned()))
        .collect()
}

fn listed(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| json!({ "type": "function", "function": { "name": name } }))
        .collect()
}

fn names_sent(upstream: &Listener) -> Vec<String> {
    let sent = upstream.asked()[0].json();
    let tools = sent["tools"].as_array().cloned().unwrap_or_default();
    tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn with_tools_disabled_everything_is_relayed(surface: WireFormat) {
    let tool = answering(vec![ListenerReply::json("{}")]).await;
    let body = upstream_body("", &[("c1", "act", r#"{"a":1}"#)]);
    let upstream = answering(vec![ListenerReply::json(body)]).await;
    let wanted = AppOptions {
        config: Box::new(|config| config.tools_enabled = false),
        ..AppOptions::with_tools(vec![probe("act", EffectClass::Once, tool.url("/"))])
    };
    let app = App::start(&upstream, wanted).await;
    app.ask_on(surface, &[], &ask("Hi")).await;
    let mut request = ask("Hi");
    request["tools"] = listed(&["act", "mine"]);
    if Wish::Choices.refusal(surface).is_none() {
        request["n"] = json!(2);
    }
    let got = app.ask_on(surface, &[], &request).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let answer = surfaces::read(surface, &got);
    assert_eq!(answer.calls()[0]["function"]["name"], "act");
    assert_eq!(answer.finish.as_deref(), Some("tool_calls"));
    assert!(upstream.asked()[0].json().get("tools").is_none());
    let sent = upstream.asked()[1].json();
    for (at, tool) in request["tools"].as_array().unwrap().iter().enumerate() {
        let function = &sent["tools"][at]["function"];
        assert_eq!(function["name"], tool["function"]["name"], "{sent}");
    }
    assert!(tool.asked().is_empty());
}

async fn one_turn_too_many_for_the_server_is_told_when_to_come_back(surface: WireFormat) {
    let reply = ListenerReply::pieces(
        "application/json",
        vec![
            ReplyPiece::HeadGate("go"),
            ReplyPiece::Bytes(upstream_body("Hello", &[]).into()),
        ],
    );
    let upstream = answering(vec![reply]).await;
    let wanted = AppOptions {
        config: Box::new(|config| config.rules.turns_max = 1),
        ..AppOptions::plain()
    };
    let app = App::start(&upstream, wanted).await;
    let client = app.client.clone();
    let asked = async move { surfaces::send(&client, surface, &[], &ask("Hi")).await };
    let first = tokio::spawn(asked);
    upstream.asked_times(1).await;
    let refused = app.ask_on(surface, &[], &ask("Hi")).await;
    assert_refused(surface, &refused, 503, "overloaded");
    assert_eq!(refused.header("retry-after"), "1");
    upstream.open("go");
    assert_eq!(first.await.unwrap().status, 200);
    app.settled().await;
    assert_eq!(app.ask_on(surface, &[], &ask("Hi")).await.status, 200);
    assert_eq!(upstream.asked().len(), 2);
}

async fn the_keys_tools_are_offered_sorted_by_name(surface: WireFormat) {
    let upstream = hello().await;
    let app = App::start(&upstream, AppOptions::with_tools(tools(&["b", "c", "a"]))).await;
    app.ask_on(surface, &[], &ask("Hi")).await;
    assert_eq!(names_sent(&upstream), ["a", "b", "c"]);
}

async fn an_explicit_list_is_exact_and_keeps_its_order(surface: WireFormat) {
    let upstream = hello().await;
    let app = App::start(&upstream, AppOptions::with_tools(tools(&["a", "b", "c"]))).await;
    let mut request = ask("Hi");
    request["tools"] = listed(&["c", "a"]);
    let got = app.ask_on(surface, &[], &request).await;
    assert_eq!(got.header("turnwright-repaired"), "");
    assert_eq!(names_sent(&upstream), ["c", "a"]);
}

async fn an_empty_list_offers_nothing(surface: WireFormat) {
    let upstream = hello().await;
    let app = App::start(&upstream, AppOptions::with_tools(tools(&["a"]))).await;
    let mut request = ask("Hi");
    request["tools"] = json!([]);
    app.ask_on(surface, &[], &request).await;
    assert_eq!(names_sent(&upstream), [""; 0]);
}

async fn a_tool_outside_the_list_does_not_run(surface: WireFormat) {
    let tool = answering(vec![ListenerReply::json("{}")]).await;
    let upstream = answering(vec![
        ListenerReply::json(upstream_body("", &[("c1", "b", "{}")])),
        ListenerReply::json(upstream_body("Sorry", &[])),
    ])
    .await;
    let of_ours = ["a", "b"].map(|name| probe(name, EffectClass::Read, tool.url("/")));
    let app = App::start(&upstream, AppOptions::with_tools(of_ours.into())).await;
    let mut request = ask("Hi");
    request["tools"] = listed(&["a"]);
    let got = app.ask_on(surface, &[], &request).await;
    let call = app.turn_of(&got).await["rounds"][0]["calls"][0].clone();
    assert_eq!(call["reason"], "unknown_tool");
    assert!(tool.asked().is_empty());
}

async fn our_schema_replaces_another_and_the_answer_says_so(surface: WireFormat) {
    let upstream = hello().await;
    let app = App::start(&upstream, AppOptions::with_tools(tools(&["a", "b"]))).await;
    let mut request = ask("Hi");
    request["tools"] = listed(&["a", "b"]);
    request["tools"][0]["function"]["parameters"] = json!({ "type": "object", "required": ["x"] });
    request["tools"][1]["function"]["parameters"] = json!({ "type": "object" });
    let got = app.ask_on(surface, &[], &request).await;
    assert_eq!(got.header("turnwright-repaired"), "tool_schema=1");
    let sent = upstream.asked()[0].json();
    for at in 0..2 {
        assert_eq!(
            sent["tools"][at]["function"]["parameters"],
            json!({ "type": "object" })
        );
    }
}

#[tokio::test]
async fn several_choices_with_tools_of_ours_are_refused() {
    let upstream = hello().await;
    let app = App::start(&upstream, AppOptions::with_tools(tools(&["a"]))).await;
    let mut several = ask("Hi");
    several["n"] = json!(2);
    let mut mixed = several.clone();
    mixed["tools"] = listed(&["a", "mine"]);
    for request in [several, mixed] {
        let got = app.client.chat(&request).await.unwrap();
        assert_eq!(got.status, 400);
        assert_eq!(got.json()["error"]["param"], "n");
        assert_eq!(got.json()["error"]["code"], "unsupported");
    }
    assert!(upstream.asked().is_empty());
}

async fn at_the_round_limit_the_model_must_answer_or_ends_by_length(surface: WireFormat) {
    let tool = answering(vec![ListenerReply::json("{}")]).await;
    let call = ListenerReply::json(upstream_body("", &[("c1", "a", "{}")]));
    let upstream = answering(vec![call]).await;
    let wanted = AppOptions {
        config: Box::new(|config| config.turn.rounds_max = 2),
        ..AppOptions::with_tools(vec![probe("a", EffectClass::Read, tool.url("/"))])
    };
    let app = App::start(&upstream, wanted).await;
    let got = app.ask_on(surface, &[], &ask("Hi")).await;
    assert_eq!(
        surfaces::read(surface, &got).finish.as_deref(),
        Some("length")
    );
    assert_eq!(upstream.asked().len(), 2);
    assert_eq!(upstream.asked()[1].json()["tool_choice"], "none");
    let turn = app.turn_of(&got).await;
    assert_eq!(
        (&turn["status"], &turn["reason"]),
        (&json!("incomplete"), &json!("rounds"))
    );
    assert_eq!(tool.asked().len(), 1);
}

/// Who waits for `100 Continue` is not asked to send what is refused anyway.
async fn a_body_that_is_too_large_is_refused_before_it_is_sent(surface: WireFormat) {
    let upstream = hello().await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let key = app.client.key.clone().unwrap();
    let mut stream = TcpStream::connect(app.client.address).await.unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: 9999999999\r\nExpect: 100-continue\r\n\r\n",
        surfaces::path(surface)
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(std::str::from_utf8(&answer).unwrap(), "HTTP/1.1 413");
}
