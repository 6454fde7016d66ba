//! Tools that misbehave: every behaviour × effect class × kind of tool, streamed and plain.
//!
//! Whatever a tool does, its call ends as its effect class asks, the model is told so in words
//! and nothing secret, and the turn completes.

mod cases;
mod listeners;

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tw_core::limits::{RESULT_KEPT_BYTES_DEFAULT, RESULT_SHOWN_BYTES_DEFAULT};
use tw_egress::client::ClientOptions;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest};

use crate::app::{App, AppOptions, ask, ask_streamed, upstream_body, upstream_stream};
use crate::tools::lab;
use cases::{Behaviour, Case, CaseToolKind, Class, ExpectedEnd, Told};
use listeners::ToolListeners;

/// Cases that run at once.
const PARALLEL: usize = 8;
/// What the model says when it knows how its call ended.
const SAID: &str = "So be it.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_of_a_tool_of_ours_ends_as_its_class_asks() {
    check(CaseToolKind::Probe).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_of_a_stored_tool_ends_as_its_class_asks() {
    check(CaseToolKind::Stored).await;
}

async fn check(kind: CaseToolKind) {
    let tools = ToolListeners::listen().await;
    let upstream = Listener::start(model).await.unwrap();
    let app = start(kind, &upstream, &tools).await;
    let all: Vec<(Case, Form)> = cases::of(kind)
        .into_iter()
        .flat_map(|case| [(case, Form::Plain), (case, Form::Streamed)])
        .collect();
    let mut ran = Vec::new();
    for batch in all.chunks(PARALLEL) {
        let running = batch.iter().map(|(case, form)| run(&app, *case, *form));
        ran.extend(futures_util::future::join_all(running).await);
    }
    let models = by_label(upstream.asked(), |asked| &asked["messages"][0]["content"]);
    let calls = by_label(tools.listener.asked(), |asked| &asked["of"]);
    for one in ran {
        let name = one.label();
        assert_eq!(one.got.status, 200, "{name}: {}", one.got.text());
        check_answer(&one);
        let turn = app.turn_of(&one.got).await;
        let told = check_upstream(&one, &models[&name], &turn, &tools);
        check_record(&one, &told, &turn);
        check_tool(&one, kind, calls.get(&name).map_or(&[], Vec::as_slice));
    }
}

async fn start(kind: CaseToolKind, upstream: &Listener, tools: &ToolListeners) -> App {
    let cases = cases::of(kind);
    match kind {
        CaseToolKind::Probe => {
            let probes = cases.iter().map(|case| tools.probe(case)).collect();
            App::start(upstream, AppOptions::with_tools(probes)).await
        }
        CaseToolKind::Stored => {
            let options = ClientOptions {
                allowed: tools.allowed(),
                ..lab::options()
            };
            let app = App::start(upstream, lab::leaving_by(options, Vec::new())).await;
            let editor = lab::editor(&app, "default").await;
            for case in &cases {
                lab::made(&editor, "default", &tools.definition(case)).await;
            }
            app
        }
    }
}

/// The requests of each turn, in the order in which they came.
fn by_label(
    asked: Vec<ReceivedRequest>,
    label: fn(&Value) -> &Value,
) -> HashMap<String, Vec<(ReceivedRequest, Value)>> {
    let mut found: HashMap<String, Vec<(ReceivedRequest, Value)>> = HashMap::new();
    for asked in asked {
        let body = asked.json();
        let label = label(&body).as_str().unwrap_or_default().to_owned();
        found.entry(label).or_default().push((asked, body));
    }
    found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Streamed,
}

/// A case, and what its client got.
struct Ran {
    case: Case,
    form: Form,
    got: ReadAnswer,
}

impl Ran {
    /// What the user says, so that the requests of this turn are known from others.
    fn label(&self) -> String {
        label(self.case, self.form)
    }
}

fn label(case: Case, form: Form) -> String {
    format!("{} {form:?}", case.name())
}

async fn run(app: &App, case: Case, form: Form) -> Ran {
    let label = label(case, form);
    let request = match form {
        Form::Plain => ask(&label),
        Form::Streamed => ask_streamed(&label),
    };
    let got = app.client.chat(&request).await.unwrap();
    Ran { case, form, got }
}

/// A model that calls the tool which the user names, and then has said all.
fn model(asked: &ReceivedRequest) -> ListenerReply {
    let request = asked.json();
    let user = request["messages"][0]["content"].as_str().unwrap();
    let arguments = json!({ "of": user }).to_string();
    let call = ("c1", user.split(' ').next().unwrap(), arguments.as_str());
    let is_told = request["messages"].as_array().unwrap().len() > 1;
    let (text, calls) = if is_told {
        (SAID, vec![])
    } else {
        ("", vec![call])
    };
    if request["stream"] == true {
        ListenerReply::sse(upstream_stream(text, &calls))
    } else {
        ListenerReply::json(upstream_body(text, &calls))
    }
}

