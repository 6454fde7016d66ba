//! Continuing the newest response of a connection.

use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_testkit::listener::{Listener, ListenerReply};

use super::client::Socket;
use super::{app, asked, continuing, create, pairs, says};
use crate::app::{App, AppOptions, probe, upstream_stream};

const NOT_FOUND: &str = "previous_response_not_found";

#[tokio::test]
async fn a_response_that_is_not_stored_is_continued_on_its_connection() {
    let upstream = says(&["OK.", "Cobalt.", "Blue."]).await;
    let app = app(&upstream).await;
    let mut socket = Socket::open(&app).await;
    let first = socket.answered(&create("The word is cobalt.")).await;
    let second = socket.ask(&continuing(&first, "Which word?")).await;
    let response = &second.last().unwrap()["response"];
    assert_eq!(response["previous_response_id"], json!(first));
    let second = response["id"].as_str().unwrap().to_owned();
    socket.answered(&continuing(&second, "Its colour?")).await;
    assert_eq!(
        asked(&upstream),
        pairs(&[
            ("user", "The word is cobalt."),
            ("assistant", "OK."),
            ("user", "Which word?"),
            ("assistant", "Cobalt."),
            ("user", "Its colour?"),
        ])
    );
    // Only the newest is held.
    let refused = socket.refused(&continuing(&first, "Again?")).await;
    assert_eq!(refused, (404, NOT_FOUND.to_owned()));
}

#[tokio::test]
async fn instructions_are_not_carried_over() {
    let upstream = says(&["OK.", "OK."]).await;
    let app = app(&upstream).await;
    let mut socket = Socket::open(&app).await;
    let mut message = create("Hi");
    message["instructions"] = json!("Be kind.");
    let first = socket.answered(&message).await;
    socket.answered(&continuing(&first, "Ho")).await;
    let roles: Vec<String> = asked(&upstream).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

#[tokio::test]
async fn on_another_connection_only_what_is_stored_is_found() {
    let upstream = says(&["OK."]).await;
    let app = app(&upstream).await;
    let mut socket = Socket::open(&app).await;
    let unstored = socket.answered(&create("Hi")).await;
    let mut stored = create("Hi");
    stored["store"] = json!(true);
    let stored = socket.answered(&stored).await;
    socket.close().await;
    let mut socket = Socket::open(&app).await;
    for name in [unstored.as_str(), "resp_missing", "resp_0", "x"] {
        let refused = socket.refused(&continuing(name, "Ho")).await;
        assert_eq!(refused, (404, NOT_FOUND.to_owned()), "{name}");
    }
    // The client begins anew, or goes on with what was stored.
    socket.answered(&create("Hi")).await;
    socket.answered(&continuing(&stored, "Ho")).await;
    assert_eq!(asked(&upstream).len(), 3);
}

#[tokio::test]
async fn a_continuation_that_fails_takes_what_it_continued_away() {
    let ok = || ListenerReply::sse(upstream_stream("OK.", &[]));
    let stray = json!([{ "type": "function_call_output", "call_id": "call_stray", "output": "x" }]);
    let refusal = r#"{"error":{"message":"too odd","type":"invalid_request_error","code":"odd"}}"#;
    for (replies, change, failure) in [
        (
            vec![ok()],
            json!({ "input": stray }),
            (400, "no_such_call".to_owned()),
        ),
        (
            vec![ok()],
            json!({ "input": 7 }),
            (400, "invalid_type".to_owned()),
        ),
        (
            vec![ok(), ListenerReply::status(400, refusal)],
            json!({}),
            (400, "odd".to_owned()),
        ),
    ] {
        let upstream = Listener::in_turn(replies).await.unwrap();
        let app = app(&upstream).await;
        let mut socket = Socket::open(&app).await;
        let first = socket.answered(&create("Hi")).await;
        let mut message = continuing(&first, "Ho");
        for (name, value) in change.as_object().unwrap() {
            message[name] = value.clone();
        }
        assert_eq!(socket.refused(&message).await, failure);
        let refused = socket.refused(&continuing(&first, "Ho")).await;
        assert_eq!(refused, (404, NOT_FOUND.to_owned()), "after {failure:?}");
    }
}

#[tokio::test]
async fn a_failure_of_something_else_leaves_it_there() {
    let upstream = says(&["OK."]).await;
    let app = app(&upstream).await;
    let mut socket = Socket::open(&app).await;
    let first = socket.answered(&create("Hi")).await;
    for other in [json!({}), create(json!([])), continuing("resp_other", "Ho")] {
        let (status, _) = socket.refused(&other).await;
        assert!(matches!(status, 400 | 404));
    }
    socket.answered(&continuing(&first, "Ho")).await;
}

#[tokio::test]
async fn results_of_the_clients_calls_come_behind_what_they_answer() {
    let service = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    let upstream = Listener::in_turn(vec![
        ListenerReply::sse(upstream_stream("", &[("u1", "look", "{}")])),
        ListenerReply::sse(upstream_stream("", &[("u2", "own", "{}")])),
        ListenerReply::sse(upstream_stream("Done.", &[])),
    ]);
    let upstream = upstream.await.unwrap();
    let tools = vec![probe("look", EffectClass::Read, service.url("/"))];
    let app = App::start(&upstream, AppOptions::with_tools(tools)).await;
    let mut socket = Socket::open(&app).await;
    let function = |name: &str| json!({ "type": "function", "name": name, "parameters": { "type": "object" } });
    let mut message = create("Go.");
    message["tools"] = json!([function("own"), function("look")]);
    let events = socket.ask(&message).await;
    let response = events.last().unwrap()["response"].clone();
    let items = response["output"].as_array().unwrap();
    let call = items
        .iter()
        .find(|item| item["type"] == json!("function_call"));
    let call_id = &call.unwrap()["call_id"];
    let name = response["id"].as_str().unwrap();
    let output = json!([{ "type": "function_call_output", "call_id": call_id, "output": "7" }]);
    let mut message = continuing(name, output);
    message["tools"] = json!([function("own"), function("look")]);
    socket.answered(&message).await;
    let roles: Vec<String> = asked(&upstream).into_iter().map(|(role, _)| role).collect();
    // What this server ran is there, too.
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "tool"]);
    assert_eq!(asked(&upstream)[4].1, "7");
    assert_eq!(response["error"], Value::Null);
}

