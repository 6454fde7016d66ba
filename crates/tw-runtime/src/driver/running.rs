//! The task in which a driver runs, and what becomes of its turn when that is cut off.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tw_core::change::Fence;

use crate::orphaned_turns::OrphanedTurn;
use crate::runtime::RuntimeInner;

/// Runs a driver to its end, or to that of the lease. One that panics leaves its turn to another one at once.
pub(crate) fn spawn(
    inner: &Arc<RuntimeInner>,
    fence: Fence,
    drives: impl Future<Output = ()> + Send + 'static,
) {
    let tasks = inner.tasks.clone();
    let term = inner.replicas.term().map(|term| (term, Arc::clone(inner)));
    let inner = Arc::clone(inner);
    // The machine and the log are dropped with the future, so nothing half-done is seen again.
    let ended = AssertUnwindSafe(drives).catch_unwind();
    let ended = ended.map(move |ended| {
        if ended.is_err() {
            inner.driver_panics.add(fence.turn);
            inner.metrics.driver_panicked();
            tracing::error!(turn.id = %fence.turn, "a turn's driver panicked");
            abandon(&inner, fence);
        }
    });
    // An async block that awaits a future it was given has room for it twice.
    let Some((term, cut)) = term else {
        tasks.spawn(ended);
        return;
    };
    let ended = Box::pin(ended);
    tasks.spawn(async move {
        tokio::select! {
            biased;
            // Dropped with all that it runs, whatever it waits for: another process may take the turn next.
            () = term.cancelled_owned() => abandon(&cut, fence),
            () = ended => {}
        }
    });
}

/// Leaves a turn whose driver was dropped to another one.
fn abandon(inner: &RuntimeInner, fence: Fence) {
    inner.live.remove(fence.turn);
    inner.orphaned.add(OrphanedTurn {
        organization: fence.organization,
        turn: fence.turn,
        after: Duration::ZERO,
    });
}
