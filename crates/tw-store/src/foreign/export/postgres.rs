//! A PostgreSQL database that rows go back to.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::super::postgres::{JSON_NULLS, ROW_BYTES};
use super::super::row_json::bytes_of;
use super::{ExportError, ExportRows, SentItems, failed, fields_of};
use crate::copy::layout::quoted;
use crate::session::postgres::PostgresServer;

/// Rows, and bytes of them, that are written together.
const ROWS_TOGETHER: usize = 1000;
const BYTES_TOGETHER: usize = 4 * 1024 * 1024;

const PATIENT: &str =
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET timezone = 'UTC'";

/// What makes a table again.
#[derive(Deserialize)]
struct LayoutTable {
    table: String,
    columns: Vec<LayoutColumn>,
    constraints: Vec<LayoutConstraint>,
    indexes: Vec<String>,
}

#[derive(Deserialize)]
struct LayoutColumn {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    required: bool,
    generated: bool,
    counts: bool,
    default: Option<String>,
}

#[derive(Deserialize)]
struct LayoutConstraint {
    name: String,
    text: String,
}

/// What the layout of a SQLite file has.
#[derive(Deserialize)]
struct FileEntry {
    #[serde(rename = "sql")]
    _sql: String,
}

pub fn write(
    url: &str,
    tls: Option<rustls::ClientConfig>,
    layout: &[String],
    items: &SentItems,
) -> Result<u64, ExportError> {
    let db = failed("the database");
    let server = PostgresServer::of(url, tls).map_err(&db)?;
    let conn = server.connect().map_err(&db)?;
    conn.frame(PATIENT).map_err(&db)?;
    conn.frame("BEGIN").map_err(&db)?;
    conn.bulk(async |client| {
        let encoding = client.query_one("SHOW server_encoding", &[]).await;
        let encoding = encoding.and_then(|row| row.try_get::<_, String>(0));
        let encoding = match encoding.map_err(|error| db(error.into()))?.as_str() {
            // It does not know what its bytes mean, and takes any.
            "SQL_ASCII" => "SQL_ASCII",
            _ => "UTF8",
        };
        let mut target = ServerTarget {
            client,
            encoding,
            layout,
            tables: HashMap::new(),
            made: Vec::new(),
            waiting: Waiting::default(),
            rows: 0,
        };
        target.fill(items).await
    })
    .map_err(&db)?
}

/// Rows of one table that are written together.
#[derive(Default)]
struct Waiting {
    table: String,
    rows: Vec<Vec<u8>>,
    bytes: usize,
}

/// A table of the target.
struct TargetTable {
    columns: Vec<(String, ColumnUse)>,
}

/// How a column is filled.
#[derive(Clone, Copy)]
enum ColumnUse {
    AsItIs,
    /// It holds JSON, of this type.
    Json(&'static str),
    /// It is computed.
    Computed,
}

struct ServerTarget<'a> {
    client: &'a Client,
    /// What rows are handed over in.
    encoding: &'static str,
    layout: &'a [String],
    tables: HashMap<String, TargetTable>,
    /// The tables that were made here.
    made: Vec<LayoutTable>,
    waiting: Waiting,
    rows: u64,
}

