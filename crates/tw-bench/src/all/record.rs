//! The check of a record: whether the database holds every turn that was answered.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rusqlite::{Connection, OpenFlags};
use tw_testkit::postgres::PostgresSchema;

/// Where a server keeps its record.
#[derive(Debug)]
pub enum BenchRecord {
    /// A file of SQLite.
    File(PathBuf),
    /// A schema on a PostgreSQL server.
    Postgres(PostgresSchema),
}

/// Turns and calls that a server acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Turns answered whole and right.
    pub turns: u64,
    /// Calls that these made.
    pub calls: u64,
    /// Turns whose client left.
    pub left: u64,
}

/// Checks the record of a server that has ended.
///
/// # Errors
/// It is not sound, or holds other turns than were acknowledged.
pub fn check(record: &BenchRecord, acknowledged: Acknowledged) -> anyhow::Result<()> {
    match record {
        BenchRecord::File(database) => check_file(database, acknowledged),
        BenchRecord::Postgres(schema) => {
            let waiting = tokio::runtime::Runtime::new()?;
            let client = waiting.block_on(schema.client());
            check_counts(acknowledged, |sql| {
                let row = waiting.block_on(client.query_one(sql, &[]))?;
                Ok(row.try_get(0)?)
            })
        }
    }
}

fn check_file(database: &Path, acknowledged: Acknowledged) -> anyhow::Result<()> {
    let conn = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .with_context(|| format!("opening {}", database.display()))?;
    let sound: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    ensure!(sound == "ok", "the database is broken: {sound}");
    let dangling: i64 =
        conn.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| {
            row.get(0)
        })?;
    ensure!(dangling == 0, "{dangling} rows refer to nothing");
    check_counts(acknowledged, |sql| {
        Ok(conn.query_row(sql, [], |row| row.get(0))?)
    })
}

/// Compares what was acknowledged with what `count` finds by a statement.
fn check_counts(
    acknowledged: Acknowledged,
    mut count: impl FnMut(&str) -> anyhow::Result<i64>,
) -> anyhow::Result<()> {
    let rows = [
        (
            "turns",
            "SELECT count(*) FROM turn",
            acknowledged.turns + acknowledged.left,
        ),
        (
            "turns whose client left",
            "SELECT count(*) FROM turn WHERE status = 'cancelled' AND reason = 'client_left'",
            acknowledged.left,
        ),
        (
            "completed turns",
            "SELECT count(*) FROM turn WHERE status = 'completed'",
            acknowledged.turns,
        ),
        (
            "inputs of turns",
            "SELECT count(*) FROM turn_input",
            acknowledged.turns + acknowledged.left,
        ),
        (
            "tool calls",
            "SELECT count(*) FROM tool_call",
            acknowledged.calls,
        ),
        (
            "completed tool calls",
            "SELECT count(*) FROM tool_call WHERE status = 'completed'",
            acknowledged.calls,
        ),
    ];
    for (what, sql, expected) in rows {
        let found = count(sql).with_context(|| format!("counting {what}"))?;
        let found = u64::try_from(found)?;
        ensure!(
            found == expected,
            "the database holds {found} {what}; {expected} were acknowledged"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
