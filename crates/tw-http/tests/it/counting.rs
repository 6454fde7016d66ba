//! Counts of tokens: what an upstream is asked, and what a client is told.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::tool::EffectClass;
use tw_egress::upstream::Upstream;
use tw_runtime::limiter::LimiterRules;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, probe, upstream_body};
use crate::upstreams::{in_front_of, in_front_of_with, serves, upstream};

const MESSAGES: &str = "/v1/messages/count_tokens";
const RESPONSES: &str = "/v1/responses/input_tokens";
/// The surfaces that count, each with the route of answers.
const SURFACES: [(WireFormat, &str, &str); 2] = [
    (WireFormat::AnthropicMessages, MESSAGES, "/v1/messages"),
    (WireFormat::OpenAiResponses, RESPONSES, "/v1/responses"),
];
/// The formats of upstreams that count, each with its path.
const COUNTERS: [(WireFormat, &str); 2] = [
    (WireFormat::AnthropicMessages, MESSAGES),
    (WireFormat::OpenAiResponses, RESPONSES),
];

fn of_format(format: WireFormat, name: &str, listener: &Listener) -> Upstream {
    Upstream {
        format,
        ..upstream(name, listener.url("/v1"))
    }
}

/// An upstream's answer, which says more than the count.
fn counted(format: WireFormat) -> Value {
    match format {
        WireFormat::OpenAiResponses => {
            json!({ "object": "response.input_tokens", "input_tokens": 42, "more": 1 })
        }
        WireFormat::OpenAiChat | WireFormat::AnthropicMessages => {
            json!({ "input_tokens": 42, "more": 1 })
        }
    }
}

async fn counts(format: WireFormat) -> Listener {
    Listener::start(move |asked| {
        if asked.target.ends_with("tokens") {
            ListenerReply::json(counted(format).to_string())
        } else {
            ListenerReply::status(400, r#"{"error":{"message":"no answers here"}}"#)
        }
    })
    .await
    .unwrap()
}

/// A conversation with a system text, a call of the client's and its result.
fn conversation(surface: WireFormat, model: &str) -> Value {
    match surface {
        WireFormat::OpenAiResponses => json!({
            "model": model, "instructions": "Be short.", "max_output_tokens": 50, "temperature": 0.5,
            "input": [
                { "role": "user", "content": "Weather?" },
                { "type": "function_call", "call_id": "c1", "name": "sky", "arguments": "{}" },
                { "type": "function_call_output", "call_id": "c1", "output": "blue" },
            ],
            "tools": [
                { "type": "function", "name": "sky", "parameters": { "type": "object" } },
                { "type": "function", "name": "look", "parameters": { "type": "object" } },
            ],
        }),
        WireFormat::OpenAiChat | WireFormat::AnthropicMessages => json!({
            "model": model, "system": "Be short.", "max_tokens": 50, "temperature": 0.5,
            "messages": [
                { "role": "user", "content": "Weather?" },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "c1", "name": "sky", "input": {} }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c1", "content": "blue" }] },
            ],
            "tools": [
                { "name": "sky", "input_schema": { "type": "object" } },
                { "name": "look", "input_schema": { "type": "object" } },
            ],
        }),
    }
}

async fn post(app: &App, path: &str, body: &Value) -> ReadAnswer {
    let client = &app.client;
    client
        .send("POST", path, &[], body.to_string())
        .await
        .unwrap()
}

