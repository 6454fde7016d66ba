use rusqlite::{Connection, OpenFlags};
use tw_core::turn_status::TurnStatus;
use tw_store::migrate::{MIGRATIONS, MigrateError};
use tw_store::store::{OpenError, Store, StoreOptions};

use crate::world::{StoreWorld, at, create_organization, turn_id};

#[tokio::test]
async fn what_was_written_is_there_after_opening_again() {
    let world = StoreWorld::on_disk().await;
    let turn = world.accept(1).await;
    let StoreWorld {
        store,
        organization,
        path,
        folder: _folder,
        ..
    } = world;
    drop(store);
    let store = Store::open(path.as_ref().unwrap(), StoreOptions::defaults(at(1))).unwrap();
    assert_eq!(
        store.turn_status(organization, turn).await.unwrap(),
        Some(TurnStatus::Running)
    );
    assert_eq!(store.integrity_check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn the_last_handle_waits_for_what_is_queued() {
    let world = StoreWorld::on_disk().await;
    let path = world.path.clone().unwrap();
    let accepted = tokio::join!(world.accept(1), world.accept(2));
    assert_eq!(accepted, (turn_id(1), turn_id(2)));
    let StoreWorld {
        store,
        folder: _folder,
        ..
    } = world;
    drop(store);
    assert_eq!(count_turns(&Connection::open(path).unwrap()), 2);
}

/// Whoever else has the database open, as long as it is in the midst of nothing.
#[tokio::test]
async fn after_a_clean_end_the_file_alone_is_the_whole_database() {
    for looked_at_by_others in [false, true] {
        let world = StoreWorld::on_disk().await;
        let path = world.path.clone().unwrap();
        let turn = world.accept(1).await;
        // The store's own readers are open, too.
        let status = world.store.turn_status(world.organization, turn).await;
        assert_eq!(status.unwrap(), Some(TurnStatus::Running));
        let other = looked_at_by_others.then(|| {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
            let other = Connection::open_with_flags(&path, flags).unwrap();
            assert_eq!(count_turns(&other), 1);
            other
        });
        let StoreWorld {
            store,
            folder: _folder,
            ..
        } = world;
        drop(store);
        let log = std::fs::metadata(path.with_extension("db-wal"));
        assert_eq!(log.map_or(0, |log| log.len()), 0);
        let alone = path.with_extension("copy");
        std::fs::copy(&path, &alone).unwrap();
        assert_eq!(count_turns(&Connection::open(&alone).unwrap()), 1);
        drop(other);
    }
}

fn count_turns(conn: &Connection) -> i64 {
    conn.query_row("SELECT count(*) FROM turn", [], |row| row.get(0))
        .unwrap()
}

#[tokio::test]
async fn two_stores_may_write_to_one_file() {
    let world = StoreWorld::on_disk().await;
    let second = Store::open(world.path.as_ref().unwrap(), StoreOptions::defaults(at(1))).unwrap();
    let made = create_organization(&second, "from the second").await;
    let found = tw_store::system::organization_by_slug(&world.store, "from the second")
        .await
        .unwrap();
    assert_eq!(found, Some(made));
    let turn = world.accept(1).await;
    let status = second.turn_status(world.organization, turn).await.unwrap();
    assert_eq!(status, Some(TurnStatus::Running));
}

#[tokio::test]
async fn every_commit_is_synced() {
    const FULL: i64 = 2;
    let world = StoreWorld::on_disk().await;
    assert_eq!(world.store.synchronous().await.unwrap(), FULL);
    let conn = Connection::open(world.path.as_ref().unwrap()).unwrap();
    let mode: String = conn
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let world = StoreWorld::on_disk().await;
    world.accept(1).await;
    let path = world.path.clone().unwrap();
    for name in [path.clone(), path.with_extension("db-wal")] {
        let mode = std::fs::metadata(&name).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", name.display());
    }
}

#[test]
fn a_newer_schema_another_history_and_a_foreign_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, sql: &str| {
        let path = folder.path().join(name);
        if name != "foreign.db" {
            drop(Store::open(&path, StoreOptions::defaults(at(0))).unwrap());
        }
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        match Store::open(&path, StoreOptions::defaults(at(1))) {
            Ok(_) => panic!("{name} was opened"),
            Err(error) => error,
        }
    };
    let newer = open(
        "newer.db",
        "INSERT INTO migration SELECT max(number) + 1, 'later', x'00', 0, 0 FROM migration",
    );
    assert!(
        matches!(
            newer,
            OpenError::Migrate(MigrateError::Newer { found, known })
                if known == MIGRATIONS.len() && found == known + 1
        ),
        "{newer}"
    );
    let altered = open("altered.db", "UPDATE migration SET checksum = x'00'");
    assert!(
        matches!(
            altered,
            OpenError::Migrate(MigrateError::Altered { number: 1, .. })
        ),
        "{altered}"
    );
    let foreign = open("foreign.db", "CREATE TABLE theirs (a)");
    // Nor was its journal made ours.
    let theirs = Connection::open(folder.path().join("foreign.db")).unwrap();
    let mode: String = theirs
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "delete");
    assert!(
        matches!(foreign, OpenError::Migrate(MigrateError::Foreign)),
        "{foreign}"
    );
}

#[test]
fn afolder_or_a_file_of_another_kind_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Store::open(
        &folder.path().join("no/such.db"),
        StoreOptions::defaults(at(0)),
    );
    assert!(matches!(missing, Err(OpenError::Create { .. })));
    let text = folder.path().join("text.db");
    std::fs::write(
        &text,
        "no database at all, and long enough to be looked at ".repeat(40),
    )
    .unwrap();
    assert!(matches!(
        Store::open(&text, StoreOptions::defaults(at(0))),
        Err(OpenError::Db { .. })
    ));
}
