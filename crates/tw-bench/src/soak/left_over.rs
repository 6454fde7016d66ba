//! Leftovers in a record after the load.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, OpenFlags};
use tokio::time::{Instant, sleep};

const POLL: Duration = Duration::from_millis(200);

fn open(database: &Path) -> anyhow::Result<Connection> {
    Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .with_context(|| format!("opening {}", database.display()))
}

fn running(conn: &Connection) -> anyhow::Result<u64> {
    let count: i64 = conn.query_row(
        "SELECT (SELECT count(*) FROM turn WHERE status = 'running')
              + (SELECT count(*) FROM tool_call WHERE ended_us IS NULL)",
        [],
        |row| row.get(0),
    )?;
    Ok(u64::try_from(count)?)
}

/// Waits until nothing runs, and says how much still does when the time is over.
///
/// # Errors
/// The database cannot be read.
pub async fn wait_until_none_runs(database: &Path, patience: Duration) -> anyhow::Result<u64> {
    let conn = open(database)?;
    let ends = Instant::now() + patience;
    loop {
        let left = running(&conn)?;
        if left == 0 || Instant::now() >= ends {
            return Ok(left);
        }
        sleep(POLL).await;
    }
}

/// The faults of the record of a server that has ended.
///
/// # Errors
/// The database cannot be read.
pub fn check(database: &Path, completed: &[String]) -> anyhow::Result<Vec<String>> {
    let conn = open(database)?;
    let mut wrong = Vec::new();
    let sound: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if sound != "ok" {
        wrong.push(format!("the database is broken: {sound}"));
    }
    let mut statement = conn.prepare("SELECT id FROM turn WHERE status = 'completed'")?;
    let mut recorded = HashSet::new();
    for id in statement.query_map([], |row| row.get::<_, String>(0))? {
        recorded.insert(id?);
    }
    let lost: Vec<&String> = completed
        .iter()
        .filter(|id| !recorded.contains(id.as_str()))
        .collect();
    if let Some(first) = lost.first() {
        wrong.push(format!(
            "{} turns were answered and are not completed in the record, {first} among them",
            lost.len()
        ));
    }
    let twice: i64 = conn.query_row(
        "SELECT count(*) FROM (
             SELECT 1 FROM attempt JOIN tool_call USING (turn, round, position)
             WHERE effect = 'once' GROUP BY turn, round, position HAVING count(*) > 1)",
        [],
        |row| row.get(0),
    )?;
    if twice > 0 {
        wrong.push(format!("{twice} calls of effect once were tried twice"));
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests;
