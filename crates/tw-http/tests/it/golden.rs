//! What upstreams answer, as data: `testdata/upstreams`, whose README says what a case is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use crate::app::{App, AppOptions, CHAT, probe, upstream_body};
use crate::upstreams::{in_front_of, upstream};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    deltas: Vec<String>,
    end: Option<String>,
    #[serde(default)]
    chunks: Vec<String>,
    body: Option<String>,
    r#type: Option<String>,
    status: Option<u16>,
    #[serde(default)]
    calls: Vec<(String, String)>,
    text: Option<String>,
    reasoning: Option<String>,
    finish: Option<String>,
    error: Option<(u16, String, String)>,
    asked: Option<usize>,
    #[serde(default)]
    shows: Vec<String>,
    only: Option<String>,
}

/// How the answer of a case is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    Alone,
    LaterRound,
    AfterFallback,
    Relay,
    Loop,
    MixedOurs,
    MixedClients,
}

const CUTS: [usize; 3] = [usize::MAX, 1, 3];
/// Tools that the cases call; the client's own in some situations, ours in others.
const CALLED: [&str; 2] = ["send", "send_mail"];

impl Case {
    fn bytes(&self) -> Vec<u8> {
        if let Some(body) = &self.body {
            return body.clone().into_bytes();
        }
        let end = self.end.as_deref().unwrap_or("tool_calls");
        let end = match end {
            "null" => Value::Null,
            word => json!(word),
        };
        let of_delta = |delta: &String| {
            format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
        };
        let mut chunks: Vec<String> = self.deltas.iter().map(of_delta).collect();
        if !chunks.is_empty() && !end.is_null() {
            chunks.push(format!(
                r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":{end}}}]}}"#
            ));
        }
        chunks.extend(self.chunks.iter().cloned());
        chunks.push("[DONE]".to_owned());
        let events: Vec<String> = chunks
            .iter()
            .map(|chunk| format!("data: {chunk}\n\n"))
            .collect();
        events.concat().into_bytes()
    }

    fn reply(&self, cut: usize) -> ListenerReply {
        let bytes = self.bytes();
        let pieces = bytes.chunks(cut.min(bytes.len().max(1)));
        let pieces = pieces.map(|piece| ReplyPiece::Bytes(Bytes::copy_from_slice(piece)));
        let of_stream = self.body.is_none().then_some("text/event-stream");
        let mut reply = ListenerReply::pieces("", pieces.collect());
        reply.headers.clear();
        reply.status = self.status.unwrap_or(200);
        match self.r#type.as_deref().or(of_stream) {
            Some(kind) => reply.with_header("content-type", kind),
            None => reply,
        }
    }

    fn check(&self, got: &ReadAnswer, streamed: bool, place: &str) {
        let seen = Seen::of(got, streamed);
        for piece in &self.shows {
            assert!(
                got.text().contains(piece),
                "{place}: {piece} in {}",
                got.text()
            );
        }
        if let Some((status, code, message)) = &self.error {
            let error = seen
                .error
                .as_ref()
                .unwrap_or_else(|| panic!("{place}: {}", got.text()));
            assert!(!got.text().contains("[DONE]"), "{place}: {}", got.text());
            let said = error["message"].as_str().unwrap();
            assert!(said.contains(message.as_str()), "{place}: {error}");
            assert_eq!(
                error["code"].as_str().unwrap_or(""),
                code,
                "{place}: {error}"
            );
            if !seen.began {
                assert_eq!(got.status, *status, "{place}: {error}");
            }
            return;
        }
        assert_eq!(seen.error, None, "{place}");
        if let Some(text) = &self.text {
            assert_eq!(seen.text, *text, "{place}: {}", got.text());
        }
        if let Some(reasoning) = &self.reasoning {
            assert_eq!(seen.reasoning, *reasoning, "{place}");
        }
        if let Some(finish) = &self.finish {
            assert_eq!(seen.finish, *finish, "{place}");
        }
    }
}

/// A client's answer, however it came.
#[derive(Debug, Default)]
struct Seen {
    text: String,
    reasoning: String,
    calls: Vec<(String, String)>,
    finish: String,
    error: Option<Value>,
    /// Something of a stream came before the end.
    began: bool,
}

