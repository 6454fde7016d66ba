//! `turnwright import` of the other layouts: rows of chat completions, blocks, and PocketBase.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::Listener;
use tw_testkit::postgres::PostgresSchema;

use crate::foreign_databases::{ForeignDatabase, app};
use crate::process::{ServerProcess, create_key, key_of, serve, stderr, turnwright};

pub fn import(shape: &str, data: &Path, source: &ForeignDatabase, flags: &[&str]) -> Output {
    let mut command = turnwright();
    command
        .args(["import", shape, &source.word(), "--data"])
        .arg(data);
    command.args(flags).output().unwrap()
}

/// The problems that were reported, as `row problem`.
pub fn problems(done: &Output) -> Vec<String> {
    let lines = std::str::from_utf8(&done.stdout).unwrap().lines();
    let problem = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let word = |name: &str| line[name].as_str().unwrap().to_owned();
        format!("{} {}", word("row"), word("problem"))
    };
    lines.map(problem).collect()
}

/// What the turns of a conversation say, as rows of LangChain's shape.
async fn rows(client: &TestClient, conversation: &str) -> Vec<Value> {
    let path = format!("/v1/conversations/{conversation}/messages?shape=langchain&limit=100");
    let list = client.send("GET", &path, &[], "").await.unwrap().json();
    let row = |row: &Value| {
        let calls = row["tool_calls"].as_array().map(|calls| {
            let call = |call: &Value| json!([call["id"], call["name"], call["args"]]);
            calls.iter().map(call).collect::<Vec<_>>()
        });
        json!([
            row["role"],
            row["content"],
            calls,
            row["tool_call_id"],
            row["status"]
        ])
    };
    let found = list["data"].as_array();
    let found = found.unwrap_or_else(|| panic!("{list}"));
    found.iter().map(row).collect()
}

