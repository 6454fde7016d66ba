//! Oddities of the loop, on each surface over each upstream; the numbers are those of the list of quirks.

use serde_json::{Value, json};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::nine_pairs::{Pair, Spoken, UP_ID, bring, request, result_sent, seen, sse};

/// An upstream's answer that thinks, in a form that only it understands, and calls `name`.
fn thinks(format: WireFormat, name: &str) -> ListenerReply {
    match format {
        WireFormat::OpenAiChat => {
            let chunk = |delta: Value, finish: Value| {
                let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
                format!("data: {}\n\n", json!({ "id": "u", "choices": [choice] }))
            };
            let call = json!({ "index": 0, "id": UP_ID, "type": "function",
                "function": { "name": name, "arguments": "{}" } });
            let mut thought = thought(format);
            thought["role"] = json!("assistant");
            let chunks = [
                chunk(thought, Value::Null),
                chunk(json!({ "tool_calls": [call] }), Value::Null),
                chunk(json!({}), json!("tool_calls")),
            ];
            ListenerReply::sse(chunks.concat() + "data: [DONE]\n\n")
        }
        WireFormat::AnthropicMessages => {
            let block = |index: u32, block: Value| {
                (
                    "content_block_start",
                    json!({ "index": index, "content_block": block }),
                )
            };
            let more = |index: u32, delta: Value| {
                (
                    "content_block_delta",
                    json!({ "index": index, "delta": delta }),
                )
            };
            let stop = |index: u32| ("content_block_stop", json!({ "index": index }));
            let usage = json!({ "input_tokens": 3, "output_tokens": 2 });
            let head = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage });
            sse(&[
                ("message_start", json!({ "message": head })),
                block(
                    0,
                    json!({ "type": "thinking", "thinking": "", "signature": "" }),
                ),
                more(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
                more(0, json!({ "type": "signature_delta", "signature": "SIG" })),
                stop(0),
                block(
                    1,
                    json!({ "type": "tool_use", "id": UP_ID, "name": name, "input": {} }),
                ),
                stop(1),
                (
                    "message_delta",
                    json!({ "delta": { "stop_reason": "tool_use" }, "usage": usage }),
                ),
                ("message_stop", json!({})),
            ])
        }
        WireFormat::OpenAiResponses => {
            let response = |status: &str| {
                json!({ "response": { "id": "resp_1", "object": "response",
                "model": "m", "status": status, "output": [] } })
            };
            let call = json!({ "type": "function_call", "id": "fc_1", "call_id": UP_ID, "name": name,
                "arguments": "{}", "status": "completed" });
            sse(&[
                ("response.created", response("in_progress")),
                (
                    "response.output_item.done",
                    json!({ "output_index": 0, "item": thought(format) }),
                ),
                (
                    "response.output_item.done",
                    json!({ "output_index": 1, "item": call }),
                ),
                ("response.completed", response("completed")),
            ])
        }
    }
}

/// The thought as its upstream wrote it.
fn thought(format: WireFormat) -> Value {
    match format {
        WireFormat::OpenAiChat => json!({ "reasoning_content": "hm",
            "reasoning_details": [{ "type": "reasoning.text", "text": "hm", "signature": "SIG" }] }),
        WireFormat::AnthropicMessages => {
            json!({ "type": "thinking", "thinking": "hm", "signature": "SIG" })
        }
        WireFormat::OpenAiResponses => json!({ "type": "reasoning", "id": "rs_1",
            "summary": [{ "type": "summary_text", "text": "hm" }], "encrypted_content": "SEALED" }),
    }
}

