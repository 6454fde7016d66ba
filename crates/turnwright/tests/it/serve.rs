//! `turnwright serve`

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use crate::process::{
    HEARS_HANG_UP, SECRET, ServerProcess, create_key, key_of, run_by, serve, stderr, turnwright,
};

const BEGIN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\
                   \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A stream that waits in its middle.
fn halting() -> ListenerReply {
    let pieces = vec![
        ReplyPiece::Bytes(BEGIN.into()),
        ReplyPiece::Gate("go"),
        ReplyPiece::Bytes(END.into()),
    ];
    ListenerReply::pieces("text/event-stream", pieces)
}

async fn whole() -> Listener {
    let body = format!("{BEGIN}{END}");
    Listener::in_turn(vec![ListenerReply::sse(body)])
        .await
        .unwrap()
}

fn ask_streamed() -> Value {
    json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "Hi" }] })
}

fn with_key(server: &ServerProcess, data: &Path) -> TestClient {
    TestClient {
        key: Some(key_of(&create_key(data, &[]))),
        ..server.client.clone()
    }
}

async fn get(client: &TestClient, path: &str) -> ReadAnswer {
    client.send("GET", path, &[], "").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_folder_refuses() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = whole().await;
    let first = ServerProcess::start(serve(&data, &upstream), &data);
    let second = serve(&data, &upstream).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(second.stdout.is_empty());
    let said = stderr(&second);
    assert!(said.contains("another server runs on the folder"), "{said}");
    assert!(said.contains(data.to_str().unwrap()), "{said}");
    assert_eq!(get(&first.client, "/readyz").await.status, 200);
    drop(first);
    let third = ServerProcess::start(serve(&data, &upstream), &data);
    assert_eq!(get(&third.client, "/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_an_idle_server_with_zero() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = whole().await;
    let mut server = ServerProcess::start(serve(&data, &upstream), &data);
    assert_eq!(get(&server.client, "/healthz").await.status, 200);
    server.terminate();
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_beyond_what_is_held_in_memory_is_refused() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = whole().await;
    let server = ServerProcess::start(serve(&data, &upstream), &data);
    let with_head = async |bytes: usize| {
        let long = "x".repeat(bytes);
        let headers = [("x-long", long.as_str())];
        server.client.send("GET", "/healthz", &headers, "").await
    };
    assert_eq!(with_head(14_000).await.unwrap().status, 200);
    // The connection may break before the answer is read, since the rest of the head is not.
    if let Ok(refused) = with_head(300_000).await {
        assert_eq!(refused.status, 431);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_refuses_new_turns_and_lets_running_ones_end() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = Listener::in_turn(vec![halting()]).await.unwrap();
    let mut server = ServerProcess::start(serve(&data, &upstream), &data);
    let client = with_key(&server, &data);
    let body = ask_streamed().to_string();
    let mut open = client
        .open("POST", "/v1/chat/completions", &[], body)
        .await
        .unwrap();
    let mut text = open.until("Hel").await;
    server.terminate();
    while get(&client, "/readyz").await.status == 200 {}
    let refused = client.chat(&ask_streamed()).await.unwrap();
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), "1");
    upstream.open("go");
    text.push_str(&open.until("[DONE]").await);
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    drop(open);
    let ended = tokio::task::spawn_blocking(move || server.end());
    assert_eq!(ended.await.unwrap(), (Some(0), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_survives_the_end_of_the_process() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = whole().await;
    let mut server = ServerProcess::start(serve(&data, &upstream), &data);
    let client = with_key(&server, &data);
    let got = client.chat(&ask_streamed()).await.unwrap();
    assert_eq!(got.streamed_text(), "Hello");
    server.kill();
    let server = ServerProcess::start(serve(&data, &upstream), &data);
    let client = TestClient {
        key: client.key,
        ..server.client.clone()
    };
    let path = format!("/v1/turns/{}", got.header("turnwright-turn"));
    let turn = get(&client, &path).await.json();
    assert_eq!(turn["status"], "completed");
    assert_eq!(
        turn["rounds"][0]["messages"][0]["blocks"][0]["text"],
        "Hello"
    );
}

#[test]
fn without_an_upstream_it_says_what_to_do() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let mut command = turnwright();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]);
    let refused = command.arg(&data).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    for word in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "[[upstream]]"] {
        assert!(said.contains(word), "{said}");
    }
    assert!(!data.exists());
}

