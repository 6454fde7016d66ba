//! A look at a database from outside, which changes nothing of it.

use std::path::Path;

use rusqlite::params;
use tw_core::time::Timestamp;

use crate::connection::VisitingReader;
use crate::db_error::DbError;
use crate::migrate::{MIGRATIONS, MigrateError, history};

/// A database that is looked at. Every function blocks.
pub struct DatabaseInspection(VisitingReader);

/// A tool of one organization, as its newest version says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSeen {
    pub organization_slug: String,
    pub name: String,
    /// The definition as JSON text.
    pub definition: String,
}

/// Turns and calls that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckRows {
    /// Turns that run.
    pub turns_running: u64,
    /// Running turns whose deadline has passed.
    pub turns_overdue: u64,
    /// Calls that are not final although their turn is.
    pub calls_left: u64,
}

impl DatabaseInspection {
    /// # Errors
    /// The file cannot be opened as a database.
    pub fn open(database: &Path) -> Result<Self, DbError> {
        Ok(Self(VisitingReader::enter(database)?))
    }

    /// The number of the database's schema, and that of this program's.
    ///
    /// # Errors
    /// The database is newer, has another history, or is not ours.
    pub fn schema(&self) -> Result<(usize, usize), MigrateError> {
        Ok((history(&self.0, MIGRATIONS)?, MIGRATIONS.len()))
    }

    /// Faults that a quick check finds; empty when there are none.
    ///
    /// # Errors
    /// The database cannot be read at all.
    pub fn faults(&self) -> Result<Vec<String>, DbError> {
        let mut check = self.0.prepare("PRAGMA quick_check")?;
        let lines = check.query_map([], |row| row.get::<_, String>(0))?;
        let mut found = lines.collect::<Result<Vec<_>, _>>()?;
        found.retain(|line| line != "ok");
        Ok(found)
    }

    /// # Errors
    /// The database cannot be read.
    pub fn stuck(&self, before: Timestamp) -> Result<StuckRows, DbError> {
        let count = |sql: &str, bound: &[&dyn rusqlite::ToSql]| {
            let found = self.0.query_row(sql, bound, |row| row.get::<_, i64>(0));
            found.map(|count| u64::try_from(count).unwrap_or(0))
        };
        Ok(StuckRows {
            turns_running: count("SELECT count(*) FROM turn WHERE status = 'running'", &[])?,
            turns_overdue: count(
                "SELECT count(*) FROM turn WHERE status = 'running' AND deadline_us < ?1",
                &[&before.0],
            )?,
            calls_left: count(
                "SELECT count(*) FROM tool_call c JOIN turn t ON t.key = c.turn
                 WHERE c.ended_us IS NULL AND c.runs <> 'outside'
                   AND t.status <> 'running'",
                &[],
            )?,
        })
    }

    /// The number of organizations.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn organizations(&self) -> Result<u64, DbError> {
        let sql = "SELECT count(*) FROM organization";
        let count: i64 = self.0.query_row(sql, [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// The tools that are not deleted, by organization and name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn tools(&self) -> Result<Vec<ToolSeen>, DbError> {
        let sql = "SELECT o.slug, v.name, v.definition
            FROM tool t JOIN organization o ON o.key = t.organization
            JOIN tool_version v ON v.tool = t.key AND v.version = t.version
            WHERE t.deleted_us IS NULL ORDER BY o.key, t.name";
        let mut statement = self.0.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            Ok(ToolSeen {
                organization_slug: row.get("slug")?,
                name: row.get("name")?,
                definition: row.get("definition")?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The newest time that stands in a turn; `None` when there is no turn.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn newest(&self) -> Result<Option<Timestamp>, DbError> {
        // The newest turn has the highest key.
        let sql = "SELECT max(created_us, updated_us) FROM turn ORDER BY key DESC LIMIT ?1";
        let mut statement = self.0.prepare(sql)?;
        let mut rows = statement.query(params![1])?;
        let newest = rows.next()?.map(|row| row.get(0).map(Timestamp));
        Ok(newest.transpose()?)
    }
}
