//! Moves a database to another place, whichever engine is at either end.
//!
//! Tables and columns are those that the databases say they have, so that a migration is nothing to do here. All rows
//! are read from one state of the source, which no server may use meanwhile, and only an empty database is written. A
//! thread reads while the caller's writes; what waits between them is bounded. At the end the target is read again, and
//! each table must have the rows, by number and checksum, that were read.
//!
//! A copy that ends early leaves nothing: on a server all is one transaction, and a file is only named by whoever asked
//! for it, once this returns. The next one starts over.

pub(crate) mod layout;
mod postgres;
mod rows;
mod sqlite;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tw_core::time::Timestamp;

use crate::db_error::DbError;
use crate::migrate::MigrateError;
use crate::session::postgres::PostgresServer;

use layout::Table;
use postgres::{PostgresSource, PostgresTarget};
use rows::{RowBatch, TextRule};
use sqlite::{SqliteSource, SqliteTarget};

pub use rows::TableSum;

/// Batches that may wait between who reads and who writes.
const BATCHES_WAITING: usize = 4;

/// A place for a database.
#[derive(Clone)]
pub enum CopyPlace {
    /// As a target, an empty file.
    File(PathBuf),
    /// A PostgreSQL database.
    Server {
        url: String,
        tls: Option<Box<rustls::ClientConfig>>,
    },
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyProgress<'a> {
    pub table: &'a str,
    /// Rows that were written so far, of all tables.
    pub rows: u64,
}

/// A table that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedTable {
    pub name: String,
    pub sum: TableSum,
}

