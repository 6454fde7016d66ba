//! `turnwright backup`, and what comes back from one.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::process::{
    ServerProcess, break_table, create_key, key_of, names, serve, stderr, turnwright,
};

const PLAIN: &str = "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\
                     \"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}";

fn back_up(data: &Path, file: &Path) -> Output {
    let mut command = turnwright();
    command.arg("backup").arg("--data").arg(data).arg(file);
    command.output().unwrap()
}

async fn chat(client: &TestClient) -> String {
    let request = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    let got = client.chat(&request).await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    got.header("turnwright-turn").to_owned()
}

async fn answers() -> Listener {
    Listener::start(|_| ListenerReply::json(PLAIN))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_holds_every_turn_that_was_answered_before_it_began() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = answers().await;
    let server = ServerProcess::start(serve(&data, &upstream), &data);
    let client = TestClient {
        key: Some(key_of(&create_key(&data, &[]))),
        ..server.client.clone()
    };
    let mut turns = Vec::new();
    for _ in 0..20 {
        turns.push(chat(&client).await);
    }
    let on = Arc::new(AtomicBool::new(true));
    let load = {
        let (on, client) = (Arc::clone(&on), client.clone());
        tokio::spawn(async move {
            let mut turns = 0;
            while on.load(Ordering::Relaxed) {
                chat(&client).await;
                turns += 1;
            }
            turns
        })
    };
    let file = folder.path().join("copy.db");
    let (from, to) = (data.clone(), file.clone());
    let made = tokio::task::spawn_blocking(move || back_up(&from, &to));
    let made = made.await.unwrap();
    on.store(false, Ordering::Relaxed);
    assert!(load.await.unwrap() > 0);
    assert!(made.status.success(), "{}", stderr(&made));
    let said = String::from_utf8(made.stdout).unwrap();
    let found = std::fs::metadata(&file).unwrap();
    assert_eq!(
        said,
        format!("{}: {} bytes, checked\n", file.display(), found.len())
    );
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    drop(server);

    let restored = folder.path().join("restored");
    std::fs::create_dir(&restored).unwrap();
    std::fs::copy(&file, restored.join("turnwright.db")).unwrap();
    let server = ServerProcess::start(serve(&restored, &upstream), &restored);
    let client = TestClient {
        key: client.key,
        ..server.client.clone()
    };
    for turn in &turns {
        let path = format!("/v1/turns/{turn}");
        let got = client.send("GET", &path, &[], "").await.unwrap().json();
        assert_eq!(got["status"], "completed", "{got}");
        assert_eq!(
            got["rounds"][0]["messages"][0]["blocks"][0]["text"],
            "Hello"
        );
    }
    chat(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_overwritten_and_nothing_half_made_is_left() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    key_of(&create_key(&data, &[]));
    let copies = folder.path().join("copies");
    std::fs::create_dir(&copies).unwrap();
    let file = copies.join("copy.db");
    // Also while no server runs.
    let made = back_up(&data, &file);
    assert!(made.status.success(), "{}", stderr(&made));
    let before = std::fs::read(&file).unwrap();
    let refused = back_up(&data, &file);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("exists"), "{}", stderr(&refused));
    assert_eq!(std::fs::read(&file).unwrap(), before);
    let none = back_up(&folder.path().join("nowhere"), &copies.join("b.db"));
    assert_eq!(none.status.code(), Some(1));
    assert!(stderr(&none).contains("no database"), "{}", stderr(&none));
    break_table(&data.join("turnwright.db"), "api_key");
    let broken = back_up(&data, &copies.join("broken.db"));
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    assert_eq!(std::fs::read_dir(&copies).unwrap().count(), 1);
}

#[test]
fn what_is_no_database_of_ours_is_not_backed_up() {
    for (case, statements, says) in [
        ("empty", "", "holds nothing of this program"),
        ("foreign", "CREATE TABLE note (x)", "not of this program"),
        (
            "foreign with a table of that name",
            "CREATE TABLE migration (x)",
            "schema's history",
        ),
        (
            "newer",
            "CREATE TABLE migration (number, name, checksum);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
             INSERT INTO migration SELECT i, 'x', x'' FROM n",
            "use a newer program",
        ),
    ] {
        let folder = TempDir::new().unwrap();
        let database = folder.path().join("turnwright.db");
        std::fs::write(&database, "").unwrap();
        let conn = rusqlite::Connection::open(&database).unwrap();
        conn.execute_batch(statements).unwrap();
        drop(conn);
        let before = std::fs::read(&database).unwrap();
        let refused = back_up(folder.path(), &folder.path().join("copy.db"));
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{case}: {said}");
        assert!(said.contains(says), "{case}: {said}");
        assert_eq!(names(folder.path()), ["turnwright.db"], "{case}");
        assert_eq!(std::fs::read(&database).unwrap(), before, "{case}");
    }
    let folder = TempDir::new().unwrap();
    std::fs::write(
        folder.path().join("turnwright.db"),
        "a letter, not a database",
    )
    .unwrap();
    let refused = back_up(folder.path(), &folder.path().join("copy.db"));
    assert!(stderr(&refused).contains("not a database"), "{refused:?}");
    assert_eq!(names(folder.path()), ["turnwright.db"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_sigterm_the_file_alone_is_the_whole_database() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = answers().await;
    let mut server = ServerProcess::start(serve(&data, &upstream), &data);
    let client = TestClient {
        key: Some(key_of(&create_key(&data, &[]))),
        ..server.client.clone()
    };
    let turn = chat(&client).await;
    server.terminate();
    assert_eq!(server.end(), (Some(0), String::new()), "{}", server.log());
    let alone = folder.path().join("alone");
    std::fs::create_dir(&alone).unwrap();
    std::fs::copy(data.join("turnwright.db"), alone.join("turnwright.db")).unwrap();
    assert!(!names(&data).iter().any(|name| name.ends_with("-wal")));
    let server = ServerProcess::start(serve(&alone, &upstream), &alone);
    let client = TestClient {
        key: client.key,
        ..server.client.clone()
    };
    let path = format!("/v1/turns/{turn}");
    let got = client.send("GET", &path, &[], "").await.unwrap().json();
    assert_eq!(got["status"], "completed", "{got}");
}

#[test]
fn a_backup_leaves_the_folder_as_it_found_it() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    key_of(&create_key(&data, &[]));
    let before = names(&data);
    let made = back_up(&data, &folder.path().join("copy.db"));
    assert!(made.status.success(), "{}", stderr(&made));
    assert_eq!(names(&data), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_backup_left_is_removed_by_the_next_one() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    create_key(&data, &[]);
    let left = folder.path().join(".turnwright-unfinished-left");
    let held = folder.path().join(".turnwright-unfinished-held");
    std::fs::write(&left, "half").unwrap();
    // As a backup that is being made.
    let maker = std::fs::File::create(&held).unwrap();
    maker.lock().unwrap();
    let made = back_up(&data, &folder.path().join("copy.db"));
    assert!(made.status.success(), "{}", stderr(&made));
    assert_eq!(
        names(folder.path()),
        [".turnwright-unfinished-held", "copy.db", "data"]
    );
}
