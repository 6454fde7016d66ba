//! Slots: how many calls of a tool may run at once, over all turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tw_core::id::ToolId;
use tw_core::tool::Tool;

/// A place for one running call; free again when dropped.
pub(crate) type Slot = OwnedSemaphorePermit;

#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<HashMap<Whose, Places>>);

/// All versions of a stored tool share their places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Whose {
    BuiltIn(String),
    Stored(ToolId),
}

#[derive(Debug)]
struct Places {
    places_max: u32,
    free: Arc<Semaphore>,
}

/// Beyond so many tools, places that nobody uses are forgotten.
const TOOLS_REMEMBERED_MAX: usize = 10_000;

impl Slots {
    /// Waits for a slot; `None` for a tool that is gone, which needs none.
    ///
    /// # Cancel safety
    /// A dropped wait takes no slot.
    pub(crate) fn wait(
        &self,
        tool: Option<&Tool>,
    ) -> impl Future<Output = Option<Slot>> + Send + 'static + use<> {
        let free = tool.map(|tool| self.places(tool));
        async move { free?.acquire_owned().await.ok() }
    }

    /// A new limit holds for the calls that ask from now on.
    fn places(&self, tool: &Tool) -> Arc<Semaphore> {
        let whose = match tool.version {
            Some(version) => Whose::Stored(version.tool),
            None => Whose::BuiltIn(tool.name.clone()),
        };
        let places_max = tool.policy.concurrency_max.max(1);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TOOLS_REMEMBERED_MAX {
            known.retain(|_, places| Arc::strong_count(&places.free) > 1);
        }
        let places = known
            .entry(whose)
            .and_modify(|places| {
                if places.places_max != places_max {
                    *places = Places::new(places_max);
                }
            })
            .or_insert_with(|| Places::new(places_max));
        Arc::clone(&places.free)
    }
}

impl Places {
    fn new(places_max: u32) -> Self {
        let permits = usize::try_from(places_max).unwrap_or(usize::MAX);
        Self {
            places_max,
            free: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
        }
    }
}
