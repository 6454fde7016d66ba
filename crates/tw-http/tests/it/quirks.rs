//! Oddities of clients and upstreams that only show in a whole system.

use std::time::Duration;

use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_egress::upstream::UpstreamTimeouts;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use crate::app::{App, AppOptions, CHAT, ask, ask_streamed, probe, upstream_body, upstream_stream};

/// A chunk with text and the usage so far.
fn chunk(text: &str, completion_tokens: u32) -> ReplyPiece {
    let chunk = json!({
        "id": "u", "object": "chat.completion.chunk", "created": 1, "model": "m-1",
        "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": null }],
        "usage": { "prompt_tokens": 7, "completion_tokens": completion_tokens,
                   "total_tokens": 7 + completion_tokens },
    });
    ReplyPiece::Bytes(format!("data: {chunk}\n\n").into())
}

fn end() -> ReplyPiece {
    let chunk = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    ReplyPiece::Bytes(format!("data: {chunk}\n\ndata: [DONE]\n\n").into())
}

async fn streaming(pieces: Vec<ReplyPiece>) -> Listener {
    let reply = ListenerReply::pieces("text/event-stream", pieces);
    Listener::in_turn(vec![reply]).await.unwrap()
}

/// Leaves in the middle of the answer and returns the turn.
async fn left_mid_text(upstream: &Listener, on_leave: &str, then: impl FnOnce()) -> Value {
    let app = App::start(upstream, AppOptions::plain()).await;
    let headers = [("turnwright-on-leave", on_leave)];
    let body = ask_streamed("Hi").to_string();
    let mut open = app.client.open("POST", CHAT, &headers, body).await.unwrap();
    let turn = open.header("turnwright-turn").to_owned();
    open.until("One").await;
    drop(open);
    then();
    if on_leave == "stop" {
        upstream.abandoned_times(1).await;
    }
    app.turn(&turn).await
}

