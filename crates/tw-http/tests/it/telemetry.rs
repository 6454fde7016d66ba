//! Traces of turns, as a collector gets them.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;
use tw_egress::client::{ClientOptions, EgressClient};
use tw_egress::otlp_sender::OtlpCollector;
use tw_runtime::runtime::RuntimeConfig;
use tw_runtime::telemetry::{TelemetryConfig, TraceSampler};
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest, ReplyPiece};
use tw_wire::format::WireFormat;
use tw_wire::otlp::TracedResource;

use crate::app::{App, AppOptions, ask, ask_streamed, upstream_body};
use crate::surfaces::on_each_surface;
use crate::tools::lab::{ToolLab, allowed, options, place, reaching};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const STATE: &str = "vendor=1";
/// Stands where it must not be told.
const CANARY: &str = "canary-4711";

fn traced(collector: &Listener) -> TelemetryConfig {
    let client = EgressClient::new(ClientOptions {
        allowed: vec![allowed(&place(collector))],
        ..options()
    });
    TelemetryConfig {
        collector: OtlpCollector {
            client,
            url: collector.url("/v1/traces"),
            headers: vec![("x-api-key".to_owned(), "k".to_owned())],
            timeout: Duration::from_secs(5),
        },
        resource: TracedResource(vec![("service.name".to_owned(), "test".to_owned())]),
        sampler: TraceSampler::parse("parentbased_always_on", 1.0).unwrap(),
        contents: false,
        to_upstreams: true,
        to_tools: true,
        queue_spans_max: 100,
        batch_spans_max: 100,
        batch_delay: Duration::from_millis(10),
    }
}

fn with(mut wanted: AppOptions, telemetry: TelemetryConfig) -> AppOptions {
    let config = wanted.config;
    wanted.config = Box::new(move |settings: &mut RuntimeConfig| {
        config(settings);
        settings.telemetry = Some(telemetry);
    });
    wanted
}

async fn collector() -> Listener {
    let reply = ListenerReply::status(200, "");
    Listener::in_turn(vec![reply]).await.unwrap()
}

/// The spans that have come so far.
fn spans(collector: &Listener) -> Vec<Span> {
    let asked = collector.asked();
    let of = |asked: &ReceivedRequest| {
        assert_eq!(asked.header("content-type"), "application/x-protobuf");
        assert_eq!(asked.header("x-api-key"), "k");
        let request = ExportTraceServiceRequest::decode(&*asked.body).unwrap();
        let [resource] = &request.resource_spans[..] else {
            panic!("{request:?}");
        };
        let name = &resource.resource.as_ref().unwrap().attributes[0];
        assert_eq!(name.key, "service.name");
        resource.scope_spans[0].spans.clone()
    };
    asked.iter().flat_map(of).collect()
}

