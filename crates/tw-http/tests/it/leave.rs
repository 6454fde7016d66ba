//! Clients that leave, and turns that are cancelled, in every phase of a turn.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tw_core::tool::EffectClass;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask_streamed, probe, upstream_stream};
use crate::surfaces::{self, on_each_surface};

on_each_surface!(
    a_client_that_leaves_stops_its_turn_in_every_phase,
    a_client_that_leaves_lets_its_turn_finish_if_it_wants,
    a_turn_is_cancelled_in_every_phase_and_its_client_is_told,
    cancelling_closes_the_connection_to_the_upstream,
    the_connection_closed_before_a_once_call_means_that_it_never_runs,
    one_of_two_clients_that_leaves_stops_nothing,
);

/// Where in its life a turn is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeavePhase {
    BeforeHead,
    MidText,
    Tool(EffectClass),
    NextRound,
    /// The model request failed and waits for its second try.
    BetweenTries,
}

pub const PHASES: [LeavePhase; 6] = [
    LeavePhase::BeforeHead,
    LeavePhase::MidText,
    LeavePhase::Tool(EffectClass::Read),
    LeavePhase::Tool(EffectClass::Once),
    LeavePhase::NextRound,
    LeavePhase::BetweenTries,
];

pub const GATE: &str = "go";
pub const TEXT: &str = "Looking.";

/// A client that reads in the background.
pub struct Watcher {
    seen: watch::Receiver<String>,
    reading: JoinHandle<()>,
}

impl Watcher {
    pub fn start(client: &TestClient, surface: WireFormat, on_leave: &'static str) -> Self {
        let client = client.clone();
        let (text, seen) = watch::channel(String::new());
        let reading = tokio::spawn(async move {
            let headers = [("idempotency-key", "k"), ("turnwright-on-leave", on_leave)];
            let asked = ask_streamed("Hi");
            let mut open = surfaces::open(&client, surface, &headers, &asked).await;
            while let Some(bytes) = open.next().await {
                text.send_modify(|text| text.push_str(&String::from_utf8_lossy(&bytes)));
            }
        });
        Self { seen, reading }
    }

    pub async fn sees(&self, text: &str) {
        let mut seen = self.seen.clone();
        seen.wait_for(|seen| seen.contains(text)).await.unwrap();
    }

    /// Closes the connection.
    pub async fn leave(self) {
        self.reading.abort();
        // Nothing is left to panic about.
        let _ = self.reading.await;
    }

    pub async fn rest(self) -> String {
        self.reading.await.unwrap();
        self.seen.borrow().clone()
    }
}

/// A turn that has come to its phase and stays in it until [`GATE`] opens.
pub struct Scene {
    pub app: App,
    pub upstream: Listener,
    pub tool: Listener,
    pub turn: String,
    pub watcher: Watcher,
}

fn held(from: ReplyPiece, body: String) -> ListenerReply {
    ListenerReply::pieces(
        "text/event-stream",
        vec![from, ReplyPiece::Bytes(body.into())],
    )
}

/// The text, its usage, then a gate, then the end.
fn half_text() -> ListenerReply {
    let delta = json!({
        "choices": [{ "index": 0, "delta": { "content": TEXT }, "finish_reason": null }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9 },
    });
    ListenerReply::pieces(
        "text/event-stream",
        vec![
            ReplyPiece::Bytes(format!("data: {delta}\n\n").into()),
            ReplyPiece::Gate(GATE),
            ReplyPiece::Bytes(upstream_stream(" More.", &[]).into()),
        ],
    )
}