/// Strict upstreams refuse a message that makes two calls under one id.
#[tokio::test]
async fn ids_that_a_client_repeats_are_told_apart_and_reported() {
    let upstream = streaming(vec![chunk("Fine.", 1), end()]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let call = |name: &str| {
        json!({ "id": "call_1", "type": "function", "extra_content": { "signature": name },
                "function": { "name": name, "arguments": "{}" } })
    };
    let answer =
        |content: &str| json!({ "role": "tool", "tool_call_id": "call_1", "content": content });
    let mut body = ask_streamed("Go.");
    let messages = body["messages"].as_array_mut().unwrap();
    let calls = [call("first"), call("second")];
    messages.push(json!({ "role": "assistant", "content": null, "tool_calls": calls }));
    messages.extend(["one", "two", "three"].map(answer));
    let got = app.post(&[], &body).await;
    assert_eq!(got.streamed_text(), "Fine.");
    assert_eq!(
        got.header("turnwright-repaired"),
        "repeated_result=1, repeated_id=1"
    );
    let sent = upstream.asked()[0].json()["messages"].clone();
    let mut renamed = call("second");
    renamed["id"] = json!("call_2");
    assert_eq!(sent[1]["tool_calls"], json!([call("first"), renamed]));
    let mut second = answer("two");
    second["tool_call_id"] = json!("call_2");
    assert_eq!(json!([sent[2], sent[3]]), json!([answer("one"), second]));
    assert_eq!(sent.as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn quirk_33_a_client_that_leaves_ends_the_upstream_and_usage_is_recorded() {
    let upstream = streaming(vec![chunk("One", 3), ReplyPiece::Silence]).await;
    let turn = left_mid_text(&upstream, "stop", || {}).await;
    assert_eq!(turn["status"], "cancelled");
    assert_eq!(turn["reason"], "client_left");
    assert_eq!(turn["usage"]["completion_tokens"], 3);
    assert_eq!(
        turn["rounds"][0]["attempts"][0]["usage"]["total_tokens"],
        10
    );
}

#[tokio::test]
async fn quirk_33_a_client_that_leaves_and_wants_the_answer_gets_all_of_it_billed() {
    let upstream = streaming(vec![
        chunk("One", 3),
        ReplyPiece::Gate("go"),
        chunk(" two", 5),
        end(),
    ])
    .await;
    let turn = left_mid_text(&upstream, "finish", || upstream.open("go")).await;
    assert_eq!(turn["status"], "completed");
    assert_eq!(turn["usage"]["completion_tokens"], 5);
    assert_eq!(
        turn["rounds"][0]["messages"][0]["blocks"][0]["text"],
        "One two"
    );
}

/// Between two reads of an upstream in the tests of silence; the pauses are well below it, and
/// their sum above.
const IDLE: Duration = Duration::from_millis(1500);
const PAUSE: Duration = Duration::from_millis(400);

fn idle(idle: Duration) -> AppOptions {
    AppOptions {
        timeouts: UpstreamTimeouts {
            idle,
            ..UpstreamTimeouts::defaults()
        },
        ..AppOptions::plain()
    }
}

#[tokio::test]
async fn quirk_36_a_slow_but_steady_stream_outlives_the_idle_timeout() {
    let mut pieces = Vec::new();
    for n in 1..=5 {
        pieces.extend([chunk("x", n), ReplyPiece::Wait(PAUSE)]);
    }
    pieces.push(end());
    let upstream = streaming(pieces).await;
    let app = App::start(&upstream, idle(IDLE)).await;
    let got = app.client.chat(&ask_streamed("Hi")).await.unwrap();
    assert_eq!(got.streamed_text(), "xxxxx");
    assert_eq!(got.events().last().unwrap(), "[DONE]");
    let turn = app.turn_of(&got).await;
    let lasted = turn["ended_us"].as_i64().unwrap() - turn["created_us"].as_i64().unwrap();
    assert!(u128::try_from(lasted).unwrap() > IDLE.as_micros());
}

#[tokio::test]
async fn quirk_36_a_silent_stream_is_cut_and_the_client_is_told() {
    let upstream = streaming(vec![chunk("One", 3), ReplyPiece::Silence]).await;
    let app = App::start(&upstream, idle(Duration::from_millis(50))).await;
    let got = app.client.chat(&ask_streamed("Hi")).await.unwrap();
    assert_eq!(got.streamed_text(), "One");
    let last: Value = serde_json::from_str(got.events().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "upstream_timeout");
    upstream.abandoned_times(1).await;
    let turn = app.turn_of(&got).await;
    assert_eq!(
        (&turn["status"], &turn["reason"]),
        (&json!("failed"), &json!("upstream"))
    );
    assert_eq!(turn["rounds"][0]["attempts"][0]["outcome"], "silent");
    assert_eq!(turn["usage"]["completion_tokens"], 3);
    assert_eq!(upstream.asked().len(), 1);
}

/// A local model reads the prompt first: it sends its head before or behind that. The head of a
/// plain answer comes with its end.
#[tokio::test]
async fn an_answer_may_begin_later_than_its_parts_may_follow() {
    let plain = ReplyPiece::Bytes(upstream_body("Late.", &[]).into());
    let parts = ReplyPiece::Bytes(upstream_stream("Late.", &[]).into());
    let (brief, long) = (IDLE / 2, Duration::from_secs(600));
    for (streamed, first_byte, pieces) in [
        (true, long, vec![ReplyPiece::HeadWait(IDLE), parts.clone()]),
        (true, long, vec![ReplyPiece::Wait(IDLE), parts]),
        (
            false,
            brief,
            vec![ReplyPiece::HeadWait(IDLE), plain.clone()],
        ),
        (false, brief, vec![ReplyPiece::Wait(IDLE), plain]),
    ] {
        let kind = if streamed {
            "text/event-stream"
        } else {
            "application/json"
        };
        let reply = ListenerReply::pieces(kind, pieces);
        let upstream = Listener::in_turn(vec![reply]).await.unwrap();
        let mut wanted = idle(brief);
        wanted.timeouts.first_byte = first_byte;
        let app = App::start(&upstream, wanted).await;
        let request = if streamed {
            ask_streamed("Hi")
        } else {
            ask("Hi")
        };
        let got = app.client.chat(&request).await.unwrap();
        assert_eq!(got.status, 200, "{streamed}: {}", got.text());
        assert!(got.text().contains("Late."), "{}", got.text());
        assert_eq!(upstream.asked().len(), 1);
    }
}

#[tokio::test]
async fn quirk_37_stop_stops_and_the_record_says_so() {
    let tool = Listener::in_turn(vec![ListenerReply::pieces(
        "application/json",
        vec![ReplyPiece::HeadGate("never")],
    )])
    .await
    .unwrap();
    let calls = [("c1", "look", "{}"), ("c2", "look", "{}")];
    let upstream = Listener::in_turn(vec![ListenerReply::sse(upstream_stream("One", &calls))])
        .await
        .unwrap();
    let look = probe("look", EffectClass::Read, tool.url("/"));
    let app = App::start(&upstream, AppOptions::with_tools(vec![look])).await;
    let body = ask_streamed("Hi").to_string();
    let mut open = app.client.open("POST", CHAT, &[], body).await.unwrap();
    let turn = open.header("turnwright-turn").to_owned();
    open.until("One").await;
    tool.asked_times(2).await;
    let path = format!("/v1/turns/{turn}/cancel");
    let stopped = app.client.send("POST", &path, &[], "").await.unwrap();
    let stopped = stopped.json();
    assert_eq!(stopped["status"], "cancelled");
    assert_eq!(stopped["reason"], "requested");
    for call in stopped["rounds"][0]["calls"].as_array().unwrap() {
        assert_eq!(call["status"], "failed");
        assert_eq!(call["reason"], "cancelled");
    }
    tool.abandoned_times(2).await;
    let rest = open.until("[DONE]").await;
    assert!(rest.contains(r#""code":"cancelled""#), "{rest}");
    assert!(!rest.contains("[DONE]"), "{rest}");
    app.settled().await;
    assert_eq!(app.runtime.turns_running(), 0);
    assert_eq!(upstream.asked().len(), 1);
}

/// How llama.cpp's server streams, seen with SmolLM2: no content where nothing is said, arguments of `{}` in two
/// pieces, ids without a prefix, the path of a file as the model, its timings at the end, and the usage behind it.
fn llama_stream(deltas: &[Value], finish: &str, prompt_tokens: u32) -> String {
    let chunk = |choices: Value| {
        json!({ "choices": choices, "created": 1_795_869_388, "id": "chatcmpl-TQU5UORFv096",
                "model": "/models/SmolLM2-135M-Instruct.gguf", "system_fingerprint": "b0-unknown",
                "object": "chat.completion.chunk" })
    };
    let said = |delta: &Value, finish: Value| {
        chunk(json!([{ "finish_reason": finish, "index": 0, "delta": delta }]))
    };
    let mut chunks = vec![said(
        &json!({ "role": "assistant", "content": null }),
        json!(null),
    )];
    chunks.extend(deltas.iter().map(|delta| said(delta, json!(null))));
    chunks.push(said(&json!({}), json!(finish)));
    let mut last = chunk(json!([]));
    last["usage"] = json!({ "completion_tokens": 26, "prompt_tokens": prompt_tokens,
                            "total_tokens": 26 + prompt_tokens,
                            "prompt_tokens_details": { "cached_tokens": 7 } });
    last["timings"] = json!({ "prompt_n": prompt_tokens, "prompt_ms": 4051.539 });
    chunks.push(last);
    let events = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    events.collect::<String>() + "data: [DONE]\n\n"
}

#[tokio::test]
async fn a_local_models_call_runs_and_its_counts_are_summed() {
    let tool = Listener::in_turn(vec![ListenerReply::json(r#"{"time":"12:38"}"#)])
        .await
        .unwrap();
    let call = json!({ "tool_calls": [{ "index": 0, "id": "rxwNi9FR2q2brgHdDO6XWvNOe0jQeaB3",
                       "type": "function", "function": { "name": "look", "arguments": "{" } }] });
    let rest = json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "}" } }] });
    let text = [
        json!({ "content": "It is" }),
        json!({ "content": " 12:38." }),
    ];
    let upstream = Listener::in_turn(vec![
        ListenerReply::sse(llama_stream(&[call, rest], "tool_calls", 421)),
        ListenerReply::sse(llama_stream(&text, "stop", 480)),
    ])
    .await
    .unwrap();
    let look = probe("look", EffectClass::Read, tool.url("/"));
    let app = App::start(&upstream, AppOptions::with_tools(vec![look])).await;
    let mut body = ask_streamed("What time is it in Rome?");
    body["stream_options"] = json!({ "include_usage": true });
    let got = app.post(&[], &body).await;
    assert_eq!(got.streamed_text(), "It is 12:38.");
    assert!(!got.text().contains("tool_calls"), "{}", got.text());
    assert_eq!(tool.asked().len(), 1);
    let turn = app.turn_of(&got).await;
    assert_eq!(turn["status"], "completed");
    assert_eq!(turn["rounds"][0]["calls"][0]["arguments"], "{}");
    let usage = json!({ "completion_tokens": 52, "prompt_tokens": 901, "total_tokens": 953,
                        "prompt_tokens_details": { "cached_tokens": 14 } });
    assert_eq!(turn["usage"], usage);
}
