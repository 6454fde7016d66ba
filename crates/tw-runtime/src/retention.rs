//! Retention: the sweeps on a timer, which erase contents and let records expire.

use std::sync::Arc;
use std::time::Duration;

use tw_core::change::{Change, Outcome};
use tw_core::webhook::WebhookChange;

use crate::error_chain::ErrorChain;
use crate::runtime::RuntimeInner;

const INTERVAL: Duration = Duration::from_secs(30);
/// Most rows of a sweep, so that it never holds the writer for long.
pub(crate) const TURNS_PER_SWEEP_MAX: u32 = 500;

pub(crate) async fn run(inner: Arc<RuntimeInner>) {
    loop {
        tokio::select! {
            () = inner.refusing.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
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
    }
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
