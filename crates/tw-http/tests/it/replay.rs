//! A turn's log read again: live, from every place, after the end and by another process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tw_core::change::Change;
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_egress::upstream::Upstream;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::recordings;
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, CHAT, ask_streamed, probe, upstream_stream};
use crate::nine_pairs::request;
use crate::surfaces::on_each_surface;
use crate::upstreams;

on_each_surface!(a_log_that_is_kept_no_more_is_lost_to_whoever_resumes_it);

/// A server whose turn has two rounds with a call between them, asked by chat completions.
async fn with_call() -> (App, ReadAnswer) {
    with_call_asked_by(WireFormat::OpenAiChat).await
}

async fn with_call_asked_by(surface: WireFormat) -> (App, ReadAnswer) {
    let tool = Listener::in_turn(vec![ListenerReply::json(r#"{"degrees":21}"#)])
        .await
        .unwrap();
    let upstream = Listener::in_turn(vec![
        ListenerReply::sse(upstream_stream("Looking.", &[("c1", "weather", "{}")])),
        ListenerReply::sse(upstream_stream("It is \u{1F600} 21.", &[])),
    ])
    .await
    .unwrap();
    let weather = probe("weather", EffectClass::Read, tool.url("/"));
    let app = App::start(&upstream, AppOptions::with_tools(vec![weather])).await;
    let got = streamed(&app, surface).await;
    (app, got)
}

/// A turn that was asked for in a format, once it has ended.
async fn streamed(app: &App, surface: WireFormat) -> ReadAnswer {
    let (path, body) = request(surface, true, None);
    let got = app.client.send("POST", path, &[], body.to_string()).await;
    app.runtime.idle().await;
    got.unwrap()
}

async fn events(client: &TestClient, turn: &str, query: &str) -> ReadAnswer {
    client
        .send("GET", &format!("/v1/turns/{turn}/events{query}"), &[], "")
        .await
        .unwrap()
}

/// The ids of a log's events, in order.
fn ids(log: &str) -> Vec<String> {
    log.lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .map(str::to_owned)
        .collect()
}

/// Checks that what follows each event is exactly what follows it in the whole, for readers of our own format and of
/// the one in which the turn was asked for.
async fn check_every_cursor(
    client: &TestClient,
    turn: &str,
    live: &ReadAnswer,
    surface: WireFormat,
) {
    let word = surface.reader_word();
    let live = live.text();
    let own = events(client, turn, "").await.text();
    let whole = events(client, turn, &format!("?format={word}")).await;
    assert_eq!(whole.text(), live, "the replay is what the client saw");
    let mut rests = vec![live.clone()];
    for id in ids(&own) {
        let after = events(client, turn, &format!("?after={id}")).await.text();
        let whole_event = own.find(&format!("id: {id}\n")).unwrap();
        let behind = own[whole_event..]
            .find("\n\n")
            .map_or(own.len(), |end| whole_event + end + 2);
        assert_eq!(after, own[behind..], "after {id}");
        let by_header = client
            .send(
                "GET",
                &format!("/v1/turns/{turn}/events"),
                &[("last-event-id", &id)],
                "",
            )
            .await
            .unwrap();
        assert_eq!(by_header.text(), after);
        let query = format!("?format={word}&after={id}");
        let rest = events(client, turn, &query).await.text();
        assert!(
            rests.last().unwrap().ends_with(&rest),
            "{word} after {id}: a later place gives a shorter rest"
        );
        rests.push(rest);
    }
    assert_eq!(rests.last().map(String::as_str), Some(""));
    check_every_part(client, turn, &live, surface).await;
}

/// Checks that what a client has seen, up to any event, and what is read from there on are together what was shown.
async fn check_every_part(client: &TestClient, turn: &str, live: &str, surface: WireFormat) {
    let word = surface.reader_word();
    let mut seen = 0;
    for (count, event) in live.split_inclusive("\n\n").enumerate() {
        let query = format!("?format={word}&skip={count}");
        let rest = events(client, turn, &query).await.text();
        assert_eq!(
            format!("{}{rest}", &live[..seen]),
            live,
            "{word}, {count} seen"
        );
        seen += event.len();
    }
    let all = live.matches("\n\n").count();
    let query = format!("?format={word}&skip={all}");
    assert_eq!(events(client, turn, &query).await.text(), "");
}

#[tokio::test]
async fn a_finished_turn_is_read_again_from_every_place() {
    for surface in WireFormat::ALL {
        let (app, live) = with_call_asked_by(surface).await;
        let turn = live.header("turnwright-turn").to_owned();
        check_every_cursor(&app.client, &turn, &live, surface).await;
    }
}

#[tokio::test]
async fn another_process_reads_the_same() {
    for surface in WireFormat::ALL {
        let (app, live) = with_call_asked_by(surface).await;
        let turn = live.header("turnwright-turn").to_owned();
        let again = app.restarted().await;
        check_every_cursor(&again, &turn, &live, surface).await;
    }
}

/// Who reads a turn in another format than its own client gets the same parts of one whole, too.
#[tokio::test]
async fn a_turn_is_read_in_every_format() {
    let (app, live) = with_call().await;
    let turn = live.header("turnwright-turn").to_owned();
    for (format, end) in [
        (WireFormat::OpenAiChat, "data: [DONE]\n\n"),
        (
            WireFormat::AnthropicMessages,
            "data: {\"type\":\"message_stop\"}\n\n",
        ),
        (WireFormat::OpenAiResponses, "data: [DONE]\n\n"),
    ] {
        let query = format!("?format={}", format.reader_word());
        let whole = events(&app.client, &turn, &query).await.text();
        assert!(
            whole.contains("Looking.") && whole.ends_with(end),
            "{whole}"
        );
        check_every_part(&app.client, &turn, &whole, format).await;
    }
}

/// A request whose stream has forms of its own: usage, and calls as functions.
const WITH_WISHES: &str = r#"{"model":"m","messages":[{"role":"user","content":"Weather?"}],"stream":true,
    "stream_options":{"include_usage":true},"functions":[{"name":"own","parameters":{"type":"object"}}]}"#;

#[tokio::test]
async fn limits_that_are_lowered_later_change_no_replay() {
    let upstream = Listener::in_turn(vec![ListenerReply::sse(upstream_stream(
        "",
        &[("c1", "own", "{}")],
    ))])
    .await
    .unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let live = app
        .client
        .send("POST", CHAT, &[], WITH_WISHES)
        .await
        .unwrap();
    let shown = live.text();
    assert!(shown.contains("function_call") && shown.contains("\"usage\":null"));
    app.runtime.idle().await;
    let lowered = AppOptions {
        config: Box::new(|config| config.request.body_bytes_max = 10),
        ..AppOptions::plain()
    };
    let again = app.again(&upstream, lowered).await;
    let turn = live.header("turnwright-turn").to_owned();
    let replayed = events(&again.client, &turn, "?format=chat").await;
    assert_eq!(replayed.text(), shown);
}

#[tokio::test]
async fn the_events_tell_of_calls_which_chat_does_not() {
    let (app, live) = with_call().await;
    let log = events(&app.client, live.header("turnwright-turn"), "")
        .await
        .text();
    let told: Vec<Value> = log
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let kinds: Vec<&str> = told
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "start",
            "round",
            "delta",
            "call_started",
            "call_ended",
            "round",
            "delta",
            "finish",
            "end"
        ]
    );
    assert_eq!(told[4]["shown"], r#"{"degrees":21}"#);
    assert_eq!(told[8]["status"], "completed");
}

#[tokio::test]
async fn observers_follow_a_running_turn_and_slow_nobody() {
    let upstream = Listener::start(|_| {
        let first = upstream_stream("one", &[]);
        let (head, rest) = first.split_at(first.find("\n\n").unwrap() + 2);
        ListenerReply::pieces(
            "text/event-stream",
            vec![
                ReplyPiece::Bytes(head.to_owned().into()),
                ReplyPiece::Bytes(rest[..rest.find("\n\n").unwrap() + 2].to_owned().into()),
                ReplyPiece::Gate("rest"),
                ReplyPiece::Bytes(rest[rest.find("\n\n").unwrap() + 2..].to_owned().into()),
            ],
        )
    })
    .await
    .unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let mut live = app
        .client
        .open(
            "POST",
            "/v1/chat/completions",
            &[],
            ask_streamed("Go").to_string(),
        )
        .await
        .unwrap();
    let turn = live.header("turnwright-turn").to_owned();
    let seen = live.until("one").await;
    let mut observers = Vec::new();
    for _ in 0..5 {
        let path = format!("/v1/turns/{turn}/events?format=chat");
        let mut observer = app.client.open("GET", &path, &[], "").await.unwrap();
        observer.until("one").await;
        observers.push(observer);
    }
    // One of them leaves; that stops nothing.
    drop(observers.pop());
    upstream.open("rest");
    let rest = live.read().await.text();
    assert!(rest.ends_with("data: [DONE]\n\n"));
    for observer in observers {
        let observed = observer.read().await.text();
        assert!((seen.clone() + &rest).ends_with(&observed), "{observed}");
        assert!(observed.ends_with("data: [DONE]\n\n"));
    }
}

#[tokio::test]
async fn much_that_waits_to_be_written_does_not_wait_for_the_interval() {
    let upstream = Listener::start(|_| {
        let whole = upstream_stream("one", &[]);
        let (head, rest) = whole.split_at(whole.find("\n\n").unwrap() + 2);
        let (delta, rest) = rest.split_at(rest.find("\n\n").unwrap() + 2);
        let deltas: String = (1..=2000)
            .map(|number| delta.replace("one", &format!("piece {number}.")))
            .collect();
        ListenerReply::pieces(
            "text/event-stream",
            vec![
                ReplyPiece::Bytes(format!("{head}{deltas}").into()),
                ReplyPiece::Gate("rest"),
                ReplyPiece::Bytes(rest.to_owned().into()),
            ],
        )
    })
    .await
    .unwrap();
    let wanted = AppOptions {
        config: Box::new(|config| config.flush_interval = Duration::from_secs(3600)),
        ..AppOptions::plain()
    };
    let app = App::start(&upstream, wanted).await;
    let ask = ask_streamed("Go").to_string();
    let mut live = app
        .client
        .open("POST", "/v1/chat/completions", &[], ask)
        .await
        .unwrap();
    let turn = live.header("turnwright-turn").to_owned();
    live.until("piece 2000.").await;
    let path = format!("/v1/turns/{turn}/events");
    let mut observer = app.client.open("GET", &path, &[], "").await.unwrap();
    observer.until("piece 1500.").await;
    upstream.open("rest");
    let log = observer.read().await.text();
    assert!(log.contains("piece 2000."));
    assert!(live.read().await.text().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_place_that_the_log_does_not_hold_is_lost() {
    let (app, live) = with_call().await;
    let turn = live.header("turnwright-turn").to_owned();
    for (query, status, code) in [
        ("?after=1.100", 410, json!("offset_lost")),
        ("?after=2.3", 410, json!("offset_lost")),
        ("?after=x", 400, Value::Null),
        ("?after=1", 400, Value::Null),
        ("?format=xml", 400, Value::Null),
        ("?format=chat&skip=-1", 400, Value::Null),
        ("?skip=1", 400, Value::Null),
    ] {
        let got = events(&app.client, &turn, query).await;
        assert_eq!(
            (got.status, &got.json()["error"]["code"]),
            (status, &code),
            "{query}"
        );
    }
    let unknown = events(&app.client, "0194f2a0-0000-7000-8000-000000000000", "").await;
    assert_eq!(unknown.status, 404);
}

async fn a_log_that_is_kept_no_more_is_lost_to_whoever_resumes_it(surface: WireFormat) {
    let (app, live) = with_call_asked_by(surface).await;
    let turn = live.header("turnwright-turn").to_owned();
    let word = surface.reader_word();
    let own = events(&app.client, &turn, "").await.text();
    let id = ids(&own).remove(1);
    let expire = Change::ExpireEvents {
        before: Timestamp(i64::MAX),
        turns_max: 10,
    };
    app.store.apply(vec![expire]).await.unwrap();
    for client in [app.client.clone(), app.restarted().await] {
        for query in [
            format!("?after={id}"),
            format!("?format={word}&after={id}"),
            format!("?format={word}&skip=1"),
            format!("?format={word}"),
            String::new(),
        ] {
            let got = events(&client, &turn, &query).await;
            assert_eq!(got.status, 410, "{query}: {}", got.text());
            assert_eq!(got.json()["error"]["code"], "offset_lost", "{query}");
        }
    }
}

/// Recordings of each format that are replayed at every place: how long at most, and how many at least.
const RECORDINGS: [(&str, WireFormat, u64, usize); 3] = [
    ("openai.chat.completions", WireFormat::OpenAiChat, 6000, 20),
    ("openai.responses", WireFormat::OpenAiResponses, 20_000, 8),
    ("anthropic.messages", WireFormat::AnthropicMessages, 6000, 8),
];

#[tokio::test]
async fn recorded_streams_replay_as_they_were_shown() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(folder) = recordings::folder(&workspace) else {
        return;
    };
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    for (kind, format, bytes_max, count_min) in RECORDINGS {
        let small: Vec<&str> = manifest["streams"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["kind"] == kind && entry["stream"] == true)
            .filter(|entry| {
                entry["bytes"]
                    .as_u64()
                    .is_some_and(|bytes| bytes < bytes_max)
            })
            .map(|entry| entry["file"].as_str().unwrap())
            .collect();
        assert!(small.len() >= count_min, "{} of {kind}", small.len());
        for file in small {
            let body = std::fs::read(folder.join(file)).unwrap();
            let upstream = Listener::in_turn(vec![ListenerReply::sse(body)])
                .await
                .unwrap();
            let one = Upstream {
                format,
                ..upstreams::upstream("one", upstream.url("/v1"))
            };
            let wanted = AppOptions {
                config: Box::new(move |config| config.upstreams = vec![Arc::new(one)]),
                ..AppOptions::plain()
            };
            let app = App::start(&upstream, wanted).await;
            let live = streamed(&app, format).await;
            if live.status == 200 {
                let turn = live.header("turnwright-turn").to_owned();
                check_every_cursor(&app.client, &turn, &live, format).await;
            }
        }
    }
}
