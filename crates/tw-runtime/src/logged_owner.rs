//! The owner of a request as the log names it.

use std::sync::Arc;

use crate::auth::Principal;

/// The organization and key of a request, by the names that people know.
#[derive(Clone, Debug)]
pub(crate) struct LoggedOwner {
    /// The organization's slug.
    pub(crate) organization: Arc<str>,
    /// The first characters of the key.
    pub(crate) key: Arc<str>,
}

impl LoggedOwner {
    pub(crate) fn of(caller: &Principal) -> Self {
        Self {
            organization: Arc::clone(&caller.organization_slug),
            key: Arc::clone(&caller.key_shown),
        }
    }
}
