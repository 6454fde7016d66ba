//! Long computations, kept out of the way of the event loop.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs a computation that takes long for a large input; where there are other threads, they take
/// over the other work of this one.
pub fn aside<T>(is_large: bool, run: impl FnOnce() -> T) -> T {
    let has_others = || {
        Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
    };
    if is_large && has_others() {
        tokio::task::block_in_place(run)
    } else {
        run()
    }
}

#[cfg(test)]
mod tests;
