//! Group commit: all that is queued becomes durable by one sync of the disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{Notify, mpsc, oneshot};
use tw_core::change::{ChangeGroup, Outcome};

use crate::apply::{AppliedGroup, GuardRules, StoreApplyError, apply};
use crate::connection;
use crate::figures::WriterFigures;
use crate::statements::PreparedStatements;

pub type JobAnswer = Result<Vec<Outcome>, StoreApplyError>;

pub enum WriterJob {
    Apply {
        group: ChangeGroup,
        reply: oneshot::Sender<JobAnswer>,
    },
    /// Asks the writer's own connection for its `PRAGMA synchronous`.
    Synchronous {
        reply: oneshot::Sender<rusqlite::Result<i64>>,
    },
}

/// A batch of at least this many jobs says that many turns write at once.
const BUSY_JOBS: usize = 4;
/// A writer that had nothing to do for longer than this is not busy: whoever comes next is served at once.
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(1);
/// Serves jobs until every sender is gone and the queue is empty; then the database file alone
/// is the whole database, unless somebody else has it open and is in its midst.
pub fn run(
    conn: &Connection,
    mut jobs: mpsc::Receiver<WriterJob>,
    group_jobs_max: usize,
    (figures, deliveries): (&WriterFigures, &Notify),
) {
    let mut last = 0;
    let mut ended = Instant::now();
    let mut db = PreparedStatements::of(conn);
    while let Some(first) = jobs.blocking_recv() {
        if last >= BUSY_JOBS && ended.elapsed() < BUSY_PAUSE_MAX {
            // A commit costs some 0.2 ms of CPU whatever it holds. With a fast disk a writer that shares its core would
            // else commit a handful of jobs at a time and take the core from those who make them. Nothing is waited
            // for: where nobody else is ready to run, or runs on another core, this returns at once.
            std::thread::yield_now();
        }
        let mut batch = vec![first];
        while batch.len() < group_jobs_max
            && let Ok(next) = jobs.try_recv()
        {
            batch.push(next);
        }
        last = batch.len();
        serve(&mut db, batch, figures);
        if db.take_deliveries() {
            deliveries.notify_one();
        }
        ended = Instant::now();
    }
    match connection::empty_log(conn) {
        Ok(true) => {}
        Ok(false) => tracing::info!("the write-ahead log is in use elsewhere, and stays"),
        Err(error) => tracing::warn!(error = %error, "the write-ahead log was not emptied"),
    }
}

fn serve(db: &mut PreparedStatements<'_>, batch: Vec<WriterJob>, figures: &WriterFigures) {
    let mut groups = Vec::with_capacity(batch.len());
    let mut replies = Vec::with_capacity(batch.len());
    for job in batch {
        match job {
            WriterJob::Apply { group, reply } => {
                groups.push(group);
                replies.push(reply);
            }
            WriterJob::Synchronous { reply } => {
                // Whoever asked may have gone.
                let _ = reply.send(synchronous(db.conn()));
            }
        }
    }
    if groups.is_empty() {
        return;
    }
    let began = Instant::now();
    let answers = commit(db, GuardRules::STRICT, &groups);
    figures
        .commit_seconds
        .observe(began.elapsed().as_secs_f64());
    figures.group_jobs.observe(answers.len() as f64);
    let failed = answers.iter().filter(|answer| {
        matches!(
            answer,
            Err(StoreApplyError::Db { .. } | StoreApplyError::Unknown { .. })
        )
    });
    figures.failed.inc_by(failed.count() as u64);
    for (reply, answer) in replies.into_iter().zip(answers) {
        // The write stands also if nobody waits for its outcome.
        let _ = reply.send(answer);
    }
}

pub fn synchronous(conn: &Connection) -> rusqlite::Result<i64> {
    conn.pragma_query_value(None, "synchronous", |row| row.get(0))
}

/// Writes the groups in one transaction; each succeeds or fails for itself. The answers are in order and hold once
/// this returns.
///
/// Groups seldom fail, and a savepoint for each costs as much as a good part of its statements. So they are first
/// written without; if one fails, that try is undone and made again with savepoints.
pub fn commit(
    db: &mut PreparedStatements<'_>,
    rules: GuardRules,
    groups: &[ChangeGroup],
) -> Vec<JobAnswer> {
    if groups.is_empty() {
        return Vec::new();
    }
    if let Err(error) = run_sql(db, "BEGIN IMMEDIATE") {
        return all_failed("beginning a transaction", error, groups.len());
    }
    match write_together(db, rules, groups) {
        Ok(answers) => end(db, answers),
        Err(unwritten) if groups.len() == 1 => vec![unwritten],
        Err(_) => commit_each(db, rules, groups),
    }
}

