//! Tasks, each of somebody, who is known also of one that panicked.

use std::collections::HashMap;
use std::future::{Future, pending};

use tokio::task::{Id, JoinError, JoinSet};

/// Tasks that run at once; those that still run are aborted when this is dropped.
#[derive(Debug)]
pub(crate) struct OwnedTasks<K> {
    tasks: JoinSet<()>,
    owners: HashMap<Id, K>,
}

impl<K> Default for OwnedTasks<K> {
    fn default() -> Self {
        Self {
            tasks: JoinSet::new(),
            owners: HashMap::new(),
        }
    }
}

impl<K> OwnedTasks<K> {
    pub(crate) fn spawn(&mut self, owner: K, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.tasks.spawn(task).id();
        self.owners.insert(id, owner);
    }

    /// Whose task ended next, in whichever way; waits while there is none.
    ///
    /// # Cancel safety
    /// No end is lost by it.
    pub(crate) async fn ended(&mut self) -> K {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            if let Some(owner) = self.owner_of(ended) {
                return owner;
            }
        }
        pending().await
    }

    /// The same of one that has ended already.
    pub(crate) fn ended_already(&mut self) -> Option<K> {
        let ended = self.tasks.try_join_next_with_id()?;
        self.owner_of(ended)
    }

    /// Waits until all have ended.
    pub(crate) async fn all_ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    fn owner_of(&mut self, ended: Result<(Id, ()), JoinError>) -> Option<K> {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        let owner = self.owners.remove(&id);
        debug_assert!(owner.is_some(), "each task has been given an owner");
        owner
    }
}

#[cfg(test)]
mod tests;
