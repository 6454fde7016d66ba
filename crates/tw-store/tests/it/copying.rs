//! A database that is moved to another place, whichever engine is there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;
use tw_core::change::{EndTurn, Outcome, TurnChange};
use tw_core::turn_status::TurnStatus;
use tw_store::copy::{CopyError, CopyPlace, CopyReport, copy};
use tw_store::store::{Store, StoreOptions};
use tw_testkit::postgres::PostgresSchema;

use crate::world::{
    StoreWorld, at, call_ref, completed, end_turn, flush, message, model_attempt, pending_call,
};

/// Copies on a thread of its own, as a command does.
async fn copied(from: CopyPlace, to: CopyPlace) -> Result<CopyReport, CopyError> {
    let copying = move || copy(&from, &to, at(7), &mut |_| {});
    tokio::task::spawn_blocking(copying).await.unwrap()
}

fn server(schema: &PostgresSchema) -> CopyPlace {
    CopyPlace::Server {
        url: schema.url.clone(),
        tls: None,
    }
}

fn empty_file(folder: &TempDir, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, "").unwrap();
    path
}

/// All rows of all tables but the history, in order.
fn rows(path: &Path) -> Vec<(String, Vec<Vec<Value>>)> {
    let conn = Connection::open(path).unwrap();
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'migration'
        AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let mut statement = conn.prepare(sql).unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    let names: Vec<String> = names.map(Result::unwrap).collect();
    let table = |name: String| {
        let mut statement = conn.prepare(&format!("SELECT * FROM {name}")).unwrap();
        let columns = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| (0..columns).map(|place| row.get(place)).collect();
        let found = statement.query_map([], read).unwrap();
        let found: Vec<Vec<Value>> = found.map(Result::unwrap).collect();
        (name, found)
    };
    names.into_iter().map(table).collect()
}

/// Statements that make the schema's indexes and triggers.
fn made(path: &Path) -> Vec<String> {
    let conn = Connection::open(path).unwrap();
    let sql = "SELECT sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY sql";
    let mut statement = conn.prepare(sql).unwrap();
    let found = statement.query_map([], |row| row.get(0)).unwrap();
    found.map(Result::unwrap).collect()
}

/// Values that a copy may lose: the edges of numbers, contents of megabytes, text of every kind, empty ones, nulls.
const NASTY: &[&str] = &[
    "UPDATE turn_state SET cost_microusd = 9007199254740993 WHERE turn = 1",
    "UPDATE turn_state SET answered_us = 9223372036854775807 WHERE turn = 2",
    "UPDATE turn_start SET deleted_us = -9223372036854775808 WHERE key = 2",
    "UPDATE turn_start SET model = '', request_id = 'a\tb\n\\N \\. \u{1f600} \u{202e}' WHERE key = 3",
    "UPDATE tool_call SET result = replace(hex(zeroblob(5000000)), '0', 'x')",
    "UPDATE turn_input SET body = randomblob(3000000) WHERE turn = 1",
    "UPDATE turn_input SET body = x'' WHERE turn = 2",
    "UPDATE forgotten SET times = 77",
    "INSERT INTO end_user (organization, name, created_us, updated_us) VALUES (1, 'e\u{301}', 0, 0), (1, '\u{e9}', 0, 0)",
    "INSERT INTO blob (organization, hash, content, created_us, updated_us)
        VALUES (1, randomblob(32), x'00ff00', 0, 0)",
];