/// # Errors
/// The answer of the first group that is not to be written; then the transaction is undone.
fn write_together(
    db: &mut PreparedStatements<'_>,
    rules: GuardRules,
    groups: &[ChangeGroup],
) -> Result<Vec<JobAnswer>, JobAnswer> {
    let mut answers: Vec<JobAnswer> = Vec::with_capacity(groups.len());
    for group in groups {
        let unwritten = match apply(db, rules, group) {
            Ok(AppliedGroup::Whole(outcomes)) => {
                answers.push(Ok(outcomes));
                continue;
            }
            Ok(AppliedGroup::TooLate(outcome)) => Ok(vec![outcome]),
            Err(error) => Err(error),
        };
        roll_back(db);
        return Err(unwritten);
    }
    Ok(answers)
}

/// Writes each group in a savepoint of its own, so that one that fails takes no other with it.
fn commit_each(
    db: &mut PreparedStatements<'_>,
    rules: GuardRules,
    groups: &[ChangeGroup],
) -> Vec<JobAnswer> {
    if let Err(error) = run_sql(db, "BEGIN IMMEDIATE") {
        return all_failed("beginning a transaction", error, groups.len());
    }
    let mut answers: Vec<JobAnswer> = Vec::with_capacity(groups.len());
    for group in groups {
        answers.push(write_member(db, rules, group));
        // A full disk and some other faults make SQLite roll back the whole transaction by itself.
        // What follows would then commit piece by piece, so nothing follows.
        if db.conn().is_autocommit() {
            return all_lost(answers, groups.len());
        }
    }
    if answers.iter().all(Result::is_err) {
        roll_back(db);
        return answers;
    }
    end(db, answers)
}

/// Commits; if that fails, whether the groups that succeeded were written is unknown.
fn end(db: &mut PreparedStatements<'_>, mut answers: Vec<JobAnswer>) -> Vec<JobAnswer> {
    if let Err(error) = run_sql(db, "COMMIT") {
        roll_back(db);
        let source = Arc::new(error);
        for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
            *answer = Err(StoreApplyError::Unknown {
                source: Some(Arc::clone(&source)),
            });
        }
    }
    answers
}

fn write_member(
    db: &mut PreparedStatements<'_>,
    rules: GuardRules,
    group: &ChangeGroup,
) -> JobAnswer {
    const WHAT: &str = "a savepoint";
    let failed = |error| StoreApplyError::db(WHAT, error);
    run_sql(db, "SAVEPOINT member").map_err(failed)?;
    const UNDO: &[&str] = &["ROLLBACK TO member", "RELEASE member"];
    let (answer, end) = match apply(db, rules, group) {
        Ok(AppliedGroup::Whole(outcomes)) => (Ok(outcomes), &["RELEASE member"][..]),
        Ok(AppliedGroup::TooLate(outcome)) => (Ok(vec![outcome]), UNDO),
        Err(error) => (Err(error), UNDO),
    };
    if db.conn().is_autocommit() {
        return answer;
    }
    for sql in end {
        if let Err(error) = run_sql(db, sql) {
            // The member's rows could neither be kept nor removed alone.
            roll_back(db);
            return Err(failed(error));
        }
    }
    answer
}

fn run_sql(db: &mut PreparedStatements<'_>, sql: &'static str) -> rusqlite::Result<()> {
    db.execute(sql, []).map(|_| ())
}

fn roll_back(db: &mut PreparedStatements<'_>) {
    if db.conn().is_autocommit() {
        return;
    }
    if let Err(error) = run_sql(db, "ROLLBACK") {
        tracing::error!(error = %error, "rolling back failed");
    }
}

fn all_failed(what: &'static str, error: rusqlite::Error, members: usize) -> Vec<JobAnswer> {
    let source = Arc::new(error);
    (0..members)
        .map(|_| {
            Err(StoreApplyError::Db {
                what,
                source: Arc::clone(&source),
            })
        })
        .collect()
}

/// The answers when nothing of the transaction is left: what had succeeded was undone, and the rest was not tried.
fn all_lost(mut answers: Vec<JobAnswer>, members: usize) -> Vec<JobAnswer> {
    let source = answers.iter().rev().find_map(|answer| match answer {
        Err(StoreApplyError::Db { source, .. }) => Some(Arc::clone(source)),
        _ => None,
    });
    let source = source.unwrap_or_else(|| Arc::new(rusqlite::Error::InvalidQuery));
    let lost = || {
        Err(StoreApplyError::Db {
            what: "another write in the same transaction",
            source: Arc::clone(&source),
        })
    };
    for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
        *answer = lost();
    }
    while answers.len() < members {
        answers.push(lost());
    }
    answers
}

#[cfg(test)]
mod tests;
