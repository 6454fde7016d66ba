//! `/metrics`: what it counts, who may read it, and that nobody outside chooses a label.

use serde_json::json;
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::tool::EffectClass;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, CHAT, ask, ask_streamed, probe, upstream_body, upstream_stream};
use crate::surfaces::{self, on_each_surface};

on_each_surface!(
    a_turn_is_counted_where_operators_look,
    what_runs_is_shown_while_it_runs,
);

async fn admin(app: &App) -> TestClient {
    let key = app.key("default", ToolGrant::None, vec![KeyScope::Admin]);
    app.with_key(Some(key.await))
}

async fn metrics(client: &TestClient) -> String {
    let got = client.send("GET", "/metrics", &[], "").await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(
        got.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    got.text()
}

/// The value of one series.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let value = line.unwrap_or_else(|| panic!("no {series} in\n{text}"));
    value.trim().parse().unwrap()
}

fn series(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, _)| name.to_owned())
        .collect()
}

async fn a_turn_is_counted_where_operators_look(surface: WireFormat) {
    let tool = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let upstream = Listener::in_turn(vec![
        ListenerReply::sse(upstream_stream(
            "",
            &[("c1", "act", "{}"), ("c2", "act", "[1")],
        )),
        ListenerReply::sse(upstream_stream("Done.", &[])),
        ListenerReply::status(400, "{}"),
    ])
    .await
    .unwrap();
    let wanted = AppOptions::with_tools(vec![probe("act", EffectClass::Once, tool.url("/"))]);
    let app = App::start(&upstream, wanted).await;
    for (asked, status) in [(ask_streamed("Hi"), 200), (ask("Hi"), 400)] {
        assert_eq!(app.ask_on(surface, &[], &asked).await.status, status);
    }
    app.settled().await;
    let text = metrics(&admin(&app).await).await;
    let route = surfaces::path(surface);
    let answers = |status: &str| {
        format!("turnwright_http_answers_total{{route=\"{route}\",status=\"{status}\"}}")
    };
    for (series, wanted) in [
        ("turnwright_turns_started_total{streamed=\"true\"}", 1.0),
        ("turnwright_turns_started_total{streamed=\"false\"}", 1.0),
        (
            "turnwright_turns_ended_total{status=\"completed\",reason=\"none\"}",
            1.0,
        ),
        (
            "turnwright_turns_ended_total{status=\"failed\",reason=\"upstream\"}",
            1.0,
        ),
        ("turnwright_turns_running", 0.0),
        (
            "turnwright_turn_duration_seconds_count{streamed=\"true\"}",
            1.0,
        ),
        (
            "turnwright_turn_first_event_seconds_count{streamed=\"true\"}",
            1.0,
        ),
        (
            "turnwright_model_attempts_total{upstream=\"test\",outcome=\"ok\"}",
            2.0,
        ),
        (
            "turnwright_model_attempts_total{upstream=\"test\",outcome=\"status\"}",
            1.0,
        ),
        (
            "turnwright_model_attempt_duration_seconds_count{upstream=\"test\"}",
            3.0,
        ),
        (
            "turnwright_tool_calls_total{kind=\"probe\",effect=\"once\",outcome=\"completed\"}",
            1.0,
        ),
        (
            "turnwright_tool_calls_total{kind=\"probe\",effect=\"once\",outcome=\"invalid_arguments\"}",
            1.0,
        ),
        (
            "turnwright_tool_call_duration_seconds_count{kind=\"probe\",effect=\"once\"}",
            1.0,
        ),
        (&*answers("2xx"), 1.0),
        (&*answers("4xx"), 1.0),
        ("turnwright_streams_open", 0.0),
        ("turnwright_store_writes_failed_total", 0.0),
        ("turnwright_store_queue_jobs", 0.0),
    ] {
        assert_eq!(value(&text, series), wanted, "{series}\n{text}");
    }
    for series in [
        "turnwright_store_group_jobs_count",
        "turnwright_store_commit_duration_seconds_sum",
        "turnwright_store_database_bytes",
        "turnwright_store_wal_bytes",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_cpu_seconds_total",
        "process_start_time_seconds",
    ] {
        assert!(value(&text, series) > 0.0, "{series}\n{text}");
    }
    assert!(text.contains("turnwright_build_info{version="), "{text}");
}

