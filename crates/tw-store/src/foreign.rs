//! Databases of other applications, read row by row as JSON. Nothing of them is changed.
//!
//! What tables hold is known by their names and a few columns; all other columns come as they are. Statements are made
//! of the names that the database itself gives, quoted.

pub mod export;
mod postgres;
mod row_json;
mod sqlite;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use tokio::sync::mpsc::Sender;
use tw_core::shape::{Shape, TableLayout};

use crate::db_error::DbError;

/// The table of rows that say what the tables of the source are.
pub const LAYOUT: &str = "$layout";

/// The table of tools of an application whose calls VAPI makes.
pub const TOOLS_TABLE: &str = "tools";
/// Times that every database can say: the years from 1970 to 9999, in microseconds since 1970. Another one is none.
const TIMES: RangeInclusive<i64> = 0..=253_402_300_799_999_999;

/// Where another application's database is.
#[derive(Clone)]
pub enum ForeignPlace {
    /// A SQLite file.
    File(PathBuf),
    /// A PostgreSQL database.
    Server {
        url: String,
        tls: Option<Box<rustls::ClientConfig>>,
    },
}

/// A row of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeignRowRead {
    /// That of a message, or of a turn.
    Message(ForeignMessageRow),
    /// Any other.
    Beside(ForeignRowBeside),
}

/// A message of a conversation, as it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignMessageRow {
    pub id: Option<ForeignText>,
    /// Rows before this one that have the same id.
    pub repeated: u64,
    pub conversation: Option<ForeignText>,
    /// Microseconds since 1970; `None` for a row without a time, or one at no time.
    pub at_us: Option<i64>,
    pub row: NamedForeignRow,
    /// Rows of its calls, where those have a table of their own.
    pub calls: Vec<NamedForeignRow>,
    /// That of its conversation; not with each message, but with the first.
    pub conversation_row: Option<NamedForeignRow>,
    pub has_conversation: bool,
}

/// A row, by what names it in its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedForeignRow {
    /// The values of its primary key, or else its id where that is unique, as a list of JSON, or the hash of a long one.
    /// `None` where nothing names it.
    pub name: Option<String>,
    pub row: ForeignText,
}

/// A row that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRowBeside {
    pub table: String,
    pub row: NamedForeignRow,
    /// The conversation whose row it is; `None` where there may be another one of it.
    pub conversation: Option<String>,
    /// It refers to a row that is not there.
    pub dangles: bool,
}

/// A text, or a row as a JSON object, as it came: a database need not know what its bytes mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignText {
    /// With U+FFFD where it was no UTF-8.
    pub text: String,
    /// The row with its bytes, where they are not those of `text`.
    pub exact: Option<String>,
    pub is_whole: bool,
}

impl ForeignText {
    fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        Self {
            is_whole: matches!(text, Cow::Borrowed(_)),
            text: text.into_owned(),
            exact: None,
        }
    }

    /// The row so that it can go back.
    pub fn stored(&self) -> &str {
        self.exact.as_deref().unwrap_or(&self.text)
    }

    pub fn into_stored(self) -> String {
        self.exact.unwrap_or(self.text)
    }
}

/// Longest name of a row; a longer one is hashed.
const NAME_BYTES_MAX: usize = 200;

impl NamedForeignRow {
    fn of(name: Option<String>, row: ForeignText) -> Self {
        let name = name.map(|name| match name.len() <= NAME_BYTES_MAX {
            true => name,
            false => hash_of_row(&name),
        });
        Self { name, row }
    }

    fn bytes(&self) -> usize {
        self.row.text.len() + self.row.exact.as_ref().map_or(0, String::len)
    }
}

/// What stands for a row that nothing names: SHA-256 in hex.
pub fn hash_of_row(row: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(row.as_bytes()).into();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error("it has no table {table} with the columns {columns}")]
    NoTable {
        table: &'static str,
        columns: String,
    },
    #[error("an application whose calls VAPI makes keeps its tools in PostgreSQL")]
    ToolsInFile,
}

impl From<rusqlite::Error> for ForeignError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Db(error.into())
    }
}

impl From<tokio_postgres::Error> for ForeignError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Db(error.into())
    }
}

/// The tables of a shape.
#[derive(Clone, Copy, Debug)]
pub struct ForeignTables {
    pub conversations: &'static str,
    pub messages: &'static str,
    /// The column of a message that names its conversation.
    pub conversation: &'static str,
    pub at: &'static str,
    pub calls: Option<&'static str>,
    /// Columns that each message must have beside its id and its conversation.
    needed: &'static [&'static str],
}

