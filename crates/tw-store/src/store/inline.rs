//! A store that writes on its caller's thread, for simulation and tests.

use std::sync::Mutex;
use std::thread;

use rusqlite::Connection;
use tw_core::change::Outcome;
use tw_core::time::Timestamp;

use super::{OpenError, StoreOptions, in_snapshot, lock};
use crate::apply::{GuardRules, StoreApplyError};
use crate::blob::WritableGroup;
use crate::connection;
use crate::db_error::DbError;
use crate::migrate::{self, MIGRATIONS};
use crate::read::ReadError;
use crate::session::ReadSession;
use crate::session::postgres::PostgresServer;
use crate::writer::postgres::PostgresCommits;
use crate::writer::sqlite::{self, SqliteCommits};
use crate::writer::{GroupAnswer, WriterEngine, WriterWakes};

pub enum InlineStore {
    /// In memory.
    Sqlite {
        conn: Mutex<Connection>,
        rules: GuardRules,
    },
    Postgres(Box<Mutex<PostgresCommits>>),
}

impl InlineStore {
    pub fn in_memory(rules: GuardRules) -> Result<Self, OpenError> {
        let opened = connection::open_memory();
        let mut conn = opened.map_err(|error| OpenError::Memory(error.into()))?;
        migrate::run(&mut conn, MIGRATIONS, Timestamp(0))?;
        Ok(Self::Sqlite {
            conn: Mutex::new(conn),
            rules,
        })
    }

    pub fn on_server(server: PostgresServer, options: &StoreOptions) -> Result<Self, OpenError> {
        let made = elsewhere(|| {
            let conn = server.connect().map_err(OpenError::Connect)?;
            migrate::postgres::run(&conn, options.now)?;
            Ok(PostgresCommits::of(server, conn))
        });
        made.map(|engine| Self::Postgres(Box::new(Mutex::new(engine))))
    }

    pub fn apply(
        &self,
        group: &WritableGroup,
        wakes: &WriterWakes,
    ) -> Result<Vec<Outcome>, StoreApplyError> {
        let mut answers = match self {
            Self::Sqlite { conn, rules } => {
                commit_one(&mut SqliteCommits::of(&lock(conn), *rules), group, wakes)
            }
            Self::Postgres(engine) => elsewhere(|| commit_one(&mut *lock(engine), group, wakes)),
        };
        answers
            .pop()
            .unwrap_or(Err(StoreApplyError::Unknown { source: None }))
    }

    pub fn read<T: Send>(
        &self,
        read: impl FnOnce(ReadSession<'_>) -> Result<T, ReadError> + Send,
    ) -> Result<T, ReadError> {
        match self {
            Self::Sqlite { conn, .. } => in_snapshot(&lock(conn), read),
            Self::Postgres(engine) => elsewhere(|| lock(engine).read(read)),
        }
    }

    pub fn synchronous(&self) -> Result<i64, DbError> {
        match self {
            Self::Sqlite { conn, .. } => sqlite::synchronous(&lock(conn)),
            Self::Postgres(engine) => elsewhere(|| lock(engine).synchronous()),
        }
    }

    #[cfg(feature = "faults")]
    pub fn run(&self, sql: &str) -> Result<(), DbError> {
        match self {
            Self::Sqlite { conn, .. } => Ok(lock(conn).execute_batch(sql)?),
            Self::Postgres(_) => Err(crate::db_error::Failure::Unsuited.into()),
        }
    }
}

fn commit_one(
    engine: &mut impl WriterEngine,
    group: &WritableGroup,
    wakes: &WriterWakes,
) -> Vec<GroupAnswer> {
    let answers = engine.commit(std::slice::from_ref(group));
    wakes.wake(engine.take_noted());
    answers
}

/// Runs on a thread of its own, since a connection to a server blocks and the caller may be a task.
pub fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
