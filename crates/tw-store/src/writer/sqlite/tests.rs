use rusqlite::Connection;
use tw_core::change::{Change, ChangeGroup, NewOrganization};
use tw_core::time::Timestamp;

use super::SqliteCommits;
use crate::apply::{GuardRules, StoreApplyError};
use crate::blob::WritableGroup;
use crate::connection;
use crate::migrate::{self, MIGRATIONS};
use crate::writer::{GroupAnswer, WriterEngine};

fn database() -> Connection {
    let mut conn = connection::open_memory().unwrap();
    migrate::run(&mut conn, MIGRATIONS, Timestamp(0)).unwrap();
    conn
}

fn create(slug: &str) -> Vec<Change> {
    vec![Change::CreateOrganization(NewOrganization {
        slug: slug.to_owned(),
        name: String::new(),
        at: Timestamp(0),
    })]
}

fn slugs(conn: &Connection) -> Vec<String> {
    let mut statement = conn
        .prepare("SELECT slug FROM organization ORDER BY slug")
        .unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn run(conn: &Connection, groups: &[Vec<Change>]) -> Vec<GroupAnswer> {
    let groups = groups.iter().cloned().map(ChangeGroup::Free);
    let groups: Vec<_> = groups.map(|group| WritableGroup::new(group, 0)).collect();
    SqliteCommits::of(conn, GuardRules::STRICT).commit(&groups)
}

#[test]
fn members_succeed_and_fail_each_for_itself() {
    let conn = database();
    let twice: Vec<Change> = [create("c"), create("a")].concat();
    let answers = run(&conn, &[create("a"), create("a"), create("b"), twice]);
    let succeeded: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(succeeded, [true, false, true, false]);
    assert_eq!(slugs(&conn), ["a", "b"]);
    assert!(conn.is_autocommit());
    assert!(run(&conn, &[]).is_empty());
}

#[test]
fn a_commit_that_fails_leaves_every_member_that_had_succeeded_unknown() {
    let conn = database();
    // A reference that is checked only by the commit, and broken by the insert.
    conn.execute_batch(
        "CREATE TABLE late (organization INTEGER REFERENCES api_key (key) DEFERRABLE INITIALLY DEFERRED);
         CREATE TRIGGER break_commit AFTER INSERT ON organization WHEN new.slug = 'break'
         BEGIN INSERT INTO late VALUES (99); END",
    )
    .unwrap();
    let answers = run(&conn, &[create("a"), create("a"), create("break")]);
    let [first, second, third] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert!(
        matches!(first, Err(StoreApplyError::Unknown { source: Some(_) })),
        "{first:?}"
    );
    assert!(
        matches!(second, Err(StoreApplyError::Conflict { .. })),
        "{second:?}"
    );
    assert!(
        matches!(third, Err(StoreApplyError::Unknown { source: Some(_) })),
        "{third:?}"
    );
    assert!(slugs(&conn).is_empty() && conn.is_autocommit());
    // The writer goes on.
    assert!(run(&conn, &[create("a")])[0].is_ok());
}

#[test]
fn a_transaction_that_rolled_itself_back_is_lost_to_all() {
    let conn = database();
    conn.execute_batch(
        "CREATE TRIGGER roll_back AFTER INSERT ON organization WHEN new.slug = 'break'
         BEGIN SELECT RAISE(ROLLBACK, 'gone'); END",
    )
    .unwrap();
    let answers = run(&conn, &[create("a"), create("break"), create("b")]);
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    assert_eq!(answers.len(), 3);
    assert!(slugs(&conn).is_empty());
    assert!(run(&conn, &[create("b")])[0].is_ok());
}

#[test]
fn a_full_disk_fails_the_group_and_not_the_writer() {
    let conn = database();
    let pages: i64 = conn
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .unwrap();
    conn.pragma_update(None, "max_page_count", pages).unwrap();
    let long = "x".repeat(1024 * 1024);
    let answers = run(&conn, &[create("a"), create(&long)]);
    assert!(
        answers
            .iter()
            .any(|answer| matches!(answer, Err(StoreApplyError::Db { .. }))),
        "{answers:?}"
    );
    conn.pragma_update(None, "max_page_count", i64::from(u32::MAX >> 1))
        .unwrap();
    assert!(run(&conn, &[create("b")])[0].is_ok());
    assert!(slugs(&conn).contains(&"b".to_owned()));
}

#[test]
fn a_database_that_another_one_is_writing_to_fails_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut conn = connection::open_writer(&path).unwrap();
    migrate::run(&mut conn, MIGRATIONS, Timestamp(0)).unwrap();
    conn.busy_timeout(std::time::Duration::ZERO).unwrap();
    let other = connection::open_writer(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answers = run(&conn, &[create("a"), create("b")]);
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Err(StoreApplyError::Db { .. }))),
        "{answers:?}"
    );
    other.execute_batch("ROLLBACK").unwrap();
    assert!(run(&conn, &[create("a")])[0].is_ok());
}
