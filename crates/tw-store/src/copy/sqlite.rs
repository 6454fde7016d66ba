//! A file as the source or the target of a copy.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ToSql};
use tw_core::time::Timestamp;

use super::layout::{self, HISTORY, Table};
use super::rows::{CopiedValue, RowBatch, TextRule};
use super::{CopyError, NextBatch, TakeBatch, check_source};
use crate::backup;
use crate::connection::{self, VisitingReader};
use crate::migrate::{self, MIGRATIONS};

/// Page cache of the connection that fills a file, in KiB: unique columns are indexed while rows come.
const CACHE_KIB: i64 = 64 * 1024;

const TABLES: &str = "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
    WHERE t.type = 'table' AND t.name <> ?1 AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    ORDER BY t.name, c.name";
/// Indexes of constraints have no text.
const TAKEN_AWAY: &str = "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL";

pub struct SqliteSource {
    conn: VisitingReader,
    rule: TextRule,
}

fn source(error: rusqlite::Error) -> CopyError {
    CopyError::Source(error.into())
}

fn target(error: rusqlite::Error) -> CopyError {
    CopyError::Target(error.into())
}

impl SqliteSource {
    /// Opens a file, and sees its state of now from then on.
    pub fn open(path: &Path, rule: TextRule) -> Result<Self, CopyError> {
        let conn = VisitingReader::enter(path).map_err(source)?;
        conn.execute_batch("BEGIN").map_err(source)?;
        let found = migrate::history(&conn, MIGRATIONS).map_err(CopyError::SourceSchema)?;
        check_source(found, MIGRATIONS.len())?;
        Ok(Self { conn, rule })
    }

    pub fn tables(&self) -> Result<Vec<Table>, CopyError> {
        tables(&self.conn).map_err(source)
    }

    pub fn read(&mut self, table: &Table, take: TakeBatch<'_>) -> Result<(), CopyError> {
        read(&self.conn, table, self.rule, source, take)
    }
}

pub struct SqliteTarget {
    conn: Connection,
    path: PathBuf,
    /// Statements that make again what was taken away.
    taken_away: Vec<String>,
}

impl SqliteTarget {
    /// Makes the schema in an empty file. It has no journal: what ends early is thrown away.
    pub fn open(path: &Path, now: Timestamp) -> Result<Self, CopyError> {
        let is_empty = std::fs::metadata(path).map(|found| found.len() == 0);
        if !is_empty.map_err(CopyError::Sync)? {
            return Err(CopyError::TargetNotEmpty);
        }
        let mut conn = connection::open_writer(path).map_err(target)?;
        migrate::run(&mut conn, MIGRATIONS, now).map_err(CopyError::TargetSchema)?;
        let settings = || {
            // A write-ahead log can only be left for a journal.
            conn.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
            conn.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
            conn.pragma_update(None, "synchronous", "OFF")?;
            conn.pragma_update(None, "foreign_keys", false)?;
            conn.pragma_update(None, "cache_size", -CACHE_KIB)
        };
        settings().map_err(target)?;
        Ok(Self {
            conn,
            path: path.to_owned(),
            taken_away: Vec::new(),
        })
    }

    pub fn tables(&self) -> Result<Vec<Table>, CopyError> {
        tables(&self.conn).map_err(target)
    }

    pub fn begin(&mut self, tables: &[Table]) -> Result<(), CopyError> {
        self.take_away(tables).map_err(target)
    }

    fn take_away(&mut self, tables: &[Table]) -> rusqlite::Result<()> {
        self.conn.execute_batch("BEGIN")?;
        let mut statement = self.conn.prepare(TAKEN_AWAY)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let found: Vec<(String, String, String)> = rows.collect::<Result<_, _>>()?;
        for (kind, name, sql) in found {
            let name = layout::quoted(&name);
            self.conn.execute_batch(&format!("DROP {kind} {name}"))?;
            self.taken_away.push(sql);
        }
        for table in tables {
            let name = layout::quoted(&table.name);
            self.conn.execute_batch(&format!("DELETE FROM {name}"))?;
        }
        Ok(())
    }

    pub fn write(&mut self, table: &Table, next: NextBatch<'_>) -> Result<(), CopyError> {
        let places = vec!["?"; table.columns.len()].join(", ");
        let (name, columns) = (layout::quoted(&table.name), table.column_list());
        let sql = format!("INSERT INTO {name} ({columns}) VALUES ({places})");
        let mut statement = self.conn.prepare(&sql).map_err(target)?;
        while let Some(batch) = next()? {
            for row in batch.iter() {
                let bound = rusqlite::params_from_iter(row);
                statement.execute(bound).map_err(target)?;
            }
        }
        Ok(())
    }

    pub fn finish(&mut self) -> Result<(), CopyError> {
        for sql in &self.taken_away {
            self.conn.execute_batch(sql).map_err(target)?;
        }
        self.conn.execute_batch("COMMIT").map_err(target)?;
        let found = backup::faults(&self.conn).map_err(target)?;
        match found.into_iter().next() {
            Some(first) => Err(CopyError::Unsound(first)),
            None => Ok(()),
        }
    }

    pub fn read(&mut self, table: &Table, take: TakeBatch<'_>) -> Result<(), CopyError> {
        read(&self.conn, table, TextRule::AsItIs, target, take)
    }

    pub fn commit(self) -> Result<(), CopyError> {
        self.conn.close().map_err(|(_, error)| target(error))?;
        let synced = File::open(&self.path).and_then(|file| file.sync_all());
        synced.map_err(CopyError::Sync)
    }
}

fn tables(conn: &Connection) -> rusqlite::Result<Vec<Table>> {
    let mut statement = conn.prepare(TABLES)?;
    let rows = statement.query_map([HISTORY], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect::<Result<_, _>>().map(layout::from_pairs)
}

/// Reads a table in the order of its keys.
fn read(
    conn: &Connection,
    table: &Table,
    rule: TextRule,
    failed: fn(rusqlite::Error) -> CopyError,
    take: TakeBatch<'_>,
) -> Result<(), CopyError> {
    let (name, columns) = (layout::quoted(&table.name), table.column_list());
    let sql = format!("SELECT {columns} FROM {name}");
    let mut statement = conn.prepare(&sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let mut batch = RowBatch::new(table.columns.len());
    let mut count = 0;
    while let Some(row) = rows.next().map_err(failed)? {
        count += 1;
        for (place, column) in table.columns.iter().enumerate() {
            let wrong = |what| CopyError::Value {
                table: table.name.clone(),
                column: column.clone(),
                row: count,
                what,
            };
            match row.get_ref(place).map_err(failed)? {
                ValueRef::Null => batch.push(CopiedValue::Null),
                ValueRef::Integer(number) => batch.push(CopiedValue::Int(number)),
                ValueRef::Blob(bytes) => batch.push(CopiedValue::Bytes(bytes.to_owned())),
                ValueRef::Text(text) => {
                    let text = std::str::from_utf8(text);
                    batch.push_text(text.map_err(|_| wrong("text that is not UTF-8"))?, rule);
                }
                ValueRef::Real(_) => return Err(wrong("a fraction")),
            }
        }
        if batch.is_full() {
            let empty = RowBatch::new(table.columns.len());
            take(std::mem::replace(&mut batch, empty))?;
        }
    }
    if batch.is_empty() {
        return Ok(());
    }
    take(batch)
}

impl ToSql for CopiedValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Value::Null),
            Self::Int(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}
