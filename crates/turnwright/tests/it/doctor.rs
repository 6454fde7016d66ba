//! `turnwright doctor`: a line for each check, and a failure for each thing that is wrong.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::process::{ServerProcess, break_table, create_key, names, serve, stderr, turnwright};

const SECRET: &str = "the-value-of-a-secret";
const TOOL: &str = r#"[{"name":"status","description":"Reads.","type":"api_request",
  "url":"https://status.example.com/","headers":{"authorization":{"secret":"STATUS_KEY"}}}]"#;

/// A folder with a database, and a configuration that fits.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            folder: TempDir::new().unwrap(),
        };
        place.configure(&format!(
            "[[upstream]]\nname = \"local\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
             [secrets.STATUS_KEY]\nvalue = \"{SECRET}\"\nhosts = [\"status.example.com\"]\n"
        ));
        assert!(create_key(&place.data(), &[]).status.success());
        place
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("turnwright.toml")
    }

    fn configure(&self, text: &str) {
        std::fs::write(self.config(), text).unwrap();
    }

    fn database(&self) -> Connection {
        Connection::open(self.data().join("turnwright.db")).unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = turnwright();
        command.args(words).arg("--data").arg(self.data());
        command.arg("--config").arg(self.config());
        command
    }

    fn doctor(&self, flags: &[&str]) -> Output {
        self.command(&["doctor"]).args(flags).output().unwrap()
    }

    /// Runs the doctor, who must find one thing wrong and say so in a line of `what`.
    fn finds(&self, what: &str, says: &str) {
        let output = self.doctor(&[]);
        assert_eq!(output.status.code(), Some(1), "{}", lines(&output));
        let lines = lines(&output);
        let fails: Vec<&str> = lines
            .lines()
            .filter(|line| line.starts_with("fail "))
            .collect();
        let [fail] = fails[..] else {
            panic!("{lines}");
        };
        assert!(fail.starts_with(&format!("fail {what}: ")), "{lines}");
        assert!(fail.contains(says), "{lines}");
        assert_eq!(stderr(&output), "turnwright: 1 check failed\n");
    }
}

fn lines(output: &Output) -> String {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    assert!(!stderr(output).contains(SECRET));
    text
}

#[test]
fn a_sound_place_has_nothing_to_fail() {
    let place = Place::new();
    let output = place.doctor(&[]);
    let lines = lines(&output);
    assert!(output.status.success(), "{lines}{}", stderr(&output));
    for what in [
        "configuration",
        "data folder",
        "permissions",
        "write-ahead log",
        "schema",
        "integrity",
        "turns",
        "clock",
        "tools",
    ] {
        assert!(lines.contains(&format!("ok   {what}: ")), "{what}\n{lines}");
    }
    assert!(lines.contains("server: does not run"), "{lines}");
}