/// What was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyReport {
    pub tables: Vec<CopiedTable>,
    /// Texts in which NUL was replaced by U+FFFD, since a server holds none.
    pub texts_changed: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("reading the source")]
    Source(#[source] DbError),
    #[error("writing the target")]
    Target(#[source] DbError),
    #[error("reading the source's schema")]
    SourceSchema(#[source] MigrateError),
    #[error("making the target's schema")]
    TargetSchema(#[source] MigrateError),
    #[error("the source holds nothing of this program")]
    SourceEmpty,
    #[error(
        "the source has schema {found} and this program {known}: open it with this program first, as `turnwright keys list` does"
    )]
    SourceOlder { found: usize, known: usize },
    #[error("the target is not empty")]
    TargetNotEmpty,
    #[error("a server or another copy is using the source")]
    SourceInUse,
    #[error("a server or another copy is using the target")]
    TargetInUse,
    #[error("the source and the target do not have the same columns: {0}")]
    Layout(String),
    #[error("row {row} of {table}: column {column} holds {what}")]
    Value {
        table: String,
        column: String,
        /// From 1, in the order in which the rows were read.
        row: u64,
        what: &'static str,
    },
    #[error("{table} was read as {read} and is {found} in the target")]
    Differs {
        table: String,
        read: TableSum,
        found: TableSum,
    },
    #[error("the target is not sound: {0}")]
    Unsound(String),
    #[error("writing the target to the disk")]
    Sync(#[source] std::io::Error),
    #[error("the thread that reads has stopped")]
    Stopped,
}

/// Copies the database at `from` to `to`, and checks what is there then. Blocks.
///
/// # Errors
/// See [`CopyError`]. A server has nothing of it then, and a file is of no use.
pub fn copy(
    from: &CopyPlace,
    to: &CopyPlace,
    now: Timestamp,
    told: &mut dyn FnMut(CopyProgress<'_>),
) -> Result<CopyReport, CopyError> {
    let mut source = CopySource::open(from, to)?;
    let mut target = CopyTarget::open(to, now)?;
    let tables = layout::shared(source.tables()?, target.tables()?)?;
    target.begin(&tables)?;
    let read = move_rows(&mut source, &mut target, &tables, told)?;
    drop(source);
    target.finish(&tables)?;
    let mut report = CopyReport {
        tables: Vec::with_capacity(tables.len()),
        texts_changed: 0,
    };
    for (table, (sum, texts_changed)) in tables.iter().zip(read) {
        let found = target.sum(table)?;
        if sum != found {
            return Err(CopyError::Differs {
                table: table.name.clone(),
                read: sum,
                found,
            });
        }
        report.texts_changed += texts_changed;
        report.tables.push(CopiedTable {
            name: table.name.clone(),
            sum,
        });
    }
    target.commit()?;
    Ok(report)
}

/// What goes from who reads to who writes: the batches of each table, then its sum and how many texts were changed.
enum Piece {
    Rows(RowBatch),
    End(TableSum, u64),
}

type Pieces = Receiver<Result<Piece, CopyError>>;

/// The sum of each table as it was read, and how many of its texts were changed.
/// A source has the schema of this program; `found` and `known` are numbers of migrations.
fn check_source(found: usize, known: usize) -> Result<(), CopyError> {
    match found {
        0 => Err(CopyError::SourceEmpty),
        _ if found < known => Err(CopyError::SourceOlder { found, known }),
        _ => Ok(()),
    }
}

fn move_rows(
    source: &mut CopySource,
    target: &mut CopyTarget,
    tables: &[Table],
    told: &mut dyn FnMut(CopyProgress<'_>),
) -> Result<Vec<(TableSum, u64)>, CopyError> {
    thread::scope(|scope| {
        let (sender, pieces) = sync_channel(BATCHES_WAITING);
        scope.spawn(move || {
            for table in tables {
                if !send_table(source, table, &sender) {
                    return;
                }
            }
        });
        let mut rows = 0;
        let mut sums = Vec::with_capacity(tables.len());
        for table in tables {
            let mut end = None;
            let mut next = || match pieces.recv() {
                Ok(Ok(Piece::Rows(batch))) => {
                    rows += batch.rows();
                    let name = &table.name;
                    told(CopyProgress { table: name, rows });
                    Ok(Some(batch))
                }
                Ok(Ok(Piece::End(sum, texts_changed))) => {
                    end = Some((sum, texts_changed));
                    Ok(None)
                }
                Ok(Err(error)) => Err(error),
                Err(_) => Err(CopyError::Stopped),
            };
            target.write(table, &mut next)?;
            sums.push(end.ok_or(CopyError::Stopped)?);
        }
        drop::<Pieces>(pieces);
        Ok(sums)
    })
}

/// Whether to go on: it was read, and somebody wants it.
fn send_table(
    source: &mut CopySource,
    table: &Table,
    sender: &SyncSender<Result<Piece, CopyError>>,
) -> bool {
    let mut sum = TableSum::default();
    let mut texts_changed = 0;
    let read = source.read(table, &mut |batch| {
        sum.add(&batch);
        texts_changed += batch.texts_changed;
        sender
            .send(Ok(Piece::Rows(batch)))
            .map_err(|_| CopyError::Stopped)
    });
    let last = read.map(|()| Piece::End(sum, texts_changed));
    let goes_on = last.is_ok();
    sender.send(last).is_ok() && goes_on
}

/// The next batch of a table; `None` behind its last one.
type NextBatch<'a> = &'a mut dyn FnMut() -> Result<Option<RowBatch>, CopyError>;
/// Takes a batch.
type TakeBatch<'a> = &'a mut dyn FnMut(RowBatch) -> Result<(), CopyError>;

enum CopySource {
    Sqlite(SqliteSource),
    Postgres(PostgresSource),
}

impl CopySource {
    fn open(from: &CopyPlace, to: &CopyPlace) -> Result<Self, CopyError> {
        match from {
            CopyPlace::File(path) => {
                let rule = match to {
                    CopyPlace::File(_) => TextRule::AsItIs,
                    CopyPlace::Server { .. } => TextRule::WithoutNul,
                };
                SqliteSource::open(path, rule).map(Self::Sqlite)
            }
            CopyPlace::Server { url, tls } => {
                let server =
                    PostgresServer::of(url, tls.as_deref().cloned()).map_err(CopyError::Source)?;
                PostgresSource::open(&server).map(Self::Postgres)
            }
        }
    }

    fn tables(&self) -> Result<Vec<Table>, CopyError> {
        match self {
            Self::Sqlite(source) => source.tables(),
            Self::Postgres(source) => source.tables(),
        }
    }

    fn read(&mut self, table: &Table, take: TakeBatch<'_>) -> Result<(), CopyError> {
        match self {
            Self::Sqlite(source) => source.read(table, take),
            Self::Postgres(source) => source.read(table, take),
        }
    }
}

enum CopyTarget {
    Sqlite(SqliteTarget),
    Postgres(PostgresTarget),
}

impl CopyTarget {
    fn open(to: &CopyPlace, now: Timestamp) -> Result<Self, CopyError> {
        match to {
            CopyPlace::File(path) => SqliteTarget::open(path, now).map(Self::Sqlite),
            CopyPlace::Server { url, tls } => {
                let server =
                    PostgresServer::of(url, tls.as_deref().cloned()).map_err(CopyError::Target)?;
                PostgresTarget::open(&server, now).map(Self::Postgres)
            }
        }
    }

    fn tables(&self) -> Result<Vec<Table>, CopyError> {
        match self {
            Self::Sqlite(target) => target.tables(),
            Self::Postgres(target) => target.tables(),
        }
    }

    /// Empties the tables and takes away what holds up who fills them: references, indexes, triggers.
    fn begin(&mut self, tables: &[Table]) -> Result<(), CopyError> {
        match self {
            Self::Sqlite(target) => target.begin(tables),
            Self::Postgres(target) => target.begin(tables),
        }
    }

    fn write(&mut self, table: &Table, next: NextBatch<'_>) -> Result<(), CopyError> {
        match self {
            Self::Sqlite(target) => target.write(table, next),
            Self::Postgres(target) => target.write(table, next),
        }
    }

    /// Makes again what [`CopyTarget::begin`] took away, which checks the references.
    fn finish(&mut self, tables: &[Table]) -> Result<(), CopyError> {
        match self {
            Self::Sqlite(target) => target.finish(),
            Self::Postgres(target) => target.finish(tables),
        }
    }

    /// What a table holds now.
    fn sum(&mut self, table: &Table) -> Result<TableSum, CopyError> {
        let mut sum = TableSum::default();
        let mut add = |batch: RowBatch| {
            sum.add(&batch);
            Ok(())
        };
        match self {
            Self::Sqlite(target) => target.read(table, &mut add)?,
            Self::Postgres(target) => target.read(table, &mut add)?,
        }
        Ok(sum)
    }

    fn commit(self) -> Result<(), CopyError> {
        match self {
            Self::Sqlite(target) => target.commit(),
            Self::Postgres(target) => target.commit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CopyError, check_source};

    #[test]
    fn a_source_has_the_schema_of_this_program() {
        assert!(matches!(check_source(0, 2), Err(CopyError::SourceEmpty)));
        let older = check_source(1, 2);
        assert!(
            matches!(older, Err(CopyError::SourceOlder { found: 1, known: 2 })),
            "{older:?}"
        );
        assert!(check_source(2, 2).is_ok());
    }
}
