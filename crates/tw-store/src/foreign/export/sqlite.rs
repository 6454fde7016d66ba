//! A SQLite file that rows go back to.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql, params_from_iter};
use serde::Deserialize;

use super::super::row_json::{ColumnValue, value_of};
use super::{ExportError, ExportRows, SentItems, failed, fields_of};
use crate::copy::layout::quoted;

/// A statement of the layout.
#[derive(Deserialize)]
struct LayoutEntry {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    sql: Option<String>,
}

/// SQLite's own table of what it counts.
const COUNTED: &str = "sqlite_sequence";

pub fn write(path: &Path, layout: &[String], items: &SentItems) -> Result<u64, ExportError> {
    let entries: Vec<LayoutEntry> = layout
        .iter()
        .map(|entry| serde_json::from_str(entry))
        .collect::<Result<_, _>>()
        .map_err(ExportError::Layout)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags);
    let conn = opened.map_err(|error| failed("the file")(error.into()))?;
    let mut target = FileTarget {
        conn: &conn,
        columns: HashMap::new(),
        rows: 0,
    };
    target.run("PRAGMA foreign_keys = OFF", "the file")?;
    target.run("BEGIN IMMEDIATE", "the file")?;
    let made = target.make(&entries)?;
    let mut counted = Vec::new();
    let mut rows = ExportRows::of(items);
    while let Some((table, json)) = rows.next()? {
        match table == COUNTED {
            true => counted.push(json),
            false => target.insert(&table, &json)?,
        }
    }
    if !counted.is_empty() {
        target.run("DELETE FROM sqlite_sequence", COUNTED)?;
        for json in &counted {
            target.insert(COUNTED, json)?;
        }
    }
    for entry in made {
        target.run(entry, entry)?;
    }
    target.run("COMMIT", "the file")?;
    Ok(target.rows)
}

struct FileTarget<'c> {
    conn: &'c Connection,
    /// The columns of the tables that were written to.
    columns: HashMap<String, Vec<String>>,
    rows: u64,
}

impl FileTarget<'_> {
    fn run(&self, sql: &str, what: &str) -> Result<(), ExportError> {
        self.conn
            .execute_batch(sql)
            .map_err(|error| failed(what)(error.into()))
    }

    /// Makes the tables where there are none, and says what is to be made once they are filled.
    fn make<'e>(&self, entries: &'e [LayoutEntry]) -> Result<Vec<&'e str>, ExportError> {
        let sql = "SELECT count(*) FROM sqlite_schema";
        let there: i64 = self
            .conn
            .query_row(sql, [], |row| row.get(0))
            .map_err(|error| failed("the file")(error.into()))?;
        if there > 0 {
            return Ok(Vec::new());
        }
        let mut later = Vec::new();
        for entry in entries {
            let Some(sql) = entry.sql.as_deref() else {
                return Err(ExportError::OtherEngine {
                    came_from: "PostgreSQL",
                });
            };
            match entry.kind.as_str() {
                "table" | "pragma" => self.run(sql, sql)?,
                _ => later.push(sql),
            }
        }
        Ok(later)
    }

    fn insert(&mut self, table: &str, json: &str) -> Result<(), ExportError> {
        let fields = fields_of(table, json)?;
        if !self.columns.contains_key(table) {
            let columns = self.columns_of(table)?;
            self.columns.insert(table.to_owned(), columns);
        }
        let columns = &self.columns[table];
        if let Some((column, _)) = fields.iter().find(|(name, _)| !columns.contains(name)) {
            return Err(ExportError::NoColumn {
                table: table.to_owned(),
                column: column.clone(),
            });
        }
        let names: Vec<String> = fields.iter().map(|(name, _)| quoted(name)).collect();
        let places = vec!["?"; names.len()].join(", ");
        let sql = match names.is_empty() {
            true => format!("INSERT INTO {} DEFAULT VALUES", quoted(table)),
            false => format!(
                "INSERT INTO {} ({}) VALUES ({places})",
                quoted(table),
                names.join(", ")
            ),
        };
        let values: Vec<ColumnValue> = fields.iter().map(|(_, json)| value_of(json)).collect();
        let inserted = (self.conn.prepare_cached(&sql))
            .and_then(|mut statement| statement.execute(params_from_iter(values)));
        inserted.map_err(|error| failed(table)(error.into()))?;
        self.rows += 1;
        Ok(())
    }

    /// # Errors
    /// There is no such table, or it is not empty.
    fn columns_of(&self, table: &str) -> Result<Vec<String>, ExportError> {
        let db = |error: rusqlite::Error| failed(table)(error.into());
        let sql = "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0";
        let mut statement = self.conn.prepare(sql).map_err(db)?;
        let names = statement.query_map([table], |row| row.get(0)).map_err(db)?;
        let names: Vec<String> = names.collect::<Result<_, _>>().map_err(db)?;
        if names.is_empty() {
            return Err(ExportError::NoTable(table.to_owned()));
        }
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", quoted(table));
        match self
            .conn
            .query_row(&sql, [], |row| row.get(0))
            .map_err(db)?
        {
            true => Err(ExportError::NotEmpty(table.to_owned())),
            false => Ok(names),
        }
    }
}

impl ToSql for ColumnValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Value(value) => value.to_sql(),
            Self::TextBytes(bytes) => Ok(ToSqlOutput::Borrowed(ValueRef::Text(bytes))),
        }
    }
}
