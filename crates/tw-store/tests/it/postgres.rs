//! What belongs to PostgreSQL only.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use tw_core::change::{Change, ClaimTurn, NewTurn, Outcome};
use tw_store::apply::StoreApplyError;
use tw_store::store::{OpenError, Store, StoreOptions};
use tw_testkit::postgres::PostgresSchema;

use crate::world::{StoreWorld, at, turn_id};

/// Of each column: its table, its name, its type in SQLite's words, and whether it may be null.
type Columns = BTreeSet<(String, String, String, bool)>;

#[tokio::test]
async fn both_schemas_have_the_same_columns() {
    let Some(world) = StoreWorld::on_postgres().await else {
        return;
    };
    let client = world.schema.as_ref().unwrap().client().await;
    let sql = "SELECT table_name::text, column_name::text,
            CASE data_type WHEN 'bigint' THEN 'INTEGER' WHEN 'smallint' THEN 'INTEGER' WHEN 'text' THEN 'TEXT'
                WHEN 'bytea' THEN 'BLOB' ELSE data_type END,
            is_nullable = 'YES'
        FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
        WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'";
    let rows = client.query(sql, &[]).await.unwrap();
    let columns = rows.iter();
    let postgres: Columns = columns
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)))
        .collect();
    let file = StoreWorld::on_disk().await;
    let conn = rusqlite::Connection::open(file.path.as_ref().unwrap()).unwrap();
    let sql = "SELECT t.name, c.name, c.type, c.\"notnull\" = 0 AND c.pk = 0
        FROM sqlite_schema t JOIN pragma_table_info(t.name) c
        WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = conn.prepare(sql).unwrap();
    let columns = statement.query_map([], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    });
    let sqlite: Columns = columns.unwrap().map(Result::unwrap).collect();
    let differing: Vec<_> = postgres.symmetric_difference(&sqlite).collect();
    assert!(differing.is_empty(), "{differing:#?}");
    assert!(postgres.len() > 100);
}

#[tokio::test]
async fn two_stores_on_one_database_agree_on_a_key_and_on_a_claim() {
    let Some(world) = StoreWorld::on_postgres().await else {
        return;
    };
    let second = world.beside().await.store;
    for n in (1..40_u128).step_by(2) {
        let pair = n;
        let keyed = |n| NewTurn {
            idempotency_key: Some(format!("key {pair}")),
            end_user: Some(format!("user {pair}")),
            ..world.new_turn(n)
        };
        let (one, other) = tokio::join!(
            world.store.accept_turn(Box::new(keyed(n)), Vec::new()),
            second.accept_turn(Box::new(keyed(n + 1)), Vec::new()),
        );
        let (one, other) = (one.unwrap()[0].clone(), other.unwrap()[0].clone());
        let turn = match (&one, &other) {
            (
                Outcome::Done,
                Outcome::KeyTaken {
                    turn,
                    same_request: true,
                },
            ) => {
                assert_eq!(*turn, turn_id(n));
                *turn
            }
            (
                Outcome::KeyTaken {
                    turn,
                    same_request: true,
                },
                Outcome::Done,
            ) => {
                assert_eq!(*turn, turn_id(n + 1));
                *turn
            }
            both => panic!("{both:?}"),
        };
        let claim = |owner: &str| {
            vec![Change::ClaimTurn(ClaimTurn {
                organization: world.organization,
                turn,
                owner: owner.to_owned(),
                at: at(9),
            })]
        };
        let (one, other) = tokio::join!(
            world.store.apply(claim("boot 2")),
            second.apply(claim("boot 3")),
        );
        let fences: BTreeSet<i64> = [one, other]
            .into_iter()
            .map(|claimed| match claimed.unwrap()[..] {
                [Outcome::Claimed { fence, .. }] => fence,
                ref other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(fences, BTreeSet::from([2, 3]));
    }
}

/// Batches of turns that are accepted, and how many are in one. With each, all connections are killed.
const BATCHES: u128 = 40;
const BATCH: u128 = 8;

#[tokio::test]
async fn nothing_that_was_acknowledged_is_lost_while_connections_are_killed() {
    let Some(world) = StoreWorld::on_postgres().await else {
        return;
    };
    let schema = world.schema.as_ref().unwrap();
    let killer = schema.outside().await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    let mut killed = 0;
    let mut acknowledged = Vec::new();
    for batch in 0..BATCHES {
        let numbers: Vec<u128> = (1..=BATCH).map(|n| batch * BATCH + n).collect();
        let accepted = numbers.iter().map(|n| world.accept_new(world.new_turn(*n)));
        let killing = async { killer.query(kill, &[&schema.name]).await };
        let (accepted, rows) = tokio::join!(join_all(accepted), killing);
        killed += rows.unwrap().len();
        for (n, accepted) in numbers.into_iter().zip(accepted) {
            match accepted {
                Ok(Outcome::Done) => acknowledged.push(n),
                Ok(other) => panic!("{other:?}"),
                Err(StoreApplyError::Unknown { .. } | StoreApplyError::Db { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    assert!(killed >= 20, "{killed}");
    assert!(acknowledged.len() >= 20, "{}", acknowledged.len());
    let client = schema.client().await;
    let rows = client.query("SELECT id FROM turn", &[]).await.unwrap();
    let found: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    for n in acknowledged {
        assert!(found.contains(&turn_id(n).to_string()), "{n} is lost");
    }
    // The store goes on.
    world.accept(BATCHES * BATCH + 1).await;
}

#[tokio::test]
async fn another_programs_tables_and_a_newer_schema_are_refused() {
    for (sql, expected) in [
        ("CREATE TABLE turn (a int)", "not of this program"),
        (
            "CREATE TABLE migration (number bigint, name text, checksum bytea);
             INSERT INTO migration VALUES (1, 'schema', ''), (2, 'later', '')",
            "use a newer program",
        ),
        (
            "CREATE TABLE migration (number bigint, name text, checksum bytea);
             INSERT INTO migration VALUES (1, 'schema', '')",
            "is not the one of this program",
        ),
    ] {
        let Some(schema) = PostgresSchema::create().await else {
            return;
        };
        schema.client().await.batch_execute(sql).await.unwrap();
        let opened = Store::connect(&schema.url, None, StoreOptions::defaults(at(1))).await;
        let Err(OpenError::Migrate(error)) = opened else {
            panic!("{sql} was taken: {opened:?}")
        };
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_at_once() {
    let nowhere = "postgres://nobody@127.0.0.1:1/none";
    for url in [nowhere, "mysql://a/b", ""] {
        let opened = Store::connect(url, None, StoreOptions::defaults(at(1))).await;
        assert!(matches!(opened, Err(OpenError::Connect(_))), "{url}");
    }
}
