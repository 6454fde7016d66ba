//! The writer of SQLite.

use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::{GroupAnswer, WriterEngine, WriterJob, WriterWakes, serve_all};
use crate::apply::{AppliedGroup, GuardRules, StoreApplyError, apply};
use crate::blob::WritableGroup;
use crate::connection;
use crate::db_error::{DbError, Failure};
use crate::figures::WriterFigures;
use crate::session::sqlite::SqliteWriter;
use crate::session::{NotedWrites, WriteSession};

/// Serves jobs until every sender is gone and the queue is empty; then the database file alone
/// is the whole database, unless somebody else has it open and is in its midst.
pub fn run(
    conn: &Connection,
    mut jobs: mpsc::Receiver<WriterJob>,
    group_jobs_max: usize,
    told: (&WriterFigures, &WriterWakes),
) {
    let mut engine = SqliteCommits::of(conn, GuardRules::STRICT);
    serve_all(&mut engine, &mut jobs, group_jobs_max, told);
    drop(engine);
    match connection::empty_log(conn) {
        Ok(true) => {}
        Ok(false) => tracing::info!("the write-ahead log is in use elsewhere, and stays"),
        Err(error) => tracing::warn!(error = %error, "the write-ahead log was not emptied"),
    }
}

pub fn synchronous(conn: &Connection) -> Result<i64, DbError> {
    Ok(conn.pragma_query_value(None, "synchronous", |row| row.get(0))?)
}

/// A connection and the transactions on it.
pub struct SqliteCommits<'c> {
    conn: &'c Connection,
    db: WriteSession<'c>,
    rules: GuardRules,
}

impl WriterEngine for SqliteCommits<'_> {
    /// Groups seldom fail, and a savepoint for each costs as much as a good part of its statements. So they are first
    /// written without; if one fails, that try is undone and made again with savepoints.
    fn commit(&mut self, groups: &[WritableGroup]) -> Vec<GroupAnswer> {
        if groups.is_empty() {
            return Vec::new();
        }
        if let Err(error) = self.run_sql("BEGIN IMMEDIATE") {
            return all_failed("beginning a transaction", error, groups.len());
        }
        match self.write_together(groups) {
            Ok(answers) => self.end(answers),
            Err(unwritten) if groups.len() == 1 => vec![unwritten],
            Err(_) => self.commit_each(groups),
        }
    }

    fn take_noted(&mut self) -> NotedWrites {
        self.db.take_noted()
    }

    fn synchronous(&mut self) -> Result<i64, DbError> {
        synchronous(self.conn)
    }
}

impl<'c> SqliteCommits<'c> {
    pub fn of(conn: &'c Connection, rules: GuardRules) -> Self {
        Self {
            conn,
            db: WriteSession::Sqlite(SqliteWriter::of(conn)),
            rules,
        }
    }

    /// # Errors
    /// The answer of the first group that is not to be written; then the transaction is undone.
    fn write_together(
        &mut self,
        groups: &[WritableGroup],
    ) -> Result<Vec<GroupAnswer>, GroupAnswer> {
        let mut answers: Vec<GroupAnswer> = Vec::with_capacity(groups.len());
        for group in groups {
            let unwritten = match apply(&mut self.db, self.rules, group) {
                Ok(AppliedGroup::Whole(outcomes)) => {
                    answers.push(Ok(outcomes));
                    continue;
                }
                Ok(AppliedGroup::TooLate(outcome)) => Ok(vec![outcome]),
                Err(error) => Err(error),
            };
            self.roll_back();
            return Err(unwritten);
        }
        Ok(answers)
    }

    /// Writes each group in a savepoint of its own, so that one that fails takes no other with it.
    fn commit_each(&mut self, groups: &[WritableGroup]) -> Vec<GroupAnswer> {
        if let Err(error) = self.run_sql("BEGIN IMMEDIATE") {
            return all_failed("beginning a transaction", error, groups.len());
        }
        let mut answers: Vec<GroupAnswer> = Vec::with_capacity(groups.len());
        for group in groups {
            answers.push(self.write_member(group));
            // A full disk and some other faults make SQLite roll back the whole transaction by itself.
            // What follows would then commit piece by piece, so nothing follows.
            if self.conn.is_autocommit() {
                return all_lost(answers, groups.len());
            }
        }
        if answers.iter().all(Result::is_err) {
            self.roll_back();
            return answers;
        }
        self.end(answers)
    }

    /// Commits; if that fails, whether the groups that succeeded were written is unknown.
    fn end(&mut self, mut answers: Vec<GroupAnswer>) -> Vec<GroupAnswer> {
        if let Err(error) = self.run_sql("COMMIT") {
            self.roll_back();
            let source = Arc::new(error);
            for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
                *answer = Err(StoreApplyError::Unknown {
                    source: Some(Arc::clone(&source)),
                });
            }
        }
        answers
    }

    fn write_member(&mut self, group: &WritableGroup) -> GroupAnswer {
        const WHAT: &str = "a savepoint";
        let failed = |error| StoreApplyError::db(WHAT, error);
        self.run_sql("SAVEPOINT member").map_err(failed)?;
        const UNDO: &[&str] = &["ROLLBACK TO member", "RELEASE member"];
        let (answer, end) = match apply(&mut self.db, self.rules, group) {
            Ok(AppliedGroup::Whole(outcomes)) => (Ok(outcomes), &["RELEASE member"][..]),
            Ok(AppliedGroup::TooLate(outcome)) => (Ok(vec![outcome]), UNDO),
            Err(error) => (Err(error), UNDO),
        };
        if self.conn.is_autocommit() {
            return answer;
        }
        for sql in end {
            if let Err(error) = self.run_sql(sql) {
                // The member's rows could neither be kept nor removed alone.
                self.roll_back();
                return Err(failed(error));
            }
        }
        answer
    }

    fn run_sql(&mut self, sql: &'static str) -> Result<(), DbError> {
        self.db.execute(sql, &[]).map(|_| ())
    }

    fn roll_back(&mut self) {
        if self.conn.is_autocommit() {
            return;
        }
        if let Err(error) = self.run_sql("ROLLBACK") {
            tracing::error!(error = %error, "rolling back failed");
        }
    }
}

fn all_failed(what: &'static str, error: DbError, members: usize) -> Vec<GroupAnswer> {
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
fn all_lost(mut answers: Vec<GroupAnswer>, members: usize) -> Vec<GroupAnswer> {
    let source = answers.iter().rev().find_map(|answer| match answer {
        Err(StoreApplyError::Db { source, .. }) => Some(Arc::clone(source)),
        _ => None,
    });
    let source = source.unwrap_or_else(|| Arc::new(Failure::Lost.into()));
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
