//! Notes that answers were handed over whole, written many at a time.
//!
//! Written at once each would often cost a commit of its own, a third of those of a turn. A crash
//! loses those that wait: then a request that is sent again is answered as it was before, as when
//! the crash came just before the note.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tw_core::change::Change;

use crate::error_chain::ErrorChain;
use crate::runtime::RuntimeInner;

/// Time for which a note waits for others.
const GATHERED_FOR: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(crate) struct AnsweredNotes {
    waiting: Mutex<Vec<Change>>,
    /// Held while notes are being written.
    writing: tokio::sync::Mutex<()>,
}

/// Whether a note is the first that waits, so that its caller writes what waits.
enum Added {
    First,
    ToOthers,
}

impl AnsweredNotes {
    fn add(&self, mark: Change) -> Added {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(mark);
        if waiting.len() == 1 {
            Added::First
        } else {
            Added::ToOthers
        }
    }

    fn take(&self) -> Vec<Change> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting)
    }
}

/// Adds a note. Nobody waits for it.
pub(crate) fn add(inner: &Arc<RuntimeInner>, mark: Change) {
    match inner.marks.add(mark) {
        Added::First => {}
        Added::ToOthers => return,
    }
    let tasks = inner.tasks.clone();
    let inner = Arc::clone(inner);
    tasks.spawn(async move {
        tokio::select! {
            () = tokio::time::sleep(GATHERED_FOR) => {}
            () = inner.refusing.cancelled() => {}
        }
        write(&inner).await;
    });
}

/// Returns when all notes that were added before are written.
///
/// # Cancel safety
/// They are written also if nobody waits.
pub(crate) async fn written(inner: &Arc<RuntimeInner>) {
    let tasks = inner.tasks.clone();
    let inner = Arc::clone(inner);
    // It only fails with the runtime itself.
    let _ = tasks.spawn(async move { write(&inner).await }).await;
}

async fn write(inner: &RuntimeInner) {
    let _writing = inner.marks.writing.lock().await;
    let marks = inner.marks.take();
    if marks.is_empty() {
        return;
    }
    let count = marks.len();
    if let Err(error) = inner.store.apply(marks).await {
        tracing::warn!(turns = count, error = %ErrorChain(&error), "noting that turns were answered failed");
    }
}
