//! The schema of PostgreSQL.

use tw_core::time::Timestamp;

use super::{MigrateError, Migration, check_rows, checksum, index_to_number};
use crate::db_error::DbError;
use crate::session::bound::params;
use crate::session::postgres::PgConnection;

/// The migrations, numbered from 1 in this order.
pub const MIGRATIONS: &[Migration] = &[Migration {
    name: "schema",
    sql: include_str!("../../migrations/postgres/0001_schema.sql"),
}];

const OWN_TABLE: &str = "CREATE TABLE IF NOT EXISTS migration (
    number     bigint PRIMARY KEY,
    name       text   NOT NULL,
    -- SHA-256 of the file.
    checksum   bytea  NOT NULL,
    created_us bigint NOT NULL,
    updated_us bigint NOT NULL
)";

/// Whoever starts first makes the schema, and the others wait.
const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('turnwright migration ' || current_schema(), 0))
    IS NULL";

/// Applies in one transaction what the program has beyond the database, and returns how much that was.
///
/// # Errors
/// Refuses a database that is newer, has another history or belongs to another program; nothing was changed then.
pub fn run(conn: &PgConnection, at: Timestamp) -> Result<usize, MigrateError> {
    conn.frame("BEGIN")?;
    let done = run_within(conn, at);
    match &done {
        Ok(_) => conn.frame("COMMIT")?,
        Err(_) if conn.is_lost() => {}
        Err(_) => conn.frame("ROLLBACK")?,
    }
    done
}

fn run_within(conn: &PgConnection, at: Timestamp) -> Result<usize, MigrateError> {
    conn.query(LOCK, &[])?;
    let have = history(conn)?;
    conn.frame(OWN_TABLE)?;
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(have) {
        let number = index + 1;
        let step = |source| MigrateError::Step { number, source };
        conn.frame(migration.sql).map_err(step)?;
        let number = index_to_number(index);
        let insert = "INSERT INTO migration (number, name, checksum, created_us, updated_us)
                      VALUES (?1, ?2, ?3, ?4, ?4)";
        let row = params![number, migration.name, checksum(migration.sql), at.0];
        conn.execute(insert, row).map_err(step)?;
    }
    Ok(MIGRATIONS.len() - have)
}

/// The number of migrations that the database has; nothing is changed.
///
/// # Errors
/// As [`run`].
pub fn history(conn: &PgConnection) -> Result<usize, MigrateError> {
    let tables = "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'migration'),
        EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename IN ('turn', 'turn_start'))";
    let rows = conn.query(tables, &[])?;
    let found = |place: usize| -> Result<bool, DbError> {
        rows.first()
            .map_or(Ok(false), |row| Ok(row.try_get(place)?))
    };
    match (found(0)?, found(1)?) {
        (false, true) => return Err(MigrateError::Foreign),
        (false, false) => return Ok(0),
        (true, _) => {}
    }
    let rows = conn.query(
        "SELECT number, name, checksum FROM migration ORDER BY number",
        &[],
    )?;
    let rows = rows
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)));
    let rows: Result<Vec<(i64, String, Vec<u8>)>, DbError> = rows.collect();
    check_rows(&rows?, MIGRATIONS)
}
