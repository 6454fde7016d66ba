//! A secret and a person's number go through the whole system, and stay where they belong.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::EnvFilter;
use tw_core::accepts::Accepts;
use tw_core::limits;
use tw_core::model_names::ModelNames;
use tw_core::tool::EffectClass;
use tw_egress::secret::Secret;
use tw_egress::upstream::{Upstream, UpstreamAccess, UpstreamKind, UpstreamTimeouts};
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask, ask_streamed, probe, upstream_body, upstream_stream};

/// The server's own key at the upstream.
const SECRET: &str = "sk-canary-5e1f7d";
const PHONE: &str = "+49-170-5550199";
const ARGUMENTS: &str = r#"{"to":"+49-170-5550199"}"#;
const RESULT: &str = r#"{"sent_to":"+49-170-5550199"}"#;

/// What our crates log on this thread, at every level, until it is dropped.
pub struct Logs {
    text: Arc<Mutex<Vec<u8>>>,
    _guard: DefaultGuard,
}

#[derive(Clone)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logs {
    /// Everything of a test with one thread runs on it, but for the reads and writes of the
    /// store's own threads, which hold no span and log only failures.
    pub fn capture() -> Self {
        let text = Arc::default();
        let buffer = Buffer(Arc::clone(&text));
        let ours = "tw_core=trace,tw_wire=trace,tw_store=trace,tw_egress=trace,tw_runtime=trace,tw_http=trace";
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(ours))
            .with_writer(move || buffer.clone())
            .finish();
        Self {
            text,
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }
}

/// A server that has a key at its upstream, and one tool.
async fn start(upstream: &Listener, tool: &Listener, effect: EffectClass) -> App {
    let base_url = upstream.url("/v1");
    let wanted = AppOptions {
        config: Box::new(move |config| {
            config.upstreams = vec![Arc::new(Upstream {
                name: "test".to_owned(),
                kind: UpstreamKind::Http {
                    base_url,
                    api_key: Some(Secret::new(SECRET.to_owned())),
                },
                format: WireFormat::OpenAiChat,
                models: ModelNames::all(),
                timeouts: UpstreamTimeouts::defaults(),
                accepts: Accepts::everything(),
                answer_bytes_max: limits::ANSWER_BYTES_DEFAULT,
                access: UpstreamAccess::direct(),
            })];
        }),
        ..AppOptions::with_tools(vec![probe("send", effect, tool.url("/"))])
    };
    App::start(upstream, wanted).await
}

/// Head and body of an answer.
pub fn whole(got: &ReadAnswer) -> String {
    format!("{:?}\n{}", got.headers, got.text())
}

pub fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// What must hold whatever happened.
fn assert_secret_is_kept(
    app: &App,
    upstream: &Listener,
    tool: &Listener,
    got: &ReadAnswer,
    logs: &Logs,
) {
    let client_key = app.client.key.as_deref().unwrap();
    for secret in [SECRET, client_key] {
        assert!(!whole(got).contains(secret), "{}", whole(got));
        assert!(!logs.text().contains(secret), "{}", logs.text());
        assert!(!holds(&app.files(), secret));
        for asked in upstream.asked().iter().chain(&tool.asked()) {
            assert!(!holds(&asked.body, secret));
            assert!(!asked.target.contains(secret));
        }
    }
    for asked in upstream.asked() {
        let mut with_secret = asked.headers.clone();
        with_secret.remove("authorization");
        assert_eq!(asked.header("authorization"), format!("Bearer {SECRET}"));
        assert!(!format!("{with_secret:?}").contains(SECRET));
    }
    for asked in tool.asked() {
        assert_eq!(asked.header("authorization"), "");
    }
    assert!(!logs.text().contains(PHONE), "{}", logs.text());
}

async fn answering(replies: Vec<ListenerReply>) -> Listener {
    Listener::in_turn(replies).await.unwrap()
}

/// A turn's record on every route, read by its key.
async fn record(app: &App, got: &ReadAnswer) -> Value {
    let shown = app.turn_of(got).await;
    assert!(!shown.to_string().contains(SECRET));
    let id = got.header("turnwright-turn");
    for query in ["", "?format=chat"] {
        let path = format!("/v1/turns/{id}/events{query}");
        let events = app.client.send("GET", &path, &[], "").await.unwrap();
        assert_eq!(events.status, 200, "{}", events.text());
        assert!(!whole(&events).contains(SECRET), "{}", whole(&events));
        assert!(query.is_empty() || !whole(&events).contains(PHONE));
    }
    let conversation = shown["conversation"].as_str().unwrap();
    for path in ["", "/turns"] {
        let path = format!("/v1/conversations/{conversation}{path}");
        let listed = app.client.send("GET", &path, &[], "").await.unwrap();
        assert_eq!(listed.status, 200, "{}", listed.text());
        assert!(!whole(&listed).contains(SECRET), "{}", whole(&listed));
    }
    shown
}

