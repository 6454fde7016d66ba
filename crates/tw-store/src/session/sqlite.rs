//! SQLite behind a session: the statements of a connection that writes, prepared once.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use super::NotedWrites;
use super::bound::{Bound, Params, has_nul, without_nul};
use super::row::Row;
use super::sql::{TextPlace, place};
use crate::db_error::{DbError, Failure};

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null(_) => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(number),
            Self::Bool(said) => ValueRef::Integer(i64::from(said)),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Binds values to all places of a statement.
pub fn bind(statement: &mut rusqlite::Statement<'_>, bound: Params<'_>) -> Result<(), DbError> {
    let wanted = statement.parameter_count();
    // What is given beyond is for another engine.
    if bound.len() < wanted {
        let given = bound.len();
        return Err(Failure::Places { given, wanted }.into());
    }
    for (index, value) in bound.iter().take(wanted).enumerate() {
        match value.bound() {
            Bound::Text(text) if has_nul(text) => {
                statement.raw_bind_parameter(index + 1, without_nul(text))?;
            }
            value => statement.raw_bind_parameter(index + 1, value)?,
        }
    }
    Ok(())
}

/// Statements of one connection, each found by where its text stands in the program.
///
/// The connection's own cache finds them by what they say and keeps them in the order of their last use, which costs
/// each short statement of a turn a tenth of its time. From there they come, and there they go back with this.
pub struct SqliteWriter<'conn> {
    conn: &'conn Connection,
    /// Prepared statements in order of their [`place`].
    prepared: Vec<(TextPlace, CachedStatement<'conn>)>,
    /// What was noted since this was last asked.
    pub(super) noted: NotedWrites,
}

impl<'conn> SqliteWriter<'conn> {
    pub fn of(conn: &'conn Connection) -> Self {
        Self {
            conn,
            prepared: Vec::new(),
            noted: NotedWrites::default(),
        }
    }

    pub fn conn(&self) -> &'conn Connection {
        self.conn
    }

    pub fn execute(&mut self, sql: &'static str, bound: Params<'_>) -> Result<usize, DbError> {
        self.run(sql, bound, |statement| Ok(statement.raw_execute()?))
    }

    pub fn first<T>(
        &mut self,
        sql: &'static str,
        bound: Params<'_>,
        read: impl FnOnce(Row<'_>) -> Result<T, DbError>,
    ) -> Result<Option<T>, DbError> {
        self.run(sql, bound, |statement| {
            let mut rows = statement.raw_query();
            rows.next()?.map(Row::Sqlite).map(read).transpose()
        })
    }

    pub fn rows<T>(
        &mut self,
        sql: &'static str,
        bound: Params<'_>,
        read: impl Fn(Row<'_>) -> Result<T, DbError>,
    ) -> Result<Vec<T>, DbError> {
        self.run(sql, bound, |statement| {
            let mut rows = statement.raw_query();
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(read(Row::Sqlite(row))?);
            }
            Ok(found)
        })
    }

    fn run<T>(
        &mut self,
        sql: &'static str,
        bound: Params<'_>,
        run: impl FnOnce(&mut CachedStatement<'conn>) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let place = place(sql);
        let at = match self
            .prepared
            .binary_search_by_key(&place, |(place, _)| *place)
        {
            Ok(at) => at,
            Err(at) => {
                let statement = self.conn.prepare_cached(sql)?;
                self.prepared.insert(at, (place, statement));
                at
            }
        };
        let statement = &mut self.prepared[at].1;
        let answer = bind(statement, bound).and_then(|()| run(statement));
        // What was bound may be as large as a request.
        statement.clear_bindings();
        answer
    }
}