#[tokio::test]
async fn an_upstream_is_asked_for_what_it_would_be_asked_to_answer() {
    let service = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    for (surface, route, answers) in SURFACES {
        for (format, path) in COUNTERS {
            let listener = counts(format).await;
            let mut one = of_format(format, "one", &listener);
            one.models = serves(&["own-*"], &[("alias", "own-1")]);
            let tools = vec![probe("look", EffectClass::Read, service.url("/"))];
            let wanted = AppOptions {
                config: Box::new(move |config| config.upstreams = vec![Arc::new(one)]),
                ..AppOptions::with_tools(tools)
            };
            let app = App::start_at("http://127.0.0.1:1/v1".to_owned(), wanted).await;
            let request = conversation(surface, "alias");
            let got = post(&app, route, &request).await;
            let pair = format!("{surface:?} over {format:?}");
            assert_eq!(got.status, 200, "{pair}: {}", got.text());
            let mut told = counted(surface);
            if surface != format {
                told.as_object_mut().unwrap().remove("more");
            }
            assert_eq!(got.json(), told, "{pair}");
            assert!(got.headers.get("turnwright-turn").is_none());
            // The same request for an answer: what is asked of it is the same, but for what is about the answer.
            post(&app, answers, &request).await;
            let asked = listener.asked();
            assert_eq!(asked[0].target, path, "{pair}");
            let fields =
                |at: usize| -> Map<String, Value> { asked[at].json().as_object().unwrap().clone() };
            let (of_count, of_answer) = (fields(0), fields(1));
            assert_eq!(of_count["model"], json!("own-1"), "{pair}");
            for (name, value) in &of_count {
                assert_eq!(of_answer.get(name), Some(value), "{pair}: {name}");
            }
            let said = Value::Object(of_count.clone()).to_string();
            for part in ["Be short.", "blue", "A test's tool."] {
                assert!(said.contains(part), "{pair}: {part} in {said}");
            }
            let rest = of_answer
                .keys()
                .filter(|name| !of_count.contains_key(*name));
            let about_answers = [
                "include",
                "max_output_tokens",
                "max_tokens",
                "store",
                "temperature",
            ];
            for name in rest {
                assert!(about_answers.contains(&name.as_str()), "{pair}: {name}");
            }
            assert!(!of_count.contains_key("temperature"), "{pair}");
            assert_eq!(service.asked().len(), 0);
        }
    }
}

#[tokio::test]
async fn a_count_leaves_no_turn_and_is_recorded_as_relayed() {
    let listener = counts(WireFormat::AnthropicMessages).await;
    let app = in_front_of(vec![of_format(
        WireFormat::AnthropicMessages,
        "one",
        &listener,
    )])
    .await;
    // Without a limit of its answer, as clients ask.
    let body = json!({
        "model": "m", "messages": [{ "role": "user", "content": "Hi" }], "metadata": { "user_id": "ann" },
    });
    let got = post(&app, MESSAGES, &body).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let asked = listener.asked().pop().unwrap();
    assert_eq!(
        asked.json(),
        json!({ "model": "m", "messages": body["messages"] })
    );
    assert_eq!(asked.header("anthropic-version"), "2023-06-01");
    let row = crate::relayed::rows(&app, 1).await.pop().unwrap();
    assert_eq!(
        (
            &*row.path,
            &*row.upstream,
            &*row.outcome,
            row.end_user.as_deref()
        ),
        (MESSAGES, "one", "completed", Some("ann"))
    );
    let conversations = app.client.send("GET", "/v1/conversations", &[], "").await;
    assert_eq!(conversations.unwrap().json()["data"], json!([]));
}

