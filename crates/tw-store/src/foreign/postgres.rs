//! A PostgreSQL database of another application. Of its tables those of the layout are read.

mod tools;

use std::pin::pin;

use futures_util::TryStreamExt;
use serde_json::Value;
use tokio_postgres::Client;
use tokio_postgres::binary_copy::{BinaryCopyOutRow, BinaryCopyOutStream};
use tokio_postgres::types::Type;
use tw_core::shape::TableLayout;
use tw_core::time::Timestamp;

use super::row_json::hex;
use super::{
    ForeignColumns, ForeignError, ForeignMessageRow, ForeignRowBeside, ForeignRowRead,
    ForeignTables, ForeignText, LAYOUT, NamedForeignRow, RowSender, TIMES,
};
use crate::copy::layout::quoted;
use crate::session::postgres::{BEGIN_READ, PostgresServer};

/// A reading takes its time, and times are in UTC.
const PATIENT: &str =
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET timezone = 'UTC'";

/// The field of a row that lists its columns which hold JSON's null, which is not that of the database.
pub const JSON_NULLS: &str = "$json_null";

/// The only field of a row that is no UTF-8: the hexadecimal digits of its JSON.
pub const ROW_BYTES: &str = "$row";

pub fn read(
    url: &str,
    tls: Option<rustls::ClientConfig>,
    layout: TableLayout,
    rows: &RowSender,
) -> Result<(), ForeignError> {
    let conn = PostgresServer::of(url, tls)?.connect()?;
    conn.frame(PATIENT)?;
    conn.frame(BEGIN_READ)?;
    conn.bulk(async |client| {
        speak_its_encoding(client).await?;
        match layout {
            TableLayout::Record(shape) => send_rows(client, &ForeignTables::of(shape), rows).await,
            TableLayout::Vapi => tools::send_rows(client, rows).await,
        }
    })?
}

async fn speak_its_encoding(client: &Client) -> Result<(), ForeignError> {
    let encoding = client.query_one("SHOW server_encoding", &[]).await?;
    if encoding.try_get::<_, &str>(0)? == "SQL_ASCII" {
        // The server does not know what its bytes mean, and would refuse to give them as UTF-8.
        client
            .batch_execute("SET client_encoding = 'SQL_ASCII'")
            .await?;
    }
    Ok(())
}

/// A table as its columns say it.
#[derive(Default)]
struct ServerTable {
    columns: ForeignColumns,
    /// The types of the columns.
    types: Vec<String>,
    /// The columns that name a row.
    named_by: Vec<String>,
}

impl ServerTable {
    fn type_of(&self, name: &str) -> Option<&str> {
        let at = self.columns.names.iter().position(|have| have == name)?;
        self.types.get(at).map(String::as_str)
    }

    /// What names the row `of`: the list of the columns that do, each as its text.
    fn name(&self, of: &str) -> String {
        if self.named_by.is_empty() {
            return "NULL::text".to_owned();
        }
        let columns = self.named_by.iter();
        let columns: Vec<String> = columns
            .map(|name| format!("{of}.{}", quoted(name)))
            .collect();
        let texts: Vec<String> = columns.iter().map(|name| format!("{name}::text")).collect();
        format!(
            "CASE WHEN num_nulls({}) = 0 THEN json_build_array({})::text END",
            columns.join(", "),
            texts.join(", ")
        )
    }

    /// A list of the columns of the row `of` that hold JSON's null, as JSON.
    fn json_nulls(&self, of: &str) -> String {
        let columns = self.columns.names.iter().zip(&self.types);
        let checks: Vec<String> = columns
            .filter(|(_, kind)| matches!(kind.as_str(), "json" | "jsonb"))
            .map(|(name, kind)| {
                let text = name.replace('\'', "''");
                let name = quoted(name);
                format!("CASE WHEN {kind}_typeof({of}.{name}) = 'null' THEN '{text}' END")
            })
            .collect();
        match checks.is_empty() {
            true => "NULL::text".to_owned(),
            false => format!(
                "array_to_json(nullif(array_remove(ARRAY[{}], NULL), '{{}}'))::text",
                checks.join(", ")
            ),
        }
    }
}