#[tokio::test]
async fn a_call_that_works_leaves_its_data_in_the_record_only() {
    let tool = answering(vec![ListenerReply::json(RESULT)]).await;
    for streamed in [false, true] {
        let logs = Logs::capture();
        let calls = [("c1", "send", ARGUMENTS)];
        let upstream = answering(if streamed {
            vec![
                ListenerReply::sse(upstream_stream("Sending.", &calls)),
                ListenerReply::sse(upstream_stream("Sent.", &[])),
            ]
        } else {
            vec![
                ListenerReply::json(upstream_body("Sending.", &calls)),
                ListenerReply::json(upstream_body("Sent.", &[])),
            ]
        })
        .await;
        let app = start(&upstream, &tool, EffectClass::Once).await;
        let request = if streamed {
            ask_streamed("Hi")
        } else {
            ask("Hi")
        };
        let got = app.client.chat(&request).await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        assert!(!whole(&got).contains(PHONE), "{}", whole(&got));
        let turn = record(&app, &got).await;
        let call = &turn["rounds"][0]["calls"][0];
        assert_eq!(
            (&call["arguments"], &call["result"]),
            (&ARGUMENTS.into(), &RESULT.into())
        );
        let second = upstream.asked()[1].json();
        assert_eq!(second["messages"][2]["content"], RESULT);
        app.settled().await;
        assert_secret_is_kept(&app, &upstream, &tool, &got, &logs);
        assert!(logs.text().contains("tool call ended"), "{}", logs.text());
    }
}

#[tokio::test]
async fn a_call_that_fails_tells_the_model_and_nobody_else() {
    let refusal = format!(r#"{{"error":"{PHONE} is blocked"}}"#);
    for reply in [
        ListenerReply::status(422, refusal),
        ListenerReply::hang_up(),
    ] {
        let logs = Logs::capture();
        let tool = answering(vec![reply]).await;
        let upstream = answering(vec![
            ListenerReply::json(upstream_body("", &[("c1", "send", ARGUMENTS)])),
            ListenerReply::json(upstream_body("It did not work.", &[])),
        ])
        .await;
        let app = start(&upstream, &tool, EffectClass::Once).await;
        let got = app.client.chat(&ask("Hi")).await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        assert!(!whole(&got).contains(PHONE), "{}", whole(&got));
        record(&app, &got).await;
        app.settled().await;
        assert_secret_is_kept(&app, &upstream, &tool, &got, &logs);
    }
}

#[tokio::test]
async fn arguments_that_are_not_valid_are_not_logged() {
    for arguments in [r#"{"to":"+49-170-5550199"#, r#"["+49-170-5550199"]"#] {
        let logs = Logs::capture();
        let tool = answering(vec![ListenerReply::json(RESULT)]).await;
        let calls = [("c1", "send", arguments), ("c2", "+49-170-5550199", "{}")];
        let upstream = answering(vec![
            ListenerReply::json(upstream_body("", &calls)),
            ListenerReply::json(upstream_body("Sorry.", &[])),
        ])
        .await;
        let app = start(&upstream, &tool, EffectClass::Once).await;
        let got = app.client.chat(&ask("Hi")).await.unwrap();
        assert!(!whole(&got).contains(PHONE), "{}", whole(&got));
        assert!(tool.asked().is_empty());
        record(&app, &got).await;
        app.settled().await;
        assert_secret_is_kept(&app, &upstream, &tool, &got, &logs);
    }
}

#[tokio::test]
async fn an_error_after_a_call_says_what_ran_and_not_with_what() {
    let logs = Logs::capture();
    let tool = answering(vec![ListenerReply::json(RESULT)]).await;
    let upstream = answering(vec![
        ListenerReply::json(upstream_body("", &[("c1", "send", ARGUMENTS)])),
        ListenerReply::status(400, r#"{"error":{"message":"too long"}}"#),
    ])
    .await;
    let app = start(&upstream, &tool, EffectClass::Once).await;
    let got = app.client.chat(&ask("Hi")).await.unwrap();
    assert_eq!(got.status, 424);
    assert!(!whole(&got).contains(PHONE), "{}", whole(&got));
    record(&app, &got).await;
    app.settled().await;
    assert_secret_is_kept(&app, &upstream, &tool, &got, &logs);
}

#[tokio::test]
async fn an_upstream_that_quotes_our_key_is_not_repeated() {
    let quoting = format!(
        r#"{{"error":{{"message":"Incorrect API key provided: {SECRET}.","code":"invalid_api_key"}}}}"#
    );
    let in_stream = format!(
        "data: {{\"error\":{{\"message\":\"Incorrect API key provided: {SECRET}.\",\"code\":401}}}}\n\n"
    );
    let tool = answering(vec![ListenerReply::json(RESULT)]).await;
    let replies = [
        ListenerReply::status(401, quoting.clone()),
        ListenerReply::status(403, quoting.clone()),
        ListenerReply::sse(in_stream),
        ListenerReply::status(400, quoting.clone()),
        ListenerReply::status(429, quoting.clone()),
        ListenerReply::status(500, quoting.clone()),
        ListenerReply::json(quoting.clone()),
        ListenerReply::sse(format!("data: {quoting}\n\n")),
    ];
    for reply in replies {
        for streamed in [false, true] {
            let logs = Logs::capture();
            let upstream = answering(vec![reply.clone()]).await;
            let app = start(&upstream, &tool, EffectClass::Once).await;
            let request = if streamed {
                ask_streamed("Hi")
            } else {
                ask("Hi")
            };
            let got = app.client.chat(&request).await.unwrap();
            record(&app, &got).await;
            app.settled().await;
            assert_secret_is_kept(&app, &upstream, &tool, &got, &logs);
        }
    }
}
