//! The record on a PostgreSQL server.

use std::path::Path;
use std::process::{Command, Output};

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

fn copy(from: &str, to: &str) -> Output {
    let mut command = turnwright();
    command.args(["copy", "--from", from, "--to", to]);
    command.output().unwrap()
}

/// A record goes to a server and back into a folder, and a server goes on where it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_copied_record_is_served_where_it_is() {
    let Some(schema) = PostgresSchema::create().await else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let back = folder.path().join("back");
    let (from, to) = (data.to_str().unwrap(), back.to_str().unwrap());
    let upstream = Listener::start(|_| ListenerReply::json(PLAIN)).await;
    let upstream = upstream.unwrap();
    let key = key_of(&create_key(&data, &[]));
    let mut server = ServerProcess::start(serve(&data, &upstream), &data);
    let turn = said(&server, &key).await;
    let refused = copy(from, &schema.url);
    assert!(
        stderr(&refused).contains("a server runs on the folder"),
        "{}",
        stderr(&refused)
    );
    server.kill();
    for (from, to) in [(from, &*schema.url), (&*schema.url, to)] {
        let done = copy(from, to);
        assert!(done.status.success(), "{}", stderr(&done));
        let told = String::from_utf8(done.stdout).unwrap();
        let line = told.lines().find(|line| line.starts_with("turn_start "));
        assert_eq!(line.unwrap().split_whitespace().nth(1), Some("1"), "{told}");
        assert!(told.contains("rows copied and checked"), "{told}");
    }
    for (from, to, said) in [
        (from, &*schema.url, "the target is not empty"),
        (from, to, "exists, and nothing is overwritten"),
        ("nowhere", to, "there is no database in nowhere"),
        ("mysql://a/b", to, "a database is a folder, or a URL"),
    ] {
        let refused = copy(from, to);
        assert!(!refused.status.success());
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
    let elsewhere = folder.path().join("elsewhere");
    for command in [
        serve(&back, &upstream),
        serve_on(&schema, &elsewhere, &upstream),
    ] {
        let server = ServerProcess::start(command, &elsewhere);
        let client = TestClient {
            key: Some(key.clone()),
            ..server.client.clone()
        };
        let record = ended(&client, &turn).await;
        assert_eq!(record["status"], "completed", "{record}");
        said(&server, &key).await;
    }
}

/// The id of a turn that was answered.
async fn said(server: &ServerProcess, key: &str) -> String {
    let client = TestClient {
        key: Some(key.to_owned()),
        ..server.client.clone()
    };
    let ask = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    let got = client.chat(&ask).await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    got.header("turnwright-turn").to_owned()
}
