//! The failure of a database, whichever it is.

use rusqlite::ErrorCode;

/// A failure of the database, with what it said.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DbError(#[from] Failure);

/// The nature of a failure, as far as somebody decides by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DbErrorKind {
    /// A row that must be unique exists, or one that is referred to does not, or a check or a trigger refused the row.
    Conflict,
    /// The disk, the memory, the connection or a lock failed, not what is stored: the same may succeed in a moment.
    Passing,
    Lasting,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    #[error("no row where there must be one")]
    NoRow,
    #[error("column {column} holds another kind of value")]
    Column { column: String },
    #[error("another write in the same transaction failed")]
    Lost,
    #[error("{given} values for {wanted} places of a statement")]
    Places { given: usize, wanted: usize },
    #[cfg(feature = "faults")]
    #[error("this store takes no such statement")]
    Unsuited,
}

impl DbError {
    pub fn kind(&self) -> DbErrorKind {
        match &self.0 {
            Failure::Sqlite(error) => kind_of_sqlite(error),
            Failure::NoRow | Failure::Column { .. } | Failure::Lost | Failure::Places { .. } => {
                DbErrorKind::Lasting
            }
            #[cfg(feature = "faults")]
            Failure::Unsuited => DbErrorKind::Lasting,
        }
    }
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        Self(Failure::Sqlite(error))
    }
}

fn kind_of_sqlite(error: &rusqlite::Error) -> DbErrorKind {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => DbErrorKind::Conflict,
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::DiskFull
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::FileLockingProtocolFailed,
        ) => DbErrorKind::Passing,
        _ => DbErrorKind::Lasting,
    }
}
