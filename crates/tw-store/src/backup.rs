//! A copy of a database that is in use.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use crate::connection::{self, VisitingReader};
use crate::db_error::DbError;
use crate::migrate::{MIGRATIONS, MigrateError, history};
use crate::read::ReadError;
use crate::session::ReadSession;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("reading {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: DbError,
    },
    #[error("{path} holds nothing of this program")]
    Empty { path: PathBuf },
    #[error("reading {path}")]
    Schema {
        path: PathBuf,
        #[source]
        source: MigrateError,
    },
    #[error("writing {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: DbError,
    },
    #[error("writing {path} to the disk")]
    Sync {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the copy is not sound: {0}")]
    Unsound(String),
}

/// Copies the database as it is at one moment into the empty file `copy`, and checks the copy. Blocks.
///
/// The copy holds what was committed when this began; writers go on meanwhile, but the write-ahead
/// log cannot be emptied before this ends. What was erased is not in it: `VACUUM INTO` copies rows,
/// not pages.
///
/// # Errors
/// See [`BackupError`]; `copy` is of no use then.
pub fn back_up(database: &Path, copy: &Path) -> Result<(), BackupError> {
    let read = |source: rusqlite::Error| BackupError::Read {
        path: database.to_owned(),
        source: source.into(),
    };
    let write = |source: rusqlite::Error| BackupError::Write {
        path: copy.to_owned(),
        source: source.into(),
    };
    let conn = VisitingReader::enter(database).map_err(read)?;
    let known = history(&conn, MIGRATIONS).map_err(|source| BackupError::Schema {
        path: database.to_owned(),
        source,
    })?;
    if known == 0 {
        return Err(BackupError::Empty {
            path: database.to_owned(),
        });
    }
    let Some(into) = copy.to_str() else {
        return Err(write(rusqlite::Error::InvalidPath(copy.to_owned())));
    };
    conn.execute("VACUUM INTO ?1", params![into])
        .map_err(write)?;
    drop(conn);
    let found = connection::open_reader(copy)
        .and_then(|conn| faults(&conn))
        .map_err(write)?;
    if let Some(first) = found.into_iter().next() {
        return Err(BackupError::Unsound(first));
    }
    let synced = File::open(copy).and_then(|file| file.sync_all());
    synced.map_err(|source| BackupError::Sync {
        path: copy.to_owned(),
        source,
    })
}

/// Faults that SQLite finds in a file, references between rows included; empty when it is sound.
pub(crate) fn faults(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut whole = conn.prepare("PRAGMA integrity_check")?;
    for line in whole.query_map([], |row| row.get::<_, String>(0))? {
        found.push(line?);
    }
    found.retain(|line| line != "ok");
    let mut references = conn.prepare("PRAGMA foreign_key_check")?;
    for table in references.query_map([], |row| row.get::<_, String>(0))? {
        found.push(format!("a row of {} refers to nothing", table?));
    }
    Ok(found)
}

/// [`faults`] of the database that a session reads.
pub(crate) fn faults_of(db: ReadSession<'_>) -> Result<Vec<String>, ReadError> {
    match db {
        ReadSession::Sqlite(conn) => Ok(faults(conn).map_err(DbError::from)?),
        // The server checks its pages as it reads them, and references as they are written.
        ReadSession::Postgres(_) => Ok(Vec::new()),
    }
}