/// All spans of a server, which ends.
async fn whole(app: &App, collector: &Listener) -> Vec<Span> {
    app.runtime.shut_down().await;
    spans(collector)
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|pair| pair.key == key)?;
    Some(match found.value.clone()?.value? {
        AnyValue::StringValue(text) => text,
        AnyValue::IntValue(number) => number.to_string(),
        AnyValue::BoolValue(flag) => flag.to_string(),
        AnyValue::ArrayValue(list) => format!("{:?}", list.values.len()),
        other => format!("{other:?}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The tree of spans, one in a line: how deep, its name, its kind, and some of its attributes.
fn tree(spans: &[Span], root: &str) -> Vec<String> {
    let mut under: BTreeMap<String, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        under
            .entry(hex(&span.parent_span_id))
            .or_default()
            .push(span);
    }
    for below in under.values_mut() {
        below.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
    }
    let mut lines = Vec::new();
    add_lines(&under, root, 0, &mut lines);
    lines
}

const SHOWN: [&str; 10] = [
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.tool.call.id",
    "turnwright.round",
    "turnwright.attempt",
    "turnwright.status",
    "http.response.status_code",
    "error.type",
];

fn add_lines(
    under: &BTreeMap<String, Vec<&Span>>,
    parent: &str,
    depth: usize,
    lines: &mut Vec<String>,
) {
    for span in under.get(parent).into_iter().flatten() {
        assert!(
            span.start_time_unix_nano <= span.end_time_unix_nano,
            "{span:?}"
        );
        let shown = SHOWN
            .iter()
            .filter_map(|key| Some(format!(" {}", attribute(span, key)?)));
        let shown: String = shown.collect();
        let kind = span.kind().as_str_name().replace("SPAN_KIND_", "");
        let deep = "  ".repeat(depth);
        lines.push(format!("{deep}{} {kind}{shown}", span.name));
        add_lines(under, &hex(&span.span_id), depth + 1, lines);
    }
}

on_each_surface!(
    a_turn_with_a_call_is_this_tree,
    contents_are_told_only_if_wanted
);

async fn a_turn_with_a_call_is_this_tree(surface: WireFormat) {
    let collector = collector().await;
    let service = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let wanted = with(reaching(&[&service], Vec::new()), traced(&collector));
    let lab = ToolLab::start(service, wanted).await;
    lab.make("look", "/x", json!({})).await;
    let headers = [("traceparent", PARENT), ("tracestate", STATE)];
    let got = lab.app.ask_on(surface, &headers, &ask("look {}")).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let spans = whole(&lab.app, &collector).await;
    let expected = [
        "invoke_agent SERVER turnwright m 6 4 completed",
        "  chat m CLIENT openai m 3 2 1",
        "    attempt CLIENT 1",
        "  execute_tool look INTERNAL c0_0 1",
        "    attempt CLIENT 1 200",
        "  chat m CLIENT openai m 3 2 2",
        "    attempt CLIENT 1",
    ];
    let found = tree(&spans, "b7ad6b7169203331");
    assert_eq!(found, expected, "{}", found.join("\n"));
    for span in &spans {
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(span.trace_state, STATE);
    }
    let id = |name: &str, round: &str| {
        let of = |span: &&Span| {
            span.name == name && attribute(span, "turnwright.round").as_deref() == Some(round)
        };
        let found: Vec<&Span> = spans.iter().filter(of).collect();
        assert_eq!(found.len(), 1, "{name}");
        hex(&found[0].span_id)
    };
    let attempt = |parent: &str| {
        let found = spans
            .iter()
            .find(|span| hex(&span.parent_span_id) == parent);
        format!("00-{TRACE}-{}-01", hex(&found.unwrap().span_id))
    };
    // Upstreams and tools make their own spans under the attempts.
    let model = lab.model.asked();
    for (asked, round) in model.iter().zip(["1", "2"]) {
        assert_eq!(asked.header("traceparent"), attempt(&id("chat m", round)));
        assert_eq!(asked.header("tracestate"), STATE);
    }
    let called = &lab.service.asked()[0];
    assert_eq!(
        called.header("traceparent"),
        attempt(&id("execute_tool look", "1"))
    );
    assert_eq!(called.header("tracestate"), STATE);
}

async fn contents_are_told_only_if_wanted(surface: WireFormat) {
    for contents in [false, true] {
        let collector = collector().await;
        let answer = ListenerReply::json(format!(r#"{{"said":"{CANARY}","other":"open-answer"}}"#));
        let service = Listener::in_turn(vec![answer]).await.unwrap();
        let telemetry = TelemetryConfig {
            contents,
            ..traced(&collector)
        };
        let wanted = with(reaching(&[&service], Vec::new()), telemetry);
        let lab = ToolLab::start(service, wanted).await;
        let parameters = json!({ "parameters": {
            "number": { "mode": "ai", "sensitive": true }, "open": { "mode": "ai" },
        } });
        lab.make("look", "/x", parameters).await;
        let calls = format!(r#"look {{"number":"{CANARY}","open":"open-argument"}}"#);
        let got = lab.app.ask_on(surface, &[], &ask(&calls)).await;
        assert_eq!(got.status, 200, "{}", got.text());
        let spans = whole(&lab.app, &collector).await;
        let shown = format!("{spans:?}");
        let said = ["open-answer", "open-argument", "So be it."];
        for text in said {
            assert_eq!(shown.contains(text), contents, "{text}: {shown}");
        }
        for span in &spans {
            // What a person wrote is what it is; a call says nothing of a sensitive parameter.
            let of_calls = [
                "gen_ai.tool.call.arguments",
                "gen_ai.tool.call.result",
                "gen_ai.output.messages",
            ];
            for key in of_calls {
                let told = attribute(span, key).unwrap_or_default();
                assert!(!told.contains(CANARY), "{key}: {told}");
            }
        }
    }
}

#[tokio::test]
async fn a_request_without_a_trace_begins_one() {
    let collector = collector().await;
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Hi.", &[]))]);
    let upstream = upstream.await.unwrap();
    let app = App::start(&upstream, with(AppOptions::plain(), traced(&collector))).await;
    let got = app.post(&[("traceparent", "nonsense")], &ask("hi")).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let spans = whole(&app, &collector).await;
    assert_eq!(tree(&spans, "").len(), 3);
    let told = upstream.asked()[0].header("traceparent").to_owned();
    assert_eq!(told.split('-').nth(1).unwrap(), hex(&spans[0].trace_id));
    assert_eq!(told.len(), PARENT.len());
}

#[tokio::test]
async fn a_trace_that_its_client_does_not_record_is_passed_on_and_not_recorded() {
    let collector = collector().await;
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Hi.", &[]))]);
    let upstream = upstream.await.unwrap();
    let app = App::start(&upstream, with(AppOptions::plain(), traced(&collector))).await;
    let unsampled = PARENT.replace("-01", "-00");
    app.post(&[("traceparent", &unsampled)], &ask("hi")).await;
    // Its spans would have come first.
    app.post(&[], &ask("again")).await;
    let spans = whole(&app, &collector).await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) != TRACE));
    let told = upstream.asked()[0].header("traceparent").to_owned();
    assert!(
        told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"),
        "{told}"
    );
}

#[tokio::test]
async fn a_failed_request_says_why() {
    let collector = collector().await;
    let upstream = Listener::in_turn(vec![ListenerReply::status(
        400,
        r#"{"error":{"message":"no"}}"#,
    )]);
    let upstream = upstream.await.unwrap();
    let app = App::start(&upstream, with(AppOptions::plain(), traced(&collector))).await;
    app.post(&[("traceparent", PARENT)], &ask("hi")).await;
    let found = tree(&whole(&app, &collector).await, "b7ad6b7169203331");
    let expected = [
        "invoke_agent SERVER turnwright m failed upstream",
        "  chat m CLIENT openai m 1 status",
        "    attempt CLIENT 1 400 status",
    ];
    assert_eq!(found, expected, "{}", found.join("\n"));
}

#[tokio::test]
async fn nothing_is_taken_or_told_while_nothing_is_traced() {
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Hi.", &[]))]);
    let upstream = upstream.await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    app.post(&[("traceparent", PARENT)], &ask("hi")).await;
    assert_eq!(upstream.asked()[0].header("traceparent"), "");
}

/// The value of a counter.
fn counted(app: &App, name: &str) -> u64 {
    let text = app
        .runtime
        .metrics_text(tw_runtime::metrics::Format::Prometheus);
    let line = text.lines().find(|line| line.starts_with(name));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_collector_that_hangs_holds_nobody_up_and_what_is_lost_is_counted() {
    let hanging = ListenerReply::pieces("text/plain", vec![ReplyPiece::HeadGate("never")]);
    let collector = Listener::in_turn(vec![hanging]).await.unwrap();
    let upstream = Listener::start(|_| ListenerReply::sse(crate::app::upstream_stream("Hi.", &[])));
    let upstream = upstream.await.unwrap();
    let telemetry = TelemetryConfig {
        queue_spans_max: 2,
        batch_spans_max: 1,
        ..traced(&collector)
    };
    let app = App::start(&upstream, with(AppOptions::plain(), telemetry)).await;
    for _ in 0..4 {
        let got = app.post(&[], &ask_streamed("hi")).await;
        assert_eq!(got.status, 200, "{}", got.text());
    }
    app.settled().await;
    // Twelve spans: one is being sent, two wait.
    assert!(
        counted(
            &app,
            r#"turnwright_spans_dropped_total{reason="queue_full"}"#
        ) >= 9
    );
}

#[tokio::test]
async fn a_collector_that_is_not_there_costs_its_spans_and_nothing_else() {
    let collector = Listener::in_turn(vec![ListenerReply::status(400, "")])
        .await
        .unwrap();
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Hi.", &[]))]);
    let upstream = upstream.await.unwrap();
    let app = App::start(&upstream, with(AppOptions::plain(), traced(&collector))).await;
    let got = app.post(&[], &ask("hi")).await;
    assert_eq!(got.status, 200, "{}", got.text());
    app.runtime.shut_down().await;
    assert_eq!(
        counted(&app, r#"turnwright_spans_dropped_total{reason="not_sent"}"#),
        3
    );
    assert_eq!(counted(&app, "turnwright_spans_sent_total"), 0);
}
