//! What `apply` and the reads say to a database, the same for each engine.
//!
//! A [`WriteSession`] is the connection of a writer, a [`ReadSession`] one that sees a single state of the database.
//! Both block. SQL has its places numbered, `?1`; columns of rows are read by their names. A statement is one text where
//! both engines take it, and a [`Sql`](sql::Sql) with a text for each where they do not.

pub mod bound;
pub mod postgres;
pub mod row;
pub mod rows_into;
pub mod sql;
pub mod sqlite;

use tw_core::change::Fence;

use crate::db_error::{DbError, Failure};

use bound::Params;
use postgres::PgConnection;
use postgres::copied::CopiedRows;
use postgres::writer::PostgresWriter;
use row::{FromColumn, Row};
use rows_into::{RowWriter, RowsInto};
use sql::Sql;
use sqlite::SqliteWriter;

/// A connection that reads.
#[derive(Clone, Copy)]
pub enum ReadSession<'c> {
    Sqlite(&'c rusqlite::Connection),
    Postgres(&'c PgConnection),
}

/// A statement of a connection that reads.
pub enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Postgres(&'c PgConnection, &'static str),
}

/// The rows that a statement returns, one after the other: SQLite reads each as it is asked for, PostgreSQL has sent
/// all of them.
pub enum Rows<'s> {
    Sqlite(rusqlite::Rows<'s>),
    Postgres(SentRows),
}

/// Rows that are here.
pub struct SentRows {
    rest: std::vec::IntoIter<tokio_postgres::Row>,
    current: Option<tokio_postgres::Row>,
}

impl<'c> ReadSession<'c> {
    pub fn prepare_cached(self, sql: impl Into<Sql>) -> Result<Statement<'c>, DbError> {
        let sql = sql.into();
        match self {
            Self::Sqlite(conn) => Ok(Statement::Sqlite(conn.prepare_cached(sql.sqlite)?)),
            Self::Postgres(conn) => Ok(Statement::Postgres(conn, sql.postgres)),
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
            Self::Postgres(conn, sql) => Ok(Rows::Postgres(SentRows {
                rest: conn.query(sql, bound)?.into_iter(),
                current: None,
            })),
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
            Self::Postgres(rows) => {
                rows.current = rows.rest.next();
                Ok(rows.current.as_ref().map(Row::Postgres))
            }
        }
    }
}

/// The database behind a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// Tables whose rows are inserted under a key that is known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyedTable {
    Blob,
    Conversation,
    EndUser,
    Turn,
}

impl KeyedTable {
    /// The greatest key that there is; 0 if there is none.
    fn last_key(self) -> &'static str {
        match self {
            Self::Blob => "SELECT coalesce(max(key), 0) FROM blob",
            Self::Conversation => "SELECT coalesce(max(key), 0) FROM conversation",
            Self::EndUser => "SELECT coalesce(max(key), 0) FROM end_user",
            Self::Turn => "SELECT coalesce(max(key), 0) FROM turn",
        }
    }
}

/// The connection of a writer.
pub enum WriteSession<'c> {
    Sqlite(SqliteWriter<'c>),
    Postgres(PostgresWriter<'c>),
}

/// What was written that somebody is to hear of once it is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotedWrites {
    /// Deliveries of webhooks.
    pub deliveries: bool,
    /// Something for other servers on the database.
    pub hint: bool,
}

impl NotedWrites {
    /// Adds what was noted of another try or batch.
    pub fn add(&mut self, more: Self) {
        self.deliveries |= more.deliveries;
        self.hint |= more.hint;
    }
}

impl<'c> WriteSession<'c> {
    pub fn engine(&self) -> Engine {
        match self {
            Self::Sqlite(_) => Engine::Sqlite,
            Self::Postgres(_) => Engine::Postgres,
        }
    }

    /// Notes that deliveries of webhooks were written, so that whoever sends them is woken.
    pub fn note_deliveries(&mut self) {
        match self {
            Self::Sqlite(writer) => writer.noted.deliveries = true,
            Self::Postgres(writer) => writer.noted.deliveries = true,
        }
    }

    /// Notes that there is something for other servers on the database.
    pub fn note_hint(&mut self) {
        match self {
            Self::Sqlite(writer) => writer.noted.hint = true,
            Self::Postgres(writer) => writer.noted.hint = true,
        }
    }

    /// What was noted since this was last asked. That of a group that was rolled back may be among it.
    pub fn take_noted(&mut self) -> NotedWrites {
        match self {
            Self::Sqlite(writer) => std::mem::take(&mut writer.noted),
            Self::Postgres(writer) => std::mem::take(&mut writer.noted),
        }
    }

