//! The model's own message: it goes back whole to the upstream that made it, and to no other one; its client sees it
//! whole. The cases are `testdata/upstreams/back.toml`.

use serde::Deserialize;
use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, probe, upstream_body, upstream_stream};
use crate::upstreams::{serves, upstream};

#[derive(Deserialize)]
struct Table {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    deltas: Vec<String>,
    message: String,
    back: String,
    away: String,
    /// A piece of what the client of a relay gets.
    shows: Option<String>,
}

impl Case {
    fn all() -> Vec<Self> {
        let text = include_str!("../../testdata/upstreams/back.toml");
        toml::from_str::<Table>(text).unwrap().case
    }

    fn reply(&self, streamed: bool) -> ListenerReply {
        if !streamed {
            return ListenerReply::json(format!(
                r#"{{"choices":[{{"index":0,"message":{},"finish_reason":"tool_calls"}}]}}"#,
                self.message
            ));
        }
        let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
        let chunks = self.deltas.iter().map(|delta| {
            format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
        });
        let chunks = chunks.chain([end.to_owned(), "[DONE]".to_owned()]);
        let events: Vec<String> = chunks.map(|chunk| format!("data: {chunk}\n\n")).collect();
        ListenerReply::sse(events.concat())
    }

    /// The id by which the upstream knows its call.
    fn id(&self) -> String {
        let message: Value = serde_json::from_str(&self.message).unwrap();
        message["tool_calls"][0]["id"].as_str().unwrap().to_owned()
    }
}

/// Checks the model's message in what an upstream was sent, and the result behind it.
#[track_caller]
fn check(sent: &Value, expected: &str, id: Option<&str>, place: &str) {
    let (call, result) = (&sent["messages"][1], &sent["messages"][2]);
    let given = call["tool_calls"][0]["id"].as_str();
    let given = given.unwrap_or_else(|| panic!("{place}: {sent}"));
    match id {
        Some(id) => assert_eq!(given, id, "{place}"),
        // Whatever it is, every upstream takes it.
        None => {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            assert!(
                given.len() <= 40 && given.bytes().all(is_plain),
                "{place}: {given}"
            );
        }
    }
    let expected: Value = serde_json::from_str(&expected.replace("ID", given)).unwrap();
    assert_eq!(*call, expected, "{place}");
    assert_eq!(result["tool_call_id"], json!(given), "{place}");
}

async fn listener() -> Listener {
    Listener::start(|asked| {
        if asked.json()["stream"] == json!(true) {
            ListenerReply::sse(upstream_stream("ok", &[]))
        } else {
            ListenerReply::json(upstream_body("ok", &[]))
        }
    })
    .await
    .unwrap()
}

/// An upstream whose first answer is the case's, and that says `ok` to everything else.
async fn calling(case: &Case, streamed: bool, then: Option<u16>) -> Listener {
    let first = std::sync::Mutex::new(Some(case.reply(streamed)));
    Listener::start(move |asked| {
        if let Some(first) = first.lock().unwrap().take() {
            return first;
        }
        match then {
            Some(status) => ListenerReply::status(status, "{}"),
            None if asked.json()["stream"] == json!(true) => {
                ListenerReply::sse(upstream_stream("ok", &[]))
            }
            None => ListenerReply::json(upstream_body("ok", &[])),
        }
    })
    .await
    .unwrap()
}

/// A server before two upstreams: one for the models `kimi*`, and one for all others, which knows `kimi-down` too.
async fn app(one: &Listener, other: &Listener, tool: Option<&Listener>) -> App {
    let chain = [
        (upstream("one", one.url("/v1")), serves(&["kimi*"], &[])),
        (
            upstream("other", other.url("/v1")),
            serves(&["claude"], &[("kimi-down", "claude")]),
        ),
    ];
    let tools = tool.map(|tool| vec![probe("look", EffectClass::Read, tool.url("/"))]);
    let wanted = match tools {
        Some(tools) => AppOptions::with_tools(tools),
        None => AppOptions::plain(),
    };
    let wanted = AppOptions {
        config: Box::new(move |config| {
            let chain = chain.into_iter().map(|(upstream, models)| {
                std::sync::Arc::new(tw_egress::upstream::Upstream { models, ..upstream })
            });
            config.upstreams = chain.collect();
        }),
        ..wanted
    };
    App::start_at("http://127.0.0.1:1/v1".to_owned(), wanted).await
}

fn request(model: &str, streamed: bool) -> Value {
    json!({ "model": model, "stream": streamed, "messages": [{ "role": "user", "content": "go" }] })
}