fn calling() -> ListenerReply {
    ListenerReply::sse(upstream_stream(TEXT, &[("c1", "act", r#"{"a":1}"#)]))
}

fn answers_in(phase: LeavePhase) -> Vec<ListenerReply> {
    let last = ListenerReply::sse(upstream_stream("Done.", &[]));
    match phase {
        LeavePhase::BeforeHead => vec![held(
            ReplyPiece::HeadGate(GATE),
            upstream_stream("Done.", &[]),
        )],
        LeavePhase::MidText => vec![half_text()],
        LeavePhase::Tool(_) => vec![calling(), last],
        LeavePhase::NextRound => vec![
            calling(),
            held(ReplyPiece::Gate(GATE), upstream_stream("Done.", &[])),
        ],
        LeavePhase::BetweenTries => vec![ListenerReply::status(503, "{}"), last],
    }
}

pub async fn scene(surface: WireFormat, phase: LeavePhase, on_leave: &'static str) -> Scene {
    let upstream = Listener::in_turn(answers_in(phase)).await.unwrap();
    let tool_pieces = match phase {
        LeavePhase::Tool(_) => vec![ReplyPiece::HeadGate(GATE), ReplyPiece::Bytes("{}".into())],
        _ => vec![ReplyPiece::Bytes("{}".into())],
    };
    let tool = ListenerReply::pieces("application/json", tool_pieces);
    let tool = Listener::in_turn(vec![tool]).await.unwrap();
    let effect = match phase {
        LeavePhase::Tool(effect) => effect,
        _ => EffectClass::Read,
    };
    let wanted = AppOptions {
        // Longer than any test takes, shorter than a turn may.
        config: Box::new(|config| config.turn.model_backoff = Duration::from_secs(600)),
        ..AppOptions::with_tools(vec![probe("act", effect, tool.url("/"))])
    };
    let app = App::start(&upstream, wanted).await;
    let watcher = Watcher::start(&app.client, surface, on_leave);
    match phase {
        LeavePhase::BeforeHead => upstream.asked_times(1).await,
        LeavePhase::MidText => watcher.sees(TEXT).await,
        LeavePhase::Tool(_) => {
            tool.asked_times(1).await;
            watcher.sees(TEXT).await;
        }
        LeavePhase::NextRound => {
            upstream.asked_times(2).await;
            watcher.sees(TEXT).await;
        }
        LeavePhase::BetweenTries => {}
    }
    let turn = app.running_turn(surface, "k").await;
    if phase == LeavePhase::BetweenTries {
        until(&app, &turn, |turn| {
            turn["rounds"][0]["attempts"][0]["outcome"] == "status"
        })
        .await;
    }
    Scene {
        app,
        upstream,
        tool,
        turn,
        watcher,
    }
}

/// Looks at a turn that runs, until it is as wanted.
async fn until(app: &App, turn: &str, wanted: impl Fn(&Value) -> bool) {
    let path = format!("/v1/turns/{turn}");
    poll_until("the turn as it is wanted", async || {
        let seen = app.client.send("GET", &path, &[], "").await.unwrap().json();
        wanted(&seen).then_some(())
    })
    .await;
}

pub async fn stop_noted(app: &App, surface: WireFormat) {
    poll_until("a stop that is written down", async || {
        app.repeat_row(surface, "k").await.stop
    })
    .await;
}

fn asked_of_upstream(phase: LeavePhase) -> usize {
    match phase {
        LeavePhase::NextRound => 2,
        _ => 1,
    }
}

/// What holds of a stopped turn in each phase, whoever stopped it.
fn assert_stopped(phase: LeavePhase, turn: &Value, scene: (&Listener, &Listener), reason: &str) {
    let (upstream, tool) = scene;
    assert_eq!(turn["status"], "cancelled", "{phase:?}: {turn}");
    assert_eq!(turn["reason"], reason, "{phase:?}");
    assert_eq!(
        upstream.asked().len(),
        asked_of_upstream(phase),
        "{phase:?}"
    );
    let first = &turn["rounds"][0];
    match phase {
        LeavePhase::BeforeHead => assert_eq!(first["attempts"][0]["outcome"], "cancelled"),
        LeavePhase::MidText => {
            assert_eq!(first["attempts"][0]["outcome"], "cancelled");
            assert_eq!(first["messages"][0]["blocks"][0]["text"], TEXT);
            assert_eq!(turn["usage"]["total_tokens"], 9);
        }
        LeavePhase::Tool(EffectClass::Read) => {
            assert_eq!(first["calls"][0]["status"], "failed");
            assert_eq!(first["calls"][0]["reason"], "cancelled");
            assert_eq!(first["calls"][0]["attempts"][0]["outcome"], "cancelled");
        }
        LeavePhase::Tool(_) => {
            assert_eq!(first["calls"][0]["status"], "completed");
            assert_eq!(first["calls"][0]["result"], "{}");
            assert_eq!(tool.asked().len(), 1);
        }
        LeavePhase::NextRound => {
            assert_eq!(first["calls"][0]["status"], "completed");
            assert_eq!(turn["rounds"][1]["attempts"][0]["outcome"], "cancelled");
        }
        LeavePhase::BetweenTries => assert_eq!(first["attempts"].as_array().unwrap().len(), 1),
    }
}

async fn a_client_that_leaves_stops_its_turn_in_every_phase(surface: WireFormat) {
    for phase in PHASES {
        let Scene {
            app,
            upstream,
            tool,
            turn,
            watcher,
        } = scene(surface, phase, "stop").await;
        watcher.leave().await;
        match phase {
            LeavePhase::BeforeHead | LeavePhase::MidText | LeavePhase::NextRound => {
                upstream.abandoned_times(1).await;
            }
            LeavePhase::Tool(EffectClass::Read) => tool.abandoned_times(1).await,
            LeavePhase::Tool(_) => {
                stop_noted(&app, surface).await;
                assert_eq!(app.runtime.turns_running(), 1);
                tool.open(GATE);
            }
            LeavePhase::BetweenTries => {}
        }
        let turn = app.turn(&turn).await;
        assert_stopped(phase, &turn, (&upstream, &tool), "client_left");
        assert_eq!(app.runtime.turns_running(), 0);
    }
}

async fn a_client_that_leaves_lets_its_turn_finish_if_it_wants(surface: WireFormat) {
    for phase in PHASES {
        if phase == LeavePhase::BetweenTries {
            // Its gate is a timer.
            continue;
        }
        let scene = scene(surface, phase, "finish").await;
        scene.watcher.leave().await;
        scene.upstream.open(GATE);
        scene.tool.open(GATE);
        let turn = scene.app.turn(&scene.turn).await;
        assert_eq!(turn["status"], "completed", "{phase:?}: {turn}");
        assert_eq!(turn["on_leave"], "finish");
        let last = turn["rounds"].as_array().unwrap().last().unwrap().clone();
        let text = last["messages"][0]["blocks"][0]["text"].as_str().unwrap();
        if phase == LeavePhase::MidText {
            assert_eq!(text, "Looking. More.");
            assert_eq!(turn["usage"]["total_tokens"], 9);
        } else {
            assert_eq!(text, "Done.");
        }
        assert!(scene.tool.asked().len() <= 1);
        assert_eq!(scene.app.runtime.turns_running(), 0);
    }
}

async fn a_turn_is_cancelled_in_every_phase_and_its_client_is_told(surface: WireFormat) {
    for phase in PHASES {
        let Scene {
            app,
            upstream,
            tool,
            turn,
            watcher,
        } = scene(surface, phase, "stop").await;
        let client = app.client.clone();
        let path = format!("/v1/turns/{turn}/cancel");
        let cancelling = tokio::spawn(async move { client.send("POST", &path, &[], "").await });
        if phase == LeavePhase::Tool(EffectClass::Once) {
            stop_noted(&app, surface).await;
            assert!(!cancelling.is_finished());
            tool.open(GATE);
        }
        let cancelled = cancelling.await.unwrap().unwrap();
        assert_eq!(cancelled.status, 200, "{phase:?}: {}", cancelled.text());
        assert_eq!(cancelled.json()["status"], "cancelled");
        let told = watcher.rest().await;
        check_told_of_cancel(surface, &told, phase);
        let turn = app.turn(&turn).await;
        assert_stopped(phase, &turn, (&upstream, &tool), "requested");
        // A second cancel changes nothing.
        let path = format!("/v1/turns/{}/cancel", turn["id"].as_str().unwrap());
        let again = app.client.send("POST", &path, &[], "").await.unwrap();
        assert_eq!(again.json()["ended_us"], turn["ended_us"]);
    }
}

/// The client of a turn that somebody cancelled is told so by an error, and nothing tells it of a whole answer.
pub fn check_told_of_cancel(surface: WireFormat, told: &str, phase: LeavePhase) {
    // A response that began is cancelled, and not an error.
    let words = match surface {
        WireFormat::OpenAiChat => [r#""code":"cancelled""#; 2],
        WireFormat::AnthropicMessages => ["was stopped"; 2],
        WireFormat::OpenAiResponses => [r#""code":"cancelled""#, r#""status":"cancelled""#],
    };
    let is_told = words.iter().any(|word| told.contains(word));
    assert!(is_told, "{phase:?}: {told}");
    for end in [
        "finish_reason\":\"stop",
        "message_stop",
        "response.completed",
    ] {
        assert!(!told.contains(end), "{phase:?}: {told}");
    }
    let is_marked = told.contains("[DONE]");
    assert!(
        !is_marked || surface == WireFormat::OpenAiResponses,
        "{phase:?}: {told}"
    );
}

async fn cancelling_closes_the_connection_to_the_upstream(surface: WireFormat) {
    for phase in [
        LeavePhase::BeforeHead,
        LeavePhase::MidText,
        LeavePhase::NextRound,
    ] {
        let scene = scene(surface, phase, "finish").await;
        let path = format!("/v1/turns/{}/cancel", scene.turn);
        let cancelled = scene.app.client.send("POST", &path, &[], "").await.unwrap();
        assert_eq!(cancelled.json()["reason"], "requested");
        scene.upstream.abandoned_times(1).await;
    }
}

async fn the_connection_closed_before_a_once_call_means_that_it_never_runs(surface: WireFormat) {
    let tool = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let text = upstream_stream(TEXT, &[("c1", "act", "{}")]);
    let at = text.find("tool_calls").unwrap();
    let at = text[..at].rfind("data: ").unwrap();
    let pieces = vec![
        ReplyPiece::Bytes(text[..at].to_owned().into()),
        ReplyPiece::Gate(GATE),
        ReplyPiece::Bytes(text[at..].to_owned().into()),
    ];
    let upstream = Listener::in_turn(vec![ListenerReply::pieces("text/event-stream", pieces)])
        .await
        .unwrap();
    let act = probe("act", EffectClass::Once, tool.url("/"));
    let app = App::start(&upstream, AppOptions::with_tools(vec![act])).await;
    let watcher = Watcher::start(&app.client, surface, "stop");
    watcher.sees(TEXT).await;
    watcher.leave().await;
    upstream.abandoned_times(1).await;
    upstream.open(GATE);
    let turn = app.running_turn(surface, "k").await;
    let turn = app.turn(&turn).await;
    assert_eq!(turn["status"], "cancelled");
    assert_eq!(turn["reason"], "client_left");
    assert_eq!(turn["tool_count"], 0);
    assert!(tool.asked().is_empty());
}

async fn one_of_two_clients_that_leaves_stops_nothing(surface: WireFormat) {
    let upstream = Listener::in_turn(vec![half_text()]).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let first = Watcher::start(&app.client, surface, "stop");
    first.sees(TEXT).await;
    let second = Watcher::start(&app.client, surface, "stop");
    second.sees(TEXT).await;
    first.leave().await;
    upstream.open(GATE);
    let text = second.rest().await;
    assert!(text.contains(" More."), "{text}");
    assert!(text.ends_with(surfaces::stream_end(surface)), "{text}");
}
