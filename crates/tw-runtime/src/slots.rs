//! Slots: how many calls of a tool may run at once, over all turns.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tw_core::tool::Tool;

/// A place for one running call; free again when dropped.
pub(crate) type Slot = OwnedSemaphorePermit;

#[derive(Debug)]
pub(crate) struct Slots(BTreeMap<String, Arc<Semaphore>>);

impl Slots {
    pub(crate) fn new(tools: &[Arc<Tool>]) -> Self {
        let slots = tools.iter().map(|tool| {
            let places = usize::try_from(tool.policy.concurrency_max.max(1)).unwrap_or(usize::MAX);
            (
                tool.name.clone(),
                Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            )
        });
        Self(slots.collect())
    }

    /// Waits for a slot; `None` for a tool that is not registered, which needs none.
    ///
    /// # Cancel safety
    /// A dropped wait takes no slot.
    pub(crate) fn wait(&self, tool: &str) -> impl Future<Output = Option<Slot>> + Send + 'static {
        let semaphore = self.0.get(tool).cloned();
        async move { semaphore?.acquire_owned().await.ok() }
    }
}
