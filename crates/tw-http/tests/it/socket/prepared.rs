//! Responses that are prepared (`generate: false`): their input is taken, and the model is asked when one goes on.

use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_testkit::listener::{Listener, ListenerReply};

use super::client::Socket;
use super::{app, asked, continuing, create, pairs, says};
use crate::app::{App, AppOptions, probe, upstream_stream};

const NOT_FOUND: &str = "previous_response_not_found";

fn preparing(mut message: Value) -> Value {
    message["generate"] = json!(false);
    message
}

#[tokio::test]
async fn prepared_input_stands_before_that_of_the_message_that_goes_on() {
    let upstream = says(&["Cobalt.", "Blue."]).await;
    let app = app(&upstream).await;
    let mut socket = Socket::open(&app).await;
    let events = socket.ask(&preparing(create("The word is cobalt."))).await;
    let kinds: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.completed",
    ];
    assert_eq!(kinds, expected);
    let response = &events[2]["response"];
    assert_eq!(response["status"], "completed");
    assert_eq!(
        (&response["output"], &response["store"]),
        (&json!([]), &json!(false))
    );
    assert_eq!(response["usage"]["total_tokens"], 0);
    assert!(upstream.asked().is_empty());
    // More may be prepared behind it, and nobody sees a turn of it.
    let name = response["id"].as_str().unwrap();
    let more = json!([{ "role": "user", "content": "It is a colour." }]);
    let second = socket.answered(&preparing(continuing(name, more))).await;
    let page = app.client.send("GET", "/v1/conversations", &[], "").await;
    assert_eq!(page.unwrap().json()["data"], json!([]));
    let path = format!("/v1/responses/{second}");
    assert_eq!(
        app.client.send("GET", &path, &[], "").await.unwrap().status,
        404
    );

    let answered = socket.answered(&continuing(&second, "Which word?")).await;
    let said = [
        ("user", "The word is cobalt."),
        ("user", "It is a colour."),
        ("user", "Which word?"),
    ];
    assert_eq!(asked(&upstream), pairs(&said));
    // The answer is the newest now, with all that stands before it.
    socket.answered(&continuing(&answered, "Which one?")).await;
    let mut all = said.to_vec();
    all.extend([("assistant", "Cobalt."), ("user", "Which one?")]);
    assert_eq!(asked(&upstream), pairs(&all));
    let refused = socket.refused(&continuing(&second, "Again?")).await;
    assert_eq!(refused, (404, NOT_FOUND.to_owned()));
}

#[tokio::test]
async fn what_it_continues_stands_before_it_stored_or_not() {
    for store in [false, true] {
        let upstream = says(&["OK.", "Yes.", "Sure."]).await;
        let app = app(&upstream).await;
        let mut socket = Socket::open(&app).await;
        let mut first = create("One.");
        first["store"] = json!(store);
        let first = socket.answered(&first).await;
        let prepared = socket
            .answered(&preparing(continuing(&first, "Two.")))
            .await;
        let mut next = continuing(&prepared, "Three.");
        next["store"] = json!(store);
        let last = socket.ask(&next).await.pop().unwrap()["response"].clone();
        let said = [
            ("user", "One."),
            ("assistant", "OK."),
            ("user", "Two."),
            ("user", "Three."),
        ];
        assert_eq!(asked(&upstream), pairs(&said));
        assert_eq!(last["previous_response_id"], json!(first));
        if store {
            // It holds all that it needs, on any connection.
            let mut other = Socket::open(&app).await;
            let name = last["id"].as_str().unwrap();
            other.answered(&continuing(name, "Four.")).await;
            let mut all = said.to_vec();
            all.extend([("assistant", "Yes."), ("user", "Four.")]);
            assert_eq!(asked(&upstream), pairs(&all));
        }
    }
}