impl Seen {
    fn of(got: &ReadAnswer, streamed: bool) -> Self {
        let mut seen = Self::default();
        let values: Vec<Value> = if streamed && got.status == 200 {
            let events = got.events();
            let values = events.iter().filter(|data| *data != "[DONE]");
            values
                .map(|data| serde_json::from_str(data).unwrap())
                .collect()
        } else {
            vec![got.json()]
        };
        for value in values {
            if !value["error"].is_null() {
                seen.error = Some(value["error"].clone());
                continue;
            }
            for choice in value["choices"].as_array().unwrap() {
                seen.add(choice);
            }
        }
        seen
    }

    fn add(&mut self, choice: &Value) {
        self.began = true;
        let said = if choice["delta"].is_null() {
            &choice["message"]
        } else {
            &choice["delta"]
        };
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.text += &word(&said["content"]);
        self.reasoning += &word(&said["reasoning_content"]);
        self.finish += &word(&choice["finish_reason"]);
        for (at, call) in said["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let at = call["index"].as_u64().map_or(at, |index| index as usize);
            if at == self.calls.len() {
                self.calls.push(Default::default());
            }
            let (name, arguments) = &mut self.calls[at];
            name.push_str(&word(&call["function"]["name"]));
            arguments.push_str(&word(&call["function"]["arguments"]));
        }
    }
}

/// Answers with what a case says, and then with `ok`.
#[derive(Clone)]
struct Script(Arc<Mutex<VecDeque<ListenerReply>>>);

impl Script {
    async fn listen() -> (Self, Listener) {
        let script = Self(Arc::default());
        let answers = script.clone();
        let listener = Listener::start(move |_| {
            let next = answers.0.lock().unwrap().pop_front();
            next.unwrap_or_else(|| ListenerReply::json(upstream_body("ok", &[])))
        });
        (script, listener.await.unwrap())
    }

    fn set(&self, replies: impl IntoIterator<Item = ListenerReply>) {
        *self.0.lock().unwrap() = replies.into_iter().collect();
    }
}

fn cases(text: &str) -> Vec<Case> {
    toml::from_str::<Table>(text).unwrap().case
}

fn function(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name, "parameters": { "type": "object" } } })
}

async fn app_for(situation: Situation, upstream_listener: &Listener, tool: &Listener) -> App {
    let ours: &[&str] = match situation {
        Situation::Alone | Situation::AfterFallback | Situation::Relay => &[],
        Situation::LaterRound | Situation::MixedClients => &["look"],
        Situation::Loop | Situation::MixedOurs => &CALLED,
    };
    if situation == Situation::AfterFallback {
        let down = Listener::in_turn(vec![ListenerReply::status(503, "{}")])
            .await
            .unwrap();
        let chain = vec![
            upstream("down", down.url("/v1")),
            upstream("up", upstream_listener.url("/v1")),
        ];
        // The listener lives as long as the process.
        std::mem::forget(down);
        return in_front_of(chain).await;
    }
    let effect = |name: &str| {
        if name == "look" {
            EffectClass::Read
        } else {
            EffectClass::Once
        }
    };
    let tools = ours
        .iter()
        .map(|name| probe(name, effect(name), tool.url("/")));
    App::start(upstream_listener, AppOptions::with_tools(tools.collect())).await
}

fn request(situation: Situation, streamed: bool) -> Value {
    let mut request = json!({ "model": "m", "stream": streamed,
        "messages": [{ "role": "user", "content": "go" }] });
    let listed: &[&str] = match situation {
        Situation::Alone | Situation::LaterRound | Situation::AfterFallback | Situation::Loop => {
            return request;
        }
        Situation::Relay => &["send", "send_mail"],
        Situation::MixedOurs => &["send", "mine", "send_mail"],
        Situation::MixedClients => &["send", "look", "send_mail"],
    };
    request["tools"] = listed.iter().map(|name| function(name)).collect();
    request
}