/// A database with a turn that ended, one that runs and one without anything, with nasty values.
async fn nasty_world() -> (PathBuf, TempDir) {
    let world = StoreWorld::on_disk().await;
    for n in 1..=3 {
        let turn = world.accept(n).await;
        if n == 3 {
            continue;
        }
        let attempt = TurnChange::OpenAttempt(model_attempt(1, 1));
        let call = TurnChange::AddCall(Box::new(pending_call(turn, call_ref(1, 0))));
        let message = TurnChange::AddMessage(message(1, 0));
        let events = TurnChange::AppendEvents(flush(1, 3));
        let changes = vec![attempt, message, call, events];
        world.write_turn(turn, changes).await.unwrap();
    }
    let turn = crate::world::turn_id(1);
    let end = TurnChange::EndCall {
        call: call_ref(1, 0),
        end: completed(),
        at: at(8),
    };
    let ended = EndTurn {
        tool_count: 1,
        ..end_turn(TurnStatus::Completed)
    };
    let changes = vec![end, TurnChange::EndTurn(ended)];
    world.write_turn(turn, changes).await.unwrap();
    let StoreWorld {
        store,
        path,
        folder,
        ..
    } = world;
    drop(store);
    let path = path.unwrap();
    let conn = Connection::open(&path).unwrap();
    for sql in NASTY {
        conn.execute_batch(sql).unwrap();
    }
    (path, folder.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_the_same_after_a_way_over_both_engines() {
    let (path, folder) = nasty_world().await;
    let back = empty_file(&folder, "back.db");
    let there = CopyPlace::File(path.clone());
    let here = CopyPlace::File(back.clone());
    let Some((first, second)) = two_schemas().await else {
        copied(there, here).await.unwrap();
        assert_eq!(rows(&path), rows(&back));
        return;
    };
    let out = copied(there, server(&first)).await.unwrap();
    let beside = copied(server(&first), server(&second)).await.unwrap();
    let home = copied(server(&second), here).await.unwrap();
    assert_eq!(rows(&path), rows(&back));
    assert_eq!(made(&path), made(&back));
    assert_eq!((&out, &beside), (&beside, &home));
    assert_eq!(out.texts_changed, 0);
    let turns = out.tables.iter().find(|table| table.name == "turn_start");
    assert_eq!(turns.unwrap().sum.rows, 3);
    check_goes_on(&back, &second).await;
}

async fn two_schemas() -> Option<(PostgresSchema, PostgresSchema)> {
    Some((
        PostgresSchema::create().await?,
        PostgresSchema::create().await?,
    ))
}

/// Whoever opens the copies writes behind what is there, with all guards.
async fn check_goes_on(file: &Path, schema: &PostgresSchema) {
    let options = || StoreOptions::defaults(at(9));
    let stores = [
        Store::open(file, options()).unwrap(),
        Store::connect(&schema.url, None, options()).await.unwrap(),
    ];
    for (n, store) in stores.into_iter().enumerate() {
        let world = StoreWorld::fill_again(store, n).await;
        let turn = world.accept(10).await;
        let status = world.store.turn_status(world.organization, turn).await;
        assert_eq!(status.unwrap(), Some(TurnStatus::Running));
    }
    let conn = Connection::open(file).unwrap();
    let key: i64 = conn
        .query_row("SELECT max(key) FROM turn", [], |row| row.get(0))
        .unwrap();
    let client = schema.client().await;
    let sql = "SELECT max(key) FROM turn";
    let there: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!((key, there), (4, 4));
    let end = "UPDATE turn_state SET status = 'failed', ended_us = 1 WHERE status = 'completed'";
    let refused = client.batch_execute(end).await.unwrap_err();
    assert!(
        format!("{refused:?}").contains("a final turn"),
        "{refused:?}"
    );
    let orphan = "UPDATE turn_start SET parent = 99 WHERE key = 4";
    let refused = client.batch_execute(orphan).await.unwrap_err();
    assert!(
        format!("{refused:?}").contains("foreign key"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nul_is_replaced_on_the_way_to_a_server_and_counted() {
    let (path, _folder) = nasty_world().await;
    let Some(schema) = PostgresSchema::create().await else {
        return;
    };
    let conn = Connection::open(&path).unwrap();
    let nul = "UPDATE turn_start SET model = 'a' || char(0) || 'b' WHERE key < 3";
    conn.execute_batch(nul).unwrap();
    let report = copied(CopyPlace::File(path), server(&schema))
        .await
        .unwrap();
    assert_eq!(report.texts_changed, 2);
    let client = schema.client().await;
    let rows = client
        .query("SELECT model FROM turn WHERE key < 3", &[])
        .await
        .unwrap();
    let models: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(models, ["a\u{fffd}b"; 2]);
}

/// The server's part is one transaction, and the next copy begins anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_ends_early_leaves_nothing_and_the_next_one_succeeds() {
    let (path, _folder) = nasty_world().await;
    let Some(schema) = PostgresSchema::create().await else {
        return;
    };
    // An organization that is not there, in a column that only references guard.
    let conn = Connection::open(&path).unwrap();
    let dangling = "PRAGMA foreign_keys = OFF; UPDATE turn_input SET parent = 99 WHERE turn = 3";
    conn.execute_batch(dangling).unwrap();
    let refused = copied(CopyPlace::File(path.clone()), server(&schema)).await;
    assert!(matches!(refused, Err(CopyError::Target(_))), "{refused:?}");
    let client = schema.client().await;
    let sql = "SELECT count(*) FROM organization";
    let left: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(left, 0);
    conn.execute_batch("UPDATE turn_input SET parent = NULL")
        .unwrap();
    copied(CopyPlace::File(path), server(&schema))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_copied_is_refused() {
    let (path, folder) = nasty_world().await;
    let file = || CopyPlace::File(path.clone());
    let empty = || CopyPlace::File(empty_file(&folder, "empty.db"));
    let other = empty_file(&folder, "other.db");
    let conn = Connection::open(&other).unwrap();
    conn.execute_batch("CREATE TABLE elsewhere (a)").unwrap();
    let refused = copied(empty(), file()).await;
    assert!(
        matches!(refused, Err(CopyError::SourceEmpty)),
        "{refused:?}"
    );
    let refused = copied(file(), CopyPlace::File(path.clone())).await;
    assert!(
        matches!(refused, Err(CopyError::TargetNotEmpty)),
        "{refused:?}"
    );
    let refused = copied(CopyPlace::File(other), empty()).await;
    assert!(
        matches!(refused, Err(CopyError::SourceSchema(_))),
        "{refused:?}"
    );
    let conn = Connection::open(&path).unwrap();
    let broken = "UPDATE turn_start SET model = CAST(x'61ff' AS TEXT) WHERE key = 2";
    conn.execute_batch(broken).unwrap();
    let refused = copied(file(), empty()).await.unwrap_err();
    let said = "row 2 of turn_start: column model holds text that is not UTF-8";
    assert_eq!(refused.to_string(), said);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_in_use_or_not_empty_is_refused() {
    let Some(world) = StoreWorld::on_postgres().await else {
        return;
    };
    let schema = world.schema.as_ref().unwrap();
    let Some(other) = PostgresSchema::create().await else {
        return;
    };
    let refused = copied(server(&other), server(schema)).await;
    assert!(
        matches!(refused, Err(CopyError::SourceEmpty)),
        "{refused:?}"
    );
    let (path, _folder) = nasty_world().await;
    let refused = copied(CopyPlace::File(path.clone()), server(schema)).await;
    assert!(
        matches!(refused, Err(CopyError::TargetNotEmpty)),
        "{refused:?}"
    );
    let lease = world.store.join("server", Duration::from_secs(60)).await;
    let lease = lease.unwrap().unwrap();
    let refused = copied(server(schema), server(&other)).await;
    assert!(
        matches!(refused, Err(CopyError::SourceInUse)),
        "{refused:?}"
    );
    let refused = copied(CopyPlace::File(path), server(schema)).await;
    assert!(
        matches!(refused, Err(CopyError::TargetInUse)),
        "{refused:?}"
    );
    lease.leave().await;
}

impl StoreWorld {
    /// A store that holds a record, with an organization and a key beside what is there.
    async fn fill_again(store: Store, n: usize) -> Self {
        let slug = format!("again {n}");
        let organization = crate::world::create_organization(&store, &slug).await;
        let key = crate::world::api_key(organization, 200);
        let created = store.apply(vec![tw_core::change::Change::CreateApiKey(key)]);
        let [Outcome::ApiKey(key)] = created.await.unwrap()[..] else {
            panic!("no key")
        };
        Self {
            store,
            organization,
            key,
            stranger: organization,
            path: None,
            folder: None,
            schema: None,
        }
    }
}
