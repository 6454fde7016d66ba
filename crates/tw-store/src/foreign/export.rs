//! Rows that go back to another application's database, in one transaction.
//!
//! Tables that are not there are made as they were in the database that the rows came from; those that are there must
//! be empty. Statements are made of the names of its tables and columns, quoted.

mod postgres;
mod sqlite;

use std::sync::mpsc::Receiver;

use serde_json::value::RawValue;

use super::ForeignPlace;
use crate::db_error::DbError;

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportItem {
    Row {
        table: String,
        json: String,
    },
    /// There is nothing more. Without this nothing stays written.
    End,
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("writing {what}")]
    Db {
        what: String,
        #[source]
        source: DbError,
    },
    #[error("the table {0} is not empty")]
    NotEmpty(String),
    #[error("it has no table {0}")]
    NoTable(String),
    #[error("a row of {table} has the column {column}, which is not there")]
    NoColumn { table: String, column: String },
    #[error("a row of {table} is no object")]
    NoRow { table: String },
    #[error(
        "the rows came from {came_from}, and tables of that kind cannot be made here; make them empty before"
    )]
    OtherEngine { came_from: &'static str },
    #[error("it is not known what the tables were: {0}")]
    Layout(serde_json::Error),
    #[error("the rows ended early")]
    EndedEarly,
}

fn failed(what: &str) -> impl Fn(DbError) -> ExportError {
    move |source| ExportError::Db {
        what: what.to_owned(),
        source,
    }
}

/// What is sent to be written, some items at a time.
pub type SentItems = Receiver<Vec<ExportItem>>;

/// The rows of what is sent, one by one.
struct ExportRows<'r> {
    items: &'r SentItems,
    sent: std::vec::IntoIter<ExportItem>,
}

impl<'r> ExportRows<'r> {
    fn of(items: &'r SentItems) -> Self {
        Self {
            items,
            sent: Vec::new().into_iter(),
        }
    }

    /// The next row's table, and the row; `None` at the end.
    ///
    /// # Errors
    /// They ended without an end.
    fn next(&mut self) -> Result<Option<(String, String)>, ExportError> {
        loop {
            match self.sent.next() {
                Some(ExportItem::Row { table, json }) => return Ok(Some((table, json))),
                Some(ExportItem::End) => return Ok(None),
                None => {
                    let more = self.items.recv().map_err(|_| ExportError::EndedEarly)?;
                    self.sent = more.into_iter();
                }
            }
        }
    }
}

/// Writes rows until their end; how many they were. Blocks. A file must be there, if only as an empty one.
///
/// # Errors
/// See [`ExportError`]; nothing is written then.
pub fn write(
    place: &ForeignPlace,
    layout: &[String],
    items: &SentItems,
) -> Result<u64, ExportError> {
    match place {
        ForeignPlace::File(path) => sqlite::write(path, layout, items),
        ForeignPlace::Server { url, tls } => {
            postgres::write(url, tls.as_deref().cloned(), layout, items)
        }
    }
}

/// The columns of a row, with their values.
fn fields_of<'a>(table: &str, json: &'a str) -> Result<Vec<(String, &'a RawValue)>, ExportError> {
    let fields: Fields<'_> = serde_json::from_str(json).map_err(|_| ExportError::NoRow {
        table: table.to_owned(),
    })?;
    Ok(fields.0)
}

/// An object's fields in order.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> serde::de::Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(InOrder).map(Fields)
    }
}
