//! `turnwright import`, from databases that are built by the application's own statements.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::Listener;
use tw_testkit::postgres::PostgresSchema;

use crate::process::{ServerProcess, create_key, key_of, serve, stderr, turnwright};

/// Seed document 001, with the table that it refers to.
const TABLES: &str = "
    CREATE TABLE conversations (id UUID PRIMARY KEY, user_id TEXT, title TEXT);
    CREATE TABLE messages (
      id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
      created_at TIMESTAMP WITH TIME ZONE DEFAULT TIMEZONE('utc', NOW()) NOT NULL,
      conversation_id UUID NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
      content TEXT NOT NULL,
      role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
      tool_calls JSONB DEFAULT NULL,
      tool_call_id TEXT DEFAULT NULL,
      tool_name TEXT DEFAULT NULL,
      status TEXT DEFAULT NULL CHECK (status IS NULL OR status IN ('pending', 'success', 'error')),
      metadata JSONB DEFAULT '{}'::jsonb
    );";
/// The same table before its migration.
const TABLES_BEFORE: &str = "
    CREATE TABLE conversations (id UUID PRIMARY KEY, user_id TEXT, title TEXT);
    CREATE TABLE messages (
      id UUID PRIMARY KEY, created_at TIMESTAMPTZ NOT NULL, conversation_id UUID NOT NULL, content TEXT NOT NULL,
      role TEXT NOT NULL, metadata JSONB DEFAULT '{}'::jsonb
    );";

const CONVERSATION: &str = "11111111-0000-4000-8000-000000000001";
const TURN: &str = "22222222-0000-4000-8000-000000000001";

const ROWS: &str = r#"
    INSERT INTO conversations VALUES ('11111111-0000-4000-8000-000000000001', 'ann', 'Füße');
    INSERT INTO messages (id, created_at, conversation_id, content, role, tool_calls, tool_call_id, tool_name, status)
    VALUES
    ('22222222-0000-4000-8000-000000000001', '2025-01-01 00:00:00.000001+00', '11111111-0000-4000-8000-000000000001',
     'Show me my products 😀', 'user', NULL, NULL, NULL, NULL),
    ('22222222-0000-4000-8000-000000000002', '2025-01-01 00:00:01+00', '11111111-0000-4000-8000-000000000001',
     'I''ll fetch them.', 'assistant', '[{"id":"call_1","name":"list","args":{"n":9007199254740993}},{"id":"call_2","name":"list","args":{}}]',
     NULL, NULL, NULL),
    ('22222222-0000-4000-8000-000000000003', '2025-01-01 00:00:02+00', '11111111-0000-4000-8000-000000000001',
     '{"products": []}', 'tool', NULL, 'call_1', 'list', 'success'),
    ('22222222-0000-4000-8000-000000000004', '2025-01-01 00:00:03+00', '11111111-0000-4000-8000-000000000001',
     'no', 'tool', NULL, 'call_2', 'list', 'error'),
    ('22222222-0000-4000-8000-000000000005', '2025-01-01 00:00:04+00', '11111111-0000-4000-8000-000000000001',
     'There are none.', 'assistant', NULL, NULL, NULL, NULL)"#;

const ROWS_BEFORE: &str = r#"
    INSERT INTO conversations VALUES ('11111111-0000-4000-8000-000000000001', 'ann', 'Füße');
    INSERT INTO messages VALUES
    ('22222222-0000-4000-8000-000000000001', '2025-01-01 00:00:00.000001+00', '11111111-0000-4000-8000-000000000001',
     'Show me my products 😀', 'user', '{}'),
    ('22222222-0000-4000-8000-000000000002', '2025-01-01 00:00:01+00', '11111111-0000-4000-8000-000000000001',
     'I''ll fetch them.', 'assistant', '{"tool_calls":[{"id":"call_1","name":"list","args":{"n":9007199254740993}},{"id":"call_2","name":"list","args":{}}]}'),
    ('22222222-0000-4000-8000-000000000003', '2025-01-01 00:00:02+00', '11111111-0000-4000-8000-000000000001',
     '{"products": []}', 'assistant', '{"tool_call_id":"call_1","tool_name":"list","status":"success"}'),
    ('22222222-0000-4000-8000-000000000004', '2025-01-01 00:00:03+00', '11111111-0000-4000-8000-000000000001',
     'no', 'assistant', '{"tool_call_id":"call_2","tool_name":"list","status":"error"}'),
    ('22222222-0000-4000-8000-000000000005', '2025-01-01 00:00:04+00', '11111111-0000-4000-8000-000000000001',
     'There are none.', 'assistant', NULL)"#;

