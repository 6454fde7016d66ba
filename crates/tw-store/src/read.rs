//! Reads: what each returns, and the functions on the store.

pub mod conversations;
pub mod events;
pub mod memory;
#[cfg(test)]
pub(crate) mod plan;
pub mod recall;
pub mod requests;
pub mod tools;
pub mod turn;
pub mod unfinished;
pub mod view;

mod calls;
pub(crate) mod columns;

use tw_wire::own;

/// A row that is not there is no error; these mean that the database failed or contradicts itself.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("reading the store")]
    Db(#[from] rusqlite::Error),
    #[error(transparent)]
    Damaged(#[from] own::DamagedRecord),
    /// A word or id that this program never writes.
    #[error("stored {column} is nothing that this program knows")]
    Column { column: &'static str },
    #[error("turn written in form {found}, this program knows {known}")]
    Newer { found: i64, known: i64 },
    #[error("the store is closed")]
    Closed,
}
