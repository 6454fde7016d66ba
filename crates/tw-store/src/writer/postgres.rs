//! A writer of PostgreSQL: batches of groups, each in one transaction.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::mpsc::Receiver;

use super::{GroupAnswer, WriterEngine, WriterJob, WriterWakes, serve_all};
use crate::apply::{AppliedGroup, CHECK_FENCE, GuardRules, StoreApplyError, apply};
use crate::blob::WritableGroup;
use crate::db_error::{DbError, Failure};
use crate::figures::WriterFigures;
use crate::read::ReadError;
use crate::session::postgres::writer::{PostgresWriter, WritePace};
use crate::session::postgres::{BEGIN_READ, PgConnection, PostgresServer};
use crate::session::{NotedWrites, ReadSession, WriteSession};

/// Times that a batch is written again because its connection was lost before its commit, or it met another one.
const TRIES_MAX: u32 = 6;
/// Pause before a lost connection is made anew, doubled with each failure up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Serves jobs until every sender is gone and the queue is empty.
pub fn run(
    server: PostgresServer,
    conn: PgConnection,
    mut jobs: Receiver<WriterJob>,
    group_jobs_max: usize,
    told: (&WriterFigures, &WriterWakes),
) {
    let mut engine = PostgresCommits::of(server, conn);
    serve_all(&mut engine, &mut jobs, group_jobs_max, told);
}

/// A connection and the transactions on it; it is made anew where it is lost.
pub struct PostgresCommits {
    server: PostgresServer,
    conn: Option<PgConnection>,
    /// What was noted since this was last asked.
    noted: Cell<NotedWrites>,
}

/// What became of a try to write a batch.
enum Tried {
    Answered(Vec<GroupAnswer>),
    /// Nothing was written, and the same may succeed.
    Again(DbError),
}