const COLUMNS: &str = "SELECT a.attname::text, a.atttypid::regtype::text,
        EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indpred IS NULL
                AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),
        (SELECT array_position(i.indkey::int2[], a.attnum)::bigint FROM pg_index i
            WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
    FROM pg_attribute a
    WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

async fn table_of(client: &Client, name: &str) -> Result<ServerTable, ForeignError> {
    let mut table = ServerTable::default();
    let mut primary_key: Vec<(i64, String)> = Vec::new();
    for row in client.query(COLUMNS, &[&quoted(name)]).await? {
        let column: String = row.try_get(0)?;
        if column == "id" {
            table.columns.has_unique_id = row.try_get(2)?;
        }
        if let Some(place) = row.try_get(3)? {
            primary_key.push((place, column.clone()));
        }
        table.columns.names.push(column);
        table.types.push(row.try_get(1)?);
    }
    primary_key.sort_unstable();
    let primary_key = primary_key.into_iter().map(|(_, column)| column);
    table.named_by = table.columns.naming(primary_key.collect());
    Ok(table)
}

async fn send_rows(
    client: &Client,
    tables: &ForeignTables,
    rows: &RowSender,
) -> Result<(), ForeignError> {
    let reading = ServerReading {
        messages: table_of(client, tables.messages).await?,
        conversations: table_of(client, tables.conversations).await?,
        client,
        tables,
        rows,
    };
    tables.check(&reading.messages.columns)?;
    // The layout comes first, so that of a source that dies in the midst it is known what its rows were.
    let named = [tables.conversations, tables.messages];
    if send_layout(client, rows, &named).await? && reading.messages().await? {
        reading.conversations_beside().await?;
    }
    Ok(())
}

struct ServerReading<'a> {
    client: &'a Client,
    tables: &'a ForeignTables,
    messages: ServerTable,
    conversations: ServerTable,
    rows: &'a RowSender,
}

/// What makes tables again, in their order. A sequence is not read, and a column that one counts is an identity.
const LAYOUT_OF: &str = "WITH named (tables) AS (SELECT ARRAY(
        SELECT to_regclass(n)::oid FROM unnest($1::text[]) WITH ORDINALITY AS t (n, place) ORDER BY place))
    SELECT json_build_object('table', c.relname,
        'columns', (SELECT json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
                'required', a.attnotnull, 'generated', a.attgenerated <> '',
                'counts', a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid), '') LIKE 'nextval(%',
                'default', pg_get_expr(d.adbin, d.adrelid)) ORDER BY a.attnum)
            FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
        'constraints', (SELECT coalesce(json_agg(json_build_object('name', o.conname, 'text', pg_get_constraintdef(o.oid, true))
                ORDER BY o.contype = 'f', o.conname), '[]')
            FROM pg_constraint o WHERE o.conrelid = c.oid AND o.contype IN ('p', 'u', 'c', 'f')
              AND (o.contype <> 'f' OR o.confrelid = ANY (named.tables))),
        'indexes', (SELECT coalesce(json_agg(pg_get_indexdef(i.indexrelid, 0, true)), '[]')
            FROM pg_index i WHERE i.indrelid = c.oid
              AND NOT EXISTS (SELECT 1 FROM pg_constraint o WHERE o.conindid = i.indexrelid)))::text,
        json_build_array('table', c.relname)::text
    FROM named JOIN pg_class c ON c.oid = ANY (named.tables) ORDER BY array_position(named.tables, c.oid)";

