//! Retention: the sweeps on a timer, which erase contents and let records expire.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tw_core::change::{Change, Outcome};
use tw_core::id::OrgId;
use tw_core::webhook::WebhookChange;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::system::{self, OldToolVersions};

use crate::callbacks;
use crate::error_chain::ErrorChain;
use crate::forgetting;
use crate::queued_rows::REFUSED_KEPT;
use crate::quotas::QUOTA_USE_KEPT;
use crate::runtime::RuntimeInner;

const INTERVAL: Duration = Duration::from_secs(30);
/// Most rows of a sweep, so that it never holds the writer for long.
pub(crate) const TURNS_PER_SWEEP_MAX: u32 = 500;

/// Time between two looks for old versions of tools, which read all of them.
const TOOL_VERSIONS_INTERVAL: Duration = Duration::from_secs(600);
/// Time for which a version that was replaced may be in the hands of a request that is about to become a turn.
const TOOL_VERSION_MARGIN: Duration = Duration::from_secs(600);

/// How long contents and old versions of tools are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepingRules {
    /// Contents of turns that have ended; `None` for ever.
    pub contents: Option<Duration>,
    /// The same of organizations that have a rule of their own, by slug.
    pub contents_of: BTreeMap<String, Option<Duration>>,
    /// Old versions of a tool that no call ran, so many at most,
    pub tool_versions: u32,
    /// and for so long at most.
    pub tool_versions_for: Duration,
}

/// Old versions of a tool that are kept unless the operator says otherwise.
pub const TOOL_VERSIONS_DEFAULT: u32 = 100;
/// A quarter, so that what was changed before a holiday can be looked up after it.
pub const TOOL_VERSIONS_KEPT_DEFAULT: Duration = Duration::from_secs(90 * 24 * 3600);

impl KeepingRules {
    /// Contents for ever, and some old versions of each tool.
    pub fn defaults() -> Self {
        Self {
            contents: None,
            contents_of: BTreeMap::new(),
            tool_versions: TOOL_VERSIONS_DEFAULT,
            tool_versions_for: TOOL_VERSIONS_KEPT_DEFAULT,
        }
    }

    fn keep_all_contents(&self) -> bool {
        self.contents.is_none() && self.contents_of.values().all(Option::is_none)
    }

    /// For how long an organization's contents are kept; `None` for ever.
    fn contents_kept(&self, slug: &str) -> Option<Duration> {
        *self.contents_of.get(slug).unwrap_or(&self.contents)
    }
}

