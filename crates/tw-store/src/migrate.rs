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
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        name: "turns",
        sql: include_str!("../migrations/0001_turns.sql"),
    },
    Migration {
        name: "tools",
        sql: include_str!("../migrations/0002_tools.sql"),
    },
    Migration {
        name: "speed",
        sql: include_str!("../migrations/0003_speed.sql"),
    },
    Migration {
        name: "rate",
        sql: include_str!("../migrations/0004_rate.sql"),
    },
    Migration {
        name: "memory",
        sql: include_str!("../migrations/0005_memory.sql"),
    },
    Migration {
        name: "conversations",
        sql: include_str!("../migrations/0006_conversations.sql"),
    },
    Migration {
        name: "repeats",
        sql: include_str!("../migrations/0007_repeats.sql"),
    },
    Migration {
        name: "states",
        sql: include_str!("../migrations/0008_states.sql"),
    },
    Migration {
        name: "bodies",
        sql: include_str!("../migrations/0009_bodies.sql"),
    },
    Migration {
        name: "forgotten",
        sql: include_str!("../migrations/0010_forgotten.sql"),
    },
    Migration {
        name: "claims",
        sql: include_str!("../migrations/0011_claims.sql"),
    },
    Migration {
        name: "relayed",
        sql: include_str!("../migrations/0012_relayed.sql"),
    },
    Migration {
        name: "effects",
        sql: include_str!("../migrations/0013_effects.sql"),
    },
    Migration {
        name: "tools_mode",
        sql: include_str!("../migrations/0014_tools_mode.sql"),
    },
    Migration {
        name: "turns_read_all",
        sql: include_str!("../migrations/0015_turns_read_all.sql"),
    },
    Migration {
        name: "managed_keys",
        sql: include_str!("../migrations/0016_managed_keys.sql"),
    },
    Migration {
        name: "surfaces",
        sql: include_str!("../migrations/0017_surfaces.sql"),
    },
    Migration {
        name: "seal",
        sql: include_str!("../migrations/0019_seal.sql"),
    },
    Migration {
        name: "approvals",
        sql: include_str!("../migrations/0020_approvals.sql"),
    },
    Migration {
        name: "items",
        sql: include_str!("../migrations/0021_items.sql"),
    },
    Migration {
        name: "blobs",
        sql: include_str!("../migrations/0022_blobs.sql"),
    },
    Migration {
        name: "money",
        sql: include_str!("../migrations/0023_money.sql"),
    },
    Migration {
        name: "webhooks",
        sql: include_str!("../migrations/0025_webhooks.sql"),
    },
    Migration {
        name: "callbacks",
        sql: include_str!("../migrations/0026_callbacks.sql"),
    },
    Migration {
        name: "head_path",
        sql: include_str!("../migrations/0027_head_path.sql"),
    },
    Migration {
        name: "instances",
        sql: include_str!("../migrations/0029_instances.sql"),
    },
    Migration {
        name: "keeping",
        sql: include_str!("../migrations/0030_keeping.sql"),
    },
    Migration {
        name: "imported_rows",
        sql: include_str!("../migrations/0033_imported_rows.sql"),
    },
];

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
