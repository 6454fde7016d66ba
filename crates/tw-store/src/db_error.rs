//! The failure of a database, whichever it is.

use rusqlite::ErrorCode;
use tokio_postgres::error::SqlState;

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
    #[error(transparent)]
    Postgres(tokio_postgres::Error),
    #[error("the database does not answer")]
    TimedOut,
    #[error("starting a runtime")]
    Runtime(#[source] std::io::Error),
    /// Somebody else has just written what this write looked for before.
    #[error("another write came first")]
    Raced,
    /// A statement that was sent ahead touched no row.
    #[error("a statement touched no row")]
    Mispredicted,
    #[error("no row where there must be one")]
    NoRow,
    #[error("column {column} holds another kind of value")]
    Column { column: String },
    /// Its rows are being copied.
    #[error("another command has the database for itself")]
    Closed,
    #[error("another write in the same transaction failed")]
    Lost,
    #[error("a value is longer than a column holds")]
    TooLong,
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
            Failure::Postgres(error) => kind_of_postgres(error),
            Failure::TimedOut | Failure::Runtime(_) | Failure::Raced | Failure::Closed => {
                DbErrorKind::Passing
            }
            Failure::NoRow
            | Failure::Column { .. }
            | Failure::Lost
            | Failure::Mispredicted
            | Failure::TooLong
            | Failure::Places { .. } => DbErrorKind::Lasting,
            #[cfg(feature = "faults")]
            Failure::Unsuited => DbErrorKind::Lasting,
        }
    }
}

impl DbError {
    /// Whether the transaction met another one, so that the same may succeed when it is written again.
    pub(crate) fn is_race(&self) -> bool {
        matches!(&self.0, Failure::Raced)
            || matches!(&self.0, Failure::Postgres(error) if class(error) == "40")
    }

    /// Whether the connection on which this happened is of no more use: it is gone, or leads to a server that will not
    /// do, or its prepared statements are of an older schema.
    pub(crate) fn ends_connection(&self) -> bool {
        match &self.0 {
            Failure::Postgres(error) => {
                error.code().is_none()
                    || ["08", "0A", "26", "53", "57", "58", "XX"].contains(&class(error))
                    || error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
                    || error.code() == Some(&SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT)
            }
            Failure::TimedOut | Failure::Runtime(_) | Failure::Lost => true,
            Failure::Sqlite(_)
            | Failure::Raced
            | Failure::Closed
            | Failure::Mispredicted
            | Failure::NoRow
            | Failure::Column { .. }
            | Failure::TooLong
            | Failure::Places { .. } => false,
            #[cfg(feature = "faults")]
            Failure::Unsuited => false,
        }
    }

    /// Whether a lock was waited for in vain.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        let code = Some(&SqlState::LOCK_NOT_AVAILABLE);
        matches!(&self.0, Failure::Postgres(error) if error.code() == code)
    }

    /// Whether a commit that failed so has certainly written nothing.
    pub(crate) fn is_certain(&self) -> bool {
        let Failure::Postgres(error) = &self.0 else {
            return false;
        };
        ["23", "25", "40"].contains(&class(error))
            && error.code() != Some(&SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN)
    }
}

/// The first two characters of the code that the server gave; empty for an error that is not the server's.
fn class(error: &tokio_postgres::Error) -> &str {
    let code = error.code().map(SqlState::code);
    code.and_then(|code| code.get(..2)).unwrap_or_default()
}

/// Codes of PostgreSQL are in classes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn kind_of_postgres(error: &tokio_postgres::Error) -> DbErrorKind {
    match class(error) {
        "23" => DbErrorKind::Conflict,
        // Without a code the connection failed, or was never there.
        "" if error.as_db_error().is_none() && !is_ours(error) => DbErrorKind::Passing,
        "08" | "25" | "40" | "53" | "55" | "57" | "58" => DbErrorKind::Passing,
        _ => DbErrorKind::Lasting,
    }
}

/// Whether the error is in what was asked or in how the answer was read.
fn is_ours(error: &tokio_postgres::Error) -> bool {
    use std::error::Error;
    let source = error.source();
    !error.is_closed() && source.is_none_or(|source| !source.is::<std::io::Error>())
}

impl From<tokio_postgres::Error> for DbError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self(Failure::Postgres(error))
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