async fn run(table: &str, situations: &[Situation]) {
    let cases = cases(table);
    for &situation in situations {
        let (script, listener) = Script::listen().await;
        let tool = Listener::start(|_| ListenerReply::json("{}"))
            .await
            .unwrap();
        let app = app_for(situation, &listener, &tool).await;
        for case in &cases {
            for (cut, streamed) in CUTS.into_iter().flat_map(|cut| [(cut, true), (cut, false)]) {
                let form = if streamed { "streamed" } else { "plain" };
                if case.only.as_deref().is_some_and(|only| only != form) {
                    continue;
                }
                let place = format!("{} ({situation:?}, {form}, cut {cut})", case.name);
                let mut replies = Vec::new();
                if situation == Situation::LaterRound {
                    replies.push(ListenerReply::json(upstream_body(
                        "",
                        &[("l", "look", "{}")],
                    )));
                }
                let times = if case.calls.is_empty() { 4 } else { 1 };
                replies.extend(std::iter::repeat_n(case.reply(cut), times));
                script.set(replies);
                let (asked, ran) = (listener.asked().len(), tool.asked().len());
                let got = app.post(&[], &request(situation, streamed)).await;
                if situation == Situation::AfterFallback && case.error.is_some() {
                    // The last word may be that of the other upstream.
                    assert!(
                        Seen::of(&got, streamed).error.is_some(),
                        "{place}: {}",
                        got.text()
                    );
                    continue;
                }
                if case.calls.is_empty() {
                    case.check(&got, streamed, &place);
                    let asked = listener.asked().len() - asked;
                    let before = usize::from(situation == Situation::LaterRound);
                    let expected = case.asked.filter(|_| situation != Situation::AfterFallback);
                    assert!(
                        expected.is_none_or(|n| n + before == asked),
                        "{place}: asked {asked} times"
                    );
                    continue;
                }
                check_calls(case, situation, &got, streamed, &place);
                let turn = app.turn_of(&got).await;
                let recorded: Vec<(String, String)> = turn["rounds"][0]["calls"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|call| (text_of(&call["name"]), text_of(&call["arguments"])))
                    .collect();
                assert_eq!(recorded, case.calls, "{place}: in the record");
                let sent: Vec<Value> = tool.asked()[ran..]
                    .iter()
                    .map(|asked| asked.json())
                    .collect();
                let runs = matches!(situation, Situation::Loop | Situation::MixedOurs);
                let expected = case.calls.iter().filter(|_| runs);
                let mut expected: Vec<Value> = expected
                    .map(|(_, arguments)| {
                        serde_json::from_str(if arguments.is_empty() {
                            "{}"
                        } else {
                            arguments
                        })
                        .unwrap()
                    })
                    .collect();
                // Calls of one round run side by side.
                let mut sent = sent;
                sent.sort_by_key(Value::to_string);
                expected.sort_by_key(Value::to_string);
                assert_eq!(sent, expected, "{place}: what the tools got");
            }
        }
    }
}

fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn check_calls(case: &Case, situation: Situation, got: &ReadAnswer, streamed: bool, place: &str) {
    let seen = Seen::of(got, streamed);
    assert_eq!(seen.error, None, "{place}");
    match situation {
        Situation::Relay | Situation::MixedClients => {
            assert_eq!(seen.calls, case.calls, "{place}: {}", got.text());
            assert_eq!(seen.finish, "tool_calls", "{place}");
        }
        Situation::Loop | Situation::MixedOurs => {
            assert_eq!((seen.calls, &*seen.text), (vec![], "ok"), "{place}");
        }
        Situation::Alone | Situation::LaterRound | Situation::AfterFallback => {}
    }
}

const ANSWERS: [Situation; 3] = [
    Situation::Alone,
    Situation::LaterRound,
    Situation::AfterFallback,
];

const CALLS: &str = include_str!("../../testdata/upstreams/calls.toml");

#[tokio::test]
async fn a_relay_puts_calls_together_from_what_the_whole_would_be() {
    run(CALLS, &[Situation::Relay]).await;
}

#[tokio::test]
async fn the_loop_runs_what_was_meant_once() {
    run(CALLS, &[Situation::Loop]).await;
}

#[tokio::test]
async fn a_mixed_list_runs_what_was_meant_once() {
    run(CALLS, &[Situation::MixedOurs]).await;
}

#[tokio::test]
async fn a_mixed_list_hands_over_what_was_meant() {
    run(CALLS, &[Situation::MixedClients]).await;
}