impl ServerTarget<'_> {
    async fn fill(&mut self, items: &SentItems) -> Result<u64, ExportError> {
        self.make().await?;
        let mut rows = ExportRows::of(items);
        while let Some((table, json)) = rows.next()? {
            let is_full =
                self.waiting.rows.len() >= ROWS_TOGETHER || self.waiting.bytes >= BYTES_TOGETHER;
            if is_full || self.waiting.table != table {
                self.write().await?;
                self.waiting.table = table;
            }
            self.waiting.bytes += json.len();
            self.waiting.rows.push(bytes_of_row(json));
        }
        self.write().await?;
        self.finish().await?;
        self.run("COMMIT").await?;
        Ok(self.rows)
    }

    async fn run(&self, sql: &str) -> Result<(), ExportError> {
        let done = self.client.batch_execute(sql).await;
        done.map_err(|error| failed(sql)(error.into()))
    }

    /// Makes the tables that are not there.
    async fn make(&mut self) -> Result<(), ExportError> {
        for entry in self.layout {
            let table: LayoutTable = match serde_json::from_str(entry) {
                Ok(table) => table,
                Err(error) => return Err(other_engine(entry, error)),
            };
            let sql = "SELECT to_regclass($1) IS NOT NULL";
            let name = quoted(&table.table);
            let found = self.client.query_one(sql, &[&name]).await;
            let found = found.and_then(|row| row.try_get(0));
            if found.map_err(|error| failed(&name)(error.into()))? {
                continue;
            }
            let columns: Vec<String> = table.columns.iter().map(column).collect();
            self.run(&format!("CREATE TABLE {name} ({})", columns.join(", ")))
                .await?;
            self.made.push(table);
        }
        Ok(())
    }

    /// What is cheaper, or only possible, once the rows are there.
    async fn finish(&self) -> Result<(), ExportError> {
        for table in &self.made {
            let name = quoted(&table.table);
            for constraint in &table.constraints {
                let LayoutConstraint { name: of, text } = constraint;
                let of = quoted(of);
                self.run(&format!("ALTER TABLE {name} ADD CONSTRAINT {of} {text}"))
                    .await?;
            }
            for index in &table.indexes {
                self.run(index).await?;
            }
            for column in table.columns.iter().filter(|column| column.counts) {
                let text = column.name.replace('\'', "''");
                let column = quoted(&column.name);
                let table = name.replace('\'', "''");
                let sql = format!(
                    "SELECT setval(pg_get_serial_sequence('{table}', '{text}'), coalesce((SELECT max({column}) FROM {name}), 0) + 1, false)"
                );
                self.run(&sql).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<(), ExportError> {
        let Waiting { table, rows, .. } = std::mem::take(&mut self.waiting);
        if rows.is_empty() {
            return Ok(());
        }
        self.look_at(&table).await?;
        self.rows += rows.len() as u64;
        // Rows of one database have the same columns but for those that an earlier schema lacked.
        let mut at = 0;
        while at < rows.len() {
            let names = names_of(&table, &rows[at])?;
            let mut end = at + 1;
            while end < rows.len() && names_of(&table, &rows[end])? == names {
                end += 1;
            }
            self.insert(&table, &names, &rows[at..end]).await?;
            at = end;
        }
        Ok(())
    }

    async fn insert(
        &self,
        table: &str,
        names: &[String],
        rows: &[Vec<u8>],
    ) -> Result<(), ExportError> {
        let known = &self.tables[table];
        let mut columns = Vec::with_capacity(names.len());
        let mut values = Vec::with_capacity(names.len());
        for name in names {
            let found = known.columns.iter().find(|(column, _)| column == name);
            let Some((_, use_of)) = found else {
                return Err(ExportError::NoColumn {
                    table: table.to_owned(),
                    column: name.clone(),
                });
            };
            let text = name.replace('\'', "''");
            let name = quoted(name);
            values.push(match use_of {
                ColumnUse::Computed => continue,
                ColumnUse::AsItIs => format!("p.{name}"),
                ColumnUse::Json(kind) => format!(
                    "CASE WHEN (e.value->'{JSON_NULLS}')::jsonb ? '{text}' THEN 'null'::{kind} ELSE p.{name} END"
                ),
            });
            columns.push(name);
        }
        let name = quoted(table);
        let sql = format!(
            "INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE
            SELECT {values} FROM json_array_elements(CAST(convert_from($1, '{encoding}') AS json)) WITH ORDINALITY AS e (value, place),
                LATERAL json_populate_record(NULL::{name}, e.value) AS p ORDER BY e.place",
            columns = columns.join(", "),
            values = values.join(", "),
            encoding = self.encoding,
        );
        let list = [b"[", &*rows.join(&b','), b"]"].concat();
        let db = |error: tokio_postgres::Error| failed(table)(error.into());
        let prepared = self.client.prepare_typed(&sql, &[Type::BYTEA]).await;
        let done = self.client.execute(&prepared.map_err(db)?, &[&list]).await;
        done.map(drop).map_err(db)
    }

    /// # Errors
    /// There is no such table, or it is not empty.
    async fn look_at(&mut self, table: &str) -> Result<(), ExportError> {
        if self.tables.contains_key(table) {
            return Ok(());
        }
        let db = |error: tokio_postgres::Error| failed(table)(error.into());
        let name = quoted(table);
        let sql = "SELECT attname::text, CASE WHEN attgenerated = '' THEN atttypid::regtype::text ELSE '' END
            FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped";
        let mut columns = Vec::new();
        for row in self.client.query(sql, &[&name]).await.map_err(db)? {
            let kind = match row.try_get(1).map_err(db)? {
                "" => ColumnUse::Computed,
                "json" => ColumnUse::Json("json"),
                "jsonb" => ColumnUse::Json("jsonb"),
                _ => ColumnUse::AsItIs,
            };
            columns.push((row.try_get(0).map_err(db)?, kind));
        }
        if columns.is_empty() {
            return Err(ExportError::NoTable(table.to_owned()));
        }
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {name})");
        let found = self.client.query_one(&sql, &[]).await;
        if found.and_then(|row| row.try_get(0)).map_err(db)? {
            return Err(ExportError::NotEmpty(table.to_owned()));
        }
        let known = TargetTable { columns };
        self.tables.insert(table.to_owned(), known);
        Ok(())
    }
}

fn other_engine(entry: &str, error: serde_json::Error) -> ExportError {
    match serde_json::from_str::<FileEntry>(entry) {
        Ok(_) => ExportError::OtherEngine {
            came_from: "SQLite",
        },
        Err(_) => ExportError::Layout(error),
    }
}

fn column(column: &LayoutColumn) -> String {
    let mut text = format!("{} {}", quoted(&column.name), column.kind);
    match &column.default {
        Some(made_of) if column.generated => {
            text.push_str(&format!(" GENERATED ALWAYS AS ({made_of}) STORED"));
        }
        Some(_) | None if column.counts => text.push_str(" GENERATED BY DEFAULT AS IDENTITY"),
        Some(default) => text.push_str(&format!(" DEFAULT {default}")),
        None => {}
    }
    if column.required {
        text.push_str(" NOT NULL");
    }
    text
}

/// The JSON of a row, which may be no UTF-8.
fn bytes_of_row(json: String) -> Vec<u8> {
    let exact = json
        .strip_prefix("{\"")
        .and_then(|rest| rest.strip_prefix(ROW_BYTES))
        .and_then(|rest| rest.strip_prefix("\":\""))
        .and_then(|rest| rest.strip_suffix("\"}"));
    let exact = exact.and_then(bytes_of);
    // Else it is a column of this name.
    let exact = exact.filter(|exact| exact.starts_with(b"{"));
    exact.unwrap_or_else(|| json.into_bytes())
}

/// The columns of a row.
fn names_of(table: &str, row: &[u8]) -> Result<Vec<String>, ExportError> {
    let row = String::from_utf8_lossy(row);
    let fields: Vec<(String, &RawValue)> = fields_of(table, &row)?;
    let names = fields.into_iter().map(|(name, _)| name);
    Ok(names.filter(|name| name != JSON_NULLS).collect())
}
