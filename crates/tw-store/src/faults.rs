//! A store with one guard taken away, for the test that shows that a crash sweep would notice.

use crate::apply::GuardRules;
use crate::store::{OpenError, Store};

/// The guard that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Neither statements nor triggers mind a row's state.
    NoStatusGuard,
    /// Every driver may write to every turn.
    NoFence,
}

/// A store in memory, written inline, with the weakness.
///
/// # Errors
/// As [`Store::in_memory_inline`].
pub fn in_memory_inline(weakness: Weakness) -> Result<Store, OpenError> {
    let store = Store::inline(match weakness {
        Weakness::NoStatusGuard => GuardRules {
            status_guard: false,
            fence: true,
        },
        Weakness::NoFence => GuardRules {
            status_guard: true,
            fence: false,
        },
    })?;
    match weakness {
        Weakness::NoStatusGuard => {
            let drop = "DROP TRIGGER turn_final_is_final; DROP TRIGGER tool_call_final_is_final";
            store.run_on_inline(drop).map_err(OpenError::Memory)?;
        }
        Weakness::NoFence => {}
    }
    Ok(store)
}
