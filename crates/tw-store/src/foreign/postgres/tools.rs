//! The tables of an application whose calls VAPI makes: tools, agents, which agent has which tools, and whose they are.

use std::pin::pin;

use futures_util::TryStreamExt;
use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyOutStream;
use tokio_postgres::types::Type;

use super::{ServerTable, json, send_layout, table_of, text};
use crate::copy::layout::quoted;
use crate::foreign::{
    ForeignError, ForeignRowBeside, ForeignRowRead, ForeignText, NamedForeignRow, RowSender,
    TOOLS_TABLE,
};

/// A table, and those that its columns refer to.
struct ToolTable {
    name: &'static str,
    refers: &'static [(&'static str, &'static str)],
}

/// Each behind those that it refers to. Both spellings of the first are in use.
const TABLES: [ToolTable; 5] = [
    ToolTable {
        name: "organisations",
        refers: &[],
    },
    ToolTable {
        name: "organizations",
        refers: &[],
    },
    ToolTable {
        name: "agents",
        refers: &OF_ORGANIZATION,
    },
    ToolTable {
        name: TOOLS_TABLE,
        refers: &OF_ORGANIZATION,
    },
    ToolTable {
        name: "agent_tools",
        refers: &[("agent_id", "agents"), ("tool_id", TOOLS_TABLE)],
    },
];

const OF_ORGANIZATION: [(&str, &str); 2] = [
    ("organization_id", "organisations"),
    ("organization_id", "organizations"),
];

/// Columns without which a row is no tool's.
const NEEDED: [&str; 4] = ["id", "name", "function_schema", "data"];

pub async fn send_rows(client: &Client, rows: &RowSender) -> Result<(), ForeignError> {
    let tools = table_of(client, TOOLS_TABLE).await?;
    if !NEEDED.iter().all(|name| tools.columns.has(name)) {
        return Err(ForeignError::NoTable {
            table: TOOLS_TABLE,
            columns: NEEDED.join(", "),
        });
    }
    // The layout comes first, so that of a source that dies in the midst it is known what its rows were.
    let names = TABLES.each_ref().map(|table| table.name);
    if !send_layout(client, rows, &names).await? {
        return Ok(());
    }
    let mut read = Vec::with_capacity(TABLES.len());
    for table in &TABLES {
        read.push((table, table_of(client, table.name).await?));
    }
    for (table, columns) in &read {
        let is_there = |name: &str| {
            let mut tables = read.iter();
            tables.any(|(of, columns)| of.name == name && columns.columns.has("id"))
        };
        let mut refers: Vec<(&str, &str)> = Vec::new();
        for (column, of) in table.refers {
            let is_known = refers.iter().any(|(known, _)| known == column);
            if !is_known && columns.columns.has(column) && is_there(of) {
                refers.push((column, of));
            }
        }
        let is_empty = columns.columns.names.is_empty();
        if !is_empty && !send_table(client, rows, table.name, columns, &refers).await? {
            break;
        }
    }
    Ok(())
}

/// The columns of the primary key, in their order.
const KEY: &str = "SELECT a.attname::text FROM pg_index i
    CROSS JOIN unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = to_regclass($1) AND i.indisprimary ORDER BY k.place";

/// Sends the rows of a table in the order in which it has them; whether somebody takes them.
async fn send_table(
    client: &Client,
    rows: &RowSender,
    name: &str,
    columns: &ServerTable,
    refers: &[(&str, &str)],
) -> Result<bool, ForeignError> {
    let key = client.query(KEY, &[&quoted(name)]).await?;
    let key: Vec<String> = key
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    let sql = table_sql(name, columns, &key, refers);
    let stream = client.copy_out(&sql).await?;
    let types = [Type::BYTEA, Type::BYTEA, Type::BYTEA, Type::INT8];
    let mut found = pin!(BinaryCopyOutStream::new(stream, &types));
    while let Some(row) = found.try_next().await? {
        let beside = ForeignRowBeside {
            table: name.to_owned(),
            row: NamedForeignRow::of(
                text(&row, 2)?.map(|place| place.text),
                json(&row, 0)?.unwrap_or_else(|| ForeignText::of(b"null")),
            ),
            conversation: None,
            dangles: row.try_get::<i64>(3)? != 0,
        };
        if !rows.send_async(ForeignRowRead::Beside(beside)).await {
            return Ok(false);
        }
    }
    Ok(true)
}

fn table_sql(name: &str, columns: &ServerTable, key: &[String], refers: &[(&str, &str)]) -> String {
    let own = |column: &str| format!("t.{}", quoted(column));
    let place = match key {
        [] => "NULL::text".to_owned(),
        [only] => format!("{}::text", own(only)),
        several => {
            let several: Vec<String> = several.iter().map(|column| own(column)).collect();
            format!("json_build_array({})::text", several.join(", "))
        }
    };
    let mut joins = String::new();
    let mut dangles = vec!["false".to_owned()];
    for (at, (column, of)) in refers.iter().enumerate() {
        let (column, of) = (own(column), quoted(of));
        joins.push_str(&format!(
            " LEFT JOIN (SELECT DISTINCT id::text AS id FROM {of}) r{at} ON r{at}.id = {column}::text"
        ));
        dangles.push(format!("({column} IS NOT NULL AND r{at}.id IS NULL)"));
    }
    format!(
        "COPY (SELECT row_to_json(t)::text, {nulls}, {place}, ({dangles})::int::bigint
            FROM {name} t{joins} ORDER BY t.ctid) TO STDOUT (FORMAT binary)",
        nulls = columns.json_nulls("t"),
        dangles = dangles.join(" OR "),
        name = quoted(name),
    )
}
