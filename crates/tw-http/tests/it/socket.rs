//! Responses over a WebSocket.

mod client;
mod continuing;
mod hostile;
mod lifetime;
mod prepared;

use serde_json::{Value, json};
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, upstream_stream};
use client::Socket;

const RESPONSES: &str = "/v1/responses";

fn create(input: impl Into<Value>) -> Value {
    json!({ "type": "response.create", "model": "m", "store": false, "input": input.into() })
}

fn continuing(name: &str, input: impl Into<Value>) -> Value {
    let mut message = create(input);
    message["previous_response_id"] = json!(name);
    message
}

/// An upstream that says these texts, one after the other.
async fn says(texts: &[&str]) -> Listener {
    let replies = texts
        .iter()
        .map(|text| ListenerReply::sse(upstream_stream(text, &[])));
    Listener::in_turn(replies.collect()).await.unwrap()
}

async fn app(upstream: &Listener) -> App {
    App::start(upstream, AppOptions::plain()).await
}

/// What the upstream was asked last: role and text of each message.
fn asked(upstream: &Listener) -> Vec<(String, String)> {
    let body = upstream.asked().pop().unwrap().json();
    let messages = body["messages"].as_array().unwrap().iter();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    messages
        .map(|message| (text(&message["role"]), text(&message["content"])))
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(role, text): &(&str, &str)| ((*role).to_owned(), (*text).to_owned());
    expected.iter().map(own).collect()
}

/// The events with what differs from turn to turn made equal.
fn neutral(events: &[Value]) -> Vec<Value> {
    let id = events[0]["response"]["id"].as_str().unwrap();
    let plain = id.strip_prefix("resp_").unwrap();
    let times = |mut event: Value| {
        for name in ["created_at", "completed_at"] {
            if event["response"][name].is_u64() {
                event["response"][name] = json!("T");
            }
        }
        event
    };
    let named = events
        .iter()
        .map(|event| event.to_string().replace(plain, "ID"));
    named
        .map(|event| times(serde_json::from_str(&event).unwrap()))
        .collect()
}

#[tokio::test]
async fn a_connection_tells_one_response_after_the_other_as_streams_do() {
    let upstream = says(&["One.", "One.", "Two."]).await;
    let app = app(&upstream).await;
    let mut request = create("Count.");
    let fields = request.as_object_mut().unwrap();
    fields.remove("type");
    fields.insert("stream".to_owned(), json!(true));
    let client = &app.client;
    let streamed = client
        .send("POST", RESPONSES, &[], request.to_string())
        .await;
    let streamed = streamed.unwrap().text();
    let lines = streamed
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let data = lines.filter(|data| *data != "[DONE]");
    let streamed: Vec<Value> = data
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let mut socket = Socket::open(&app).await;
    let first = socket.ask(&create("Count.")).await;
    assert_eq!(neutral(&first), neutral(&streamed));
    let second = socket.ask(&create("Count.")).await;
    let response = &second.last().unwrap()["response"];
    assert_eq!(response["status"], json!("completed"));
    assert_eq!(response["output"][0]["content"][0]["text"], json!("Two."));
    assert_eq!(response["previous_response_id"], Value::Null);
    assert_eq!(asked(&upstream), pairs(&[("user", "Count.")]));
}

#[tokio::test]
async fn headers_of_the_opening_are_those_of_each_request() {
    let upstream = says(&["One.", "Two."]).await;
    let app = app(&upstream).await;
    let headers = [
        ("turnwright-user", "ann"),
        ("turnwright-conversation", "talk"),
        ("idempotency-key", "k"),
        ("x-stainless-retry-count", "0"),
    ];
    let mut socket = Socket::open_with(&app, &headers).await.unwrap();
    for text in ["One.", "Two."] {
        let events = socket.ask(&create("Hi")).await;
        let output = &events.last().unwrap()["response"]["output"];
        assert_eq!(output[0]["content"][0]["text"], json!(text));
    }
    let path = "/v1/conversations/talk/turns";
    let of_ann = [("turnwright-user", "ann")];
    let turns = app
        .client
        .send("GET", path, &of_ann, "")
        .await
        .unwrap()
        .json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_compacted_conversation_begins_a_new_chain() {
    let upstream = says(&["Slate."]).await;
    let app = app(&upstream).await;
    let compact = json!({ "model": "m", "input": [
        { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Remember: slate." }] },
        { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "OK." }] },
    ] });
    let client = &app.client;
    let made = client
        .send("POST", "/v1/responses/compact", &[], compact.to_string())
        .await;
    let mut input = made.unwrap().json()["output"].clone();
    let question = json!({ "type": "message", "role": "user", "content": "Which?" });
    input.as_array_mut().unwrap().push(question);
    let mut socket = Socket::open(&app).await;
    let events = socket.ask(&create(input)).await;
    assert_eq!(events.last().unwrap()["type"], json!("response.completed"));
    let said = asked(&upstream);
    assert_eq!(said.len(), 3);
    assert_eq!(said[2], ("user".to_owned(), "Which?".to_owned()));
}

#[tokio::test]
async fn events_are_on_the_lane_that_the_client_names() {
    let upstream = says(&["One."]).await;
    let app = app(&upstream).await;
    let mut socket = Socket::open(&app).await;
    let mut message = create("Hi");
    message["stream_id"] = json!("left");
    let mut events = socket.ask(&message).await;
    message["previous_response_id"] = json!("resp_none");
    events.extend(socket.ask(&message).await);
    for event in &events {
        assert_eq!(event["stream_id"], json!("left"), "{event}");
    }
    assert_eq!(socket.ask(&create("Hi")).await[0].get("stream_id"), None);
}