impl WriterEngine for PostgresCommits {
    fn commit(&mut self, groups: &[WritableGroup]) -> Vec<GroupAnswer> {
        if groups.is_empty() {
            return Vec::new();
        }
        let mut pause = PAUSE_FIRST;
        let mut tries = 1;
        loop {
            let tried = match connected(&self.server, &mut self.conn) {
                Ok(conn) => commit_on(conn, groups, &self.noted),
                Err(error) => Tried::Again(error),
            };
            let error = match tried {
                Tried::Answered(answers) => return answers,
                Tried::Again(error) => error,
            };
            if tries == TRIES_MAX {
                return all_failed(error, groups.len());
            }
            tracing::warn!(error = %chain(&error), tries, "a batch is written again");
            tries += 1;
            wait(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn take_noted(&mut self) -> NotedWrites {
        self.noted.take()
    }

    fn synchronous(&mut self) -> Result<i64, DbError> {
        const FULL: i64 = 2;
        const OFF: i64 = 0;
        let conn = connected(&self.server, &mut self.conn)?;
        let on = ["SHOW synchronous_commit", "SHOW fsync"].into_iter();
        for sql in on {
            let rows = conn.query(sql, &[])?;
            let setting: Option<String> = rows.first().map(|row| row.try_get(0)).transpose()?;
            if setting.as_deref() == Some("off") {
                return Ok(OFF);
            }
        }
        Ok(FULL)
    }
}

impl PostgresCommits {
    pub fn of(server: PostgresServer, conn: PgConnection) -> Self {
        Self {
            server,
            conn: Some(conn),
            noted: Cell::default(),
        }
    }

    /// Runs a read between transactions, in one state of the database.
    pub fn read<T>(
        &mut self,
        read: impl FnOnce(ReadSession<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let conn = connected(&self.server, &mut self.conn)?;
        conn.send_frame(BEGIN_READ);
        let answer = read(ReadSession::Postgres(conn));
        if !conn.is_lost() {
            conn.frame("ROLLBACK")?;
        }
        answer
    }
}

/// The connection, made anew where it is lost.
fn connected<'c>(
    server: &PostgresServer,
    conn: &'c mut Option<PgConnection>,
) -> Result<&'c PgConnection, DbError> {
    let there = match conn.take().filter(|conn| !conn.is_lost()) {
        Some(there) => there,
        None => server.connect()?,
    };
    Ok(conn.insert(there))
}

/// Waits on a channel that nobody sends to: there is nothing else that may block here.
fn wait(pause: Duration) {
    let (_never, receiver) = mpsc::sync_channel::<()>(1);
    match receiver.recv_timeout(pause) {
        Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
    }
}

fn chain(error: &DbError) -> String {
    let mut said = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        said.push_str(": ");
        said.push_str(&error.to_string());
        source = error.source();
    }
    said
}

/// Groups seldom fail, and to wait for each statement costs more than all of them. So they are first sent one behind the
/// other; if one fails, that try is undone and made again with savepoints, statement by statement.
fn commit_on(conn: &PgConnection, groups: &[WritableGroup], noted: &Cell<NotedWrites>) -> Tried {
    let written = write_together(conn, groups, noted);
    match written {
        Ok(answers) => end(conn, answers),
        Err(None) => commit_each(conn, groups, noted),
        Err(Some(error)) => {
            if conn.is_lost() {
                return Tried::Again(error);
            }
            commit_each(conn, groups, noted)
        }
    }
}

/// # Errors
/// A group is not to be written as it was tried, and why the database thinks so; the transaction is undone then.
fn write_together(
    conn: &PgConnection,
    groups: &[WritableGroup],
    noted: &Cell<NotedWrites>,
) -> Result<Vec<GroupAnswer>, Option<DbError>> {
    conn.send_frame("BEGIN");
    let mut writer = PostgresWriter::of(conn, WritePace::Ahead);
    let written = writer
        .lock_sums(groups)
        .and_then(|()| writer.prepare(groups, CHECK_FENCE.postgres))
        .map_err(Some)
        .and_then(|()| {
            let mut db = WriteSession::Postgres(writer);
            let mut answers: Vec<GroupAnswer> = Vec::with_capacity(groups.len());
            for group in groups {
                match apply(&mut db, GuardRules::STRICT, group) {
                    Ok(AppliedGroup::Whole(outcomes)) => answers.push(Ok(outcomes)),
                    Ok(AppliedGroup::TooLate(_)) => return Err(None),
                    Err(error) => return Err(source_of(error)),
                }
            }
            conn.settle().map_err(Some)?;
            keep_noted(&mut db, noted);
            Ok(answers)
        });
    if written.is_err() {
        roll_back(conn);
    }
    written
}

/// Writes each group in a savepoint of its own, so that one that fails takes no other with it.
fn commit_each(conn: &PgConnection, groups: &[WritableGroup], noted: &Cell<NotedWrites>) -> Tried {
    if let Err(error) = conn.frame("BEGIN") {
        return Tried::Again(error);
    }
    let mut writer = PostgresWriter::of(conn, WritePace::Step);
    if let Err(error) = writer.lock_sums(groups) {
        roll_back(conn);
        return Tried::Again(error);
    }
    let mut db = WriteSession::Postgres(writer);
    let mut answers: Vec<GroupAnswer> = Vec::with_capacity(groups.len());
    for group in groups {
        let answer = write_member(conn, &mut db, group);
        if conn.is_lost() {
            let error = answer.err().and_then(source_of);
            return Tried::Again(error.unwrap_or_else(|| Failure::Lost.into()));
        }
        match answer {
            Err(error) => match race_of(error) {
                Ok(race) => {
                    roll_back(conn);
                    return Tried::Again(race);
                }
                Err(error) => answers.push(Err(error)),
            },
            Ok(outcomes) => answers.push(Ok(outcomes)),
        }
    }
    if answers.iter().all(Result::is_err) {
        roll_back(conn);
        return Tried::Answered(answers);
    }
    keep_noted(&mut db, noted);
    end(conn, answers)
}

/// Keeps in mind what was noted, before the answer to its commit can get lost.
fn keep_noted(db: &mut WriteSession<'_>, noted: &Cell<NotedWrites>) {
    let mut all = noted.get();
    all.add(db.take_noted());
    noted.set(all);
}

fn write_member(
    conn: &PgConnection,
    db: &mut WriteSession<'_>,
    group: &WritableGroup,
) -> GroupAnswer {
    const WHAT: &str = "a savepoint";
    let failed = |error| StoreApplyError::db(WHAT, error);
    const UNDO: &str = "ROLLBACK TO member; RELEASE member";
    conn.frame("SAVEPOINT member").map_err(failed)?;
    let (answer, end) = match apply(db, GuardRules::STRICT, group) {
        Ok(AppliedGroup::Whole(outcomes)) => (Ok(outcomes), "RELEASE member"),
        Ok(AppliedGroup::TooLate(outcome)) => (Ok(vec![outcome]), UNDO),
        Err(error) => (Err(error), UNDO),
    };
    if conn.is_lost() {
        return answer;
    }
    conn.frame(end).map_err(failed)?;
    answer
}

/// Commits. Where the answer to that is lost, whether the groups that succeeded were written is unknown.
fn end(conn: &PgConnection, mut answers: Vec<GroupAnswer>) -> Tried {
    let Err(error) = conn.frame("COMMIT") else {
        return Tried::Answered(answers);
    };
    if error.is_certain() {
        roll_back(conn);
        if error.is_race() {
            return Tried::Again(error);
        }
        let source = Arc::new(error);
        for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
            let source = Arc::clone(&source);
            let what = "committing";
            *answer = Err(StoreApplyError::Db { what, source });
        }
        return Tried::Answered(answers);
    }
    let source = Arc::new(error);
    for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
        *answer = Err(StoreApplyError::Unknown {
            source: Some(Arc::clone(&source)),
        });
    }
    Tried::Answered(answers)
}

fn roll_back(conn: &PgConnection) {
    // What was sent before may have failed, which is why this is done.
    let _ = conn.settle();
    if conn.is_lost() {
        return;
    }
    if let Err(error) = conn.frame("ROLLBACK") {
        tracing::error!(error = %chain(&error), "rolling back failed");
    }
}

/// The database's own failure behind an answer.
fn source_of(error: StoreApplyError) -> Option<DbError> {
    match error {
        StoreApplyError::Conflict { source, .. } => Some(source),
        StoreApplyError::Db { source, .. } => Arc::into_inner(source),
        StoreApplyError::Unknown { source } => source.and_then(Arc::into_inner),
        StoreApplyError::Fenced { .. }
        | StoreApplyError::Guard { .. }
        | StoreApplyError::Encode { .. }
        | StoreApplyError::Closed
        | StoreApplyError::NotInline => None,
    }
}

/// The meeting with another transaction that an error is.
///
/// # Errors
/// The error, if it is none.
fn race_of(error: StoreApplyError) -> Result<DbError, StoreApplyError> {
    match error {
        StoreApplyError::Db { what, source } if source.is_race() => {
            Arc::into_inner(source).ok_or(StoreApplyError::Guard { what })
        }
        other => Err(other),
    }
}

fn all_failed(error: DbError, members: usize) -> Vec<GroupAnswer> {
    let source = Arc::new(error);
    let failed = |_| {
        Err(StoreApplyError::Db {
            what: "writing a batch",
            source: Arc::clone(&source),
        })
    };
    (0..members).map(failed).collect()
}
