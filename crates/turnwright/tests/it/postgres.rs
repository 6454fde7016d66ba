//! The record on a PostgreSQL server.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;
use tw_testkit::postgres::PostgresSchema;

use crate::process::{ServerProcess, create_key, key_of, serve, stderr, turnwright};

const CALL: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":
    [{"id":"call_1","type":"function","function":{"name":"calculate","arguments":"{\"expression\":\"6*7\"}"}}]},
    "finish_reason":"tool_calls"}]}"#;
const PLAIN: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"42"},"finish_reason":"stop"}]}"#;

fn serve_on(schema: &PostgresSchema, data: &Path, upstream: &Listener) -> Command {
    let mut command = serve(data, upstream);
    command.args(["--store", &schema.url]);
    command
}

/// A tool loop whose server is killed between its rounds goes on at the next start, and nothing of it stands in the
/// folder.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_loop_survives_a_kill() {
    let Some(schema) = PostgresSchema::create().await else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let waits = ListenerReply::pieces("application/json", vec![ReplyPiece::Gate("never")]);
    let replies = vec![ListenerReply::json(CALL), waits, ListenerReply::json(PLAIN)];
    let upstream = Listener::in_turn(replies).await.unwrap();
    let mut server = ServerProcess::start(serve_on(&schema, &data, &upstream), &data);
    let made = create_key(&data, &["--tools", "all", "--store", &schema.url]);
    let key = key_of(&made);
    let client = TestClient {
        key: Some(key.clone()),
        ..server.client.clone()
    };
    let ready = client.send("GET", "/readyz", &[], "").await.unwrap();
    assert_eq!(ready.status, 200);
    let ask = json!({ "model": "m", "messages": [{ "role": "user", "content": "6 times 7?" }] });
    let asking = {
        let client = client.clone();
        tokio::spawn(async move { client.chat(&ask).await.map(drop) })
    };
    upstream.asked_times(2).await;
    let database = schema.client().await;
    let rows = database.query("SELECT id FROM turn", &[]).await.unwrap();
    let turn: String = rows[0].get(0);
    server.kill();
    asking.await.unwrap().unwrap_err();

    let server = ServerProcess::start(serve_on(&schema, &data, &upstream), &data);
    let client = TestClient {
        key: Some(key),
        ..server.client.clone()
    };
    let record = ended(&client, &turn).await;
    assert_eq!(record["status"], "completed", "{record}");
    let call = &record["rounds"][0]["calls"][0];
    assert_eq!(call["status"], "completed", "{record}");
    assert!(!data.join("turnwright.db").exists());
    check_commands(&schema, &data);
}

async fn ended(client: &TestClient, turn: &str) -> Value {
    let path = format!("/v1/turns/{turn}");
    poll_until("a turn that has ended", async || {
        let record = client.send("GET", &path, &[], "").await.unwrap().json();
        (record["status"] != "running").then_some(record)
    })
    .await
}

/// The operator's commands find the same database.
fn check_commands(schema: &PostgresSchema, data: &Path) {
    let run = |words: &[&str]| {
        let mut command = turnwright();
        command.args(words).arg("--data").arg(data);
        command.env("DATABASE_URL", &schema.url).output().unwrap()
    };
    let listed = run(&["keys", "list"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("default"));
    let doctor = run(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    for line in ["ok   schema: 1", "ok   turns: 0 running", "ok   tools: 0"] {
        assert!(said.contains(line), "{said}");
    }
    let backup = run(&["backup", "copy.db"]);
    assert!(!backup.status.success());
    assert!(stderr(&backup).contains("pg_dump"), "{}", stderr(&backup));
}
