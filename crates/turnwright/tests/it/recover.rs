//! Starts on what a killed server left.

use std::path::Path;

use rusqlite::OptionalExtension;
use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;

use crate::process::{ServerProcess, create_key, key_of, serve};

const PLAIN: &str = "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\
                     \"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}";

/// A turn that waits for its upstream when its server is killed.
async fn left(data: &Path, upstream: &Listener) -> (String, String) {
    let mut server = ServerProcess::start(serve(data, upstream), data);
    let client = TestClient {
        key: Some(key_of(&create_key(data, &[]))),
        ..server.client.clone()
    };
    let ask = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    let asking = {
        let client = client.clone();
        tokio::spawn(async move { client.chat(&ask).await.map(drop) })
    };
    upstream.asked_times(1).await;
    // The model may be asked before the turn is on the disk.
    let database = rusqlite::Connection::open(data.join("turnwright.db")).unwrap();
    let find = || database.query_row("SELECT id FROM turn", [], |row| row.get(0));
    let turn = poll_until("the turn's row", async || find().optional().unwrap()).await;
    server.kill();
    asking.await.unwrap().unwrap_err();
    (turn, client.key.unwrap())
}

async fn ended(client: &TestClient, turn: &str) -> Value {
    let path = format!("/v1/turns/{turn}");
    poll_until("a turn that has ended", async || {
        let record = client.send("GET", &path, &[], "").await.unwrap().json();
        (record["status"] != "running").then_some(record)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_ends_each_process_that_takes_it_over_keeps_no_server_from_listening() {
    // Starts that die over the turn, and what becomes of it at the next one.
    for (deaths, status) in [(2, "completed"), (3, "failed")] {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let waits = ListenerReply::pieces("application/json", vec![ReplyPiece::Gate("never")]);
        let upstream = Listener::in_turn(vec![waits, ListenerReply::json(PLAIN)])
            .await
            .unwrap();
        let (turn, key) = left(&data, &upstream).await;
        for _ in 0..deaths {
            let mut command = serve(&data, &upstream);
            command.env("TURNWRIGHT_FAIL_POINT", "claimed");
            // That it says where it listens comes before the turn is loaded, which it never is.
            let mut server = ServerProcess::start(command, &data);
            assert_eq!(server.end(), (None, String::new()));
        }
        let server = ServerProcess::start(serve(&data, &upstream), &data);
        let client = TestClient {
            key: Some(key),
            ..server.client.clone()
        };
        let record = ended(&client, &turn).await;
        assert_eq!(record["status"], status, "{deaths}: {record}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_each_process_is_ended_over_ends_its_turn_with_a_line_in_the_log() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let waits = || ListenerReply::pieces("application/json", vec![ReplyPiece::Gate("never")]);
    let upstream = Listener::in_turn(vec![waits(), waits(), waits()]).await;
    let upstream = upstream.unwrap();
    let (turn, key) = left(&data, &upstream).await;
    for asked in [2, 3] {
        let mut server = ServerProcess::start(serve(&data, &upstream), &data);
        upstream.asked_times(asked).await;
        server.kill();
    }
    let mut server = ServerProcess::start(serve(&data, &upstream), &data);
    let client = TestClient {
        key: Some(key),
        ..server.client.clone()
    };
    let record = ended(&client, &turn).await;
    let how = (&record["status"], &record["reason"]);
    assert_eq!(how, (&json!("failed"), &json!("internal")), "{record}");
    server.terminate();
    assert_eq!(server.end().0, Some(0));
    let log = server.log();
    let told = |line: &str| line.contains("ERROR") && line.contains(&turn);
    assert!(log.lines().any(told), "{log}");
}