    /// The same connection, for a read within what is being written.
    pub fn reader(&self) -> ReadSession<'_> {
        match self {
            Self::Sqlite(writer) => ReadSession::Sqlite(writer.conn()),
            Self::Postgres(writer) => ReadSession::Postgres(writer.conn()),
        }
    }

    /// Runs a statement that returns no rows; how many it touched.
    pub fn execute(&mut self, sql: impl Into<Sql>, bound: Params<'_>) -> Result<usize, DbError> {
        let sql = sql.into();
        match self {
            Self::Sqlite(writer) => writer.execute(sql.sqlite, bound),
            Self::Postgres(writer) => writer.execute(sql.postgres, bound),
        }
    }

    /// Runs a statement that nearly always touches one row; how many it touched.
    ///
    /// A batch on PostgreSQL goes on as if it had been one, and is written again statement by statement if it was not.
    pub fn execute_one(
        &mut self,
        sql: impl Into<Sql>,
        bound: Params<'_>,
    ) -> Result<usize, DbError> {
        let sql = sql.into();
        match self {
            Self::Sqlite(writer) => writer.execute(sql.sqlite, bound),
            Self::Postgres(writer) => writer.execute_one(sql.postgres, bound),
        }
    }

    /// Runs a statement of which nobody asks how many rows it touched.
    pub fn run(&mut self, sql: impl Into<Sql>, bound: Params<'_>) -> Result<(), DbError> {
        let sql = sql.into();
        match self {
            Self::Sqlite(writer) => writer.execute(sql.sqlite, bound).map(|_| ()),
            Self::Postgres(writer) => writer.run(sql.postgres, bound),
        }
    }

    /// The key for a row that will be inserted; `None` where the insert makes it.
    pub fn new_key(&mut self, table: KeyedTable) -> Result<Option<i64>, DbError> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(writer) => writer.new_key(table).map(Some),
        }
    }

    /// Keys for so many rows that will be inserted under them, rising. SQLite has one writer, and nobody else inserts
    /// before that.
    pub fn new_keys(&mut self, table: KeyedTable, count: usize) -> Result<Vec<i64>, DbError> {
        match self {
            Self::Sqlite(writer) => {
                let last = writer.first(table.last_key(), &[], |row| row.get::<i64>(0))?;
                let last = last.ok_or(Failure::NoRow)?;
                Ok((last + 1..).take(count).collect())
            }
            Self::Postgres(writer) => writer.new_keys(table, count),
        }
    }

    /// Begins to insert rows into a table.
    pub fn rows_into(&mut self, into: RowsInto) -> RowWriter<'_, 'c> {
        match self {
            Self::Sqlite(writer) => RowWriter::Sqlite(writer, into.sqlite),
            Self::Postgres(writer) => RowWriter::Postgres {
                conn: writer.conn(),
                sql: into.postgres,
                rows: CopiedRows::default(),
            },
        }
    }

    /// Runs an insert of one row under the key that [`WriteSession::new_key`] gave; its key, or `None` if no row was
    /// written.
    ///
    /// Not by `RETURNING`: SQLite keeps what that returns in a table of its own for each run, which
    /// costs more than the insert, and PostgreSQL would have to be waited for.
    pub fn insert(
        &mut self,
        sql: impl Into<Sql>,
        key: Option<i64>,
        bound: Params<'_>,
    ) -> Result<Option<i64>, DbError> {
        let sql = sql.into();
        match self {
            Self::Sqlite(writer) => Ok(match writer.execute(sql.sqlite, bound)? {
                0 => None,
                _ => Some(writer.conn().last_insert_rowid()),
            }),
            Self::Postgres(writer) => Ok(match writer.execute_one(sql.postgres, bound)? {
                0 => None,
                _ => key,
            }),
        }
    }

    /// The first row that a statement returns.
    pub fn first<T>(
        &mut self,
        sql: impl Into<Sql>,
        bound: Params<'_>,
        read: impl FnOnce(Row<'_>) -> Result<T, DbError>,
    ) -> Result<Option<T>, DbError> {
        let sql = sql.into();
        match self {
            Self::Sqlite(writer) => writer.first(sql.sqlite, bound, read),
            Self::Postgres(writer) => {
                let rows = writer.conn().query(sql.postgres, bound)?;
                rows.first().map(Row::Postgres).map(read).transpose()
            }
        }
    }

    /// All rows that a statement returns.
    pub fn rows<T>(
        &mut self,
        sql: impl Into<Sql>,
        bound: Params<'_>,
        read: impl Fn(Row<'_>) -> Result<T, DbError>,
    ) -> Result<Vec<T>, DbError> {
        let sql = sql.into();
        match self {
            Self::Sqlite(writer) => writer.rows(sql.sqlite, bound, read),
            Self::Postgres(writer) => {
                let rows = writer.conn().query(sql.postgres, bound)?;
                rows.iter().map(Row::Postgres).map(read).collect()
            }
        }
    }

    /// The rows that a statement of one column returns.
    pub fn all<T: FromColumn>(
        &mut self,
        sql: impl Into<Sql>,
        bound: Params<'_>,
    ) -> Result<Vec<T>, DbError> {
        self.rows(sql, bound, |row| row.get(0))
    }

    /// The key of the turn under a fence, where that was looked up with the batch: `Some(None)` for a turn that is not
    /// under it.
    pub fn fenced_turn(&self, fence: Fence) -> Option<Option<i64>> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(writer) => writer.fenced_turn(fence),
        }
    }

    /// Whether it is worth a look that a row is there before it is inserted: where an insert that meets one has the
    /// whole batch written again.
    pub fn looks_before(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(writer) => writer.looks_before(),
        }
    }
}
