//! `turnwright keys create`

use serde_json::json;
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_testkit::polling::poll_until;

use crate::process::{ServerProcess, create_key, key_of, serve, stderr};

const ANSWER: &str = r#"{"id":"u","object":"chat.completion","created":1,"model":"m",
    "choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}"#;

async fn hello() -> Listener {
    Listener::in_turn(vec![ListenerReply::json(ANSWER)])
        .await
        .unwrap()
}

fn with(server: &ServerProcess, key: &str) -> TestClient {
    TestClient {
        key: Some(key.to_owned()),
        ..server.client.clone()
    }
}

fn ask() -> serde_json::Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] })
}

#[test]
fn only_the_key_is_printed() {
    let folder = TempDir::new().unwrap();
    let made = create_key(&folder.path().join("data"), &[]);
    let key = key_of(&made);
    assert_eq!(made.stdout, format!("{key}\n").into_bytes());
    let data = folder.path().join("data");
    let told = format!("made a new database in {}\n", data.display());
    assert_eq!(stderr(&made), told);
    let digits = key.strip_prefix("tw-").unwrap();
    assert_eq!(digits.len(), 64);
    assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let another = create_key(&data, &[]);
    assert_eq!(stderr(&another), "");
    assert_ne!(key_of(&another), key);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_made_while_the_server_runs_works_at_once() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = hello().await;
    let server = ServerProcess::start(serve(&data, &upstream), &data);
    let wrong = "tw-canary-4711";
    let refused = with(&server, wrong).chat(&ask()).await.unwrap();
    assert_eq!(refused.status, 401);
    // What the clients of OpenAI look for.
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "invalid_api_key");
    assert_eq!(error["type"], "invalid_request_error");
    let told = error["message"].as_str().unwrap();
    assert!(told.starts_with("Incorrect API key provided. "), "{told}");
    assert!(!refused.text().contains(wrong));
    let client = with(&server, &key_of(&create_key(&data, &[])));
    let got = client.chat(&ask()).await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    let path = format!("/v1/turns/{}", got.header("turnwright-turn"));
    let turn = client.send("GET", &path, &[], "").await.unwrap();
    assert_eq!(turn.json()["status"], "completed");
    // A plain key is a plain relay.
    assert!(upstream.asked()[0].json().get("tools").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_say_what_a_key_may_do() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = hello().await;
    let server = ServerProcess::start(serve(&data, &upstream), &data);
    let status = async |flags: &[&str]| {
        let key = key_of(&create_key(&data, flags));
        let got = with(&server, &key).chat(&ask()).await.unwrap();
        (got.status, got.json()["error"]["code"].clone())
    };
    assert_eq!(
        status(&["--scope", "turns:read"]).await,
        (403, json!("insufficient_scope"))
    );
    assert_eq!(status(&["--expires-days", "1"]).await.0, 200);
    assert_eq!(status(&["--tools", "time_now,calculate"]).await.0, 200);
    assert_eq!(status(&["--tools", "time_now"]).await.0, 200);
    assert_eq!(status(&["--tools", "all"]).await.0, 200);
    let offered: Vec<usize> = upstream
        .asked()
        .iter()
        .map(|asked| asked.json()["tools"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(offered, [0, 2, 1, 2]);
}

#[test]
fn what_cannot_be_is_refused_by_name_and_makes_nothing() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    for (flags, named) in [
        (["--scope", "turns:write"], "turns:write"),
        (["--scope", ""], "--scope"),
        (["--organization", "Ärzte"], "Ärzte"),
        (["--organization", "collections"], "collections"),
        (["--organization", ""], "--organization"),
        (["--expires-days", "soon"], "--expires-days"),
        (["--expires-days", "-1"], "-1"),
        (["--expires-days", "0"], "--expires-days"),
        (["--record", "some"], "--record"),
        (["--memory", "all"], "--memory"),
        (["--tolls", "all"], "--tolls"),
        (["--tools", "all,time_now"], "all"),
        (["--tools", "time_now,"], "--tools"),
        (["--tools", "a b"], "a b"),
        (["--tools", "tim_now"], "did you mean time_now?"),
        (["--tools", "Calculate"], "did you mean calculate?"),
        (["--tools", "All"], "did you mean all?"),
        (["--tools", "calculate,send_sms"], "'turnwright tools list'"),
    ] {
        let refused = create_key(&data, &flags);
        assert!(!refused.status.success(), "{flags:?}");
        assert!(refused.stdout.is_empty(), "{flags:?}");
        assert!(stderr(&refused).contains(named), "{}", stderr(&refused));
        assert!(!data.exists(), "{flags:?}");
    }
    // What is only refused because it is not there yet can be had.
    let later = create_key(&data, &["--tools", "tim_now", "--allow-unknown-tools"]);
    assert!(key_of(&later).starts_with("tw-"));
    // A refused scope names the known ones.
    let refused = stderr(&create_key(&data, &["--scope", "all"]));
    assert!(refused.contains("turns:read"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_held_to_the_limits_it_was_made_with() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = hello().await;
    let server = ServerProcess::start(serve(&data, &upstream), &data);
    let flags = [
        "--requests-per-minute",
        "1",
        "--concurrency",
        "2",
        "--streams",
        "3",
    ];
    let client = with(&server, &key_of(&create_key(&data, &flags)));
    let got = client.chat(&ask()).await.unwrap();
    assert_eq!(
        got.header("x-ratelimit-limit-requests"),
        "1",
        "{}",
        got.text()
    );
    assert_eq!(client.chat(&ask()).await.unwrap().status, 429);
    let free = with(&server, &key_of(&create_key(&data, &[])));
    let got = free.chat(&ask()).await.unwrap();
    assert_eq!(
        (got.status, got.header("x-ratelimit-limit-requests")),
        (200, "")
    );
}

/// The keys' part of `turnwright keys` with these words.
fn keys(data: &std::path::Path, words: &[&str]) -> std::process::Output {
    let mut command = crate::process::turnwright();
    command.arg("keys").args(words).arg("--data").arg(data);
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed_and_ended() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let nothing = keys(&data, &["list"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(stderr(&nothing).contains("there is no database in"));
    assert!(!data.exists());
    let upstream = hello().await;
    let server = ServerProcess::start(serve(&data, &upstream), &data);
    let stays = key_of(&create_key(&data, &["--name", "stays"]));
    let ends = key_of(&create_key(
        &data,
        &[
            "--name",
            "ends\u{1b}[31m",
            "--organization",
            "acme",
            "--scope",
            "chat",
            "--tools",
            "time_now,calculate",
            "--requests-per-minute",
            "0",
            "--streams",
            "9",
        ],
    ));
    let ends_soon = key_of(&create_key(
        &data,
        &["--name", "soon", "--expires-days", "1", "--tools", "all"],
    ));
    assert_eq!(with(&server, &ends).chat(&ask()).await.unwrap().status, 200);

    let listed = keys(&data, &["list"]);
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 4, "{listed}");
    for (line, words) in [
        (
            lines[0],
            &[
                "KEY",
                "ORGANIZATION",
                "TOOLS",
                "LIMITS",
                "LAST USED",
                "ENDS",
            ][..],
        ),
        (
            lines[1],
            &[
                &stays[..8],
                "default",
                "stays",
                "chat,turns:read,tools:read",
                "none",
                "-",
                "never",
            ],
        ),
        (
            lines[2],
            &[
                &ends[..8],
                "acme",
                "ends\u{fffd}[31m",
                "chat",
                "time_now,calculate",
                "requests-per-minute=0,streams=9",
                "Z",
            ],
        ),
        (lines[3], &[&ends_soon[..8], "soon", "all", "Z"]),
    ] {
        for word in words {
            assert!(line.contains(word), "{word}: {line}");
        }
    }
    assert!(
        !listed.contains(&stays) && !listed.contains('\u{1b}'),
        "{listed}"
    );

    let ended = keys(&data, &["revoke", &ends[..8]]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(
        said.starts_with(&format!("ended: {} of acme", &ends[..8])),
        "{said}"
    );
    // It was looked up a moment ago.
    let refused = poll_until("a refusal of the key", async || {
        let got = with(&server, &ends).chat(&ask()).await.unwrap();
        (got.status != 200).then_some(got)
    })
    .await;
    assert_eq!(refused.status, 401);
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "expired_api_key");
    let told = error["message"].as_str().unwrap();
    assert!(
        told.starts_with("Incorrect API key provided: it has expired"),
        "{told}"
    );
    assert_eq!(
        with(&server, &stays).chat(&ask()).await.unwrap().status,
        200
    );
    for (given, says) in [
        (&*ends, "the key has ended already"),
        (&ends[..8], "the key has ended already"),
        ("tw-nobody", "no key begins with that"),
        ("", "no key begins with that"),
    ] {
        let refused = keys(&data, &["revoke", given]);
        assert_eq!(refused.status.code(), Some(1), "{given}");
        assert!(
            stderr(&refused).contains(says),
            "{given}: {}",
            stderr(&refused)
        );
    }
    let whole = keys(&data, &["revoke", &ends_soon]);
    assert_eq!(whole.status.code(), Some(0), "{}", stderr(&whole));
}