#[tokio::test]
async fn what_was_no_answer_does_not_end_as_one() {
    run(include_str!("../../testdata/upstreams/ends.toml"), &ANSWERS).await;
}

#[tokio::test]
async fn a_body_is_what_its_first_bytes_say() {
    run(
        include_str!("../../testdata/upstreams/bodies.toml"),
        &ANSWERS,
    )
    .await;
}

#[tokio::test]
async fn deltas_keep_what_messages_keep() {
    run(
        include_str!("../../testdata/upstreams/deltas.toml"),
        &ANSWERS,
    )
    .await;
}

/// The official Python client cannot put choices together otherwise.
#[tokio::test]
async fn choices_begin_in_the_order_of_their_index() {
    let delta = |choices: Value| {
        let choices = choices.as_array().unwrap().iter();
        let choices: Vec<Value> = choices
            .map(|choice| json!({ "index": choice[0], "delta": choice[1] }))
            .collect();
        format!("data: {}\n\n", json!({ "choices": choices }))
    };
    let end = |index: u32| {
        let choice = json!({ "index": index, "delta": {}, "finish_reason": "stop" });
        format!("data: {}\n\n", json!({ "choices": [choice] }))
    };
    let text = |index: u32| json!([index, { "content": format!("text {index}") }]);
    let rows = [
        vec![
            delta(json!([text(2)])),
            delta(json!([text(1)])),
            delta(json!([text(0)])),
        ],
        vec![delta(json!([text(2), text(0), text(1)]))],
        vec![
            delta(json!([[0, { "role": "assistant", "content": "" }]])),
            delta(json!([text(2), text(1)])),
            delta(json!([text(0)])),
        ],
        vec![
            delta(json!([text(2)])),
            end(2),
            end(1),
            delta(json!([text(1)])),
            delta(json!([text(0)])),
        ],
        vec![
            delta(json!([[2, { "images": [1] }], [1, { "refusal": "no" }]])),
            delta(json!([text(0), text(1), text(2)])),
        ],
    ];
    let (script, listener) = Script::listen().await;
    let app = App::start(&listener, AppOptions::plain()).await;
    for row in rows {
        let body = format!(
            "{}{}{}{}data: [DONE]\n\n",
            row.concat(),
            end(2),
            end(1),
            end(0)
        );
        for streamed in [true, false] {
            let pieces = vec![ReplyPiece::Bytes(Bytes::from(body.clone()))];
            let reply = ListenerReply::pieces("text/event-stream", pieces);
            script.set([reply]);
            let mut request = request(Situation::Alone, streamed);
            request["n"] = json!(3);
            let got = app.post(&[], &request).await;
            let values: Vec<Value> = if streamed {
                let events = got.events();
                let values = events.iter().filter(|data| *data != "[DONE]");
                values
                    .map(|data| serde_json::from_str(data).unwrap())
                    .collect()
            } else {
                vec![got.json()]
            };
            let mut begun: Vec<u64> = Vec::new();
            let mut texts = [const { String::new() }; 3];
            for choice in values
                .iter()
                .flat_map(|value| value["choices"].as_array().unwrap())
            {
                let index = choice["index"].as_u64().unwrap();
                if !begun.contains(&index) {
                    begun.push(index);
                }
                let said = [&choice["delta"]["content"], &choice["message"]["content"]];
                for text in said.into_iter().filter_map(Value::as_str) {
                    texts[index as usize].push_str(text);
                }
            }
            assert_eq!(begun, [0, 1, 2], "{body}: {}", got.text());
            assert_eq!(
                texts,
                ["text 0", "text 1", "text 2"],
                "{body}: {}",
                got.text()
            );
        }
    }
}

