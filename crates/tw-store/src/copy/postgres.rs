//! A database on a PostgreSQL server as the source or the target of a copy.

use std::pin::pin;

use futures_util::TryStreamExt;
use tokio_postgres::Client;
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::types::Type;
use tw_core::time::Timestamp;

use super::layout::{self, HISTORY, Table};
use super::rows::{CopiedValue, RowBatch, TextRule};
use super::{CopyError, NextBatch, TakeBatch, check_source};
use crate::db_error::DbError;
use crate::migrate;
use crate::session::postgres::{BEGIN_READ, PgConnection, PostgresServer};
use crate::session::row::Column;
use crate::store::instance::keep_servers_away;

/// A copy takes its time, and waits while the other side works.
const PATIENT: &str = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0";

const TABLES: &str = "SELECT c.table_name::text, c.column_name::text FROM information_schema.columns c
    JOIN information_schema.tables t USING (table_schema, table_name)
    WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER'
        AND c.table_name <> $1
    ORDER BY c.table_name::text COLLATE \"C\", c.column_name::text COLLATE \"C\"";
const COLUMN_TYPES: &str =
    "SELECT column_name::text, udt_name::text FROM information_schema.columns
    WHERE table_schema = current_schema() AND table_name = $1";
const PRIMARY_KEY: &str = "SELECT quote_ident(a.attname) FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
    WHERE i.indisprimary AND i.indrelid = quote_ident($1)::regclass
    ORDER BY array_position(i.indkey::int2[], a.attnum)";
/// What is taken away before rows come, and how it is made again, in this order.
const REFERENCES: &str = "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
        format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace ORDER BY oid";
const INDEXES: &str =
    "SELECT format('DROP INDEX %s', i.indexrelid::regclass), pg_get_indexdef(i.indexrelid)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = current_schema()::regnamespace
        AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid)
    ORDER BY i.indexrelid";
/// Keys go on behind the highest one.
const NEXT_KEYS: &str = "SELECT format('SELECT setval(%L, coalesce(max(%I), 1), max(%I) IS NOT NULL) FROM %I',
        pg_get_serial_sequence(quote_ident(table_name), column_name), column_name, column_name, table_name)
    FROM information_schema.columns WHERE table_schema = current_schema() AND is_identity = 'YES'";

pub struct PostgresSource(PgConnection);

impl PostgresSource {
    /// Connects, keeps servers away, and sees the state of now from then on.
    pub fn open(server: &PostgresServer) -> Result<Self, CopyError> {
        let conn = server.connect().map_err(CopyError::Source)?;
        conn.frame(PATIENT).map_err(CopyError::Source)?;
        if !keep_servers_away(&conn).map_err(CopyError::Source)? {
            return Err(CopyError::SourceInUse);
        }
        conn.frame(BEGIN_READ).map_err(CopyError::Source)?;
        let found = migrate::postgres::history(&conn).map_err(CopyError::SourceSchema)?;
        check_source(found, migrate::postgres::MIGRATIONS.len())?;
        Ok(Self(conn))
    }

    pub fn tables(&self) -> Result<Vec<Table>, CopyError> {
        tables(&self.0).map_err(CopyError::Source)
    }

    pub fn read(&mut self, table: &Table, take: TakeBatch<'_>) -> Result<(), CopyError> {
        read(&self.0, table, CopyError::Source, take)
    }
}

pub struct PostgresTarget {
    conn: PgConnection,
    /// Statements that make again what was taken away.
    taken_away: Vec<String>,
}

impl PostgresTarget {
    /// Connects, keeps servers away, and makes the schema where there is none.
    pub fn open(server: &PostgresServer, now: Timestamp) -> Result<Self, CopyError> {
        let conn = server.connect().map_err(CopyError::Target)?;
        conn.frame(PATIENT).map_err(CopyError::Target)?;
        if !keep_servers_away(&conn).map_err(CopyError::Target)? {
            return Err(CopyError::TargetInUse);
        }
        migrate::postgres::run(&conn, now).map_err(CopyError::TargetSchema)?;
        conn.frame("BEGIN").map_err(CopyError::Target)?;
        // Whatever there is belongs to an organization. Nobody makes one before this ends.
        conn.frame("LOCK TABLE organization IN EXCLUSIVE MODE")
            .map_err(CopyError::Target)?;
        let rows = conn.query("SELECT 1 FROM organization LIMIT 1", &[]);
        if !rows.map_err(CopyError::Target)?.is_empty() {
            return Err(CopyError::TargetNotEmpty);
        }
        Ok(Self {
            conn,
            taken_away: Vec::new(),
        })
    }

    pub fn tables(&self) -> Result<Vec<Table>, CopyError> {
        tables(&self.conn).map_err(CopyError::Target)
    }

    pub fn begin(&mut self, tables: &[Table]) -> Result<(), CopyError> {
        self.take_away(tables).map_err(CopyError::Target)
    }

    fn take_away(&mut self, tables: &[Table]) -> Result<(), DbError> {
        let mut made_again: Vec<Vec<String>> = Vec::new();
        for sql in [REFERENCES, INDEXES] {
            let found = self.pairs(sql)?;
            for (taken, _) in &found {
                self.run(taken)?;
            }
            made_again.push(found.into_iter().map(|(_, made)| made).collect());
        }
        // References rest on indexes.
        self.taken_away = made_again.into_iter().rev().flatten().collect();
        for table in tables {
            let name = layout::quoted(&table.name);
            self.run(&format!("ALTER TABLE {name} DISABLE TRIGGER USER"))?;
            self.run(&format!("DELETE FROM {name}"))?;
        }
        Ok(())
    }

