//! Rows of one table that are inserted together.

use super::bound::Params;
use super::postgres::PgConnection;
use super::postgres::copied::CopiedRows;
use super::sqlite::SqliteWriter;
use crate::db_error::DbError;

/// Where rows go: the insert of one row, which SQLite runs for each, and what PostgreSQL copies all of them by.
///
/// A statement costs SQLite little beside its row. PostgreSQL plans and answers each, which costs more than the row.
#[derive(Clone, Copy, Debug)]
pub struct RowsInto {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

/// The columns of a table, and the places for their values.
macro_rules! rows_into {
    ($table:literal, $columns:literal, $places:literal) => {
        $crate::session::rows_into::RowsInto {
            sqlite: concat!(
                "INSERT INTO ",
                $table,
                " (",
                $columns,
                ") VALUES (",
                $places,
                ")"
            ),
            postgres: concat!(
                "COPY ",
                $table,
                " (",
                $columns,
                ") FROM STDIN (FORMAT binary)"
            ),
        }
    };
}
pub(crate) use rows_into;

/// Takes rows. Each value is of the kind of its column, and a flag a `bool`.
pub enum RowWriter<'w, 'c> {
    Sqlite(&'w mut SqliteWriter<'c>, &'static str),
    Postgres {
        conn: &'c PgConnection,
        sql: &'static str,
        rows: CopiedRows,
    },
}

impl RowWriter<'_, '_> {
    pub fn add(&mut self, bound: Params<'_>) -> Result<(), DbError> {
        match self {
            Self::Sqlite(writer, sql) => writer.execute(sql, bound).map(drop),
            Self::Postgres { rows, .. } => rows.add(bound),
        }
    }

    /// Has all rows written.
    pub fn end(self) -> Result<(), DbError> {
        match self {
            Self::Sqlite(..) => Ok(()),
            Self::Postgres { conn, sql, rows } => conn.copy_in(sql, rows),
        }
    }
}