#[tokio::test]
async fn a_call_is_approved_on_its_connection() {
    let tool = Listener::start(|_| ListenerReply::json(r#"{"paid":true}"#))
        .await
        .unwrap();
    let replies = vec![
        ListenerReply::sse(upstream_stream("", &[("up_1", "pay", "{}")])),
        ListenerReply::sse(upstream_stream("Paid.", &[])),
    ];
    let upstream = Listener::in_turn(replies).await.unwrap();
    let mut pay = probe("pay", EffectClass::Once, tool.url("/"));
    pay.policy.requires_approval = true;
    let app = App::start(&upstream, AppOptions::with_tools(vec![pay])).await;
    let mut socket = Socket::open(&app).await;
    let asked = socket.ask(&create("Hi")).await;
    let response = &asked.last().unwrap()["response"];
    let question = &response["output"][0];
    assert_eq!(question["type"], "mcp_approval_request", "{response}");
    let answer = json!([{
        "type": "mcp_approval_response", "approval_request_id": question["id"], "approve": true,
    }]);
    let message = continuing(response["id"].as_str().unwrap(), answer);
    let told = socket.ask(&message).await;
    let call = &told.last().unwrap()["response"]["output"][0];
    assert_eq!(
        (&call["type"], &call["output"], &call["approval_request_id"]),
        (
            &json!("mcp_call"),
            &json!(r#"{"paid":true}"#),
            &question["id"]
        )
    );
    assert_eq!(tool.asked().len(), 1);
    // Nor is it run by another try.
    let refused = socket.refused(&message).await;
    assert_eq!(
        refused,
        (404, NOT_FOUND.to_owned()),
        "only the newest is held"
    );
}
