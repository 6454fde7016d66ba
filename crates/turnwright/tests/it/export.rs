//! `turnwright export`: what was imported goes back as it came.

use std::path::Path;
use std::process::Output;

use tempfile::TempDir;
use tw_testkit::postgres::PostgresSchema;

use crate::foreign_databases::{APPS, ForeignDatabase, ForeignEngine, app};
use crate::import_files::{import, nasty_file};
use crate::import_tools::nasty_tools;
use crate::process::{create_key, key_of, stderr, turnwright};

pub fn export(shape: &str, data: &Path, target: &ForeignDatabase, flags: &[&str]) -> Output {
    let mut command = turnwright();
    command
        .args(["export", shape, &target.word(), "--data"])
        .arg(data);
    command.args(flags).output().unwrap()
}

/// Rows of messages that each application has: more by `TURNWRIGHT_TEST_IMPORT_ROWS`.
fn rows() -> u64 {
    let named = std::env::var("TURNWRIGHT_TEST_IMPORT_ROWS").ok();
    named.map_or(300, |rows| rows.parse().unwrap())
}

/// Imports into a database and exports from it, and compares all that is in both; twice, as if the first run had ended
/// early.
async fn check(shape: &str, source: &ForeignDatabase, engine: ForeignEngine, flags: &[&str]) {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, flags));
    for _ in 0..2 {
        let done = import(shape, &data, source, &[flags, &["--key", &key]].concat());
        assert!(done.status.success(), "{shape}: {}", stderr(&done));
    }
    let target = ForeignDatabase::empty(engine).await.unwrap();
    let done = export(shape, &data, &target, flags);
    assert!(done.status.success(), "{shape}: {}", stderr(&done));
    let said = stderr(&done);
    assert!(!said.contains("left out"), "{shape}: {said}");
    let (was, is) = (source.dump().await, target.dump().await);
    let missing: Vec<_> = was
        .iter()
        .filter(|line| !is.contains(line))
        .take(5)
        .collect();
    let more: Vec<_> = is
        .iter()
        .filter(|line| !was.contains(line))
        .take(5)
        .collect();
    assert!(
        missing.is_empty() && more.is_empty(),
        "{shape}: {missing:#?}\n{more:#?}"
    );
    assert_eq!(was.len(), is.len(), "{shape}");
    let again = export(shape, &data, &target, flags);
    assert!(!again.status.success(), "{shape}");
    assert!(
        stderr(&again).contains("is not empty"),
        "{shape}: {}",
        stderr(&again)
    );
    assert_eq!(target.dump().await, is, "{shape}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_imported_goes_back_without_a_loss() {
    for app in APPS {
        let Some(source) = app.filled(rows()).await else {
            continue;
        };
        check(app.shape, &source, app.engine, &[]).await;
        if let Some(store) = PostgresSchema::create().await {
            check(app.shape, &source, app.engine, &["--store", &store.url]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_did_not_fit_go_back_too() {
    let source = nasty_file().await;
    check("openai", &source, ForeignEngine::Sqlite, &[]).await;
    if let Some(store) = PostgresSchema::create().await {
        check(
            "openai",
            &source,
            ForeignEngine::Sqlite,
            &["--store", &store.url],
        )
        .await;
    }
}

/// Tables that hold whatever they are given, and values that JSON has no word for.
const NASTY_SERVER: &str = r#"
    CREATE TABLE conversations (id UUID, user_id TEXT, "odd "" name'" TEXT);
    CREATE TABLE messages (n BIGSERIAL, id UUID, conversation_id UUID, created_at TIMESTAMPTZ, role TEXT, content JSONB,
        raw JSON, bytes BYTEA, number NUMERIC, real FLOAT8, list TEXT[],
        size BIGINT GENERATED ALWAYS AS (n * 2) STORED);
    INSERT INTO conversations VALUES ('11111111-0000-4000-8000-000000000001', 'ann', 'x'),
        ('11111111-0000-4000-8000-000000000001', 'twice', ''), ('11111111-0000-4000-8000-000000000002', NULL, NULL);
    INSERT INTO messages (id, conversation_id, created_at, role, content, raw, bytes, number, real, list) VALUES
    ('22222222-0000-4000-8000-000000000001', '11111111-0000-4000-8000-000000000001', '2025-01-01 00:00:00.000001+00', 'user',
     'null', '{"a" : 1, "a":2}', '\x00ff', 'NaN', 'Infinity', '{a,NULL,"b\"c"}'),
    ('22222222-0000-4000-8000-000000000001', '11111111-0000-4000-8000-000000000001', '-infinity', 'assistant', '[1]', 'null', NULL, 1.50, 0.1, '{}'),
    ('22222222-0000-4000-8000-000000000002', '44444444-0000-4000-8000-000000000001', NULL, NULL, NULL, NULL, NULL, 1e400, -0.0, NULL),
    (NULL, '44444444-0000-4000-8000-000000000001', NULL, 'user', '"x"', NULL, NULL, NULL, NULL, NULL),
    (NULL, NULL, NULL, 'user', '"y"', NULL, NULL, NULL, NULL, NULL),
    (NULL, NULL, NULL, 'user', '"y"', NULL, NULL, NULL, NULL, NULL);"#;

#[tokio::test(flavor = "multi_thread")]
async fn values_that_json_has_no_word_for_go_back() {
    let Some(source) = ForeignDatabase::empty(ForeignEngine::Postgres).await else {
        return;
    };
    source.run(NASTY_SERVER).await;
    // What counts a column there is an identity here.
    source
        .run("ALTER TABLE messages ALTER n DROP DEFAULT, ALTER n ADD GENERATED BY DEFAULT AS IDENTITY")
        .await;
    for shape in ["blocks", "langchain"] {
        check(shape, &source, ForeignEngine::Postgres, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_tools_that_did_not_fit_go_back_too() {
    let Some(source) = nasty_tools().await else {
        return;
    };
    check("vapi", &source, ForeignEngine::Postgres, &[]).await;
    if let Some(store) = PostgresSchema::create().await {
        let flags = ["--store", &*store.url];
        check("vapi", &source, ForeignEngine::Postgres, &flags).await;
    }
}

/// Texts that are no UTF-8, beside a null of JSON.
const BYTES_SERVER: &str = r#"
    CREATE TABLE organisations (id UUID PRIMARY KEY, slug TEXT);
    CREATE TABLE tools (id TEXT PRIMARY KEY, name TEXT, organization_id UUID, function_schema JSONB, config JSON, data TEXT);
    CREATE TABLE conversations (id TEXT PRIMARY KEY, user_id TEXT);
    CREATE TABLE messages (id TEXT PRIMARY KEY, conversation_id TEXT, created_at TIMESTAMPTZ, role TEXT, content TEXT, metadata JSONB);
    INSERT INTO organisations VALUES ('10000000-0000-4000-8000-000000000001', convert_from('\x6fff', 'SQL_ASCII'));
    INSERT INTO tools VALUES
    ('t1', convert_from('\xffe4', 'SQL_ASCII'), NULL, 'null', 'null', convert_from('\x7b22e4223a317d', 'SQL_ASCII')),
    ('t2', 'whole', NULL, '{"description": "Dä"}', NULL, '{"type": "apiRequest", "method": "GET", "url": "https://app.example/"}');
    INSERT INTO conversations VALUES ('c', convert_from('\xe4', 'SQL_ASCII'));
    INSERT INTO messages VALUES ('m1', 'c', '2025-01-01', 'user', convert_from('\x61e4', 'SQL_ASCII'), 'null'),
    ('m2', 'c', '2025-01-02', 'assistant', 'whole', NULL);"#;

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_no_utf_8_go_back_with_their_bytes() {
    for shape in ["vapi", "langchain"] {
        let Some(source) = ForeignDatabase::empty(ForeignEngine::PostgresBytes).await else {
            return;
        };
        let others = match shape {
            "vapi" => "DROP TABLE messages, conversations",
            _ => "DROP TABLE tools, organisations",
        };
        source.run(BYTES_SERVER).await;
        source.run(others).await;
        check(shape, &source, ForeignEngine::PostgresBytes, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_there_are_filled_and_others_refused() {
    let source = app("openai").filled(20).await.unwrap();
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, &[]));
    let none = ForeignDatabase::empty(ForeignEngine::Sqlite).await.unwrap();
    let refused = export("openai", &data, &none, &[]);
    assert!(stderr(&refused).contains("nothing of this kind was imported"));
    let done = import("openai", &data, &source, &["--key", &key]);
    assert!(done.status.success(), "{}", stderr(&done));
    for (tables, said) in [
        (app("openai").tables.to_owned(), None),
        (
            "CREATE TABLE conversations (id)".to_owned(),
            Some("has the column user_id, which is not there"),
        ),
        (
            app("openai").tables.replace("tool_calls TEXT NULL,", ""),
            Some("has the column tool_calls, which is not there"),
        ),
        (
            app("openai").tables.replace("users", "people"),
            Some("it has no table users"),
        ),
    ] {
        let target = ForeignDatabase::empty(ForeignEngine::Sqlite).await.unwrap();
        target.run(&tables).await;
        let before = target.dump().await;
        let done = export("openai", &data, &target, &[]);
        match said {
            None => assert_eq!(
                target.dump().await,
                source.dump().await,
                "{}",
                stderr(&done)
            ),
            Some(said) => {
                assert!(stderr(&done).contains(said), "{said}: {}", stderr(&done));
                assert_eq!(target.dump().await, before);
            }
        }
    }
    if let Some(server) = ForeignDatabase::empty(ForeignEngine::Postgres).await {
        let refused = export("openai", &data, &server, &[]);
        assert!(
            stderr(&refused).contains("the rows came from SQLite"),
            "{}",
            stderr(&refused)
        );
    }
}
