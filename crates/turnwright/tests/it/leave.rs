//! Clients that leave in ways that only a real connection has.

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;

use crate::process::{ServerProcess, create_key, key_of, serve};

/// What a client may have sent behind the request that is being served.
const BEHIND: [&str; 4] = [
    "",
    "\r\n",
    "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "what is this",
];

/// The surfaces: the path, and the field that has the messages.
const SURFACES: [(&str, &str); 3] = [
    ("/v1/chat/completions", "messages"),
    ("/v1/messages", "messages"),
    ("/v1/responses", "input"),
];

/// The beginning of an answer, or not even that.
fn unfinished(streamed: bool) -> ListenerReply {
    let kind = if streamed {
        "text/event-stream"
    } else {
        "application/json"
    };
    let first = r#"data: {"choices":[{"index":0,"delta":{"content":"One"}}]}"#;
    let mut pieces = vec![ReplyPiece::Gate("never")];
    if streamed {
        pieces.insert(0, ReplyPiece::Bytes(format!("{first}\n\n").into()));
    }
    ListenerReply::pieces(kind, pieces)
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn leaving_stops_the_turn_whatever_was_sent_behind_its_request() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = Listener::start(|asked| unfinished(asked.json()["stream"] == true))
        .await
        .unwrap();
    let server = ServerProcess::start(serve(&data, &upstream), &data);
    let key = key_of(&create_key(&data, &[]));
    let client = TestClient {
        key: Some(key.clone()),
        ..server.client.clone()
    };
    let mut asked = 0;
    for behind in BEHIND {
        for streamed in [false, true] {
            for resets in [false, true] {
                // One surface after the other, so that each has every half of the cases.
                let (path, field) = SURFACES[asked % SURFACES.len()];
                let says = format!("{path}: {behind:?}, streamed {streamed}, resets {resets}");
                let said = [json!({ "role": "user", "content": says })];
                let mut body = json!({ "model": "m", "stream": streamed, field: said });
                if path == "/v1/messages" {
                    body["max_tokens"] = json!(9);
                }
                let body = body.to_string();
                let mut connection = TcpStream::connect(client.address).await.unwrap();
                let head = format!(
                    "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
                     turnwright-conversation: c{asked}\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let sent = format!("{head}{body}{behind}");
                connection.write_all(sent.as_bytes()).await.unwrap();
                asked += 1;
                upstream.asked_times(asked).await;
                if streamed {
                    connection.read_u8().await.unwrap();
                }
                if resets {
                    connection.set_zero_linger().unwrap();
                }
                drop(connection);
                let path = format!("/v1/conversations/c{}/turns", asked - 1);
                // The upstream is asked while the turn is being accepted.
                let turn = poll_until("a turn that has ended", async || {
                    let got = client.send("GET", &path, &[], "").await.unwrap().json();
                    let turn = &got["data"][0];
                    (turn.is_object() && turn["status"] != "running").then(|| turn.clone())
                })
                .await;
                assert_eq!(turn["status"], "cancelled", "{says}");
                assert_eq!(turn["reason"], "client_left", "{says}");
            }
        }
    }
}
