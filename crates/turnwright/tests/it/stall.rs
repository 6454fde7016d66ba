//! Clients that stop reading.

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;

use crate::process::{ServerProcess, create_key, key_of, serve};

/// More than the sockets of both sides hold.
const PIECES: usize = 200;
const PIECE_BYTES: usize = 64 * 1024;

/// A fraction of what sockets hold.
const TAKEN_BYTES_MAX: usize = 1024 * 1024;

/// An answer that has no end.
fn endless() -> ListenerReply {
    let text = "x".repeat(PIECE_BYTES);
    let piece =
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let mut pieces: Vec<ReplyPiece> = (0..PIECES)
        .map(|_| ReplyPiece::Bytes(piece.clone().into()))
        .collect();
    pieces.push(ReplyPiece::Gate("never"));
    ListenerReply::pieces("text/event-stream", pieces)
}

fn ask() -> Value {
    json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "Hi" }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_gives_its_place_back_and_its_turn_goes_on_without_it() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = Listener::start(|_| endless()).await.unwrap();
    let config = folder.path().join("turnwright.toml");
    let text = "[server]\nclient_stall_s = 1\nwrite_stall_s = 1\n[rate.key]\nstreams_max = 1\n";
    std::fs::write(&config, text).unwrap();
    let mut command = serve(&data, &upstream);
    command.arg("--config").arg(&config);
    let server = ServerProcess::start(command, &data);
    let client = TestClient {
        key: Some(key_of(&create_key(&data, &[]))),
        ..server.client.clone()
    };
    let open = |body: Value| {
        let client = client.clone();
        async move {
            let path = "/v1/chat/completions";
            client
                .open("POST", path, &[], body.to_string())
                .await
                .unwrap()
        }
    };
    let stopped = open(ask()).await;
    assert_eq!(stopped.status, 200);
    let turn = stopped.header("turnwright-turn").to_owned();
    // Only the end of its connection makes room for another stream.
    poll_until("room for a stream", async || {
        (open(ask()).await.status != 429).then_some(())
    })
    .await;
    let path = format!("/v1/turns/{turn}");
    let status = poll_until("a turn that has ended", async || {
        let got = client.send("GET", &path, &[], "").await.unwrap().json();
        (got["status"] != "running").then(|| got["status"].clone())
    })
    .await;
    assert_eq!(status, "cancelled");
    // What was taken from the upstream for a client that takes nothing; the kernel alone would hold megabytes.
    let path = format!("/v1/turns/{turn}/events?format=chat");
    let shown = client.send("GET", &path, &[], "").await.unwrap();
    assert_eq!(shown.status, 200);
    let taken = shown.text().len();
    assert!(taken > 0);
    assert!(
        taken < TAKEN_BYTES_MAX || !cfg!(target_os = "linux"),
        "{taken} bytes"
    );
}