pub(crate) async fn run(inner: Arc<RuntimeInner>) {
    let mut versions_due = Instant::now();
    loop {
        tokio::select! {
            () = inner.refusing.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        if let Err(error) = forgetting::delete_erased(&inner).await {
            tracing::warn!(error = %ErrorChain(&error), "deleting the turns of an end user failed");
        }
        if let Err(error) = expire_contents(&inner).await {
            tracing::warn!(error = %ErrorChain(&error), "letting old contents be erased failed");
        }
        if versions_due <= Instant::now() {
            versions_due = Instant::now() + TOOL_VERSIONS_INTERVAL;
            if let Err(error) = delete_tool_versions(&inner).await {
                tracing::warn!(error = %ErrorChain(&error), "deleting old versions of tools failed");
            }
        }
        while !inner.refusing.is_cancelled() {
            match inner.store.apply(sweep(&inner)).await {
                Ok(outcomes) if outcomes.iter().any(is_more_due) => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(error = %ErrorChain(&error), "retention sweep failed");
                    break;
                }
            }
        }
        // Some of them because nobody called back in time.
        if let Err(error) = callbacks::tell_ended(&inner).await {
            tracing::warn!(error = %ErrorChain(&error), "looking for calls that have ended failed");
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SweepError {
    #[error("looking for what is old")]
    Read(#[from] ReadError),
    #[error("writing what is old")]
    Write(#[from] StoreApplyError),
}

/// Lets the contents of old turns be erased, by each organization's rule.
pub(crate) async fn expire_contents(inner: &RuntimeInner) -> Result<(), SweepError> {
    let rules = &inner.config.keeping;
    if rules.keep_all_contents() {
        return Ok(());
    }
    for (organization, slug) in system::organizations(&inner.store).await? {
        let Some(kept) = rules.contents_kept(&slug) else {
            continue;
        };
        expire_contents_of(inner, organization, kept).await?;
    }
    Ok(())
}

async fn expire_contents_of(
    inner: &RuntimeInner,
    organization: OrgId,
    kept: Duration,
) -> Result<(), SweepError> {
    while !inner.refusing.is_cancelled() {
        let now = inner.env.now();
        let change = Change::ExpireContents {
            organization,
            before: now.before(kept),
            now,
            turns_max: TURNS_PER_SWEEP_MAX,
        };
        // Erased at once, so that no look passes over those that were found before.
        let erase = Change::EraseDue {
            now,
            turns_max: TURNS_PER_SWEEP_MAX,
        };
        let outcomes = inner.store.apply(vec![change, erase]).await?;
        if !outcomes.iter().any(is_more_due) {
            break;
        }
    }
    Ok(())
}

/// Deletes versions of tools that are old, and that no call ran.
pub(crate) async fn delete_tool_versions(inner: &RuntimeInner) -> Result<(), SweepError> {
    let rules = &inner.config.keeping;
    while !inner.refusing.is_cancelled() {
        let now = inner.env.now();
        let old = OldToolVersions {
            before: now.before(rules.tool_versions_for),
            kept: rules.tool_versions,
            unused_since: now.before(TOOL_VERSION_MARGIN),
            margin: TOOL_VERSION_MARGIN,
        };
        let versions = system::old_tool_versions(&inner.store, old, TURNS_PER_SWEEP_MAX).await?;
        if versions.is_empty() {
            break;
        }
        let change = Change::DeleteToolVersions { versions };
        let outcomes = inner.store.apply(vec![change]).await?;
        if !outcomes.iter().any(is_more_due) {
            break;
        }
    }
    Ok(())
}

/// Whether a sweep left something because it reached its limit.
fn is_more_due(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Partly(_) => true,
        Outcome::Count(rows) => *rows >= u64::from(TURNS_PER_SWEEP_MAX),
        _ => false,
    }
}

fn sweep(inner: &RuntimeInner) -> Vec<Change> {
    let now = inner.env.now();
    vec![
        Change::EraseDue {
            now,
            turns_max: TURNS_PER_SWEEP_MAX,
        },
        Change::ExpireEvents {
            before: now.before(inner.config.events_kept),
            turns_max: TURNS_PER_SWEEP_MAX,
        },
        Change::ExpireRequestKeys {
            before: now.before(inner.config.request_keys_kept),
            keys_max: TURNS_PER_SWEEP_MAX,
        },
        Change::ExpireApprovals {
            now,
            calls_max: TURNS_PER_SWEEP_MAX,
        },
        Change::ExpireCallbacks {
            now,
            calls_max: TURNS_PER_SWEEP_MAX,
        },
        Change::ExpireCallbackDeliveries {
            before: now.before(inner.config.deliveries_kept),
            deliveries_max: TURNS_PER_SWEEP_MAX,
        },
        Change::ExpireQuotas {
            before: now.before(QUOTA_USE_KEPT),
            rows_max: TURNS_PER_SWEEP_MAX,
        },
        Change::ExpireQueuedRows {
            before: now.before(REFUSED_KEPT),
            rows_max: TURNS_PER_SWEEP_MAX,
        },
        Change::ExpireRelayedRequests {
            before: now.before(inner.config.relayed_requests_kept),
            requests_max: TURNS_PER_SWEEP_MAX,
        },
        WebhookChange::Expire {
            before: now.before(inner.config.deliveries_kept),
            deliveries_max: TURNS_PER_SWEEP_MAX,
        }
        .into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_organization_may_have_a_rule_of_its_own() {
        let hour = Duration::from_secs(3600);
        let rules = |contents, own: &[(&str, Option<Duration>)]| KeepingRules {
            contents,
            contents_of: own
                .iter()
                .map(|(slug, kept)| ((*slug).to_owned(), *kept))
                .collect(),
            ..KeepingRules::defaults()
        };
        assert!(rules(None, &[]).keep_all_contents());
        assert!(rules(None, &[("a", None)]).keep_all_contents());
        let shorter = rules(None, &[("a", Some(hour))]);
        assert!(!shorter.keep_all_contents());
        assert_eq!(shorter.contents_kept("a"), Some(hour));
        assert_eq!(shorter.contents_kept("b"), None);
        let longer = rules(Some(hour), &[("a", None), ("b", Some(2 * hour))]);
        assert_eq!(longer.contents_kept("a"), None);
        assert_eq!(longer.contents_kept("b"), Some(2 * hour));
        assert_eq!(longer.contents_kept("c"), Some(hour));
    }

    #[test]
    fn a_sweep_that_did_all_it_may_is_followed_by_another() {
        let max = u64::from(TURNS_PER_SWEEP_MAX);
        let cases = [
            ([Outcome::Count(0), Outcome::Count(0)], false),
            ([Outcome::Count(max - 1), Outcome::Count(1)], false),
            ([Outcome::Count(0), Outcome::Count(max)], true),
            ([Outcome::Partly(0), Outcome::Count(0)], true),
        ];
        for (outcomes, more) in cases {
            assert_eq!(outcomes.iter().any(is_more_due), more, "{outcomes:?}");
        }
    }
}