fn check_answer(ran: &Ran) {
    let (got, name) = (&ran.got, ran.label());
    let said = match ran.form {
        Form::Streamed => {
            assert_eq!(
                got.events().last().map(String::as_str),
                Some("[DONE]"),
                "{name}"
            );
            got.streamed_text()
        }
        Form::Plain => {
            let choice = &got.json()["choices"][0];
            assert_eq!(choice["finish_reason"], "stop", "{name}");
            choice["message"]["content"].as_str().unwrap().to_owned()
        }
    };
    assert_eq!(said, SAID, "{name}");
    assert!(!got.text().contains("tool_calls"), "{name}: {}", got.text());
}

/// The second request holds exactly one tool message and nothing secret; the message's text is
/// returned.
fn check_upstream(
    ran: &Ran,
    asked: &[(ReceivedRequest, Value)],
    turn: &Value,
    tools: &ToolListeners,
) -> String {
    let name = ran.label();
    assert_eq!(asked.len(), 2, "{name}");
    let (sent, request) = &asked[1];
    let messages = request["messages"].as_array().unwrap();
    let is_result = |message: &&Value| message["role"] == "tool";
    let results: Vec<&Value> = messages.iter().filter(is_result).collect();
    assert_eq!(
        (messages.len(), results.len()),
        (3, 1),
        "{name}: {messages:?}"
    );
    assert_eq!(results[0]["tool_call_id"], "c1", "{name}");
    let told = results[0]["content"].as_str().unwrap();
    check_told(&name, &ran.case.expected(), told);
    let body = std::str::from_utf8(&sent.body).unwrap();
    let call_id = turn["rounds"][0]["calls"][0]["id"].as_str().unwrap();
    // The idempotency key is made of the call's id.
    for secret in [call_id, &call_id.replace('-', "")] {
        assert!(!body.contains(secret), "{name}: {secret} in {told}");
    }
    for place in tools.places() {
        assert!(!body.contains(&place), "{name}: {place} in {told}");
    }
    told.to_owned()
}

fn check_told(name: &str, expected: &ExpectedEnd, told: &str) {
    match &expected.told {
        Told::Exactly(text) => assert_eq!(told, text, "{name}"),
        Told::Words(words) => assert!(told.contains(words), "{name}: {told}"),
        Told::CutOf(bytes) => {
            let whole = std::str::from_utf8(bytes).unwrap();
            let (begin, marker) = told.split_at(RESULT_SHOWN_BYTES_DEFAULT);
            assert!(whole.starts_with(begin), "{name}");
            assert!(marker.contains("cut"), "{name}: {marker}");
        }
        Told::NoteOn { content_type, body } => {
            let note: Value = serde_json::from_str(told).unwrap();
            let wanted = json!({
                "content_type": content_type, "bytes": body.len(), "sha256": sha256(body),
            });
            assert_eq!(note, wanted, "{name}");
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        })
}

fn check_record(ran: &Ran, told: &str, turn: &Value) {
    let (name, expected) = (ran.label(), ran.case.expected());
    assert_eq!(turn["status"], "completed", "{name}");
    let calls = turn["rounds"][0]["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "{name}");
    let call = &calls[0];
    assert_eq!(call["status"], expected.status, "{name}");
    assert_eq!(call["reason"].as_str(), expected.reason, "{name}");
    assert_eq!(call["effect"], ran.case.class.effect().as_str(), "{name}");
    assert_eq!(call["shown"], told, "{name}");
    let attempts = call["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), expected.attempts, "{name}");
    for (before, attempt) in attempts.iter().enumerate() {
        let status = ran.case.behaviour.status(before);
        assert_eq!(attempt["http_status"], json!(status), "{name} {attempt}");
    }
    let kept = call["result"].as_str();
    assert_eq!(kept.is_some(), expected.status == "completed", "{name}");
    let kept = kept.unwrap_or_default();
    assert!(kept.len() <= RESULT_KEPT_BYTES_DEFAULT, "{name}");
    assert!(!kept.contains('\0'), "{name}");
    if ran.case.behaviour == Behaviour::AnswersFiftyMegabytes {
        assert_eq!(kept.len(), RESULT_KEPT_BYTES_DEFAULT, "{name}");
    }
}

/// The tool got each attempt, with the same key that is made of the call's id, or with none.
fn check_tool(ran: &Ran, kind: CaseToolKind, calls: &[(ReceivedRequest, Value)]) {
    let sends_key = kind == CaseToolKind::Probe || ran.case.class != Class::Read;
    let name = ran.label();
    let reaches = match ran.case.behaviour {
        Behaviour::RefusesConnections | Behaviour::HangsUpBeforeReading | Behaviour::Panics => 0,
        _ => ran.case.expected().attempts,
    };
    assert_eq!(calls.len(), reaches, "{name}");
    let keys: Vec<&str> = calls
        .iter()
        .map(|(call, _)| call.header("idempotency-key"))
        .collect();
    let fits = |key: &&str| key.starts_with("tw_") == sends_key && *key == keys[0];
    assert!(keys.iter().all(fits), "{name}: {keys:?}");
}
