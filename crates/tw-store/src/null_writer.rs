//! A writer that writes nothing: what a turn costs without its record. For measuring only.

use tokio::sync::mpsc;
use tw_core::change::{ChangeGroup, Outcome};

use crate::writer::WriterJob;

/// The value of `PRAGMA synchronous` that this writer answers: OFF, since nothing becomes durable.
const SYNCHRONOUS_OFF: i64 = 0;

/// Says of every change that it is done, until every sender is gone.
///
/// Only a change that finds nothing in its way has this outcome, so a load must not repeat idempotency keys.
pub fn run(mut jobs: mpsc::Receiver<WriterJob>) {
    while let Some(job) = jobs.blocking_recv() {
        match job {
            WriterJob::Apply { group, reply } => {
                let changes = match group.group {
                    ChangeGroup::Accept(_, first) => 1 + first.len(),
                    ChangeGroup::OfTurn(_, changes) => changes.len(),
                    ChangeGroup::Free(changes) => changes.len(),
                };
                // Whoever asked may have gone.
                let _ = reply.send(Ok(vec![Outcome::Done; changes]));
            }
            WriterJob::Synchronous { reply } => {
                let _ = reply.send(Ok(SYNCHRONOUS_OFF));
            }
        }
    }
}
