//! Opening connections to SQLite, each with the settings that durability and speed rest on.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::store::log_path;

/// The time that a statement waits for another process's write, such as an admin command's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Size to which a checkpoint cuts the write-ahead log, in bytes.
///
/// A long reader lets the log grow; without a limit the file keeps that size for good.
const JOURNAL_SIZE_LIMIT_BYTES: i64 = 64 * 1024 * 1024;

/// Page cache of one connection, in KiB. What is written is at the ends of tables and indexes, a few pages of each;
/// the rest is in the operating system's cache.
const CACHE_KIB: i64 = 4 * 1024;

/// The same where rows come by the thousand: what one transaction changes is more than [`CACHE_KIB`], and would be written
/// to the log, read again and written again before it ends.
const FILLING_CACHE_KIB: i64 = 64 * 1024;
/// Pages that the log holds then before they go into the database file: those of indexes change again and again.
const FILLING_LOG_PAGES: i64 = 8 * 1024;

/// Number of prepared statements that a connection keeps: more than there are in this crate.
const STATEMENTS_CACHED: usize = 128;

/// The one connection that writes.
pub fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "journal_size_limit", JOURNAL_SIZE_LIMIT_BYTES)?;
    // What is erased is overwritten where that costs no further write.
    conn.pragma_update(None, "secure_delete", "FAST")?;
    settle(&conn)?;
    Ok(conn)
}

/// Settings of the connection that writes, where rows come by the thousand.
pub fn expect_many_rows(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "cache_size", -FILLING_CACHE_KIB)?;
    conn.pragma_update_and_check(None, "wal_autocheckpoint", FILLING_LOG_PAGES, |_| Ok(()))
}

/// A connection that cannot write.
pub fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    settle(&conn)?;
    Ok(conn)
}

/// A reader that passes by and leaves the folder as it found it.
///
/// One that only reads makes a log and its index where there are none, and cannot remove them.
/// What stays would belong to whoever passed by, and the server could not open it.
pub struct VisitingReader {
    // Closed before what it made is removed.
    conn: Connection,
    _leaving: Leaving,
}

struct Leaving {
    database: PathBuf,
    found_log: bool,
}

impl VisitingReader {
    pub fn enter(database: &Path) -> rusqlite::Result<Self> {
        let leaving = Leaving {
            database: database.to_owned(),
            found_log: log_path(database).exists(),
        };
        Ok(Self {
            conn: open_reader(database)?,
            _leaving: leaving,
        })
    }
}

impl Deref for VisitingReader {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.conn
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if self.found_log || !log_path(&self.database).exists() {
            return;
        }
        // Only SQLite knows whether somebody else has come meanwhile: the last connection that
        // could write removes both files when it closes, and no other.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let closed = Connection::open_with_flags(&self.database, flags)
            .and_then(|conn| conn.query_row("PRAGMA schema_version", [], |_| Ok(())));
        if let Err(error) = closed {
            tracing::debug!(error = %error, "an empty write-ahead log stays");
        }
    }
}

/// Brings what is in the write-ahead log into the database file, and empties the log; waits for
/// nobody. `false` when another connection reads or writes, so that something may be left.
pub fn empty_log(conn: &Connection) -> rusqlite::Result<bool> {
    conn.busy_timeout(Duration::ZERO)?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get("busy").map(|busy: i64| busy == 0)
    })
}

/// A database that lives as long as the connection.
pub fn open_memory() -> rusqlite::Result<Connection> {
    let conn = Connection::open_in_memory()?;
    settle(&conn)?;
    Ok(conn)
}

fn settle(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // Cached statements keep their plan whatever is bound to them.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    Ok(())
}
