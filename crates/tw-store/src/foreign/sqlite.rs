//! A SQLite file of another application. All of its tables are read: what is no message is kept as it is.

mod calls;

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use tw_core::time::Timestamp;

use super::row_json::{self, RowJson};
use super::{
    ForeignColumns, ForeignError, ForeignMessageRow, ForeignRowBeside, ForeignRowRead,
    ForeignTables, ForeignText, LAYOUT, NamedForeignRow, RowSender, TIMES, TURN_OF_CALL,
};
use crate::connection::VisitingReader;
use crate::copy::layout::quoted;

use calls::{CallRows, KeyValue};

/// A table of the file.
#[derive(Clone, Debug)]
struct FileTable {
    name: String,
    columns: ForeignColumns,
    /// The row's own number, where the table has them.
    key: Option<&'static str>,
    /// The columns that name a row, by their place among the columns: the primary key, or else a unique id.
    named_by: Vec<usize>,
}

pub fn read(path: &Path, tables: &ForeignTables, rows: &RowSender) -> Result<(), ForeignError> {
    let conn = VisitingReader::enter(path)?;
    conn.execute_batch("BEGIN")?;
    let found = tables_of(&conn)?;
    let named = |name: &str| found.iter().find(|table| table.name == name);
    let none = ForeignColumns::default();
    let messages = named(tables.messages);
    tables.check(messages.map_or(&none, |table| &table.columns))?;
    let Some(messages) = messages else {
        return Ok(());
    };
    let reading = FileReading {
        conn: &conn,
        tables,
        messages,
        conversations: named(tables.conversations).filter(|table| table.columns.has("id")),
        calls: (tables.calls.and_then(named)).filter(|table| table.columns.has(TURN_OF_CALL)),
        rows,
    };
    // The layout comes first, so that of a source that dies in the midst it is known what its rows were.
    let goes_on = reading.layout()? && reading.messages()? && reading.beside()?;
    if goes_on {
        let of_messages = [reading.conversations, reading.calls, Some(messages)];
        let is_other = |table: &&FileTable| {
            let mut read = of_messages.iter().flatten();
            !read.any(|read| read.name == table.name)
        };
        for table in found.iter().filter(is_other) {
            if !reading.whole(table)? {
                break;
            }
        }
    }
    Ok(())
}

/// Shadows of virtual tables are made with those.
const TABLES: &str = "SELECT name, wr FROM pragma_table_list
    WHERE schema = 'main' AND type = 'table' AND name <> 'sqlite_schema' AND name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\'
    ORDER BY name";
/// Columns that are computed are computed again.
const COLUMNS: &str = "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0 ORDER BY cid";
const PRIMARY_KEY: &str =
    "SELECT name FROM pragma_table_xinfo(?1) WHERE pk > 0 AND hidden = 0 ORDER BY pk";
const UNIQUE_ID: &str =
    "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE pk = 1 AND name = 'id'
        AND NOT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE pk > 1))
    OR EXISTS (SELECT 1 FROM pragma_index_list(?1) l WHERE l.\"unique\" = 1 AND l.partial = 0
        AND (SELECT group_concat(name) FROM pragma_index_info(l.name)) = 'id')";

fn tables_of(conn: &Connection) -> rusqlite::Result<Vec<FileTable>> {
    let mut statement = conn.prepare(TABLES)?;
    let named = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let named: Vec<(String, bool)> = named.collect::<Result<_, _>>()?;
    let listed = |sql: &str, table: &str| -> rusqlite::Result<Vec<String>> {
        let mut statement = conn.prepare_cached(sql)?;
        let names = statement.query_map([table], |row| row.get(0))?;
        names.collect()
    };
    let mut tables = Vec::with_capacity(named.len());
    for (name, without_rowid) in named {
        let columns = ForeignColumns {
            names: listed(COLUMNS, &name)?,
            has_unique_id: conn.query_row(UNIQUE_ID, [&name], |row| row.get(0))?,
        };
        let named_by = columns.naming(listed(PRIMARY_KEY, &name)?);
        let place = |named: &String| columns.names.iter().position(|have| have == named);
        tables.push(FileTable {
            named_by: named_by.iter().filter_map(place).collect(),
            columns,
            key: (!without_rowid).then_some("_rowid_"),
            name,
        });
    }
    Ok(tables)
}

