//! Servers that people run themselves: llama.cpp, Ollama, vLLM, LM Studio.
//!
//! What they say is written down from their sources and public reports, not recorded.

use serde_json::{Value, json};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use crate::app::{App, AppOptions, CHAT, ask, ask_streamed, upstream_body};

async fn asked_of(
    reply: ListenerReply,
    request: &Value,
) -> (tw_testkit::client::ReadAnswer, Listener) {
    let upstream = Listener::in_turn(vec![reply]).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    (app.client.chat(request).await.unwrap(), upstream)
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_told_as_clients_know_it() {
    for (body, says) in [
        // llama.cpp, and an earlier one.
        (
            r#"{"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
            "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        ),
        (
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
            "the request exceeds the available context size (the prompt has 5000 tokens, the context 4096)",
        ),
        // Ollama
        (
            r#"{"error":{"message":"prompt too long; exceeded max context length by 12 tokens","type":"invalid_request_error","param":null,"code":null}}"#,
            "by 12 tokens",
        ),
        // vLLM, twice
        (
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}"#,
            "5000",
        ),
        (
            r#"{"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}}"#,
            "5000",
        ),
        // LM Studio
        (
            r#"{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}"#,
            "5000",
        ),
    ] {
        let (got, upstream) = asked_of(ListenerReply::status(400, body), &ask("Hi")).await;
        assert_eq!(got.status, 400, "{body}");
        let error = &got.json()["error"];
        assert_eq!(error["code"], "context_length_exceeded", "{body}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
        assert_eq!(upstream.asked().len(), 1);
    }
}

#[tokio::test]
async fn what_a_server_cannot_do_is_asked_once() {
    for (status, body, asked) in [
        (
            500,
            r#"{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}"#,
            1,
        ),
        (
            501,
            r#"{"error":{"code":501,"message":"This server does not do that","type":"not_supported_error"}}"#,
            1,
        ),
        (500, r#"{"error":{"message":"out of memory"}}"#, 3),
    ] {
        let (got, upstream) = asked_of(ListenerReply::status(status, body), &ask("Hi")).await;
        assert_eq!(got.status, 502, "{body}");
        assert_eq!(upstream.asked().len(), asked, "{body}");
    }
}

#[tokio::test]
async fn no_limit_is_passed_on_as_it_is_written() {
    for name in ["max_tokens", "max_completion_tokens"] {
        let mut request = ask("Hi");
        request[name] = json!(-1);
        let reply = ListenerReply::json(upstream_body("Hi.", &[]));
        let (got, upstream) = asked_of(reply, &request).await;
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(upstream.asked()[0].json()[name], json!(-1));
        request[name] = json!(-2);
        let (got, _) = asked_of(ListenerReply::hang_up(), &request).await;
        assert_eq!(got.status, 400);
    }
}

fn progress(processed: u32) -> String {
    let chunk = json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "content": null } }],
                        "prompt_progress": { "total": 20, "processed": processed } });
    format!("data: {chunk}\n\n")
}

fn first_token() -> String {
    let text = json!({ "choices": [{ "index": 0, "delta": { "content": "Hi" }, "finish_reason": "stop" }] });
    format!("data: {text}\n\ndata: [DONE]\n\n")
}

/// A prompt is read for minutes, and its client shows a bar meanwhile.
#[tokio::test]
async fn the_progress_of_a_prompt_comes_as_it_is_made() {
    let pieces = vec![
        ReplyPiece::Bytes(progress(10).into()),
        ReplyPiece::Gate("half"),
        ReplyPiece::Bytes(progress(20).into()),
        ReplyPiece::Gate("read"),
        ReplyPiece::Bytes(first_token().into()),
    ];
    let upstream =
        Listener::in_turn(vec![ListenerReply::pieces("text/event-stream", pieces)]).await;
    let upstream = upstream.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let body = ask_streamed("Hi").to_string();
    let opened = app.client.open("POST", CHAT, &[], body).await;
    let mut answer = opened.unwrap();
    let mut text = answer.until(r#""processed":10"#).await;
    upstream.open("half");
    text.push_str(&answer.until(r#""processed":20"#).await);
    assert!(!text.contains("Hi"), "{text}");
    upstream.open("read");
    text.push_str(&answer.until("[DONE]").await);
    let with = |word: &str| text.lines().filter(|line| line.contains(word)).count();
    assert_eq!((with("prompt_progress"), with("\"Hi\"")), (2, 1), "{text}");
    for line in text.lines().filter(|line| line.contains("prompt_progress")) {
        assert_eq!(line.matches("prompt_progress").count(), 1, "{line}");
    }
}

/// Nothing of an answer was shown yet.
#[tokio::test]
async fn an_upstream_that_fails_while_it_reads_the_prompt_is_followed_by_another_try() {
    let broken = vec![ReplyPiece::Bytes(progress(10).into()), ReplyPiece::Cut];
    let upstream = Listener::in_turn(vec![
        ListenerReply::pieces("text/event-stream", broken),
        ListenerReply::sse(format!("{}{}", progress(20), first_token())),
    ]);
    let upstream = upstream.await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let got = app.client.chat(&ask_streamed("Hi")).await.unwrap();
    let text = got.text();
    assert!(text.contains(r#""content":"Hi""#), "{text}");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    assert_eq!(upstream.asked().len(), 2);
}