#[tokio::test]
async fn in_later_rounds_and_in_memory() {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    for case in Case::all() {
        for streamed in [true, false] {
            let place = format!("{} (streamed: {streamed})", case.name);
            let (one, other) = (calling(&case, streamed, None).await, listener().await);
            let app = app(&one, &other, Some(&tool)).await;
            let ann = [("turnwright-user", "ann")];
            let first = app.post(&ann, &request("kimi", streamed)).await;
            assert_eq!(first.status, 200, "{place}: {}", first.text());
            check(&one.asked()[1].json(), &case.back, Some(&case.id()), &place);

            let text = said(&first, streamed);
            for (model, asked, expected) in
                [("kimi", &one, &case.back), ("claude", &other, &case.away)]
            {
                let mut next = request(model, streamed);
                next["messages"] = json!([{ "role": "user", "content": "go" },
                    { "role": "assistant", "content": text }, { "role": "user", "content": "on" }]);
                let got = app.post(&ann, &next).await;
                assert_eq!(got.header("turnwright-memory"), "attached", "{place}");
                let sent = asked.asked().last().unwrap().json();
                let id = (model == "kimi").then(|| case.id());
                check(
                    &sent,
                    expected,
                    id.as_deref(),
                    &format!("{place}, memory of {model}"),
                );
            }
        }
    }
}

#[tokio::test]
async fn after_a_fallback_in_the_middle_of_a_turn() {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    for case in Case::all() {
        for streamed in [true, false] {
            let place = format!("{} (streamed: {streamed})", case.name);
            let (one, other) = (calling(&case, streamed, Some(503)).await, listener().await);
            let app = app(&one, &other, Some(&tool)).await;
            let got = app.post(&[], &request("kimi-down", streamed)).await;
            assert_eq!(got.status, 200, "{place}: {}", got.text());
            check(&one.asked()[1].json(), &case.back, Some(&case.id()), &place);
            check(&other.asked()[0].json(), &case.away, None, &place);
        }
    }
}

#[tokio::test]
async fn in_relays_as_the_client_saw_it_or_from_the_record() {
    for case in Case::all() {
        for streamed in [true, false] {
            let place = format!("{} (streamed: {streamed})", case.name);
            let (one, other) = (calling(&case, streamed, None).await, listener().await);
            let app = app(&one, &other, None).await;
            let mut asking = request("kimi", streamed);
            asking["tools"] = json!([{ "type": "function", "function": { "name": "look" } }]);
            let got = app.post(&[], &asking).await;
            if let Some(piece) = &case.shows {
                assert!(got.text().contains(piece), "{place}: {}", got.text());
            }
            let id = id_in(&got, streamed);
            let bare = json!({ "role": "assistant", "content": null, "tool_calls": [
                { "id": id, "type": "function", "function": { "name": "look", "arguments": "{}" } }] });
            let mut whole: Value = serde_json::from_str(&case.message).unwrap();
            whole["tool_calls"][0]["id"] = json!(id);
            for (message, how) in [(&whole, "brought back"), (&bare, "from the record")] {
                let mut next = asking.clone();
                next["messages"] = json!([{ "role": "user", "content": "go" }, message,
                    { "role": "tool", "tool_call_id": id, "content": "r" }]);
                app.post(&[], &next).await;
                let sent = one.asked().last().unwrap().json();
                // A text is the client's to keep.
                let back: Value = serde_json::from_str(&case.back).unwrap();
                let mut back = back;
                back["content"] = message["content"].clone();
                check(
                    &sent,
                    &back.to_string(),
                    Some(&case.id()),
                    &format!("{place}, {how}"),
                );

                next["model"] = json!("claude");
                app.post(&[], &next).await;
                let sent = other.asked().last().unwrap().json();
                let mut away: Value = serde_json::from_str(&case.away).unwrap();
                away["content"] = message["content"].clone();
                check(
                    &sent,
                    &away.to_string(),
                    None,
                    &format!("{place}, {how}, elsewhere"),
                );
            }
        }
    }
}

/// The text of an answer.
fn said(got: &ReadAnswer, streamed: bool) -> String {
    let texts: Vec<String> = choices(got, streamed)
        .iter()
        .filter_map(|said| said["content"].as_str().map(str::to_owned))
        .collect();
    texts.concat()
}

/// The id of the call that the client was handed.
fn id_in(got: &ReadAnswer, streamed: bool) -> String {
    let mut ids = choices(got, streamed).into_iter();
    let id = ids.find_map(|said| said["tool_calls"][0]["id"].as_str().map(str::to_owned));
    id.unwrap_or_else(|| panic!("{}", got.text()))
}

fn choices(got: &ReadAnswer, streamed: bool) -> Vec<Value> {
    if !streamed {
        return vec![got.json()["choices"][0]["message"].clone()];
    }
    let events = got.events();
    let events = events.iter().filter(|data| *data != "[DONE]");
    let chunks = events.map(|data| serde_json::from_str::<Value>(data).unwrap());
    chunks
        .map(|chunk| chunk["choices"][0]["delta"].clone())
        .collect()
}
