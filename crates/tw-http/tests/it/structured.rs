//! `response_format`: a client gets one JSON text, whatever the model said on the way to it.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_testkit::listener::ListenerReply;

use crate::app::{acting_app, ask, ask_streamed, upstream_body, upstream_stream};

const ANSWER: &str = r#"{"a":1}"#;
const REMARK: &str = "Let me look.";

fn formats() -> Vec<Value> {
    vec![
        json!({ "type": "json_object" }),
        json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": { "type": "object" } } }),
        // What a provider invents.
        json!({ "type": "regex", "pattern": "." }),
    ]
}

fn reply(streamed: bool, text: &str, calls: &[(&str, &str, &str)]) -> ListenerReply {
    if streamed {
        ListenerReply::sse(upstream_stream(text, calls))
    } else {
        ListenerReply::json(upstream_body(text, calls))
    }
}

fn request(streamed: bool, format: &Value) -> Value {
    let mut request = if streamed {
        ask_streamed("Hi")
    } else {
        ask("Hi")
    };
    if !format.is_null() {
        request["response_format"] = format.clone();
    }
    request
}

/// The text that a client puts together.
fn content(streamed: bool, got: &tw_testkit::client::ReadAnswer) -> String {
    if !streamed {
        let body = got.json();
        return body["choices"][0]["message"]["content"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
    }
    got.events()
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event).ok())
        .filter_map(|event| {
            let content = &event["choices"][0]["delta"]["content"];
            content.as_str().map(str::to_owned)
        })
        .collect()
}

#[tokio::test]
async fn what_is_said_before_a_call_is_not_put_before_the_answer() {
    for streamed in [false, true] {
        for format in formats() {
            let (app, upstream, _tool) = acting_app(vec![
                reply(streamed, REMARK, &[("c1", "act", "{}")]),
                reply(streamed, ANSWER, &[]),
            ])
            .await;
            let got = app.post(&[], &request(streamed, &format)).await;
            assert_eq!(content(streamed, &got), ANSWER, "{streamed}, {format}");
            // The model is told what it said, and so is whoever reads the record.
            let second = upstream.asked()[1].json();
            assert_eq!(second["messages"][1]["content"], REMARK);
            assert!(app.turn_of(&got).await.to_string().contains(REMARK));
        }
    }
}

/// People read both.
#[tokio::test]
async fn where_people_read_a_blank_line_stands_between_rounds() {
    for streamed in [false, true] {
        for format in [Value::Null, json!({ "type": "text" })] {
            let (app, _upstream, _tool) = acting_app(vec![
                reply(streamed, REMARK, &[("c1", "act", "{}")]),
                reply(streamed, "It is 1.", &[]),
            ])
            .await;
            let got = app.post(&[], &request(streamed, &format)).await;
            assert_eq!(
                content(streamed, &got),
                format!("{REMARK}\n\nIt is 1."),
                "{streamed}"
            );
        }
    }
}

/// What is said beside a call that the client answers belongs to the message with the call.
#[tokio::test]
async fn what_is_said_beside_a_call_of_the_client_goes_with_it() {
    for streamed in [false, true] {
        let (app, _upstream, _tool) = acting_app(vec![
            reply(streamed, REMARK, &[("c1", "act", "{}")]),
            reply(streamed, "And you?", &[("c2", "theirs", "{}")]),
        ])
        .await;
        let mut request = request(streamed, &formats()[0]);
        request["tools"] = json!([
            { "type": "function", "function": { "name": "act" } },
            { "type": "function", "function": { "name": "theirs" } },
        ]);
        let got = app.post(&[], &request).await;
        assert_eq!(content(streamed, &got), "And you?", "{streamed}");
        assert!(got.text().contains("theirs"), "{}", got.text());
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_is_given_as_far_as_it_came() {
    for streamed in [false, true] {
        let cut = if streamed {
            ListenerReply::sse(upstream_stream(ANSWER, &[]).replace(r#""stop""#, r#""length""#))
        } else {
            ListenerReply::json(upstream_body(ANSWER, &[]).replace(r#""stop""#, r#""length""#))
        };
        let (app, _upstream, _tool) = acting_app(vec![cut]).await;
        let got = app.post(&[], &request(streamed, &formats()[0])).await;
        assert_eq!(content(streamed, &got), ANSWER, "{streamed}");
        assert!(got.text().contains("length"), "{}", got.text());
    }
}

/// Without tools of this server there is one round, whose text is streamed as it comes.
#[tokio::test]
async fn a_relayed_answer_is_streamed_as_it_comes() {
    let text = upstream_stream("Hello", &[]);
    let (app, _upstream, _tool) = acting_app(vec![ListenerReply::sse(text.clone())]).await;
    let key = app
        .key("default", ToolGrant::None, vec![KeyScope::Chat])
        .await;
    let client = app.with_key(Some(key));
    let got = client.chat(&request(true, &formats()[0])).await.unwrap();
    let texts = |text: &str| text.matches(r#""content":"#).count();
    assert!(texts(&got.text()) >= texts(&text), "{}", got.text());
    assert_eq!(content(true, &got), "Hello");
}
