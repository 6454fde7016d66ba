//! A look at a database from outside, which changes nothing of it.

use std::path::Path;

use tw_core::time::Timestamp;

use crate::connection::VisitingReader;
use crate::db_error::DbError;
use crate::migrate::{MIGRATIONS, MigrateError, history, postgres};
use crate::session::ReadSession;
use crate::session::bound::{Params, params};
use crate::session::postgres::{PgConnection, PostgresServer};
use crate::session::sql::Sql;

/// A database that is looked at. Every function blocks.
pub struct DatabaseInspection(Inspected);

enum Inspected {
    File(VisitingReader),
    Server(PgConnection),
}

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
        Ok(Self(Inspected::File(VisitingReader::enter(database)?)))
    }

    /// The database on a PostgreSQL server that `url` names; blocks.
    ///
    /// # Errors
    /// The URL is none, or the server does not take the connection.
    pub fn connect(url: &str, tls: Option<rustls::ClientConfig>) -> Result<Self, DbError> {
        let server = PostgresServer::of(url, tls)?;
        Ok(Self(Inspected::Server(server.connect()?)))
    }

    fn session(&self) -> ReadSession<'_> {
        match &self.0 {
            Inspected::File(conn) => ReadSession::Sqlite(conn),
            Inspected::Server(conn) => ReadSession::Postgres(conn),
        }
    }

    /// The number of the database's schema, and that of this program's.
    ///
    /// # Errors
    /// The database is newer, has another history, or is not ours.
    pub fn schema(&self) -> Result<(usize, usize), MigrateError> {
        match &self.0 {
            Inspected::File(conn) => Ok((history(conn, MIGRATIONS)?, MIGRATIONS.len())),
            Inspected::Server(conn) => Ok((postgres::history(conn)?, postgres::MIGRATIONS.len())),
        }
    }

    /// Faults that a quick check finds; empty when there are none. A server checks its pages as it reads them.
    ///
    /// # Errors
    /// The database cannot be read at all.
    pub fn faults(&self) -> Result<Vec<String>, DbError> {
        let Inspected::File(conn) = &self.0 else {
            return Ok(Vec::new());
        };
        let mut check = conn.prepare("PRAGMA quick_check")?;
        let lines = check.query_map([], |row| row.get::<_, String>(0))?;
        let mut found = lines.collect::<Result<Vec<_>, _>>()?;
        found.retain(|line| line != "ok");
        Ok(found)
    }

    /// # Errors
    /// The database cannot be read.
    pub fn stuck(&self, before: Timestamp) -> Result<StuckRows, DbError> {
        Ok(StuckRows {
            turns_running: self.count(TURNS_RUNNING, &[])?,
            turns_overdue: self.count(TURNS_OVERDUE, params![before.0])?,
            calls_left: self.count(CALLS_LEFT, &[])?,
        })
    }

    /// The number of organizations.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn organizations(&self) -> Result<u64, DbError> {
        self.count("SELECT count(*) FROM organization", &[])
    }

    fn count(&self, sql: &'static str, bound: Params<'_>) -> Result<u64, DbError> {
        let mut statement = self.session().prepare_cached(sql)?;
        let count: i64 = statement.one(bound, |row| row.get(0))?;
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
        let mut statement = self.session().prepare_cached(sql)?;
        let mut rows = statement.query(&[])?;
        let mut tools = Vec::new();
        while let Some(row) = rows.next()? {
            tools.push(ToolSeen {
                organization_slug: row.get("slug")?,
                name: row.get("name")?,
                definition: row.get("definition")?,
            });
        }
        Ok(tools)
    }

    /// The newest time that stands in a turn; `None` when there is no turn.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn newest(&self) -> Result<Option<Timestamp>, DbError> {
        let mut statement = self.session().prepare_cached(NEWEST)?;
        statement.first(&[], |row| row.get(0).map(Timestamp))
    }
}

const TURNS_RUNNING: &str = "SELECT count(*) FROM turn_state WHERE status = 'running'";
const TURNS_OVERDUE: &str =
    "SELECT count(*) FROM turn WHERE status = 'running' AND deadline_us < ?1";
const CALLS_LEFT: &str = "SELECT count(*) FROM tool_call c JOIN turn_state t ON t.turn = c.turn
    WHERE c.ended_us IS NULL AND c.runs <> 'outside' AND t.status <> 'running'";

/// The newest turn has the highest key.
const NEWEST: Sql = Sql {
    sqlite: "SELECT max(created_us, updated_us) FROM turn ORDER BY key DESC LIMIT 1",
    postgres: "SELECT greatest(created_us, updated_us) FROM turn ORDER BY key DESC LIMIT 1",
};
