//! What an import needs to know of the rows of its source.

use sha2::{Digest, Sha256};
use tw_core::id::TurnId;
use tw_core::imported::{ForeignRow, ImportedTurn};
use tw_core::json::Json;
use tw_store::foreign::{ForeignMessageRow, NamedForeignRow};
use tw_wire::foreign_rows;
use uuid::{Builder, Uuid};

/// Bytes that an id of a conversation may have.
const ID_BYTES_MAX: usize = 200;

/// The conversation and the id of a row that can be recorded.
pub fn ids_of(row: &ForeignMessageRow) -> Option<(&str, &str)> {
    let conversation = row.conversation.as_ref()?;
    let id = row.id.as_ref()?;
    let fits = |text: &str| !text.is_empty() && text.len() <= ID_BYTES_MAX;
    (fits(&conversation.text) && fits(&id.text)).then_some((&*conversation.text, &*id.text))
}

/// The person that a row is of, by the columns that applications have for it.
pub fn user_of(row: &str) -> Option<String> {
    foreign_rows::text_field(row, &["user_id", "user", "recordRef"])
}

/// What a row is called in the report.
pub fn id_of(row: &NamedForeignRow) -> String {
    let id = foreign_rows::text_field(&row.row.text, &["id"]);
    id.or_else(|| row.name.clone()).unwrap_or_default()
}

/// A row as its turn keeps it.
pub fn foreign_row(table: &'static str, row: NamedForeignRow) -> ForeignRow {
    ForeignRow {
        table,
        name: row.name,
        json: Json::of_read(row.row.stored().trim()),
    }
}

pub fn list_of(rows: &[NamedForeignRow]) -> String {
    let rows: Vec<&str> = rows.iter().map(|row| &*row.row.text).collect();
    format!("[{}]", rows.join(","))
}

pub fn bytes_of(turn: &ImportedTurn) -> usize {
    turn.rows.iter().map(|row| row.json.as_str().len()).sum()
}

/// An id that is the same each time for the same words.
pub fn derived_id(words: &[&str]) -> TurnId {
    let mut hasher = Sha256::new();
    for word in words {
        hasher.update(u64::try_from(word.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(word.as_bytes());
    }
    let digest: [u8; 32] = hasher.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    let id: Uuid = Builder::from_custom_bytes(half).into_uuid();
    TurnId(id)
}