#[test]
fn a_config_file_that_is_wrong_is_refused_by_the_keys_name() {
    let folder = TempDir::new().unwrap();
    for (text, named) in [
        ("[server]\nlisten_on = \"127.0.0.1:0\"\n", "listen_on"),
        ("[limits]\nrounds = 3\n", "rounds"),
        ("[limits]\nrounds_max = \"three\"\n", "rounds_max"),
        ("colour = \"red\"\n", "colour"),
        (
            "[[upstream]]\nname = \"u\"\nkind = \"openai\"\nkey = \"k\"\n",
            "key",
        ),
    ] {
        let mut file = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let mut command = turnwright();
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]);
        command.arg(file.path()).current_dir(folder.path());
        let refused = command.output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{text}");
        let said = stderr(&refused);
        assert!(said.contains(named), "{text}: {said}");
        assert!(said.contains(file.path().to_str().unwrap()), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_read_strictly() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = whole().await;
    for (name, value, told) in [
        ("ENABLE_TOOLS", "maybe", "ENABLE_TOOLS"),
        // People write keys into addresses, so it is not told.
        (
            "OPENAI_BASE_URL",
            "localhost:1/v1",
            "the variable OPENAI_BASE_URL is no address",
        ),
        (
            "OPENAI_BASE_URL",
            "ftp://canary-4711",
            "the variable OPENAI_BASE_URL must begin with http",
        ),
        (
            "OPENAI_API_KEY",
            "sk-canary-4711…",
            "the variable OPENAI_API_KEY holds '…'",
        ),
        (
            "TURNWRIGHT_SECRET_TICKETS",
            "canary-4711…",
            "the variable TURNWRIGHT_SECRET_TICKETS holds '…'",
        ),
        ("TURNWRIGHT_FAIL_POINT", "no_such_point", "no fail point"),
    ] {
        let refused = serve(&data, &upstream).env(name, value).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{name}");
        assert!(stderr(&refused).contains(told), "{}", stderr(&refused));
        assert!(!stderr(&refused).contains(SECRET));
        assert!(!stderr(&refused).contains("canary"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tools_disabled_a_key_with_all_tools_is_offered_none() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = whole().await;
    let mut command = serve(&data, &upstream);
    command.env("ENABLE_TOOLS", "false");
    let server = ServerProcess::start(command, &data);
    let client = TestClient {
        key: Some(key_of(&create_key(&data, &["--tools", "all"]))),
        ..server.client.clone()
    };
    let got = client.chat(&ask_streamed()).await.unwrap();
    assert_eq!(got.streamed_text(), "Hello");
    assert!(upstream.asked()[0].json().get("tools").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_key_is_in_the_loudest_log() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = whole().await;
    let mut command = serve(&data, &upstream);
    command.env("RUST_LOG", "trace");
    let mut server = ServerProcess::start(command, &data);
    let client = with_key(&server, &data);
    client.chat(&ask_streamed()).await.unwrap();
    let asked = upstream.asked();
    assert_eq!(asked[0].header("authorization"), format!("Bearer {SECRET}"));
    server.terminate();
    assert_eq!(server.end(), (Some(0), String::new()));
    let log = server.log();
    assert!(log.contains("/v1/chat/completions"), "{log}");
    assert!(!log.contains(SECRET));
    assert!(!log.contains(client.key.as_deref().unwrap()));
}

/// Whoever is on call reads it without a tool, and what people said is not in it.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_of_the_start_the_end_and_upstreams_that_fail() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let said = r#"{"error":{"message":"a secret word","type":"t"}}"#;
    let replies = vec![
        ListenerReply::status(401, said),
        ListenerReply::status(400, said),
    ];
    let upstream = Listener::in_turn(replies).await.unwrap();
    let mut server = ServerProcess::start(serve(&data, &upstream), &data);
    let client = with_key(&server, &data);
    for status in [502, 400] {
        let got = client.chat(&ask_streamed()).await.unwrap();
        assert_eq!(got.status, status, "{}", got.text());
    }
    server.terminate();
    assert_eq!(server.end(), (Some(0), String::new()));
    let log = server.log();
    let lines_with = |words: &[&str]| {
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        log.lines().filter(has_all).count()
    };
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    let failed = "a model request failed";
    // As `keys list` shows it.
    let key = format!("key=\"{}\"", &client.key.as_deref().unwrap()[..8]);
    for words in [
        &["INFO", "starting", &version, "upstreams=\"openai\""][..],
        &["WARN", failed, "upstream=\"openai\"", "http_status=401"],
        &["INFO", failed, "upstream=\"openai\"", "http_status=400"],
        &["INFO", "a new database was made"],
        &[
            "INFO",
            "a turn ended",
            "organization=\"default\"",
            &key,
            "upstream=\"openai\"",
            "status=\"failed\" reason=\"upstream\"",
            "attempts=1",
        ],
        &["INFO", "stopping"],
        &["INFO", "stopped"],
    ] {
        let expected = if words.contains(&"a turn ended") {
            2
        } else {
            1
        };
        assert_eq!(lines_with(words), expected, "{words:?}: {log}");
    }
    assert!(!log.contains("secret word"), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_gone_is_told_of_and_a_terminal_that_goes_away_drains() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = Listener::in_turn(Vec::new()).await.unwrap();
    let command = run_by(&HEARS_HANG_UP, &serve(&data, &upstream));
    let mut server = ServerProcess::start(command, &data);
    server.hang_up();
    assert_eq!(server.end(), (Some(0), String::new()));
    assert!(server.log().contains("stopped"), "{}", server.log());
    std::fs::remove_file(data.join("turnwright.db")).unwrap();
    let config = folder.path().join("turnwright.toml");
    std::fs::write(&config, "[log]\nturns = false\n").unwrap();
    let mut command = serve(&data, &upstream);
    command.arg("--config").arg(&config);
    let mut server = ServerProcess::start(command, &data);
    server.terminate();
    assert_eq!(server.end().0, Some(0));
    let log = server.log();
    let told = |line: &str| line.contains("WARN") && line.contains("the database is gone");
    assert!(log.lines().any(told), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn under_nohup_a_terminal_that_goes_away_ends_nothing() {
    let folder = TempDir::new().unwrap();
    let upstream = Listener::in_turn(Vec::new()).await.unwrap();
    for (nohup, is_caught) in [(false, true), (true, false)] {
        let data = folder.path().join(format!("data-{nohup}"));
        let plain = serve(&data, &upstream);
        let mut command = if nohup {
            run_by(&["nohup"], &plain)
        } else {
            run_by(&HEARS_HANG_UP, &plain)
        };
        command.stdin(Stdio::null());
        let mut server = ServerProcess::start(command, &data);
        assert_eq!(server.catches_hang_up(), is_caught, "nohup: {nohup}");
        server.terminate();
        assert_eq!(server.end().0, Some(0));
    }
}