/// The word for the kind of an error, where a surface has it.
fn kind(surface: WireFormat, error: &Value) -> String {
    if surface == WireFormat::AnthropicMessages {
        assert_eq!(error["type"], json!("error"), "{error}");
        return error["error"]["type"].as_str().unwrap().to_owned();
    }
    error["error"]["code"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn where_no_upstream_counts_the_client_is_told_so_in_its_format() {
    let chat = counts(WireFormat::OpenAiChat).await;
    let app = in_front_of(vec![upstream("chat", chat.url("/v1"))]).await;
    for (surface, route, _) in SURFACES {
        let got = post(&app, route, &conversation(surface, "m")).await;
        assert_eq!(got.status, 404, "{}", got.text());
        let wanted = match surface {
            WireFormat::AnthropicMessages => "not_found_error",
            WireFormat::OpenAiChat | WireFormat::OpenAiResponses => "not_counted",
        };
        assert_eq!(kind(surface, &got.json()), wanted);
        assert!(got.text().contains("counts tokens"), "{}", got.text());
    }
    assert_eq!(chat.asked().len(), 0);
}

#[tokio::test]
async fn the_first_upstream_that_counts_is_asked_and_the_next_when_it_fails() {
    let format = WireFormat::AnthropicMessages;
    for (what, reply) in [
        ("503", ListenerReply::status(503, "{}")),
        // A gateway that speaks the format need not have the path.
        (
            "404",
            ListenerReply::status(404, r#"{"detail":"Not Found"}"#),
        ),
        ("hang up", ListenerReply::hang_up()),
    ] {
        let chat = counts(WireFormat::OpenAiChat).await;
        let bad = Listener::in_turn(vec![reply]).await.unwrap();
        let good = counts(WireFormat::OpenAiResponses).await;
        let app = in_front_of(vec![
            upstream("chat", chat.url("/v1")),
            of_format(format, "bad", &bad),
            of_format(WireFormat::OpenAiResponses, "good", &good),
        ])
        .await;
        let got = post(&app, MESSAGES, &conversation(format, "m")).await;
        assert_eq!(
            (got.status, got.json()),
            (200, json!({ "input_tokens": 42 })),
            "{what}"
        );
        assert_eq!((chat.asked().len(), good.asked().len()), (0, 1), "{what}");
    }
}

#[tokio::test]
async fn what_an_upstream_says_instead_of_a_count_is_an_error_in_the_clients_format() {
    let refusal =
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"too odd"}}"#;
    let long = format!(r#"{{"input_tokens":1,"x":"{}"}}"#, "x".repeat(64 * 1024));
    for (reply, status, part) in [
        (ListenerReply::status(400, refusal), 400, "too odd"),
        (
            ListenerReply::status(
                404,
                r#"{"type":"error","error":{"type":"not_found_error","message":"model: m"}}"#,
            ),
            404,
            "model: m",
        ),
        (ListenerReply::json("{}"), 502, "no count"),
        (ListenerReply::json("["), 502, "no count"),
        (ListenerReply::json(long), 502, "no count"),
    ] {
        for (surface, route, _) in SURFACES {
            let listener = Listener::in_turn(vec![reply.clone()]).await.unwrap();
            let one = of_format(WireFormat::AnthropicMessages, "one", &listener);
            let app = in_front_of(vec![one]).await;
            let got = post(&app, route, &conversation(surface, "m")).await;
            assert_eq!(got.status, status, "{}", got.text());
            let error = got.json();
            let message = error["error"]["message"].as_str().unwrap();
            assert!(message.contains(part), "{message}");
            kind(surface, &error);
        }
    }
}

#[tokio::test]
async fn a_request_that_is_not_counted_is_refused_in_its_format() {
    let listener = counts(WireFormat::AnthropicMessages).await;
    let one = of_format(WireFormat::AnthropicMessages, "one", &listener);
    let one = Upstream {
        models: serves(&["m"], &[]),
        ..one
    };
    let app = in_front_of_with(vec![one], |config| config.request.body_bytes_max = 1000).await;
    let reads = app
        .key("default", ToolGrant::All, vec![KeyScope::TurnsRead])
        .await;
    let own = app.client.key.clone();
    let (wrong, unknown) = (Some("tw-wrong".to_owned()), json!({ "model": "x" }));
    for (surface, route, _) in SURFACES {
        let good = conversation(surface, "m").to_string();
        let mut other = conversation(surface, "m");
        other["model"] = unknown["model"].clone();
        let mut cut = conversation(surface, "m");
        cut.as_object_mut().unwrap().remove("model");
        let long = format!(r#"{{"model":"m","messages":"{}"}}"#, "x".repeat(1000));
        let words = |messages: &'static str, responses: &'static str| match surface {
            WireFormat::AnthropicMessages => messages,
            WireFormat::OpenAiChat | WireFormat::OpenAiResponses => responses,
        };
        for (key, body, status, word) in [
            (
                None,
                &good,
                401,
                words("authentication_error", "missing_api_key"),
            ),
            (
                wrong.clone(),
                &good,
                401,
                words("authentication_error", "invalid_api_key"),
            ),
            (
                Some(reads.clone()),
                &good,
                403,
                words("permission_error", "insufficient_scope"),
            ),
            (
                own.clone(),
                &other.to_string(),
                404,
                words("not_found_error", "model_not_found"),
            ),
            (
                own.clone(),
                &cut.to_string(),
                400,
                words("invalid_request_error", "missing_required_parameter"),
            ),
            (
                own.clone(),
                &"[]".to_owned(),
                400,
                words("invalid_request_error", ""),
            ),
            (
                own.clone(),
                &long,
                413,
                words("request_too_large", "request_too_large"),
            ),
        ] {
            let client = app.with_key(key);
            let got = client.send("POST", route, &[], body.clone()).await.unwrap();
            assert_eq!(got.status, status, "{}", got.text());
            assert_eq!(kind(surface, &got.json()), word, "{}", got.text());
        }
        let got = app.client.send("GET", route, &[], "").await.unwrap();
        assert_eq!(got.status, 405);
        kind(surface, &got.json());
    }
    assert_eq!(listener.asked().len(), 0);
}

#[tokio::test]
async fn a_count_is_a_request_of_the_limit() {
    let listener = counts(WireFormat::AnthropicMessages).await;
    let one = of_format(WireFormat::AnthropicMessages, "one", &listener);
    let app = in_front_of_with(vec![one], |config| {
        config.rules = LimiterRules {
            key: RateLimits {
                requests_per_minute: Some(1),
                ..RateLimits::default()
            },
            ..LimiterRules::defaults()
        };
    })
    .await;
    let body = conversation(WireFormat::AnthropicMessages, "m");
    let first = post(&app, MESSAGES, &body).await;
    let second = post(&app, MESSAGES, &body).await;
    assert_eq!((first.status, second.status), (200, 429));
    let left = |got: &ReadAnswer| {
        got.header("anthropic-ratelimit-requests-remaining")
            .to_owned()
    };
    assert_eq!((&*left(&first), &*left(&second)), ("0", "0"));
    assert_eq!(
        kind(WireFormat::AnthropicMessages, &second.json()),
        "rate_limit_error"
    );
    assert_eq!(listener.asked().len(), 1);
}

/// What Claude Code asks before a large request: betas in a header and in the query, cached system texts, many tools.
#[tokio::test]
async fn a_coding_agents_request_is_counted_as_it_was_written() {
    const BETAS: &str =
        "claude-code-20250219,interleaved-thinking-2025-05-14,token-counting-2024-11-01";
    let listener = counts(WireFormat::AnthropicMessages).await;
    let app = in_front_of(vec![of_format(
        WireFormat::AnthropicMessages,
        "one",
        &listener,
    )])
    .await;
    let cached = json!({ "type": "ephemeral" });
    let tools: Vec<Value> = (0..25)
        .map(|n| {
            let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } }, "$schema": "x" });
            json!({ "name": format!("Tool{n}"), "description": "Does it.", "input_schema": schema })
        })
        .collect();
    let body = json!({
        "model": "claude-sonnet-4-5",
        "system": [
            { "type": "text", "text": "You are a coding agent.", "cache_control": cached },
            { "type": "text", "text": "Be careful.", "cache_control": cached },
        ],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "Fix it.", "cache_control": cached }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "Hm.", "signature": "c2ln" },
                { "type": "tool_use", "id": "toolu_1", "name": "Tool1", "input": { "path": "a" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": [{ "type": "text", "text": "ok" }] },
            ] },
        ],
        "tools": tools,
        "tool_choice": { "type": "auto" },
        "thinking": { "type": "enabled", "budget_tokens": 4000 },
    });
    let headers = [
        ("anthropic-beta", BETAS),
        ("anthropic-version", "2023-06-01"),
        ("x-app", "cli"),
        ("user-agent", "claude-cli/2.0 (external, cli)"),
    ];
    let path = format!("{MESSAGES}?beta=true");
    let client = &app.client;
    let got = client.send("POST", &path, &headers, body.to_string()).await;
    assert_eq!(got.unwrap().json()["input_tokens"], json!(42));
    let asked = listener.asked().pop().unwrap();
    assert_eq!(asked.json(), body);
    assert_eq!(asked.header("anthropic-beta"), BETAS);
    assert_eq!(asked.header("x-app"), "");
}

#[tokio::test]
async fn a_continuation_is_counted_with_what_it_continues() {
    let said = ListenerReply::json(upstream_body("Hello", &[]));
    let chat = Listener::in_turn(vec![said]).await.unwrap();
    let counter = counts(WireFormat::AnthropicMessages).await;
    let app = in_front_of(vec![
        upstream("chat", chat.url("/v1")),
        of_format(WireFormat::AnthropicMessages, "counter", &counter),
    ])
    .await;
    let first = json!({ "model": "m", "input": "Hi" });
    let first = post(&app, "/v1/responses", &first).await.json();
    let next = json!({ "model": "m", "input": "Ho", "previous_response_id": first["id"] });
    let got = post(&app, RESPONSES, &next).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let asked = counter.asked().pop().unwrap().json();
    let roles: Vec<&Value> = asked["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert!(asked.to_string().contains("Hello"));
}