/// Checks that the thought stands before the call that it led to, and is as it was.
fn check_thought(up: WireFormat, sent: &Value, place: &str) {
    match up {
        WireFormat::OpenAiChat => {
            let messages = sent["messages"].as_array().unwrap();
            let made = messages
                .iter()
                .rfind(|it| it["role"] == "assistant")
                .unwrap();
            assert_eq!(made["tool_calls"][0]["id"], UP_ID, "{place}: {sent}");
            for (field, value) in thought(up).as_object().unwrap() {
                assert_eq!(&made[field], value, "{place}: {sent}");
            }
        }
        WireFormat::AnthropicMessages => {
            let messages = sent["messages"].as_array().unwrap();
            let made = messages
                .iter()
                .rfind(|it| it["role"] == "assistant")
                .unwrap();
            assert_eq!(made["content"][0], thought(up), "{place}: {sent}");
            assert_eq!(made["content"][1]["id"], UP_ID, "{place}: {sent}");
        }
        WireFormat::OpenAiResponses => {
            let items = sent["input"].as_array().unwrap();
            let call = items.iter().position(|it| it["call_id"] == UP_ID).unwrap();
            let before = call.checked_sub(1).and_then(|at| items.get(at)).unwrap();
            let mut wanted = thought(up);
            // Ids are of use to the provider only where it keeps the items.
            if before.get("id").is_none() {
                wanted.as_object_mut().unwrap().remove("id");
            }
            assert_eq!(before, &wanted, "{place}: {sent}");
        }
    }
}

#[tokio::test]
async fn quirk_27_thoughts_go_back_first_and_unchanged() {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    for up in WireFormat::ALL {
        let pair = Pair::start(up, Some(&tool)).await;
        for surface in WireFormat::ALL {
            let place = format!("{surface:?} over {up:?}");
            // Our own call, in one turn.
            let (path, body) = request(surface, true, None);
            let asked = pair.listener.asked().len();
            pair.answers_first(thinks(up, "look"));
            let got = pair.ask_with(path, &[], &body, &[Spoken::Text("ok")]).await;
            assert_eq!(seen(surface, &got).text, "ok", "{place}: {}", got.text());
            let sent = pair.listener.asked()[asked + 1].json();
            check_thought(up, &sent, &format!("{place}, a call of ours"));
            // The client's, which brings no thought back.
            let (path, body) = request(surface, true, Some("mine"));
            pair.answers_first(thinks(up, "mine"));
            let got = pair.ask_with(path, &[], &body, &[]).await;
            let first = seen(surface, &got);
            assert_eq!(first.call.name, "mine", "{place}: {}", got.text());
            let next = bring(surface, body, &first.call);
            let asked = pair.listener.asked().len();
            let got = pair.ask_with(path, &[], &next, &[Spoken::Text("ok")]).await;
            assert_eq!(seen(surface, &got).text, "ok", "{place}: {}", got.text());
            let sent = pair.listener.asked()[asked].json();
            check_thought(up, &sent, &format!("{place}, a call of the client's"));
        }
    }
}

/// The choice of one tool, in a format.
fn forced(format: WireFormat) -> Value {
    match format {
        WireFormat::OpenAiChat => json!({ "type": "function", "function": { "name": "look" } }),
        WireFormat::AnthropicMessages => json!({ "type": "tool", "name": "look" }),
        WireFormat::OpenAiResponses => json!({ "type": "function", "name": "look" }),
    }
}

#[tokio::test]
async fn quirk_28_a_forced_choice_is_for_the_first_round() {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    for up in WireFormat::ALL {
        let pair = Pair::start(up, Some(&tool)).await;
        for surface in WireFormat::ALL {
            let place = format!("{surface:?} over {up:?}");
            let (path, mut body) = request(surface, true, Some("look"));
            body["tool_choice"] = forced(surface);
            let asked = pair.listener.asked().len();
            let says = [Spoken::Call(UP_ID, "look"), Spoken::Text("ok")];
            let got = pair.ask_with(path, &[], &body, &says).await;
            assert_eq!(seen(surface, &got).text, "ok", "{place}: {}", got.text());
            let sent = |n: usize| pair.listener.asked()[asked + n].json()["tool_choice"].clone();
            assert_eq!(sent(0), forced(up), "{place}");
            let free = [Value::Null, json!("auto"), json!({ "type": "auto" })];
            assert!(free.contains(&sent(1)), "{place}: {}", sent(1));
        }
    }
}

