//! The check of a record: whether the database holds every turn that was answered.

use std::path::Path;

use anyhow::{Context, ensure};
use rusqlite::{Connection, OpenFlags};

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

/// Checks the database of a server that has ended.
///
/// # Errors
/// It is not sound, or holds other turns than were acknowledged.
pub fn check(database: &Path, acknowledged: Acknowledged) -> anyhow::Result<()> {
    let conn = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .with_context(|| format!("opening {}", database.display()))?;
    let sound: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    ensure!(sound == "ok", "the database is broken: {sound}");
    let dangling: i64 =
        conn.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| {
            row.get(0)
        })?;
    ensure!(dangling == 0, "{dangling} rows refer to nothing");
    let count = |sql: &str| -> anyhow::Result<u64> {
        let count: i64 = conn.query_row(sql, [], |row| row.get(0))?;
        Ok(u64::try_from(count)?)
    };
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
        ensure!(
            found == expected,
            "the database holds {found} {what}; {expected} were acknowledged"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
