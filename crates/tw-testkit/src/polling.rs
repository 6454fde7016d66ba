//! Polling for what no event tells of: rows of a store, and what another process knows.

/// Polls before a test fails. A poll is a statement or a request, so all of them are many seconds.
pub const POLLS_MAX: u32 = 30_000;

/// Result of the first poll that finds something; others get their turn between the polls.
///
/// # Panics
/// When [`POLLS_MAX`] polls found nothing, with the name of what was not found.
pub async fn poll_until<T>(what: &str, poll: impl AsyncFnMut() -> Option<T>) -> T {
    poll_at_most(POLLS_MAX, what, poll).await
}

/// Result of the first poll that finds something, among fewer polls than [`poll_until`] takes: for those that take long.
///
/// # Panics
/// When as many polls found nothing.
pub async fn poll_at_most<T>(
    polls_max: u32,
    what: &str,
    mut poll: impl AsyncFnMut() -> Option<T>,
) -> T {
    for _ in 0..polls_max {
        if let Some(found) = poll().await {
            return found;
        }
        tokio::task::yield_now().await;
    }
    panic!("{what}: not found in {polls_max} polls");
}