struct FileReading<'a> {
    conn: &'a Connection,
    tables: &'a ForeignTables,
    messages: &'a FileTable,
    conversations: Option<&'a FileTable>,
    calls: Option<&'a FileTable>,
    rows: &'a RowSender,
}

/// Columns of each row that stand before its table's own.
const BEFORE: usize = 6;

impl FileReading<'_> {
    /// Whether somebody takes rows.
    fn send(&self, row: ForeignRowRead) -> bool {
        self.rows.send(row)
    }

    fn layout(&self) -> Result<bool, ForeignError> {
        // The application may keep the number of its schema there.
        let sql = "SELECT type, name, tbl_name, sql FROM (
                SELECT 0 AS place, 'pragma' AS type, 'user_version' AS name, NULL AS tbl_name,
                    'PRAGMA user_version = ' || user_version AS sql FROM pragma_user_version
                UNION ALL
                SELECT rowid, type, name, tbl_name, sql FROM sqlite_schema
                WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\')
            ORDER BY place";
        let mut statement = self.conn.prepare(sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let mut json = RowJson::default();
            for (at, name) in ["type", "name", "table", "sql"].into_iter().enumerate() {
                json.add(name, row.get_ref(at)?);
            }
            let name = row_json::list_of([row.get_ref(0)?, row.get_ref(1)?].into_iter());
            let layout = ForeignRowBeside {
                table: LAYOUT.to_owned(),
                row: NamedForeignRow::of(name, json.end()),
                conversation: None,
                dangles: false,
            };
            if !self.send(ForeignRowRead::Beside(layout)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The order of the messages, of which `m` is one.
    fn order(&self) -> String {
        let columns = &self.messages.columns;
        let mut order = vec![self.tables.conversation];
        order.extend(
            ["seq", self.tables.at]
                .iter()
                .filter(|name| columns.has(name)),
        );
        let order: Vec<String> = order.iter().map(|name| column("m", name)).collect();
        format!("{}, m.{}", order.join(", "), self.key())
    }

    fn key(&self) -> &str {
        self.messages.key.unwrap_or("id")
    }

    fn messages(&self) -> Result<bool, ForeignError> {
        let columns = &self.messages.columns;
        let at = match columns.has(self.tables.at) {
            true => column("m", self.tables.at),
            false => "NULL".to_owned(),
        };
        let repeated = match columns.has_unique_id {
            true => "0".to_owned(),
            false => format!(
                "row_number() OVER (PARTITION BY m.id ORDER BY m.{}) - 1",
                self.key()
            ),
        };
        let (conversation_columns, join) = self.conversation();
        let has_conversation = match join.is_empty() {
            true => "0",
            false => "c.id IS NOT NULL",
        };
        let sql = format!(
            "SELECT m.{key}, m.id, {of}, {at}, {repeated}, {has_conversation}{own}{conversation_columns} FROM {table} m{join} ORDER BY {order}",
            key = self.key(),
            of = column("m", self.tables.conversation),
            own = listed("m", &columns.names),
            table = quoted(&self.messages.name),
            order = self.order(),
        );
        let mut statement = self.conn.prepare(&sql)?;
        let mut found = statement.query([])?;
        let mut calls = self.calls.map(|table| self.calls_of(table)).transpose()?;
        let mut calls = match &mut calls {
            Some(calls) => Some(calls.begin()?),
            None => None,
        };
        let mut last: Option<KeyValue> = None;
        while let Some(row) = found.next()? {
            let of = KeyValue::of(row.get_ref(2)?);
            let is_first = last.as_ref() != Some(&of);
            let own = BEFORE + columns.names.len();
            let has_conversation = row.get(5)?;
            let key = KeyValue::of(row.get_ref(0)?);
            let message = ForeignMessageRow {
                id: text_of(row.get_ref(1)?),
                repeated: u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0),
                conversation: text_of(row.get_ref(2)?),
                at_us: time_of(row.get_ref(3)?).map(|at| at.0),
                row: self.messages.row(row, BEFORE)?,
                calls: match &mut calls {
                    Some(calls) => calls.take_of(&key)?,
                    None => Vec::new(),
                },
                conversation_row: match self.conversations {
                    Some(table) if is_first && has_conversation => Some(table.row(row, own)?),
                    Some(_) | None => None,
                },
                has_conversation,
            };
            last = Some(of);
            if !self.send(ForeignRowRead::Message(message)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The columns of a message's conversation, and how they are joined; both empty where there are none.
    fn conversation(&self) -> (String, String) {
        let Some(table) = self.conversations else {
            return Default::default();
        };
        let columns = listed("c", &table.columns.names);
        let of = column("m", self.tables.conversation);
        let name = quoted(&table.name);
        let from = match table.columns.has_unique_id {
            true => name,
            // Of several with one id, the first is the conversation.
            false => format!(
                "(SELECT *, row_number() OVER (PARTITION BY id ORDER BY {}) AS \"$n\" FROM {name})",
                table.key.unwrap_or("id")
            ),
        };
        let first = match table.columns.has_unique_id {
            true => "",
            false => " AND c.\"$n\" = 1",
        };
        (
            columns,
            format!(" LEFT JOIN {from} c ON c.id = {of}{first}"),
        )
    }

    /// The calls in the order of their turns.
    fn calls_of<'t>(&'t self, table: &'t FileTable) -> Result<CallRows<'t>, ForeignError> {
        let turns = quoted(&self.messages.name);
        let key = self.key();
        let turns = match self.messages.columns.has_unique_id {
            true => format!("JOIN {turns} m ON m.id = k.{TURN_OF_CALL}"),
            false => format!(
                "JOIN (SELECT id, min({key}) AS first FROM {turns} GROUP BY id) f ON f.id = k.{TURN_OF_CALL} JOIN {turns} m ON m.{key} = f.first"
            ),
        };
        let mut order = self.order();
        let own = ["created", table.key.unwrap_or("id")];
        let own = own
            .iter()
            .filter(|name| table.key == Some(name) || table.columns.has(name));
        for name in own {
            order.push_str(", k.");
            order.push_str(name);
        }
        let sql = format!(
            "SELECT m.{key}{columns} FROM {name} k {turns} ORDER BY {order}",
            columns = listed("k", &table.columns.names),
            name = quoted(&table.name),
        );
        let statement = self.conn.prepare(&sql)?;
        Ok(CallRows::of(statement, table))
    }

    /// Conversations that nothing was said in, or that have the id of another, and calls of no turn. The first column of
    /// each row is the conversation that it is of.
    fn beside(&self) -> Result<bool, ForeignError> {
        if let Some(table) = self.conversations {
            let of = column("m", self.tables.conversation);
            let again = match table.columns.has_unique_id {
                true => String::new(),
                false => " OR c.\"$n\" > 1".to_owned(),
            };
            let name = quoted(&table.name);
            let key = table.key.unwrap_or("id");
            let sql = format!(
                "SELECT c.id{columns} FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY {key}) AS \"$n\" FROM {name}) c
                LEFT JOIN (SELECT DISTINCT {of} AS of FROM {messages} m) s ON s.of = c.id WHERE s.of IS NULL{again}",
                columns = listed("c", &table.columns.names),
                messages = quoted(&self.messages.name),
            );
            if !self.rows_beside(table, &sql, false)? {
                return Ok(false);
            }
        }
        if let Some(table) = self.calls {
            let sql = format!(
                "SELECT NULL{columns} FROM {name} k LEFT JOIN (SELECT DISTINCT id FROM {turns}) m ON m.id = k.{TURN_OF_CALL} WHERE m.id IS NULL",
                columns = listed("k", &table.columns.names),
                name = quoted(&table.name),
                turns = quoted(&self.messages.name),
            );
            return self.rows_beside(table, &sql, true);
        }
        Ok(true)
    }

    fn whole(&self, table: &FileTable) -> Result<bool, ForeignError> {
        let sql = format!(
            "SELECT NULL{columns} FROM {name} t",
            columns = listed("t", &table.columns.names),
            name = quoted(&table.name),
        );
        self.rows_beside(table, &sql, false)
    }

    fn rows_beside(
        &self,
        table: &FileTable,
        sql: &str,
        dangles: bool,
    ) -> Result<bool, ForeignError> {
        let mut statement = self.conn.prepare(sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let conversation = text_of(row.get_ref(0)?).map(|id| id.text);
            let beside = ForeignRowBeside {
                table: table.name.clone(),
                row: table.row(row, 1)?,
                conversation: conversation.filter(|_| table.columns.has_unique_id),
                dangles,
            };
            if !self.send(ForeignRowRead::Beside(beside)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn column(table: &str, name: &str) -> String {
    format!("{table}.{}", quoted(name))
}

/// Columns of a table, each behind a comma.
fn listed(table: &str, names: &[String]) -> String {
    let columns = names
        .iter()
        .map(|name| format!(", {}", column(table, name)));
    columns.collect()
}

impl FileTable {
    /// The row of this table whose columns begin at a place.
    fn row(&self, row: &Row<'_>, from: usize) -> rusqlite::Result<NamedForeignRow> {
        let mut json = RowJson::default();
        for (place, name) in self.columns.names.iter().enumerate() {
            json.add(name, row.get_ref(from + place)?);
        }
        let key = self.named_by.iter().map(|place| row.get_ref(from + place));
        let key: Vec<ValueRef<'_>> = key.collect::<Result<_, _>>()?;
        let name = match key.is_empty() {
            true => None,
            false => row_json::list_of(key.into_iter()),
        };
        Ok(NamedForeignRow::of(name, json.end()))
    }
}

/// A value as the text by which rows refer to each other.
fn text_of(value: ValueRef<'_>) -> Option<ForeignText> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(ForeignText::of(number.to_string().as_bytes())),
        ValueRef::Real(number) => Some(ForeignText::of(number.to_string().as_bytes())),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(ForeignText::of(bytes)),
    }
}

/// Numbers from here on are milliseconds since 1970, and smaller ones seconds: the year 2286 in seconds.
const MILLISECONDS_FROM: i64 = 10_000_000_000;

fn time_of(value: ValueRef<'_>) -> Option<Timestamp> {
    let time = match value {
        ValueRef::Null | ValueRef::Blob(_) => None,
        ValueRef::Integer(number) => {
            let unit = match number.unsigned_abs() >= MILLISECONDS_FROM.unsigned_abs() {
                true => 1_000,
                false => 1_000_000,
            };
            Some(Timestamp(number.checked_mul(unit)?))
        }
        ValueRef::Real(seconds) => {
            let micros = seconds * 1_000_000.0;
            // Beyond this a number of seconds is no time.
            (micros.abs() < 1e17).then_some(Timestamp(micros.round() as i64))
        }
        ValueRef::Text(text) => Timestamp::parse(std::str::from_utf8(text).ok()?),
    };
    time.filter(|time| TIMES.contains(&time.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_that_every_database_can_say() {
        let second = 1_735_689_600_000_000;
        for (value, expected) in [
            (ValueRef::Integer(1_735_689_600), Some(second)),
            (ValueRef::Integer(1_735_689_600_000), Some(second)),
            (ValueRef::Real(1_735_689_600.0), Some(second)),
            (ValueRef::Text(b"2025-01-01 00:00:00"), Some(second)),
            (
                ValueRef::Text(b"9999-12-31T23:59:59.999999Z"),
                Some(253_402_300_799_999_999),
            ),
            (ValueRef::Integer(0), Some(0)),
            (ValueRef::Integer(-1), None),
            (ValueRef::Real(-0.000_001), None),
            (ValueRef::Text(b"1969-12-31 23:59:59"), None),
            (ValueRef::Integer(253_402_300_800_000), None),
            (ValueRef::Real(253_402_300_800.0), None),
            (ValueRef::Integer(i64::MAX), None),
            (ValueRef::Integer(i64::MIN), None),
            (ValueRef::Real(f64::INFINITY), None),
            (ValueRef::Real(f64::NAN), None),
            (ValueRef::Null, None),
            (ValueRef::Blob(b"2025-01-01"), None),
            (ValueRef::Text(b"\xff"), None),
        ] {
            assert_eq!(time_of(value).map(|at| at.0), expected, "{value:?}");
        }
    }
}