/// One conversation of each application, and what is read of it.
fn expected(shape: &str) -> (&'static str, Vec<Value>) {
    match shape {
        "openai" => (
            "conv-0",
            vec![
                json!(["user", "text 0", null, null, null]),
                json!(["assistant", "", [["call_2", "get_weather", {"city": "Oslo"}], ["call_3", "get_weather", {}]], null, null]),
                json!(["tool", "text 2", null, "call_2", "success"]),
                json!([
                    "tool",
                    "{\"tempC\":22,\"n\":9007199254740993}",
                    null,
                    "call_3",
                    "success"
                ]),
                json!(["assistant", "text 4", null, null, null]),
            ],
        ),
        "blocks" => (
            "b0fce403-c178-fa57-404c-1cc4176547a8",
            vec![
                json!(["user", "songs 0", null, null, null]),
                json!(["assistant", "Let me search", [["tc_1", "semanticSearch", {"limit": 10, "query": "songs"}]], null, null]),
                json!([
                    "tool",
                    "{\"tracks\": [], \"durationMs\": 1}",
                    null,
                    "tc_1",
                    "success"
                ]),
                json!(["assistant", "I found none.", null, null, null]),
            ],
        ),
        "pocketbase" => (
            "conv00000000000",
            vec![
                json!(["user", "text 0", null, null, null]),
                json!(["assistant", "", [["call_turn00000000001", "generate_image", {"prompt": "A beautiful sunset"}]], null, null]),
                json!([
                    "tool",
                    "{\"imageUrls\":[\"https://example.com/image.jpg\"],\"costTime\":8}",
                    null,
                    "call_turn00000000001",
                    "success"
                ]),
                json!(["assistant", "text 1", null, null, null]),
            ],
        ),
        _ => panic!("{shape}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_each_layout_is_read_like_one_of_this_server() {
    for shape in ["openai", "blocks", "pocketbase"] {
        let (Some(source), Some(target)) =
            (app(shape).filled(20).await, PostgresSchema::create().await)
        else {
            continue;
        };
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let upstream = Listener::in_turn(Vec::new()).await.unwrap();
        for flags in [&[][..], &["--store", &target.url]] {
            let key = key_of(&create_key(&data, flags));
            let flags = [flags, &["--key", &key]].concat();
            let done = import(shape, &data, &source, &flags);
            assert!(done.status.success(), "{shape}: {}", stderr(&done));
            assert_eq!(problems(&done), Vec::<String>::new(), "{shape}");
            let again = import(shape, &data, &source, &flags);
            let said = stderr(&again);
            assert!(said.contains(" 0 turns written, "), "{shape}: {said}");
            assert_eq!(problems(&again), Vec::<String>::new(), "{shape}");
            let mut command = serve(&data, &upstream);
            command.args(&flags[..flags.len() - 2]);
            let server = ServerProcess::start(command, &data);
            let client = TestClient {
                key: Some(key),
                ..server.client.clone()
            };
            let (conversation, expected) = expected(shape);
            let found = rows(&client, conversation).await;
            assert_eq!(found[..expected.len()], expected, "{shape}");
        }
    }
}

/// Rows that do not fit, in tables that hold whatever they are given.
const NASTY_FILE: &str = r#"
    CREATE TABLE conversations (id, user_id, title);
    CREATE TABLE messages (id, conversation_id, role, status, content, content_json, tool_calls, function_call, tool_call_id, created_at);
    INSERT INTO conversations VALUES ('a', 'ann', CAST(x'ff' AS TEXT)), ('a', 'twice', NULL), ('empty', 'bob', x'00'), (NULL, NULL, NULL);
    INSERT INTO messages VALUES
    (1, 'a', 'user', 'final', CAST(x'68ff' AS TEXT), NULL, NULL, NULL, NULL, '2025-01-01 00:00:00'),
    (2, 'a', 'assistant', 'final', '', NULL, '[{"id":"half","function":{"name":"n","arguments":"{}"}}]', '', NULL, '2025-01-01T00:00:01Z'),
    (3, 'a', 'assistant', 'final', 'on', NULL, '[{', NULL, NULL, 1735689602),
    (4, 'a', 'tool', 'lost', 'r', '{"t":', NULL, NULL, 'gone', 1735689603000),
    (4, 'a', 'user', 'final', 'the same id', NULL, NULL, NULL, NULL, 1735689604.5),
    (5, 'a', 'robot', 'final', 9.0e999, NULL, NULL, NULL, NULL, 'noon'),
    (6, 'a', 'assistant', 'final', '', NULL, NULL, '{"name":"old","arguments":"{\"q\":1}"}', NULL, '2025-01-02'),
    (7, 'a', 'function', 'final', 'by order', NULL, NULL, NULL, NULL, '2025-01-03'),
    (8, 'gone', 'user', 'final', x'00ff', '[]', NULL, NULL, NULL, NULL),
    (9, 'gone', 'user', 'final', NULL, NULL, NULL, NULL, NULL, '2025-01-03'),
    (NULL, 'b', 'user', 'final', 'no id', NULL, NULL, NULL, NULL, '2025-01-03'),
    (NULL, 'b', 'user', 'final', 'no id', NULL, NULL, NULL, NULL, '2025-01-03'),
    ('x', NULL, 'user', 'final', 'no conversation', NULL, NULL, NULL, NULL, '2025-01-03');
    INSERT INTO messages (id, conversation_id, role, status, content, created_at)
    SELECT 'long', 'long', 'user', 'final', printf('%.*c', 10000000, 'x'), '2025-01-03';
    CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    INSERT INTO settings VALUES ('k', 1e300), ('l', -0.0), ('m', 9223372036854775807);"#;

pub async fn nasty_file() -> ForeignDatabase {
    let database = ForeignDatabase::empty(crate::foreign_databases::ForeignEngine::Sqlite).await;
    let database = database.unwrap();
    database.run(NASTY_FILE).await;
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_in_a_file_is_kept_and_told() {
    let source = nasty_file().await;
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, &[]));
    let done = import("openai", &data, &source, &["--key", &key]);
    assert!(done.status.success(), "{}", stderr(&done));
    let mut found = problems(&done);
    found.sort();
    let mut expected = [
        "x unreadable_row",
        " unreadable_row",
        " unreadable_row",
        "1 wrong_encoding",
        "3 calls_unreadable",
        // The row of the conversation, which is with its first message.
        "3 wrong_encoding",
        "4 unknown_status",
        "4 json_unreadable",
        "4 result_without_call",
        "4#1 row_id_taken",
        "5 unknown_role",
        "5 no_time",
        "6 call_without_result",
        "7 result_by_order",
        "8 no_conversation",
        "8 no_time",
        "long no_conversation",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
    let again = import("openai", &data, &source, &["--key", &key]);
    let said = stderr(&again);
    assert!(said.contains(" 0 turns written, "), "{said}");
    assert!(
        !problems(&again)
            .iter()
            .any(|problem| problem.ends_with("changed_since"))
    );
}

/// The conversation names its user by a number, as the table of the users does, which is kept beside.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_user_is_known_by_the_number_of_their_row() {
    let engine = crate::foreign_databases::ForeignEngine::Sqlite;
    let source = ForeignDatabase::empty(engine).await.unwrap();
    let rows = "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE conversations (id TEXT PRIMARY KEY, user_id INTEGER);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, conversation_id TEXT, role TEXT, content TEXT);
        INSERT INTO users VALUES (7, 'Ann');
        INSERT INTO conversations VALUES ('a', 7);
        INSERT INTO messages VALUES (1, 'a', 'user', 'hi')";
    source.run(rows).await;
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, &[]));
    let done = import("openai", &data, &source, &["--key", &key]);
    assert!(done.status.success(), "{}", stderr(&done));
    let conn = rusqlite::Connection::open(data.join("turnwright.db")).unwrap();
    let sql = "SELECT u.name, k.end_user FROM turn t JOIN end_user u ON u.key = t.end_user, imported_row k
        WHERE k.source_table = 'users'";
    let found: (String, String) = conn
        .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(found, ("7".to_owned(), "7".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_none_of_the_layout_is_refused() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, &[]));
    let engine = crate::foreign_databases::ForeignEngine::Sqlite;
    let other = ForeignDatabase::empty(engine).await.unwrap();
    other.run("CREATE TABLE messages (id, body)").await;
    let ForeignDatabase::File { path, .. } = &other else {
        return;
    };
    let no_database = folder.path().join("text");
    std::fs::write(
        &no_database,
        "not a database, but long enough to be looked at",
    )
    .unwrap();
    let cases = [
        (
            "openai",
            path.as_path(),
            "no table messages with the columns id, conversation_id, role, content",
        ),
        (
            "pocketbase",
            path.as_path(),
            "no table turns with the columns id, conversation",
        ),
        ("blocks", no_database.as_path(), "file is not a database"),
        ("openai", folder.path(), "there is no file"),
        (
            "pocketbase",
            Path::new("postgres://nobody@127.0.0.1:1/none"),
            "PocketBase keeps its record in a file",
        ),
    ];
    for (shape, source, said) in cases {
        let mut command = turnwright();
        command
            .args(["import", shape])
            .arg(source)
            .arg("--data")
            .arg(&data);
        let refused = command.args(["--key", &key]).output().unwrap();
        assert!(!refused.status.success(), "{shape}");
        assert!(
            stderr(&refused).contains(said),
            "{shape}: {}",
            stderr(&refused)
        );
    }
}
