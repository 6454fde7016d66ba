//! Reads: what each returns, and the functions on the store.

pub mod api_keys;
pub mod approvals;
pub mod call_files;
pub mod chain;
pub mod conversations;
pub mod events;
pub mod found_calls;
pub mod head_path;
pub mod imported;
pub mod items;
pub mod memory;
pub mod open_calls;
#[cfg(test)]
pub(crate) mod plan;
pub mod quotas;
pub mod recall;
pub mod requests;
pub mod tools;
pub mod turn;
pub mod unfinished;
pub mod usage;
pub mod view;
pub mod webhooks;

pub(crate) mod calls;
pub(crate) mod columns;

use tw_wire::stored;

use crate::db_error::{DbError, DbErrorKind};

/// A row that is not there is no error; these mean that the database failed or contradicts itself.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("reading the store")]
    Db(#[from] DbError),
    #[error(transparent)]
    Damaged(#[from] stored::DamagedRecord),
    /// A word or id that this program never writes.
    #[error("stored {column} is nothing that this program knows")]
    Column { column: &'static str },
    #[error("turn written in form {found}, this program knows {known}")]
    Newer { found: i64, known: i64 },
    #[error("the store is closed")]
    Closed,
}

impl ReadError {
    /// Whether the same read may succeed in a moment: the disk, the memory or the database's lock failed, not what is
    /// stored.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Db(error) => error.kind() == DbErrorKind::Passing,
            Self::Closed => true,
            Self::Damaged(_) | Self::Column { .. } | Self::Newer { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests;
