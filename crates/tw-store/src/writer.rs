//! Group commit: all that is queued becomes durable by one sync of the disk.

pub mod postgres;
pub mod sqlite;

use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot};
use tw_core::change::Outcome;

use crate::apply::StoreApplyError;
use crate::blob::WritableGroup;
use crate::db_error::DbError;
use crate::figures::WriterFigures;
use crate::session::NotedWrites;

pub type GroupAnswer = Result<Vec<Outcome>, StoreApplyError>;

pub enum WriterJob {
    Apply {
        group: WritableGroup,
        reply: oneshot::Sender<GroupAnswer>,
    },
    /// Asks the writer's own connection for its `PRAGMA synchronous`.
    Synchronous {
        reply: oneshot::Sender<Result<i64, DbError>>,
    },
}

/// What a writer does with its connection.
pub trait WriterEngine {
    /// Writes the groups in one transaction; each succeeds or fails for itself. The answers are in order and hold once
    /// this returns.
    fn commit(&mut self, groups: &[WritableGroup]) -> Vec<GroupAnswer>;

    /// What was noted since this was last asked. That of a group that was rolled back may be among it.
    fn take_noted(&mut self) -> NotedWrites;

    /// The connection's `PRAGMA synchronous`.
    fn synchronous(&mut self) -> Result<i64, DbError>;
}

/// Those who wait for something to be written.
#[derive(Debug, Default)]
pub struct WriterWakes {
    pub deliveries: Notify,
    pub hints: Notify,
}

impl WriterWakes {
    pub fn wake(&self, noted: NotedWrites) {
        if noted.deliveries {
            self.deliveries.notify_one();
        }
        if noted.hint {
            self.hints.notify_one();
        }
    }
}

/// A batch of at least this many jobs says that many turns write at once.
const BUSY_JOBS: usize = 4;
/// A writer that had nothing to do for longer than this is not busy: whoever comes next is served at once.
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(1);

/// Serves jobs until every sender is gone and the queue is empty.
pub fn serve_all(
    engine: &mut impl WriterEngine,
    jobs: &mut mpsc::Receiver<WriterJob>,
    group_jobs_max: usize,
    (figures, wakes): (&WriterFigures, &WriterWakes),
) {
    let mut last = 0;
    let mut ended = Instant::now();
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
        serve(engine, batch, figures);
        wakes.wake(engine.take_noted());
        ended = Instant::now();
    }
}

fn serve(engine: &mut impl WriterEngine, batch: Vec<WriterJob>, figures: &WriterFigures) {
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
                let _ = reply.send(engine.synchronous());
            }
        }
    }
    if groups.is_empty() {
        return;
    }
    let began = Instant::now();
    let answers = engine.commit(&groups);
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