/// Sends what makes the tables of these names; whether somebody takes it.
async fn send_layout(
    client: &Client,
    rows: &RowSender,
    tables: &[&str],
) -> Result<bool, ForeignError> {
    let names: Vec<String> = tables.iter().copied().map(quoted).collect();
    for row in &client.query(LAYOUT_OF, &[&names]).await? {
        let text = ForeignText::of(row.try_get::<_, &str>(0)?.as_bytes());
        let layout = ForeignRowBeside {
            table: LAYOUT.to_owned(),
            row: NamedForeignRow::of(Some(row.try_get(1)?), text),
            conversation: None,
            dangles: false,
        };
        if !rows.send_async(ForeignRowRead::Beside(layout)).await {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The columns of what is sent of a message.
const COLUMN_TYPES: [Type; 12] = [
    Type::BYTEA,
    Type::BYTEA,
    Type::INT8,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::INT8,
    Type::INT8,
    Type::BYTEA,
    Type::BYTEA,
];

impl ServerReading<'_> {
    async fn send(&self, row: ForeignRowRead) -> bool {
        self.rows.send_async(row).await
    }

    /// The messages by conversation, in the order of their times; at one time in that of the table.
    fn messages_sql(&self) -> String {
        let (m, c) = (&self.messages, &self.conversations);
        let of = format!("m.{}", quoted(self.tables.conversation));
        let at = format!("m.{}", quoted(self.tables.at));
        let (at_us, at_text, by_time) = match m.type_of(self.tables.at) {
            None => (
                "NULL::bigint".to_owned(),
                "NULL::text".to_owned(),
                String::new(),
            ),
            Some(kind) if kind.starts_with("timestamp") || kind == "date" => (
                format!(
                    "CASE WHEN {at} >= '1970-01-01' AND {at} < '10000-01-01' THEN (extract(epoch FROM {at}) * 1000000)::bigint END"
                ),
                "NULL::text".to_owned(),
                format!("{at}, "),
            ),
            Some(_) => (
                "NULL::bigint".to_owned(),
                format!("{at}::text"),
                format!("{at}, "),
            ),
        };
        let by_seq = if m.columns.has("seq") { "m.seq, " } else { "" };
        let order = format!("{of}, {by_seq}{by_time}m.ctid");
        let repeated = match m.columns.has_unique_id {
            true => "0::bigint",
            false => "row_number() OVER (PARTITION BY m.id ORDER BY m.ctid) - 1",
        };
        let (conversation, nulls, has, conversation_name, join) = match c.columns.has("id") {
            false => (
                "NULL::text".to_owned(),
                "NULL::text".to_owned(),
                "0::bigint",
                "NULL::text".to_owned(),
                String::new(),
            ),
            true => {
                let is_first = format!("lag({of}) OVER w IS DISTINCT FROM {of}");
                (
                    format!("CASE WHEN {is_first} THEN row_to_json(c)::text END"),
                    c.json_nulls("c"),
                    "(c.id IS NOT NULL)::int::bigint",
                    format!("CASE WHEN {is_first} THEN {} END", c.name("c")),
                    self.join(&of),
                )
            }
        };
        let name = match self.is_named_by_id() {
            // It is among what is sent.
            true => "NULL::text".to_owned(),
            false => m.name("m"),
        };
        let nulls_of_message = m.json_nulls("m");
        format!(
            "SELECT m.id::text, {of}::text, {at_us}, {at_text}, row_to_json(m)::text, {nulls_of_message},
                {conversation}, {nulls}, {has}, {repeated}, {name}, {conversation_name}
            FROM {messages} m{join} WINDOW w AS (ORDER BY {order}) ORDER BY {order}",
            messages = quoted(self.tables.messages),
        )
    }

    /// Whether nothing but the id names a message.
    fn is_named_by_id(&self) -> bool {
        self.messages.named_by == ["id"]
    }

    /// How conversations, as `c`, are joined to messages, which name theirs in the column `of`.
    fn join(&self, of: &str) -> String {
        let same_type =
            self.messages.type_of(self.tables.conversation) == self.conversations.type_of("id");
        let cast = if same_type { "" } else { "::text" };
        let name = quoted(self.tables.conversations);
        let from = match self.conversations.columns.has_unique_id {
            true => name,
            // Of several with one id, the first is the conversation.
            false => format!("(SELECT DISTINCT ON (id) * FROM {name} ORDER BY id, ctid)"),
        };
        format!(" LEFT JOIN {from} c ON c.id{cast} = {of}{cast}")
    }

    async fn messages(&self) -> Result<bool, ForeignError> {
        let sql = format!("COPY ({}) TO STDOUT (FORMAT binary)", self.messages_sql());
        let stream = self.client.copy_out(&sql).await?;
        let mut found = pin!(BinaryCopyOutStream::new(stream, &COLUMN_TYPES));
        while let Some(row) = found.try_next().await? {
            let id = text(&row, 0)?;
            let name = match self.is_named_by_id() {
                true => id.as_ref().map(|id| Value::from([&*id.text]).to_string()),
                false => text(&row, 10)?.map(|name| name.text),
            };
            let at: Option<i64> = row.try_get(2)?;
            let at_text = text(&row, 3)?;
            let at_text = at_text.and_then(|at| Timestamp::parse(&at.text));
            let message = ForeignMessageRow {
                id,
                repeated: u64::try_from(row.try_get::<i64>(9)?).unwrap_or(0),
                conversation: text(&row, 1)?,
                at_us: at
                    .or(at_text.map(|at| at.0))
                    .filter(|at| TIMES.contains(at)),
                row: NamedForeignRow::of(name, json_or_null(&row, 4)?),
                calls: Vec::new(),
                conversation_row: match json(&row, 6)? {
                    Some(of) => {
                        let name = text(&row, 11)?.map(|name| name.text);
                        Some(NamedForeignRow::of(name, of))
                    }
                    None => None,
                },
                has_conversation: row.try_get::<i64>(8)? != 0,
            };
            if !self.send(ForeignRowRead::Message(message)).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Conversations that nothing was said in, or that have the id of another.
    async fn conversations_beside(&self) -> Result<(), ForeignError> {
        let c = &self.conversations;
        if !c.columns.has("id") {
            return Ok(());
        }
        let of = quoted(self.tables.conversation);
        let again = match c.columns.has_unique_id {
            true => "",
            false => " OR c.ctid <> (SELECT min(f.ctid) FROM {name} f WHERE f.id = c.id)",
        };
        let name = quoted(self.tables.conversations);
        let again = again.replace("{name}", &name);
        let sql = format!(
            "COPY (SELECT row_to_json(c)::text, {nulls}, {named}, c.id::text FROM {name} c
                WHERE NOT EXISTS (SELECT 1 FROM {messages} m WHERE m.{of}::text = c.id::text){again}
                ORDER BY c.ctid) TO STDOUT (FORMAT binary)",
            nulls = c.json_nulls("c"),
            named = c.name("c"),
            messages = quoted(self.tables.messages),
        );
        let stream = self.client.copy_out(&sql).await?;
        let types = [Type::BYTEA, Type::BYTEA, Type::BYTEA, Type::BYTEA];
        let mut found = pin!(BinaryCopyOutStream::new(stream, &types));
        while let Some(row) = found.try_next().await? {
            let name = text(&row, 2)?.map(|name| name.text);
            let conversation = text(&row, 3)?.map(|id| id.text);
            let beside = ForeignRowBeside {
                table: self.tables.conversations.to_owned(),
                row: NamedForeignRow::of(name, json_or_null(&row, 0)?),
                conversation: conversation.filter(|_| c.columns.has_unique_id),
                dangles: false,
            };
            if !self.send(ForeignRowRead::Beside(beside)).await {
                break;
            }
        }
        Ok(())
    }
}

fn text(row: &BinaryCopyOutRow, place: usize) -> Result<Option<ForeignText>, ForeignError> {
    let bytes: Option<&[u8]> = row.try_get(place)?;
    Ok(bytes.map(ForeignText::of))
}

fn json_or_null(row: &BinaryCopyOutRow, place: usize) -> Result<ForeignText, ForeignError> {
    Ok(json(row, place)?.unwrap_or_else(|| ForeignText::of(b"null")))
}

/// A row, and behind it the list of its columns that hold JSON's null.
fn json(row: &BinaryCopyOutRow, place: usize) -> Result<Option<ForeignText>, ForeignError> {
    let Some(bytes) = row.try_get::<Option<&[u8]>>(place)? else {
        return Ok(None);
    };
    let mut found = ForeignText::of(bytes);
    let nulls = row.try_get::<Option<&[u8]>>(place + 1)?;
    let whole = match (nulls, bytes.strip_suffix(b"}")) {
        (Some(nulls), Some(fields)) => {
            let separate: &[u8] = if fields.ends_with(b"{") { b"" } else { b"," };
            let name = format!("\"{JSON_NULLS}\":");
            Some([fields, separate, name.as_bytes(), nulls, b"}"].concat())
        }
        _ => None,
    };
    found.exact = match (whole, found.is_whole) {
        (None, true) => None,
        (Some(whole), true) => Some(String::from_utf8_lossy(&whole).into_owned()),
        (whole, false) => {
            let digits = hex(whole.as_deref().unwrap_or(bytes));
            Some(format!("{{\"{ROW_BYTES}\":\"{digits}\"}}"))
        }
    };
    Ok(Some(found))
}