#[tokio::test]
async fn nobody_outside_chooses_a_label() {
    let evil = "zz\"}\nevil{x=\"1";
    let upstream =
        Listener::start(move |_| ListenerReply::json(upstream_body("", &[("c", evil, "{}")])));
    let upstream = upstream.await.unwrap();
    let tools = vec![probe("act", EffectClass::Read, upstream.url("/"))];
    let app = App::start(&upstream, AppOptions::with_tools(tools)).await;
    let admin = admin(&app).await;
    let mut before = Vec::new();
    for n in 0..3 {
        let mut request = ask("Hi");
        request["model"] = json!(format!("{evil}{n}"));
        let user = format!("zz-user-{n}");
        let got = app.post(&[("turnwright-user", &user)], &request).await;
        assert_eq!(got.status, 200, "{}", got.text());
        for path in [
            format!("/zz/{n}"),
            format!("/v1/turns/zz{n}"),
            format!("/api/zz{n}/tools"),
        ] {
            let got = app.client.send("GET", &path, &[], "").await.unwrap();
            assert!(got.status >= 400, "{path}");
        }
        let got = app.client.send("ZZTOP", CHAT, &[], "").await.unwrap();
        assert_eq!(got.status, 405);
        app.settled().await;
        metrics(&admin).await;
        let text = metrics(&admin).await;
        assert!(!text.to_ascii_lowercase().contains("zz"), "{text}");
        let now = series(&text);
        assert!(n == 0 || now == before, "{text}");
        before = now;
    }
    let text = metrics(&admin).await;
    let unknown =
        "turnwright_tool_calls_total{kind=\"none\",effect=\"none\",outcome=\"unknown_tool\"}";
    assert!(value(&text, unknown) >= 3.0);
    assert_eq!(
        value(
            &text,
            "turnwright_http_answers_total{route=\"none\",status=\"4xx\"}"
        ),
        3.0
    );
}

#[tokio::test]
async fn only_admins_read_it_on_the_listener_of_clients() {
    let upstream = Listener::in_turn(vec![]).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let scopes = [
        KeyScope::Chat,
        KeyScope::TurnsReadAll,
        KeyScope::ToolsRead,
        KeyScope::ToolsWrite,
    ];
    let other = app.key("default", ToolGrant::All, scopes.to_vec()).await;
    for (key, status) in [
        (None, 401),
        (Some("tw-none".to_owned()), 401),
        (Some(other), 403),
    ] {
        let client = app.with_key(key);
        let got = client.send("GET", "/metrics", &[], "").await.unwrap();
        assert_eq!(got.status, status);
        assert!(!got.text().contains("turnwright_turns"), "{}", got.text());
    }
}

#[tokio::test]
async fn a_scraper_that_asks_for_open_metrics_gets_it() {
    let upstream = Listener::in_turn(vec![]).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let client = admin(&app).await;
    let got = client
        .send("GET", "/metrics", &[("accept", accept)], "")
        .await;
    let got = got.unwrap();
    assert_eq!(
        got.header("content-type"),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(got.text().ends_with("# EOF\n"), "{}", got.text());
}

async fn what_runs_is_shown_while_it_runs(surface: WireFormat) {
    let body = upstream_stream("Hello", &[]);
    let (begin, end) = body.split_at(body.find("data: [DONE]").unwrap());
    let pieces = vec![
        ReplyPiece::Bytes(begin.to_owned().into()),
        ReplyPiece::Gate("go"),
        ReplyPiece::Bytes(end.to_owned().into()),
    ];
    let halting = ListenerReply::pieces("text/event-stream", pieces);
    let upstream = Listener::in_turn(vec![halting]).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let admin = admin(&app).await;
    let mut open = surfaces::open(&app.client, surface, &[], &ask_streamed("Hi")).await;
    open.until("Hello").await;
    let text = metrics(&admin).await;
    assert_eq!(value(&text, "turnwright_turns_running"), 1.0);
    assert_eq!(value(&text, "turnwright_streams_open"), 1.0);
    upstream.open("go");
    open.until(surfaces::stream_end(surface)).await;
    drop(open.read().await);
    app.settled().await;
    let text = metrics(&admin).await;
    assert_eq!(value(&text, "turnwright_turns_running"), 0.0);
    assert_eq!(value(&text, "turnwright_streams_open"), 0.0);
}