/// After a clean end as well as after a power cut, where the newest part is in the log.
#[tokio::test(flavor = "multi_thread")]
async fn it_leaves_the_folder_as_it_found_it() {
    let place = Place::new();
    let upstream = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    // All but sockets, and the index of the log, which is whatever its readers make of it.
    let read = |name: &String| std::fs::read(place.data().join(name)).ok();
    let files = || {
        let named = names(&place.data()).into_iter();
        let read = named.map(|name| (read(&name).filter(|_| !name.ends_with("-shm")), name));
        read.collect::<Vec<_>>()
    };
    for killed in [false, true] {
        if killed {
            let mut server = ServerProcess::start(serve(&place.data(), &upstream), &place.data());
            // Whoever reads keeps what is written meanwhile in the log.
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
            let file = place.data().join("turnwright.db");
            let reader = Connection::open_with_flags(file, flags).unwrap();
            let begin = "BEGIN; SELECT count(*) FROM api_key";
            reader.execute_batch(begin).unwrap();
            assert!(create_key(&place.data(), &[]).status.success());
            server.kill();
            let log = place.data().join("turnwright.db-wal");
            assert!(std::fs::metadata(log).unwrap().len() > 0);
        }
        let before = files();
        let output = place.doctor(&[]);
        assert!(output.status.success(), "{}", lines(&output));
        assert!(lines(&output).contains("ok   tools: 0"));
        assert!(files() == before, "{killed}: {:?}", names(&place.data()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_looks_while_the_server_runs() {
    let place = Place::new();
    let upstream = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    let _server = ServerProcess::start(serve(&place.data(), &upstream), &place.data());
    let output = place.doctor(&[]);
    let lines = lines(&output);
    assert!(output.status.success(), "{lines}");
    assert!(lines.contains("ok   server: runs on the folder"), "{lines}");
}

#[test]
fn a_folder_that_is_not_there_yet_is_no_failure_and_is_not_made() {
    let place = Place::new();
    std::fs::remove_dir_all(place.data()).unwrap();
    let output = place.doctor(&[]);
    assert!(output.status.success(), "{}", lines(&output));
    assert!(
        lines(&output).contains("warn data folder: "),
        "{}",
        lines(&output)
    );
    assert!(!place.data().exists());
}

#[test]
fn a_configuration_that_does_not_do_is_told() {
    let place = Place::new();
    place.configure("[server]\nlisten_on = \"x\"\n");
    place.finds("configuration", "listen_on");
    place.configure("");
    place.finds("configuration", "no upstream");
    place.configure("[secrets.STATUS_KEY]\nenv = \"TURNWRIGHT_TEST_NOT_SET\"\n");
    place.finds("configuration", "TURNWRIGHT_TEST_NOT_SET");
}

#[test]
fn a_folder_that_is_a_file_is_told() {
    let place = Place::new();
    std::fs::remove_dir_all(place.data()).unwrap();
    std::fs::write(place.data(), "").unwrap();
    place.finds("data folder", "no folder");
}

#[test]
fn a_database_that_others_may_read_is_told() {
    let place = Place::new();
    let file = place.data().join("turnwright.db");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    place.finds("permissions", "turnwright.db");
}

#[test]
fn a_database_that_is_newer_or_foreign_is_told() {
    let place = Place::new();
    place
        .database()
        .execute(
            "INSERT INTO migration SELECT max(number) + 1, 'x', checksum, 0, 0 FROM migration",
            [],
        )
        .unwrap();
    place.finds("schema", "use a newer program");
    let place = Place::new();
    place
        .database()
        .execute("ALTER TABLE migration RENAME TO other", [])
        .unwrap();
    place.finds("schema", "not of this program");
}

#[test]
fn a_broken_page_is_told() {
    let place = Place::new();
    let file = place.data().join("turnwright.db");
    break_table(&file, "tool_call");
    let output = place.doctor(&[]);
    let lines = lines(&output);
    assert_eq!(output.status.code(), Some(1), "{lines}");
    assert!(lines.contains("fail integrity: "), "{lines}");
}

#[test]
fn a_tool_that_could_not_be_made_today_is_told() {
    let place = Place::new();
    let file = place.folder.path().join("tools.json");
    std::fs::write(&file, TOOL).unwrap();
    let mut apply = place.command(&["tools", "apply"]);
    let applied = apply.arg(&file).output().unwrap();
    assert!(applied.status.success(), "{}", stderr(&applied));
    let output = place.doctor(&[]);
    assert!(
        lines(&output).contains("ok   tools: 1"),
        "{}",
        lines(&output)
    );
    // The secret is granted no more.
    place.configure(
        "[[upstream]]\nname = \"local\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n",
    );
    place.finds("tools", "default, tool status");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stuck_and_a_clock_that_went_back_are_told() {
    let place = Place::new();
    let body = "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\
                \"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
    let upstream = Listener::start(move |_| ListenerReply::json(body))
        .await
        .unwrap();
    let mut server = ServerProcess::start(serve(&place.data(), &upstream), &place.data());
    let client = tw_testkit::client::TestClient {
        key: Some(crate::process::key_of(&create_key(&place.data(), &[]))),
        ..server.client.clone()
    };
    let ask =
        serde_json::json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    assert_eq!(client.chat(&ask).await.unwrap().status, 200);
    server.kill();
    let change = |sql: &str| assert_eq!(place.database().execute(sql, []).unwrap(), 1);
    let triggers = "SELECT 'DROP TRIGGER ' || name FROM sqlite_schema WHERE type = 'trigger'";
    let database = place.database();
    let drops: Vec<String> = database
        .prepare(triggers)
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    for drop in drops {
        database.execute(&drop, []).unwrap();
    }
    change("UPDATE turn_state SET updated_us = updated_us + 3600000000");
    place.finds("clock", "ahead");
    change("UPDATE turn_state SET updated_us = created_us");
    change("UPDATE turn_state SET status = 'running', ended_us = NULL");
    change("UPDATE turn_start SET deadline_us = 1");
    let output = place.doctor(&[]);
    assert!(
        lines(&output).contains("warn turns: 1 are unfinished"),
        "{}",
        lines(&output)
    );
    // A server that holds the lock would have ended it long ago.
    let lock = std::fs::File::open(place.data().join("lock")).unwrap();
    lock.lock().unwrap();
    place.finds("turns", "beyond their deadline");
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_are_asked_only_when_told() {
    let place = Place::new();
    assert!(!lines(&place.doctor(&[])).contains("upstream local"));
    let output = place.doctor(&["--ask"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        lines(&output).contains("fail upstream local: "),
        "{}",
        lines(&output)
    );
    let upstream = Listener::start(|_| ListenerReply::json(r#"{"data":[{"id":"a"}]}"#))
        .await
        .unwrap();
    place.configure(&format!(
        "[[upstream]]\nname = \"local\"\nkind = \"openai\"\nbase_url = \"{}\"\n",
        upstream.url("/v1")
    ));
    assert!(!lines(&place.doctor(&[])).contains("upstream local"));
    assert!(upstream.asked().is_empty());
    let output = place.doctor(&["--ask"]);
    assert!(output.status.success(), "{}", lines(&output));
    let said = format!(
        "ok   upstream local: lists 1 models; chats at {}\n",
        upstream.url("/v1/chat/completions")
    );
    assert!(lines(&output).contains(&said), "{}", lines(&output));
}
