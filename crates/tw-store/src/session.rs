//! What `apply` and the reads say to a database, the same for each engine.
//!
//! A [`WriteSession`] is the connection of a writer, a [`ReadSession`] one that sees a single state of the database.
//! Both block. SQL has its places numbered, `?1`; columns of rows are read by their names.

pub mod bound;
pub mod row;
mod sqlite;

use crate::db_error::{DbError, Failure};

use bound::Params;
use row::{FromColumn, Row};
pub use sqlite::SqliteWriter;

/// A connection that reads.
#[derive(Clone, Copy)]
pub enum ReadSession<'c> {
    Sqlite(&'c rusqlite::Connection),
}

/// A statement of a connection that reads.
pub enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
}

/// The rows that a statement returns, one after the other.
pub enum Rows<'s> {
    Sqlite(rusqlite::Rows<'s>),
}

impl<'c> ReadSession<'c> {
    pub fn prepare_cached(self, sql: &'static str) -> Result<Statement<'c>, DbError> {
        match self {
            Self::Sqlite(conn) => Ok(Statement::Sqlite(conn.prepare_cached(sql)?)),
        }
    }
}

impl Statement<'_> {
    pub fn query(&mut self, bound: Params<'_>) -> Result<Rows<'_>, DbError> {
        match self {
            Self::Sqlite(statement) => {
                sqlite::bind(statement, bound)?;
                Ok(Rows::Sqlite(statement.raw_query()))
            }
        }
    }

    /// The first row, read; `None` if there is none.
    pub fn first<T>(
        &mut self,
        bound: Params<'_>,
        read: impl FnOnce(Row<'_>) -> Result<T, DbError>,
    ) -> Result<Option<T>, DbError> {
        self.query(bound)?.next()?.map(read).transpose()
    }

    /// The first row, read, which must be there.
    pub fn one<T>(
        &mut self,
        bound: Params<'_>,
        read: impl FnOnce(Row<'_>) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        self.first(bound, read)?
            .ok_or_else(|| Failure::NoRow.into())
    }

    /// The first column of all rows.
    pub fn all<T: FromColumn>(&mut self, bound: Params<'_>) -> Result<Vec<T>, DbError> {
        let mut rows = self.query(bound)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(row.get(0)?);
        }
        Ok(found)
    }

    /// Whether there is a row.
    pub fn exists(&mut self, bound: Params<'_>) -> Result<bool, DbError> {
        Ok(self.query(bound)?.next()?.is_some())
    }
}

impl Rows<'_> {
    pub fn next(&mut self) -> Result<Option<Row<'_>>, DbError> {
        match self {
            Self::Sqlite(rows) => Ok(rows.next()?.map(Row::Sqlite)),
        }
    }
}

/// The connection of a writer.
pub enum WriteSession<'c> {
    Sqlite(SqliteWriter<'c>),
}

impl WriteSession<'_> {
    /// Notes that deliveries of webhooks were written, so that whoever sends them is woken.
    pub fn note_deliveries(&mut self) {
        match self {
            Self::Sqlite(writer) => writer.has_deliveries = true,
        }
    }

    /// Whether deliveries were noted since this was last asked. Those of a group that was rolled back may be among them.
    pub fn take_deliveries(&mut self) -> bool {
        match self {
            Self::Sqlite(writer) => std::mem::take(&mut writer.has_deliveries),
        }
    }

    /// The same connection, for a read within what is being written.
    pub fn reader(&self) -> ReadSession<'_> {
        match self {
            Self::Sqlite(writer) => ReadSession::Sqlite(writer.conn()),
        }
    }

    /// Runs a statement that returns no rows; how many it touched.
    pub fn execute(&mut self, sql: &'static str, bound: Params<'_>) -> Result<usize, DbError> {
        match self {
            Self::Sqlite(writer) => writer.execute(sql, bound),
        }
    }

    /// Runs an insert of one row; its key, or `None` if no row was written.
    ///
    /// Not by `RETURNING`: SQLite keeps what that returns in a table of its own for each run, which
    /// costs more than the insert.
    pub fn insert(&mut self, sql: &'static str, bound: Params<'_>) -> Result<Option<i64>, DbError> {
        match self {
            Self::Sqlite(writer) => Ok(match writer.execute(sql, bound)? {
                0 => None,
                _ => Some(writer.conn().last_insert_rowid()),
            }),
        }
    }

    /// The first row that a statement returns.
    pub fn first<T>(
        &mut self,
        sql: &'static str,
        bound: Params<'_>,
        read: impl FnOnce(Row<'_>) -> Result<T, DbError>,
    ) -> Result<Option<T>, DbError> {
        match self {
            Self::Sqlite(writer) => writer.first(sql, bound, read),
        }
    }

    /// The rows that a statement of one column returns.
    pub fn all<T: FromColumn>(
        &mut self,
        sql: &'static str,
        bound: Params<'_>,
    ) -> Result<Vec<T>, DbError> {
        match self {
            Self::Sqlite(writer) => writer.all(sql, bound),
        }
    }
}
