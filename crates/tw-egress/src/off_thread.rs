//! What may take long, out of the way of everything else.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs what takes long for a large input; where there are other threads, they take over what else this one has to do.
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
