//! A client's own tools: alone, and beside tools of this server.

mod added;
mod join;
mod lost;
mod relay;
mod written;

use serde_json::{Value, json};
use tw_core::change::{Change, Outcome};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask, probe, upstream_body, upstream_stream};
use crate::surfaces;

/// A text, and calls as id, name and arguments.
type Said = (
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
);

/// The client's tool as it wrote it, with what only it knows.
const PICK: &str = r#"{"type": "function", "function": {"parameters" : {"b":1.50, "a":{}}, "name":"pick", "strict":null}}"#;

/// The calls of a mixed round.
const MIXED: [(&str, &str, &str); 3] = [
    ("up_1", "pick", r#"{ "n": 1 }"#),
    ("up_2", "act", "{}"),
    ("up_1", "pick", r#"{"n":2}"#),
];

/// Those of a round before it.
const HIDDEN: [(&str, &str, &str); 1] = [("up_0", "act", r#"{"x":0}"#)];

/// What the service behind `act` says.
const DID: &str = r#"{"did":"it"}"#;

/// Who asks.
type Headers = &'static [(&'static str, &'static str)];

const ANN: (&str, &str) = ("turnwright-user", "ann");
const BOB: (&str, &str) = ("turnwright-user", "bob");
const ONE: (&str, &str) = ("turnwright-conversation", "one");
const OTHER: (&str, &str) = ("turnwright-conversation", "other");

struct Lab {
    app: App,
    upstream: Listener,
    tool: Listener,
}

/// A server with the tool `act`, whose upstream gives these answers (text and calls), in the form
/// in which it is asked.
async fn lab(effect: EffectClass, answers: &[Said]) -> Lab {
    let (upstream, tool) = (upstream(answers).await, tool().await);
    let act = probe("act", effect, tool.url("/"));
    let app = App::start(&upstream, AppOptions::with_tools(vec![act])).await;
    Lab {
        app,
        upstream,
        tool,
    }
}

async fn tool() -> Listener {
    Listener::in_turn(vec![ListenerReply::json(r#"{"did":"it"}"#)])
        .await
        .unwrap()
}

async fn upstream(answers: &[Said]) -> Listener {
    let answers: Vec<_> = answers
        .iter()
        .map(|(text, calls)| (*text, calls.to_vec()))
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    Listener::start(move |asked| {
        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (text, calls) = &answers[at.min(answers.len() - 1)];
        if asked.json()["stream"] == true {
            ListenerReply::sse(upstream_stream(text, calls))
        } else {
            ListenerReply::json(upstream_body(text, calls))
        }
    })
    .await
    .unwrap()
}

/// A request with both tools; the client's entry is written as it is.
fn mixed(messages: &Value, streamed: bool) -> String {
    let act = r#"{"type":"function","function":{"name":"act"}}"#;
    format!(r#"{{"model":"m","messages":{messages},"stream":{streamed},"tools":[{PICK},{act}]}}"#)
}

async fn post(app: &App, surface: WireFormat, body: String) -> ReadAnswer {
    post_by(&app.client, surface, &[], body).await
}

/// Sends the text of a chat completion; to chat completions as it is.
async fn post_by(
    client: &TestClient,
    surface: WireFormat,
    headers: &[(&str, &str)],
    body: String,
) -> ReadAnswer {
    let path = surfaces::path(surface);
    let body = match surface {
        WireFormat::OpenAiChat => body,
        WireFormat::AnthropicMessages | WireFormat::OpenAiResponses => {
            surfaces::written(surface, &body.parse().unwrap()).to_string()
        }
    };
    client.send("POST", path, headers, body).await.unwrap()
}

/// The message of an answer, put together as client libraries do, without what Responses shows of calls of ours.
fn message_of(surface: WireFormat, got: &ReadAnswer) -> Value {
    surfaces::without_our_calls(surfaces::read(surface, got).message)
}

/// Messages that an upstream got, or is to get: exactly, if they came as chat completions, which it speaks.
fn as_sent(surface: WireFormat, messages: &[Value]) -> Vec<Value> {
    match surface {
        WireFormat::OpenAiChat => messages.to_vec(),
        WireFormat::AnthropicMessages | WireFormat::OpenAiResponses => surfaces::plain(messages),
    }
}

/// Checks that the client's tool is offered, as its client wrote it if the upstream speaks the same.
#[track_caller]
fn check_picks(surface: WireFormat, sent: &[u8]) {
    let sent = std::str::from_utf8(sent).unwrap();
    let wanted = match surface {
        WireFormat::OpenAiChat => PICK,
        WireFormat::AnthropicMessages | WireFormat::OpenAiResponses => {
            r#""name":"pick","parameters":{"b":1.5,"a":{}}"#
        }
    };
    assert!(sent.contains(wanted), "{sent}");
}

/// The ids of the calls of a message, all of them ours.
fn ids(message: &Value) -> Vec<String> {
    let calls = message["tool_calls"].as_array().unwrap();
    let ids: Vec<String> = calls
        .iter()
        .map(|call| call["id"].as_str().unwrap().to_owned())
        .collect();
    for id in &ids {
        let ours = tw_core::id::CallId::parse_handed(id);
        assert!(ours.is_some(), "{id} is no id of ours");
    }
    ids
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

fn result(id: &str, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": content })
}

fn user(text: &str) -> Value {
    ask(text)["messages"][0].clone()
}

async fn erase_at(app: &App, now: Timestamp) -> u64 {
    let erase = Change::EraseDue { now, turns_max: 10 };
    let outcomes = app.store.apply(vec![erase]).await.unwrap();
    match outcomes[..] {
        [Outcome::Count(count)] => count,
        _ => panic!("{outcomes:?}"),
    }
}