/// The column of a call that names its turn.
const TURN_OF_CALL: &str = "turn";

impl ForeignTables {
    pub fn of(shape: Shape) -> Self {
        match shape {
            Shape::LangChain | Shape::OpenAi | Shape::Blocks => Self {
                conversations: "conversations",
                messages: "messages",
                conversation: "conversation_id",
                at: "created_at",
                calls: None,
                needed: &["role", "content"],
            },
            Shape::PocketBase => Self {
                conversations: "conversations",
                messages: "turns",
                conversation: "conversation",
                at: "created",
                calls: Some("tool_calls"),
                needed: &[],
            },
        }
    }

    /// # Errors
    /// A column is missing without which a message is none.
    fn check(&self, messages: &ForeignColumns) -> Result<(), ForeignError> {
        let needed = ["id", self.conversation];
        let needed = || needed.iter().chain(self.needed);
        if needed().all(|name| messages.has(name)) {
            return Ok(());
        }
        let columns: Vec<&str> = needed().copied().collect();
        Err(ForeignError::NoTable {
            table: self.messages,
            columns: columns.join(", "),
        })
    }
}

/// The columns of a table.
#[derive(Clone, Debug, Default)]
struct ForeignColumns {
    names: Vec<String>,
    /// No two rows have one id.
    has_unique_id: bool,
}

impl ForeignColumns {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|have| have == name)
    }

    /// The columns that name a row: the primary key, or else a unique id.
    fn naming(&self, primary_key: Vec<String>) -> Vec<String> {
        match primary_key.is_empty() && self.has_unique_id {
            true => vec!["id".to_owned()],
            false => primary_key,
        }
    }
}

/// Rows, and bytes of them, that are sent together.
const ROWS_TOGETHER: usize = 256;
const BYTES_TOGETHER: usize = 1024 * 1024;

/// Sends rows, many at a time.
struct RowSender {
    sender: Sender<Vec<ForeignRowRead>>,
    waiting: RefCell<Vec<ForeignRowRead>>,
    bytes: Cell<usize>,
}

impl RowSender {
    /// Whether somebody takes rows. Blocks.
    fn send(&self, row: ForeignRowRead) -> bool {
        match self.ready(row) {
            Some(rows) => self.sender.blocking_send(rows).is_ok(),
            None => true,
        }
    }

    /// [`RowSender::send`] where nothing may block.
    async fn send_async(&self, row: ForeignRowRead) -> bool {
        match self.ready(row) {
            Some(rows) => self.sender.send(rows).await.is_ok(),
            None => true,
        }
    }

    /// The rows that are to be sent now.
    fn ready(&self, row: ForeignRowRead) -> Option<Vec<ForeignRowRead>> {
        let bytes = match &row {
            ForeignRowRead::Message(row) => {
                let beside = row.conversation_row.iter().chain(&row.calls);
                let beside: usize = beside.map(NamedForeignRow::bytes).sum();
                row.row.bytes() + beside
            }
            ForeignRowRead::Beside(row) => row.row.bytes(),
        };
        self.bytes.set(self.bytes.get() + bytes);
        let mut waiting = self.waiting.borrow_mut();
        waiting.push(row);
        let is_full = waiting.len() >= ROWS_TOGETHER || self.bytes.get() >= BYTES_TOGETHER;
        is_full.then(|| {
            self.bytes.set(0);
            std::mem::take(&mut *waiting)
        })
    }

    /// Sends what waits; blocks. If nobody takes it, nobody wants it.
    fn end(self) {
        let _ = self.sender.blocking_send(self.waiting.into_inner());
    }
}

/// Sends all rows of an application's database, from one state of it; blocks. Messages come by conversation, in their
/// order, rows of tools behind those that they refer to. Ends early when nobody takes them any more.
///
/// # Errors
/// The database is not there, has no such tables, or went away; the rows before that were sent.
pub fn read(
    place: &ForeignPlace,
    layout: TableLayout,
    sender: Sender<Vec<ForeignRowRead>>,
) -> Result<(), ForeignError> {
    let rows = RowSender {
        sender,
        waiting: RefCell::default(),
        bytes: Cell::default(),
    };
    let read = match (place, layout) {
        (ForeignPlace::File(path), TableLayout::Record(shape)) => {
            sqlite::read(path, &ForeignTables::of(shape), &rows)
        }
        (ForeignPlace::File(_), TableLayout::Vapi) => Err(ForeignError::ToolsInFile),
        (ForeignPlace::Server { url, tls }, layout) => {
            postgres::read(url, tls.as_deref().cloned(), layout, &rows)
        }
    };
    rows.end();
    read
}
