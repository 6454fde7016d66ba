//! Databases of other applications, read row by row as JSON. Nothing of them is changed.

use std::borrow::Cow;
use std::pin::pin;

use futures_util::TryStreamExt;
use tokio::sync::mpsc::Sender;
use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyOutStream;
use tokio_postgres::types::Type;

use crate::db_error::DbError;
use crate::session::postgres::{BEGIN_READ, PostgresServer};

/// A reading takes its time, and times are in UTC.
const PATIENT: &str =
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET timezone = 'UTC'";

/// A message of a conversation, as it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignMessageRow {
    pub id: Option<ForeignText>,
    pub conversation: Option<ForeignText>,
    /// Microseconds since 1970; `None` for a row without a time, or one at no time.
    pub at_us: Option<i64>,
    /// The row as a JSON object.
    pub row: ForeignText,
    /// That of its conversation; not with each message, but with the first.
    pub conversation_row: Option<ForeignText>,
    pub has_conversation: bool,
}

/// A text as it came: a database need not know what its bytes mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignText {
    /// With U+FFFD where it was no UTF-8.
    pub text: String,
    pub is_whole: bool,
}

impl ForeignText {
    fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        Self {
            is_whole: matches!(text, Cow::Borrowed(_)),
            text: text.into_owned(),
        }
    }
}

/// The messages of LangChain's tables, by conversation, in the order of their times; at one time in that of the table.
const LANGCHAIN: &str = "SELECT m.id::text, m.conversation_id::text,
        CASE WHEN isfinite(m.created_at) THEN (extract(epoch FROM m.created_at) * 1000000)::bigint END,
        row_to_json(m)::text,
        CASE WHEN lag(m.conversation_id) OVER w IS DISTINCT FROM m.conversation_id THEN row_to_json(c)::text END,
        (c.id IS NOT NULL)::int::bigint
    FROM messages m LEFT JOIN conversations c ON c.id = m.conversation_id
    WINDOW w AS (ORDER BY m.conversation_id, m.created_at, m.ctid)
    ORDER BY m.conversation_id, m.created_at, m.ctid";

const COLUMNS: [Type; 6] = [
    Type::BYTEA,
    Type::BYTEA,
    Type::INT8,
    Type::BYTEA,
    Type::BYTEA,
    Type::INT8,
];

/// Sends all messages of the LangChain tables that `url` names, from one state of the database; blocks. Ends early when
/// nobody takes them any more.
///
/// # Errors
/// The database is not there, has no such tables, or went away; the messages before that were sent.
pub fn read_langchain(
    url: &str,
    tls: Option<rustls::ClientConfig>,
    rows: &Sender<ForeignMessageRow>,
) -> Result<(), DbError> {
    let conn = PostgresServer::of(url, tls)?.connect()?;
    conn.frame(PATIENT)?;
    conn.frame(BEGIN_READ)?;
    conn.bulk(async |client| send_rows(client, rows).await)?
}

async fn send_rows(client: &Client, rows: &Sender<ForeignMessageRow>) -> Result<(), DbError> {
    let encoding = client.query_one("SHOW server_encoding", &[]).await?;
    if encoding.try_get::<_, &str>(0)? == "SQL_ASCII" {
        // The server does not know what its bytes mean, and would refuse to give them as UTF-8.
        client
            .batch_execute("SET client_encoding = 'SQL_ASCII'")
            .await?;
    }
    let sql = ["COPY (", LANGCHAIN, ") TO STDOUT (FORMAT binary)"].concat();
    let stream = client.copy_out(&sql).await?;
    let mut found = pin!(BinaryCopyOutStream::new(stream, &COLUMNS));
    while let Some(row) = found.try_next().await? {
        let text = |place: usize| -> Result<Option<ForeignText>, DbError> {
            let bytes: Option<&[u8]> = row.try_get(place)?;
            Ok(bytes.map(ForeignText::of))
        };
        let message = ForeignMessageRow {
            id: text(0)?,
            conversation: text(1)?,
            at_us: row.try_get(2)?,
            row: text(3)?.unwrap_or_else(|| ForeignText::of(b"null")),
            conversation_row: text(4)?,
            has_conversation: row.try_get::<i64>(5)? != 0,
        };
        if rows.send(message).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
