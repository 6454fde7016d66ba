//! Custom tools over an upstream that knows none: it is told of functions of one text, and the client gets what it knows.

use std::sync::Arc;

use serde_json::{Value, json};
use tw_egress::upstream::Upstream;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use super::sse;
use crate::app::{App, AppOptions};
use crate::upstreams::upstream;

const PATCH: &str = "*** add a\n\"line\"";

/// An upstream of Messages that calls the custom tool once, and then says something.
async fn calling() -> Listener {
    let usage = json!({ "input_tokens": 3, "output_tokens": 2 });
    Listener::start(move |asked| {
        let body = asked.json();
        let is_first = body["messages"].as_array().unwrap().len() == 1;
        let (block, reason) = if is_first {
            (json!({ "type": "tool_use", "id": "toolu_1", "name": "patch", "input": { "input": PATCH } }), "tool_use")
        } else {
            (json!({ "type": "text", "text": "done" }), "end_turn")
        };
        let head = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage });
        if body["stream"] != json!(true) {
            let mut whole = head;
            whole["content"] = json!([block]);
            whole["stop_reason"] = json!(reason);
            return ListenerReply::json(whole.to_string());
        }
        let mut events = vec![("message_start", json!({ "message": head }))];
        if is_first {
            let mut begun = block;
            let input = begun["input"].to_string();
            begun["input"] = json!({});
            events.push(("content_block_start", json!({ "index": 0, "content_block": begun })));
            for piece in [&input[..5], &input[5..]] {
                let delta = json!({ "type": "input_json_delta", "partial_json": piece });
                events.push(("content_block_delta", json!({ "index": 0, "delta": delta })));
            }
        } else {
            events.push(("content_block_start", json!({ "index": 0, "content_block": block })));
        }
        events.extend([
            ("content_block_stop", json!({ "index": 0 })),
            ("message_delta", json!({ "delta": { "stop_reason": reason, "stop_sequence": null }, "usage": usage })),
            ("message_stop", json!({})),
        ]);
        sse(&events)
    })
    .await
    .unwrap()
}

/// The id and the input of the call that a client got.
fn call_in(surface: WireFormat, answer: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match surface {
        WireFormat::OpenAiChat => {
            let call = &answer["choices"][0]["message"]["tool_calls"][0];
            assert_eq!(call["type"], json!("custom"), "{answer}");
            (text(&call["id"]), text(&call["custom"]["input"]))
        }
        WireFormat::OpenAiResponses => {
            let item = &answer["output"][0];
            assert_eq!(item["type"], json!("custom_tool_call"), "{answer}");
            (text(&item["call_id"]), text(&item["input"]))
        }
        WireFormat::AnthropicMessages => panic!("it has no custom tools"),
    }
}

/// The answer that the last event of a stream of Responses holds, or the message that a stream of chunks makes.
fn streamed(surface: WireFormat, text: &str) -> Value {
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter(|data| *data != "[DONE]");
    let events: Vec<Value> = events
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    if surface == WireFormat::OpenAiResponses {
        return events.last().unwrap()["response"].clone();
    }
    let (mut id, mut input) = (String::new(), String::new());
    for event in &events {
        let call = &event["choices"][0]["delta"]["tool_calls"][0];
        id += call["id"].as_str().unwrap_or_default();
        input += call["custom"]["input"].as_str().unwrap_or_default();
    }
    let call = json!({ "id": id, "type": "custom", "custom": { "input": input } });
    json!({ "choices": [{ "message": { "tool_calls": [call] } }] })
}

#[tokio::test]
async fn custom_tools_come_back_as_custom_calls() {
    let listener = calling().await;
    let one = Upstream {
        format: WireFormat::AnthropicMessages,
        ..upstream("one", listener.url("/v1"))
    };
    let wanted = AppOptions {
        config: Box::new(move |config| config.upstreams = vec![Arc::new(one)]),
        ..AppOptions::plain()
    };
    let app = App::start_at("http://127.0.0.1:1/v1".to_owned(), wanted).await;
    let said = json!({ "role": "user", "content": "go" });
    for surface in [WireFormat::OpenAiChat, WireFormat::OpenAiResponses] {
        for stream in [false, true] {
            let place = format!("{surface:?}, streamed: {stream}");
            let (path, mut body) = match surface {
                WireFormat::OpenAiChat => (
                    "/v1/chat/completions",
                    json!({ "messages": [said],
                    "tools": [{ "type": "custom", "custom": { "name": "patch" } }] }),
                ),
                WireFormat::OpenAiResponses | WireFormat::AnthropicMessages => (
                    "/v1/responses",
                    json!({ "input": [said], "tools": [{ "type": "custom", "name": "patch" }] }),
                ),
            };
            body["model"] = json!("m");
            body["stream"] = json!(stream);
            let asked = listener.asked().len();
            let got = app
                .client
                .send("POST", path, &[], body.to_string())
                .await
                .unwrap();
            assert_eq!(got.status, 200, "{place}: {}", got.text());
            let answer = if stream {
                streamed(surface, &got.text())
            } else {
                got.json()
            };
            let (id, input) = call_in(surface, &answer);
            assert_eq!(input, PATCH, "{place}");
            if surface == WireFormat::OpenAiChat {
                let messages = body["messages"].as_array_mut().unwrap();
                messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [
                    { "id": id, "type": "custom", "custom": { "name": "patch", "input": input } }] }));
                messages.push(json!({ "role": "tool", "tool_call_id": id, "content": "ok" }));
            } else {
                let items = body["input"].as_array_mut().unwrap();
                items.push(json!({ "type": "custom_tool_call", "call_id": id, "name": "patch", "input": input }));
                items.push(
                    json!({ "type": "custom_tool_call_output", "call_id": id, "output": "ok" }),
                );
            }
            let got = app
                .client
                .send("POST", path, &[], body.to_string())
                .await
                .unwrap();
            assert_eq!(got.status, 200, "{place}: {}", got.text());
            let sent = listener.asked()[asked + 1].json();
            assert_eq!(
                sent["tools"][0]["input_schema"]["required"],
                json!(["input"]),
                "{place}"
            );
            assert_eq!(
                sent["messages"][1]["content"],
                json!([{ "type": "tool_use", "id": "toolu_1", "name": "patch", "input": { "input": PATCH } }]),
                "{place}"
            );
        }
    }
}
