//! The body of a turn that was imported: a chat request of what was asked, and the rows that the turn was made of.
//!
//! The rows are as they came, so that they can go back; they are erased with the body.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use tw_core::imported::ImportedTurn;
use tw_core::json::Json;
use tw_core::request::{Block, Role};

use super::events::json_string;

/// The model that imported turns name: which one it was is not known.
pub const MODEL: &str = "imported";

/// The rows of an imported turn.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedRows {
    pub shape: String,
    /// The conversation's, in its first turn.
    pub conversation: Option<Json>,
    /// The rows by their table, in order.
    pub rows: Vec<(String, Vec<Json>)>,
}

/// The body of a turn whose rows are of this shape.
pub fn encode_body(shape: &str, turn: &ImportedTurn) -> String {
    let mut out = format!("{{\"model\":\"{MODEL}\",\"messages\":[");
    let mut separate = "";
    for message in turn.messages.iter().filter(|message| message.round == 0) {
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Developer | Role::Assistant | Role::Tool => continue,
        };
        for block in &message.blocks {
            if let Block::Text(text) = block {
                out.push_str(separate);
                for part in [
                    "{\"role\":\"",
                    role,
                    "\",\"content\":\"",
                    text.as_str(),
                    "\"}",
                ] {
                    out.push_str(part);
                }
                separate = ",";
            }
        }
    }
    out.push_str("],\"imported\":{\"shape\":");
    out.push_str(&json_string(shape));
    if let Some(conversation) = &turn.conversation_row {
        out.push_str(",\"conversation\":");
        out.push_str(conversation.json.as_str());
    }
    out.push_str(",\"rows\":{");
    let mut tables: Vec<&str> = turn.rows.iter().map(|row| row.table).collect();
    tables.sort_unstable();
    tables.dedup();
    for (place, table) in tables.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        out.push_str(&json_string(table));
        let mut separate = ":[";
        for row in turn.rows.iter().filter(|row| row.table == table) {
            out.push_str(separate);
            out.push_str(row.json.as_str());
            separate = ",";
        }
        out.push(']');
    }
    out.push_str("}}}");
    out
}

#[derive(Deserialize)]
struct StoredBody<'a> {
    #[serde(borrow, default)]
    imported: Option<StoredRows<'a>>,
}

#[derive(Deserialize)]
struct StoredRows<'a> {
    shape: String,
    #[serde(borrow, default)]
    conversation: Option<&'a RawValue>,
    #[serde(borrow)]
    rows: BTreeMap<String, Vec<&'a RawValue>>,
}

/// The rows in a body that [`encode_body`] wrote; `None` for another body.
pub fn decode_rows(body: &str) -> Option<ImportedRows> {
    let stored: StoredBody<'_> = serde_json::from_str(body).ok()?;
    let stored = stored.imported?;
    Some(ImportedRows {
        shape: stored.shape,
        conversation: stored.conversation.map(Json::from_raw),
        rows: (stored.rows.into_iter())
            .map(|(table, rows)| (table, rows.into_iter().map(Json::from_raw).collect()))
            .collect(),
    })
}