/// What a client sends, what the upstream is sent of it, and the header that says so.
#[tokio::test]
async fn what_a_client_sends_is_repaired_and_told() {
    let call = |arguments: &str| json!({ "id": "c1", "type": "function", "function": { "name": "send", "arguments": arguments } });
    let history = |call: &Value| {
        json!([{ "role": "user", "content": "go" },
               { "role": "assistant", "content": null, "tool_calls": [call] },
               { "role": "tool", "tool_call_id": "c1", "content": "x" }])
    };
    let made = |arguments: &str| json!({ "messages": history(&call(arguments)) });
    let empty_calls = |with: bool| {
        let mut answer = json!({ "role": "assistant", "content": "a", "n": 1 });
        if with {
            answer["tool_calls"] = json!([]);
        }
        json!({ "messages": [{ "role": "user", "content": "go" }, answer, { "role": "user", "content": "on" }] })
    };
    let said = |extra: Value| {
        let mut body = extra;
        body["messages"] = json!([{ "role": "user", "content": "go" }]);
        body
    };
    let rows = [
        (
            made("{\"to\":\"x"),
            made(r#"{"invalid_arguments":"{\"to\":\"x"}"#),
            "invalid_arguments=1",
        ),
        (
            made("[]"),
            made(r#"{"invalid_arguments":"[]"}"#),
            "invalid_arguments=1",
        ),
        (made(""), made("{}"), "empty_arguments=1"),
        (made(r#"{"to":1}"#), made(r#"{"to":1}"#), ""),
        (empty_calls(true), empty_calls(false), "empty_list=1"),
        (
            said(json!({ "tools": [], "tool_choice": "auto", "parallel_tool_calls": true })),
            said(json!({})),
            "empty_list=1",
        ),
        (
            said(json!({ "functions": [] })),
            said(json!({})),
            "empty_list=1",
        ),
    ];
    let (_, listener) = Script::listen().await;
    let app = App::start(&listener, AppOptions::plain()).await;
    for (body, expected, told) in rows {
        let (mut body, mut expected) = (body, expected);
        body["model"] = json!("m");
        expected["model"] = json!("m");
        let got = app.post(&[], &body).await;
        assert_eq!(listener.asked().last().unwrap().json(), expected);
        assert_eq!(got.header("turnwright-repaired"), told, "{body}");
    }
    let half = r#"{"model":"m","messages":[{"role":"user","content":"a\ud83d \ud83d\ude00"}]}"#;
    let got = app.client.send("POST", CHAT, &[], half).await.unwrap();
    let sent = String::from_utf8(listener.asked().last().unwrap().body.to_vec()).unwrap();
    assert!(sent.contains(r#""a\ufffd \ud83d\ude00""#), "{sent}");
    assert_eq!(got.header("turnwright-repaired"), "half_character=1");
}

/// Whether the upstream is asked again, and what the client is told of it.
#[tokio::test]
async fn an_upstream_that_another_try_cannot_help_is_asked_once() {
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let busy =
        r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#;
    let balance = r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"insufficient_balance"}}"#;
    type Row<'a> = (u16, &'a str, &'a [(&'a str, &'a str)], usize, u16, &'a str);
    let unnamed = r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#;
    let rows: [Row<'_>; 9] = [
        (429, quota, &[], 1, 429, "insufficient_quota"),
        (402, balance, &[], 1, 429, "insufficient_balance"),
        (402, unnamed, &[], 1, 429, "insufficient_quota"),
        (403, quota, &[], 1, 429, "insufficient_quota"),
        (200, quota, &[], 1, 429, "insufficient_quota"),
        (429, busy, &[], 3, 429, "rate_limit_exceeded"),
        (
            429,
            busy,
            &[("retry-after-ms", "1"), ("retry-after", "60")],
            3,
            429,
            "rate_limit_exceeded",
        ),
        (
            503,
            busy,
            &[("x-should-retry", "false")],
            1,
            502,
            "upstream_failed",
        ),
        (
            429,
            busy,
            &[("x-should-retry", "false")],
            1,
            429,
            "rate_limit_exceeded",
        ),
    ];
    let (script, listener) = Script::listen().await;
    let app = App::start(&listener, AppOptions::plain()).await;
    for (status, body, headers, asked, told, code) in rows {
        let reply = headers.iter().fold(
            ListenerReply::status(status, body),
            |reply, (name, value)| reply.with_header(name, value),
        );
        script.set(std::iter::repeat_n(reply, 4));
        let before = listener.asked().len();
        let got = app.post(&[], &request(Situation::Alone, false)).await;
        assert_eq!(
            listener.asked().len() - before,
            asked,
            "{status} {body} {headers:?}"
        );
        assert_eq!(
            (got.status, got.json()["error"]["code"].as_str()),
            (told, Some(code))
        );
        assert_eq!(got.header("x-should-retry"), "false");
    }
}