/// Rows that do not fit: halves alone, an unknown conversation, ten megabytes, times that others cannot say.
const NASTY: &str = r#"
    ALTER TABLE messages DROP CONSTRAINT IF EXISTS messages_conversation_id_fkey, DROP CONSTRAINT messages_status_check;
    INSERT INTO messages (id, created_at, conversation_id, content, role, tool_calls, tool_call_id, status) VALUES
    ('33333333-0000-4000-8000-000000000001', '2025-01-02', '44444444-0000-4000-8000-000000000001', repeat('x', 10000000), 'user', NULL, NULL, NULL),
    ('33333333-0000-4000-8000-000000000002', '2025-01-03', '44444444-0000-4000-8000-000000000001', '', 'assistant', '"[{"', NULL, NULL),
    ('33333333-0000-4000-8000-000000000003', 'infinity', '44444444-0000-4000-8000-000000000001', 'r', 'tool', NULL, 'gone', 'odd'),
    ('33333333-0000-4000-8000-000000000004', '294276-12-31', '55555555-0000-4000-8000-000000000001', 'late', 'user', NULL, NULL, NULL),
    ('33333333-0000-4000-8000-000000000005', '10000-01-01', '55555555-0000-4000-8000-000000000002', 'late', 'user', NULL, NULL, NULL),
    ('33333333-0000-4000-8000-000000000006', '0044-03-15 BC', '55555555-0000-4000-8000-000000000003', 'early', 'user', NULL, NULL, NULL),
    ('33333333-0000-4000-8000-000000000007', '9999-12-31 23:59:59.999999+00', '55555555-0000-4000-8000-000000000004', 'last', 'user', NULL, NULL, NULL)"#;

fn import(data: &Path, source: &str, flags: &[&str]) -> Output {
    let mut command = turnwright();
    command
        .args(["import", "langchain", source, "--data"])
        .arg(data);
    command.args(flags).output().unwrap()
}

/// The problems that were reported, by row.
fn problems(done: &Output) -> Vec<String> {
    let lines = std::str::from_utf8(&done.stdout).unwrap().lines();
    let problem = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let row = line["row"].as_str().unwrap();
        let last = row.chars().last().unwrap();
        format!("{last} {}", line["problem"].as_str().unwrap())
    };
    lines.map(problem).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_imported_from_before_and_after_its_migration() {
    for (tables, rows) in [(TABLES, ROWS), (TABLES_BEFORE, ROWS_BEFORE)] {
        let (Some(source), Some(target)) = (
            PostgresSchema::create().await,
            PostgresSchema::create().await,
        ) else {
            return;
        };
        let client = source.client().await;
        client.batch_execute(tables).await.unwrap();
        client.batch_execute(rows).await.unwrap();
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let upstream = Listener::in_turn(Vec::new()).await.unwrap();
        for flags in [&[][..], &["--store", &target.url]] {
            let key = key_of(&create_key(&data, flags));
            let flags = [flags, &["--key", &key]].concat();
            let done = import(&data, &source.url, &flags);
            assert!(done.status.success(), "{}", stderr(&done));
            assert_eq!(problems(&done), Vec::<String>::new());
            assert!(stderr(&done).contains("5 rows, "), "{}", stderr(&done));
            assert!(
                stderr(&done).contains(" 1 turns written"),
                "{}",
                stderr(&done)
            );
            let again = import(&data, &source.url, &flags);
            let said = stderr(&again);
            assert!(said.contains("0 turns written, 1 there before"), "{said}");
            let mut command = serve(&data, &upstream);
            command.args(&flags[..flags.len() - 2]);
            let server = ServerProcess::start(command, &data);
            let client = TestClient {
                key: Some(key),
                ..server.client.clone()
            };
            check_turn(&client).await;
        }
    }
}