/// How often each word stands at the beginning and the end of a surface's stream.
fn lifecycle(surface: WireFormat) -> [&'static str; 2] {
    match surface {
        WireFormat::OpenAiChat => ["\"role\":\"assistant\"", "data: [DONE]"],
        WireFormat::AnthropicMessages => ["event: message_start", "event: message_stop"],
        WireFormat::OpenAiResponses => ["event: response.created", "event: response.completed"],
    }
}

#[tokio::test]
async fn quirk_29_rounds_are_one_lifecycle_and_their_usage_is_summed() {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    // The chat upstream of these tests does not tell of usage.
    for up in [WireFormat::AnthropicMessages, WireFormat::OpenAiResponses] {
        let pair = Pair::start(up, Some(&tool)).await;
        for surface in WireFormat::ALL {
            let place = format!("{surface:?} over {up:?}");
            let (path, mut body) = request(surface, true, None);
            if surface == WireFormat::OpenAiChat {
                body["stream_options"] = json!({ "include_usage": true });
            }
            let says = [Spoken::Call(UP_ID, "look"), Spoken::Text("ok")];
            let got = pair.ask_with(path, &[], &body, &says).await.text();
            for word in lifecycle(surface) {
                assert_eq!(got.matches(word).count(), 1, "{place}: {word} in {got}");
            }
            let told = got.lines().filter_map(|line| line.strip_prefix("data: "));
            let told = told.filter_map(|data| serde_json::from_str::<Value>(data).ok());
            let mut used = told.filter_map(|event| {
                let places = [&event["usage"], &event["response"]["usage"]];
                places.into_iter().find(|it| it.is_object()).cloned()
            });
            let used = used.next_back().unwrap();
            let count = |names: [&str; 2]| names.iter().find_map(|name| used[name].as_u64());
            let counts = [
                ["prompt_tokens", "input_tokens"],
                ["completion_tokens", "output_tokens"],
            ];
            assert_eq!(counts.map(count), [Some(6), Some(4)], "{place}: {used}");
        }
    }
}

/// Ids that other upstreams do not take: with a colon, and longer than forty characters.
const ODD_IDS: [&str; 2] = [
    "functions.look:0",
    "chatcmpl-tool-33d90102b2fe4386808056bc3fa9ad17",
];

#[tokio::test]
async fn an_upstream_gets_back_its_own_ids_by_whatever_surface_it_is_asked() {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    for up in WireFormat::ALL {
        let pair = Pair::start(up, Some(&tool)).await;
        for surface in WireFormat::ALL {
            for id in ODD_IDS {
                let place = format!("{surface:?} over {up:?}: {id}");
                let asked = pair.listener.asked().len();
                let (path, body) = request(surface, false, None);
                let says = [Spoken::Call(id, "look"), Spoken::Text("ok")];
                let got = pair.ask_with(path, &[], &body, &says).await;
                assert_eq!(seen(surface, &got).text, "ok", "{place}");
                let sent = pair.listener.asked()[asked + 1].json();
                assert_eq!(result_sent(up, &sent).0, id, "{place}: {sent}");
                // And a call of the client's.
                let (path, body) = request(surface, false, Some("mine"));
                let says = [Spoken::Call(id, "mine")];
                let got = pair.ask_with(path, &[], &body, &says).await;
                let next = bring(surface, body, &seen(surface, &got).call);
                let asked = pair.listener.asked().len();
                pair.ask_with(path, &[], &next, &[Spoken::Text("ok")]).await;
                let sent = pair.listener.asked()[asked].json();
                assert_eq!(result_sent(up, &sent).0, id, "{place}: {sent}");
            }
        }
    }
}