#[tokio::test]
async fn settings_alone_may_be_prepared() {
    for input in [json!([]), Value::Null] {
        let upstream = says(&["OK."]).await;
        let app = app(&upstream).await;
        let mut socket = Socket::open(&app).await;
        let mut message = preparing(create(input.clone()));
        if input.is_null() {
            message.as_object_mut().unwrap().remove("input");
        }
        let prepared = socket.answered(&message).await;
        socket.answered(&continuing(&prepared, "Hi")).await;
        assert_eq!(asked(&upstream), pairs(&[("user", "Hi")]));
    }
}

#[tokio::test]
async fn what_is_wrong_is_told_before_the_model_is_asked() {
    let upstream = says(&["OK."]).await;
    let app = app(&upstream).await;
    let mut socket = Socket::open(&app).await;
    let stray = json!([{ "type": "function_call_output", "call_id": "call_stray", "output": "x" }]);
    for (message, failure) in [
        (create(7), (400, "invalid_type")),
        (
            json!({ "type": "response.create", "input": "x" }),
            (400, "missing_required_parameter"),
        ),
        (continuing("resp_missing", "x"), (404, NOT_FOUND)),
    ] {
        let refused = socket.refused(&preparing(message)).await;
        assert_eq!(refused, (failure.0, failure.1.to_owned()));
    }
    // A result of a call that nobody made takes away what it was put behind.
    let prepared = socket.answered(&preparing(create("Hi"))).await;
    let first = socket.answered(&continuing(&prepared, "Ho")).await;
    let refused = socket.refused(&preparing(continuing(&first, stray))).await;
    assert_eq!(refused, (400, "no_such_call".to_owned()));
    let refused = socket.refused(&continuing(&first, "x")).await;
    assert_eq!(refused, (404, NOT_FOUND.to_owned()));
    assert_eq!(upstream.asked().len(), 1);
}

#[tokio::test]
async fn results_of_calls_may_be_prepared_and_the_tools_are_of_the_message_that_goes_on() {
    let upstream = Listener::in_turn(vec![
        ListenerReply::sse(upstream_stream("", &[("u1", "own", "{}")])),
        ListenerReply::sse(upstream_stream("Done.", &[])),
    ]);
    let upstream = upstream.await.unwrap();
    let tools = vec![probe("look", EffectClass::Read, upstream.url("/"))];
    let app = App::start(&upstream, AppOptions::with_tools(tools)).await;
    let mut socket = Socket::open(&app).await;
    let own = json!([{ "type": "function", "name": "own", "parameters": { "type": "object" } }]);
    let mut message = create("Go.");
    message["tools"] = own.clone();
    let response = socket.ask(&message).await.pop().unwrap()["response"].clone();
    let call = &response["output"][0]["call_id"];
    let output = json!([{ "type": "function_call_output", "call_id": call, "output": "7" }]);
    let name = response["id"].as_str().unwrap();
    let prepared = socket.answered(&preparing(continuing(name, output))).await;
    let mut message = continuing(&prepared, "And?");
    message["tools"] = own;
    socket.answered(&message).await;
    let roles: Vec<String> = asked(&upstream).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
    let sent = upstream.asked().pop().unwrap().json();
    assert_eq!(sent["tools"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn it_is_there_for_its_own_connection_alone_and_as_large_as_a_body() {
    let upstream = says(&["OK."]).await;
    let wanted = AppOptions {
        config: Box::new(|config| config.request.body_bytes_max = 4096),
        ..AppOptions::plain()
    };
    let app = App::start(&upstream, wanted).await;
    let mut socket = Socket::open(&app).await;
    let prepared = socket.answered(&preparing(create("x".repeat(3000)))).await;
    let mut other = Socket::open(&app).await;
    let refused = other.refused(&continuing(&prepared, "Ho")).await;
    assert_eq!(refused, (404, NOT_FOUND.to_owned()));
    let refused = socket
        .refused(&continuing(&prepared, "x".repeat(3000)))
        .await;
    assert_eq!(refused, (413, "request_too_large".to_owned()));
    assert!(upstream.asked().is_empty());
}