async fn check_turn(client: &TestClient) {
    let path = format!("/v1/turns/{TURN}?full=1");
    let record = client.send("GET", &path, &[], "").await.unwrap().json();
    assert_eq!(record["status"], "completed", "{record}");
    assert_eq!(record["conversation"], CONVERSATION, "{record}");
    let calls = record["rounds"][0]["calls"].as_array().unwrap();
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| {
            json!([
                call["tool_call_id"],
                call["arguments"],
                call["status"],
                call["result"]
            ])
        })
        .collect();
    assert_eq!(
        calls,
        [
            json!([
                "call_1",
                "{\"n\": 9007199254740993}",
                "completed",
                "{\"products\": []}"
            ]),
            json!(["call_2", "{}", "failed", "no"]),
        ],
        "{record}"
    );
    let answer = &record["rounds"][1]["messages"][0]["blocks"][0]["text"];
    assert_eq!(answer, "There are none.", "{record}");
    let path = format!("/v1/conversations/{CONVERSATION}/turns");
    let turns = client.send("GET", &path, &[], "").await.unwrap().json();
    assert_eq!(turns["data"].as_array().unwrap().len(), 1, "{turns}");
    let path = format!("/v1/conversations/{CONVERSATION}/messages?shape=langchain");
    let list = client.send("GET", &path, &[], "").await.unwrap().json();
    let row = |row: &Value| {
        json!([
            row["role"],
            row["content"],
            row["tool_call_id"],
            row["status"]
        ])
    };
    let rows: Vec<Value> = list["data"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(
        rows,
        [
            json!(["user", "Show me my products 😀", null, null]),
            json!(["assistant", "I'll fetch them.", null, null]),
            json!(["tool", "{\"products\": []}", "call_1", "success"]),
            json!(["tool", "no", "call_2", "error"]),
            json!(["assistant", "There are none.", null, null]),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_kept_and_told_row_by_row() {
    let Some(source) = PostgresSchema::create().await else {
        return;
    };
    let client = source.client().await;
    client.batch_execute(TABLES).await.unwrap();
    client.batch_execute(NASTY).await.unwrap();
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, &[]));
    let done = import(&data, &source.url, &["--key", &key]);
    assert!(done.status.success(), "{}", stderr(&done));
    let expected = [
        "1 no_conversation",
        "2 calls_unreadable",
        "3 no_time",
        "3 unknown_status",
        "3 result_without_call",
        "4 no_conversation",
        "4 no_time",
        "5 no_conversation",
        "5 no_time",
        "6 no_conversation",
        "6 no_time",
        "7 no_conversation",
    ];
    assert_eq!(problems(&done), expected);
    let conn = rusqlite::Connection::open(data.join("turnwright.db")).unwrap();
    let sql = "SELECT max(length(body)), (SELECT count(*) FROM message) FROM turn_input";
    let (bytes, messages): (i64, i64) = conn
        .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert!(bytes > 20_000_000, "{bytes}");
    assert_eq!(messages, 7);
    let more = "INSERT INTO messages (id, created_at, conversation_id, content, role) VALUES
        (gen_random_uuid(), '2025-01-03', '44444444-0000-4000-8000-000000000001', 'more', 'assistant')";
    client.batch_execute(more).await.unwrap();
    let again = import(&data, &source.url, &["--key", &key]);
    assert!(problems(&again).contains(&"1 changed_since".to_owned()));
}

/// The source refuses to go on in the midst of its rows; once it does, the next run writes what is missing.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_whose_source_dies_is_completed_by_the_next() {
    let Some(source) = PostgresSchema::create().await else {
        return;
    };
    let client = source.client().await;
    client.batch_execute(TABLES).await.unwrap();
    let many = "INSERT INTO conversations (id) VALUES ('11111111-0000-4000-8000-000000000001');
        INSERT INTO messages (id, created_at, conversation_id, content, role)
        SELECT md5(n::text)::uuid, to_timestamp(n), '11111111-0000-4000-8000-000000000001', 'm' || n,
            CASE n % 2 WHEN 0 THEN 'user' ELSE 'assistant' END
        FROM generate_series(0, 2999) n";
    client.batch_execute(many).await.unwrap();
    // A view that fails at a row, as a server does that goes away.
    let dies = "ALTER TABLE messages RENAME TO kept;
        CREATE FUNCTION alive(n text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT (1 / (n <> 'm2001')::int)::text $$;
        CREATE VIEW messages AS SELECT kept.*, kept.ctid, alive(kept.content) FROM kept";
    client.batch_execute(dies).await.unwrap();
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, &[]));
    let dead = import(&data, &source.url, &["--key", &key]);
    assert!(!dead.status.success());
    assert!(
        stderr(&dead).contains("the source ended after"),
        "{}",
        stderr(&dead)
    );
    let conn = rusqlite::Connection::open(data.join("turnwright.db")).unwrap();
    let count = |sql| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM turn"), 1000);
    let back = "CREATE OR REPLACE FUNCTION alive(n text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT '1' $$";
    client.batch_execute(back).await.unwrap();
    let done = import(&data, &source.url, &["--key", &key]);
    assert!(done.status.success(), "{}", stderr(&done));
    assert_eq!(
        count("SELECT count(*) FROM turn WHERE status = 'completed'"),
        1500
    );
    assert_eq!(count("SELECT count(*) FROM turn WHERE parent IS NULL"), 1);
    assert_eq!(problems(&done), Vec::<String>::new());
}

#[test]
fn what_cannot_be_imported_is_refused() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let nowhere = "postgres://nobody@127.0.0.1:1/none";
    let refused = import(&data, nowhere, &["--key", "tw-none"]);
    assert!(
        stderr(&refused).contains("there is no database"),
        "{}",
        stderr(&refused)
    );
    let key = key_of(&create_key(&data, &[]));
    for (source, key, said) in [
        ("folder", &*key, "there is no file folder"),
        (nowhere, "tw-none", "no key begins with that"),
        (nowhere, &key, "the source ended after 0 rows"),
    ] {
        let refused = import(&data, source, &["--key", key]);
        assert!(!refused.status.success());
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}
