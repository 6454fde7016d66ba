mod checks;
mod documented;

use rusqlite::Connection;
use tw_core::time::Timestamp;

use super::{MIGRATIONS, MigrateError, Migration, run};

const AT: Timestamp = Timestamp(1);
const ONE: Migration = Migration {
    name: "one",
    sql: "CREATE TABLE one (a) ",
};
const TWO: Migration = Migration {
    name: "two",
    sql: "CREATE TABLE two (a)",
};

fn memory() -> Connection {
    Connection::open_in_memory().unwrap()
}

#[test]
fn only_what_is_new_is_applied() {
    let mut conn = memory();
    assert_eq!(run(&mut conn, &[ONE], AT).unwrap(), 1);
    assert_eq!(run(&mut conn, &[ONE], AT).unwrap(), 0);
    assert_eq!(run(&mut conn, &[ONE, TWO], AT).unwrap(), 1);
    conn.execute("INSERT INTO two VALUES (1)", []).unwrap();
}

#[test]
fn a_newer_database_is_refused() {
    let mut conn = memory();
    run(&mut conn, &[ONE, TWO], AT).unwrap();
    let error = run(&mut conn, &[ONE], AT).unwrap_err();
    assert!(
        matches!(error, MigrateError::Newer { found: 2, known: 1 }),
        "{error}"
    );
}

#[test]
fn another_history_is_refused() {
    let mut conn = memory();
    run(&mut conn, &[ONE], AT).unwrap();
    let error = run(&mut conn, &[TWO], AT).unwrap_err();
    assert!(
        matches!(error, MigrateError::Altered { number: 1, .. }),
        "{error}"
    );
}

#[test]
fn another_programs_file_is_refused_and_left_alone() {
    let mut conn = memory();
    conn.execute("CREATE TABLE theirs (a)", []).unwrap();
    let error = run(&mut conn, MIGRATIONS, AT).unwrap_err();
    assert!(matches!(error, MigrateError::Foreign), "{error}");
    let tables: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn a_step_that_fails_leaves_nothing_behind() {
    let mut conn = memory();
    let broken = Migration {
        name: "broken",
        sql: "CREATE TABLE fine (a); CREATE TABLE fine (a)",
    };
    let error = run(&mut conn, &[ONE, broken], AT).unwrap_err();
    assert!(
        matches!(error, MigrateError::Step { number: 2, .. }),
        "{error}"
    );
    assert_eq!(run(&mut conn, &[ONE, TWO], AT).unwrap(), 2);
}
