//! Slots: how many calls of a tool may run at once, over all turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tw_core::id::ToolId;
use tw_core::tool::Tool;

use crate::replicas::LimitShare;

/// A place for one running call; free again when dropped.
pub(crate) type CallSlot = OwnedSemaphorePermit;

#[derive(Debug, Default)]
pub(crate) struct CallSlots {
    known: Mutex<HashMap<Whose, Places>>,
    /// The part of each tool's places that is this process's.
    share: Arc<LimitShare>,
}

/// The tool that slots are of; all versions of a stored tool share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Whose {
    BuiltIn(String),
    Stored(ToolId),
}

#[derive(Debug)]
struct Places {
    /// Newest version that asked, whose limit holds.
    version: u32,
    places_max: u32,
    free: Arc<Semaphore>,
}

/// Number of tools beyond which the slots that nobody uses are forgotten.
const TOOLS_REMEMBERED_MAX: usize = 10_000;

impl CallSlots {
    pub(crate) fn new(share: Arc<LimitShare>) -> Self {
        Self {
            known: Mutex::default(),
            share,
        }
    }

    /// Waits for a slot; `None` for a tool that is gone, which needs none.
    ///
    /// # Cancel safety
    /// A dropped wait takes no slot.
    pub(crate) fn wait(
        &self,
        tool: Option<&Tool>,
    ) -> impl Future<Output = Option<CallSlot>> + Send + 'static + use<> {
        let free = tool.map(|tool| self.places(tool));
        async move { free?.acquire_owned().await.ok() }
    }

    /// The slots of a tool. The limit of the newest version holds for the calls that ask from now
    /// on, also those of older versions; what runs already does not count against it.
    fn places(&self, tool: &Tool) -> Arc<Semaphore> {
        let whose = match tool.version {
            Some(version) => Whose::Stored(version.tool),
            None => Whose::BuiltIn(tool.name.clone()),
        };
        let version = tool.version.map_or(0, |version| version.number);
        let places_max = self.share.of(tool.policy.concurrency_max.max(1));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TOOLS_REMEMBERED_MAX {
            known.retain(|_, places| Arc::strong_count(&places.free) > 1);
        }
        let places = known
            .entry(whose)
            .and_modify(|places| {
                // An older version's limit does not hold. The newest one's part may have changed.
                if version < places.version {
                    return;
                }
                places.version = version;
                if places.places_max != places_max {
                    *places = Places::new(version, places_max);
                }
            })
            .or_insert_with(|| Places::new(version, places_max));
        Arc::clone(&places.free)
    }
}

impl Places {
    fn new(version: u32, places_max: u32) -> Self {
        let permits = usize::try_from(places_max).unwrap_or(usize::MAX);
        Self {
            version,
            places_max,
            free: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
        }
    }
}

#[cfg(test)]
mod tests;
