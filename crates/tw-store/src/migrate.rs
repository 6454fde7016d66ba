//! Brings a database to the schema of this program, forward only.

pub mod postgres;

use rusqlite::{Connection, TransactionBehavior, params};
use sha2::{Digest, Sha256};
use tw_core::time::Timestamp;

use crate::db_error::DbError;

/// A step of the schema's history. A published one is never edited.
pub struct Migration {
    pub name: &'static str,
    pub sql: &'static str,
}

/// The migrations, numbered from 1 in this order.
pub const MIGRATIONS: &[Migration] = &[Migration {
    name: "schema",
    sql: include_str!("../migrations/sqlite/0001_schema.sql"),
}];

const OWN_TABLE: &str = "CREATE TABLE IF NOT EXISTS migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    -- SHA-256 of the file.
    checksum   BLOB    NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL
) STRICT";

#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the database has schema {found}, this program knows {known}: use a newer program")]
    Newer { found: usize, known: usize },
    #[error("migration {number} ({name}) in the database is not the one of this program")]
    Altered { number: usize, name: String },
    #[error("the file holds tables that are not of this program")]
    Foreign,
    #[error("bringing the database to schema {number}")]
    Step {
        number: usize,
        #[source]
        source: DbError,
    },
    #[error("reading the schema's history")]
    Db(#[from] DbError),
}

impl From<rusqlite::Error> for MigrateError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Db(error.into())
    }
}

/// Applies in one transaction what `migrations` has beyond the database, and returns how many that were.
///
/// # Errors
/// Refuses a database that is newer, has another history or belongs to another program; nothing was changed then.
pub fn run(
    conn: &mut Connection,
    migrations: &[Migration],
    at: Timestamp,
) -> Result<usize, MigrateError> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if is_foreign(&tx)? {
        return Err(MigrateError::Foreign);
    }
    tx.execute(OWN_TABLE, [])?;
    let have = check_history(&tx, migrations)?;
    for (index, migration) in migrations.iter().enumerate().skip(have) {
        let number = index + 1;
        let step = |error: rusqlite::Error| MigrateError::Step {
            number,
            source: error.into(),
        };
        tx.execute_batch(migration.sql).map_err(step)?;
        let row = params![
            index_to_number(index),
            migration.name,
            checksum(migration.sql),
            at.0
        ];
        let insert = "INSERT INTO migration (number, name, checksum, created_us, updated_us)
                      VALUES (?1, ?2, ?3, ?4, ?4)";
        tx.execute(insert, row).map_err(step)?;
    }
    tx.commit()?;
    Ok(migrations.len() - have)
}

/// The number of migrations that the database has; nothing is changed.
///
/// # Errors
/// As [`run`].
pub fn history(conn: &Connection, migrations: &[Migration]) -> Result<usize, MigrateError> {
    if is_foreign(conn)? {
        return Err(MigrateError::Foreign);
    }
    if conn.table_exists(None, "migration")? {
        check_history(conn, migrations)
    } else {
        Ok(0)
    }
}

/// The number of migrations that the database has; each is the one we know by that number.
fn check_history(conn: &Connection, migrations: &[Migration]) -> Result<usize, MigrateError> {
    let mut statement =
        conn.prepare("SELECT number, name, checksum FROM migration ORDER BY number")?;
    let rows = statement.query_map([], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, Vec<u8>>(2)?,
        ))
    })?;
    check_rows(&rows.collect::<Result<Vec<_>, _>>()?, migrations)
}

/// The number of migrations among the rows of a history, each of which must be the one we know by that number.
fn check_rows(
    history: &[(i64, String, Vec<u8>)],
    migrations: &[Migration],
) -> Result<usize, MigrateError> {
    if history.len() > migrations.len() {
        return Err(MigrateError::Newer {
            found: history.len(),
            known: migrations.len(),
        });
    }
    for (index, ((number, name, found), known)) in history.iter().zip(migrations).enumerate() {
        if *number != index_to_number(index) || found[..] != checksum(known.sql) {
            return Err(MigrateError::Altered {
                number: index + 1,
                name: name.clone(),
            });
        }
    }
    Ok(history.len())
}

fn is_foreign(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row(
        "SELECT count(*) > 0 AND sum(name = 'migration') = 0 FROM sqlite_schema WHERE type = 'table'",
        [],
        |row| row.get::<_, Option<bool>>(0),
    )
    .map(|foreign| foreign.unwrap_or(false))
}

fn index_to_number(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX).saturating_add(1)
}

fn checksum(sql: &str) -> [u8; 32] {
    Sha256::digest(sql.as_bytes()).into()
}

#[cfg(test)]
mod tests;
