//! Waiting for what nobody tells of: rows of a store, and what another process knows.

/// Looks before a test fails. A look is a statement or a request, so all of them are many seconds.
pub const LOOKS_MAX: u32 = 30_000;

/// Result of the first look that sees something; others get their turn between the looks.
///
/// # Panics
/// When [`LOOKS_MAX`] looks saw nothing, with the name of what was not seen.
pub async fn look_until<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    look_at_most(LOOKS_MAX, what, look).await
}

/// Result of the first look that sees something, among fewer looks than [`look_until`] takes: for those that take long.
///
/// # Panics
/// When as many looks saw nothing.
pub async fn look_at_most<T>(
    looks_max: u32,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    for _ in 0..looks_max {
        if let Some(seen) = look().await {
            return seen;
        }
        tokio::task::yield_now().await;
    }
    panic!("{what}: not seen in {looks_max} looks");
}
