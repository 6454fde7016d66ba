//! Headers of a client's that are for its upstream: who gets them, and that a turn keeps them.

use rusqlite::Connection;
use serde_json::{Value, json};
use tw_egress::upstream::Upstream;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::app::{App, CHAT, ask};
use crate::recover::orphan;
use crate::upstreams::{in_front_of, upstream};

const BETA: &str = "anthropic-beta";
const VERSION: &str = "anthropic-version";

fn of_format(format: WireFormat, listener: &Listener) -> Upstream {
    Upstream {
        format,
        ..upstream("one", listener.url("/v1"))
    }
}

/// A message of Anthropic's, plain.
fn message() -> String {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "stop_sequence": null, "content": [{ "type": "text", "text": "Hello" }],
        "usage": { "input_tokens": 1, "output_tokens": 1 },
    })
    .to_string()
}

fn requests() -> [(&'static str, Value); 4] {
    let messages = json!([{ "role": "user", "content": "Hi" }]);
    [
        (CHAT, ask("Hi")),
        (
            "/v1/messages",
            json!({ "model": "m", "max_tokens": 9, "messages": messages }),
        ),
        (
            "/v1/messages/count_tokens",
            json!({ "model": "m", "messages": messages }),
        ),
        ("/v1/responses", json!({ "model": "m", "input": "Hi" })),
    ]
}

#[tokio::test]
async fn an_upstream_gets_headers_of_its_own_format_alone() {
    for format in WireFormat::ALL {
        let listener = Listener::start(|asked| {
            if asked.target.ends_with("tokens") {
                ListenerReply::json(r#"{"input_tokens":1}"#)
            } else {
                ListenerReply::status(400, "{}")
            }
        });
        let listener = listener.await.unwrap();
        let app = in_front_of(vec![of_format(format, &listener)]).await;
        let gets = format == WireFormat::AnthropicMessages;
        let mut asked = 0;
        for (path, body) in requests() {
            for (headers, beta, version) in [
                (&[][..], "", "2023-06-01"),
                (
                    &[(BETA, "a-1"), (BETA, "b-2, c-3"), (VERSION, "2024-01-01")],
                    "a-1,b-2, c-3",
                    "2024-01-01",
                ),
            ] {
                let client = &app.client;
                client
                    .send("POST", path, headers, body.to_string())
                    .await
                    .unwrap();
                if listener.asked().len() == asked {
                    // A chat upstream does not count.
                    assert!(path.ends_with("tokens") && format == WireFormat::OpenAiChat);
                    continue;
                }
                asked += 1;
                let sent = listener.asked().pop().unwrap();
                assert_eq!(sent.header(BETA), if gets { beta } else { "" }, "{path}");
                assert_eq!(
                    sent.header(VERSION),
                    if gets { version } else { "" },
                    "{path}"
                );
                assert!(sent.headers.get_all(VERSION).iter().count() <= 1);
            }
        }
        assert!(asked >= 6);
    }
}

#[tokio::test]
async fn a_header_that_cannot_be_passed_on_is_refused() {
    let listener = Listener::start(|_| ListenerReply::json(message()))
        .await
        .unwrap();
    let app = in_front_of(vec![of_format(WireFormat::AnthropicMessages, &listener)]).await;
    let long = "x".repeat(2049);
    for headers in [
        vec![(VERSION, "1"), (VERSION, "2")],
        vec![(BETA, "ä")],
        vec![(BETA, long.as_str())],
    ] {
        for (path, body) in requests() {
            let client = &app.client;
            let got = client
                .send("POST", path, &headers, body.to_string())
                .await
                .unwrap();
            assert_eq!(got.status, 400, "{path}: {}", got.text());
            assert!(got.text().contains(headers[0].0), "{}", got.text());
        }
    }
    assert_eq!(listener.asked().len(), 0);
}

/// The context of the only turn, as it is stored.
fn context(app: &App) -> String {
    let database = Connection::open(app.database()).unwrap();
    let select = "SELECT context FROM turn_input";
    database.query_row(select, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_turn_that_is_taken_over_asks_with_the_same_headers() {
    let listener = Listener::start(|_| ListenerReply::json(message()))
        .await
        .unwrap();
    let app = in_front_of(vec![of_format(WireFormat::AnthropicMessages, &listener)]).await;
    let (path, body) = &requests()[1];
    let headers = [(BETA, "a-1"), (VERSION, "2024-01-01")];
    let got = app
        .client
        .send("POST", path, &headers, body.to_string())
        .await;
    assert_eq!(got.unwrap().status, 200);
    app.settled().await;
    let kept = context(&app);
    let turn = orphan(&app, &body.to_string(), &kept).await;
    assert_eq!(app.runtime.recover().await.unwrap(), 1);
    assert_eq!(app.turn(&turn.to_string()).await["status"], "completed");
    let asked: Vec<_> = listener.asked();
    assert_eq!(asked.len(), 2);
    for sent in asked {
        assert_eq!(
            (sent.header(BETA), sent.header(VERSION)),
            ("a-1", "2024-01-01")
        );
    }
}