    pub fn write(&mut self, table: &Table, next: NextBatch<'_>) -> Result<(), CopyError> {
        let (name, columns) = (layout::quoted(&table.name), table.column_list());
        let sql = format!("COPY {name} ({columns}) FROM STDIN (FORMAT binary)");
        let types = column_types(&self.conn, table, CopyError::Target)?;
        let filled = self.conn.bulk(async |client| {
            let sink = client.copy_in(&sql).await.map_err(failed)?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
            while let Some(batch) = next()? {
                for row in batch.iter() {
                    writer.as_mut().write_raw(row).await.map_err(failed)?;
                }
            }
            writer.finish().await.map_err(failed)?;
            Ok(())
        });
        filled.map_err(CopyError::Target)?
    }

    pub fn finish(&mut self, tables: &[Table]) -> Result<(), CopyError> {
        self.make_again(tables).map_err(CopyError::Target)
    }

    fn make_again(&mut self, tables: &[Table]) -> Result<(), DbError> {
        for table in tables {
            let name = layout::quoted(&table.name);
            self.run(&format!("ALTER TABLE {name} ENABLE TRIGGER USER"))?;
        }
        for sql in std::mem::take(&mut self.taken_away) {
            self.run(&sql)?;
        }
        let next_keys = self.conn.query(NEXT_KEYS, &[])?;
        for row in next_keys {
            let sql: String = row.try_get(0)?;
            self.run(&sql)?;
        }
        Ok(())
    }

    pub fn read(&mut self, table: &Table, take: TakeBatch<'_>) -> Result<(), CopyError> {
        read(&self.conn, table, CopyError::Target, take)
    }

    pub fn commit(self) -> Result<(), CopyError> {
        self.run("COMMIT").map_err(CopyError::Target)?;
        // So that the first requests are planned by what is there.
        self.run("ANALYZE").map_err(CopyError::Target)
    }

    fn run(&self, sql: &str) -> Result<(), DbError> {
        let done = self
            .conn
            .bulk(async |client| client.batch_execute(sql).await)?;
        Ok(done?)
    }

    fn pairs(&self, sql: &'static str) -> Result<Vec<(String, String)>, DbError> {
        let rows = self.conn.query(sql, &[])?;
        let pairs = rows
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        pairs.collect()
    }
}

fn failed(error: tokio_postgres::Error) -> CopyError {
    CopyError::Target(error.into())
}

fn tables(conn: &PgConnection) -> Result<Vec<Table>, DbError> {
    let found = conn.bulk(async |client| client.query(TABLES, &[&HISTORY]).await)??;
    let pairs = found
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    let pairs: Result<Vec<_>, DbError> = pairs.collect();
    Ok(layout::from_pairs(pairs?))
}

/// The types of a table's columns, in the order of [`Table::columns`].
fn column_types(
    conn: &PgConnection,
    table: &Table,
    failed: fn(DbError) -> CopyError,
) -> Result<Vec<Type>, CopyError> {
    let rows = conn.bulk(async |client| client.query(COLUMN_TYPES, &[&table.name]).await);
    let rows = rows.and_then(|rows| Ok(rows?)).map_err(failed)?;
    let mut types = Vec::with_capacity(table.columns.len());
    for column in &table.columns {
        let named = rows.iter().find(|row| row.get::<_, &str>(0) == column);
        let named = named.map(|row| row.get::<_, &str>(1));
        types.push(match named {
            Some("int2") => Type::INT2,
            Some("int4") => Type::INT4,
            Some("int8") => Type::INT8,
            Some("text") => Type::TEXT,
            Some("varchar") => Type::VARCHAR,
            Some("bytea") => Type::BYTEA,
            Some(_) | None => {
                let place = format!("{}.{column}", table.name);
                return Err(CopyError::Layout(place));
            }
        });
    }
    Ok(types)
}

/// Reads a table in the order of its keys, in which it is best written, too.
fn read(
    conn: &PgConnection,
    table: &Table,
    failed: fn(DbError) -> CopyError,
    take: TakeBatch<'_>,
) -> Result<(), CopyError> {
    let types = column_types(conn, table, failed)?;
    let (name, columns) = (layout::quoted(&table.name), table.column_list());
    let read = conn.bulk(async |client| {
        let failed = |error: tokio_postgres::Error| failed(error.into());
        let order = order_of(client, table).await.map_err(failed)?;
        let sql = format!("COPY (SELECT {columns} FROM {name}{order}) TO STDOUT (FORMAT binary)");
        let stream = client.copy_out(&sql).await.map_err(failed)?;
        let mut rows = pin!(BinaryCopyOutStream::new(stream, &types));
        let mut batch = RowBatch::new(types.len());
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            for place in 0..types.len() {
                match row.try_get(place).map_err(failed)? {
                    Column::Null => batch.push(CopiedValue::Null),
                    Column::Int(number) => batch.push(CopiedValue::Int(number)),
                    Column::Bool(said) => batch.push(CopiedValue::Int(i64::from(said))),
                    Column::Text(text) => batch.push_text(text, TextRule::AsItIs),
                    Column::Bytes(bytes) => batch.push(CopiedValue::Bytes(bytes.to_owned())),
                }
            }
            if batch.is_full() {
                take(std::mem::replace(&mut batch, RowBatch::new(types.len())))?;
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        take(batch)
    });
    read.map_err(failed)?
}

async fn order_of(client: &Client, table: &Table) -> Result<String, tokio_postgres::Error> {
    let rows = client.query(PRIMARY_KEY, &[&table.name]).await?;
    let columns: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    Ok(match columns[..] {
        [] => String::new(),
        _ => format!(" ORDER BY {}", columns.join(", ")),
    })
}
