//! Quotas of calls in an hour and of tokens in a minute.
//!
//! What was used stands in the store, so that it holds over restarts and over all servers of a database. A call takes its
//! place before it starts; what a turn will use in tokens nobody knows before it has, so it is only begun while some are
//! left.

use std::time::Duration;

use tw_core::change::{Change, Outcome};
use tw_core::id::{CallRef, OrgId, TurnId};
use tw_core::quota::{CallQuota, ClockHour, ClockMinute, QuotaHolder, TakeCallQuotas};
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_store::read::ReadError;
use tw_store::store::Store;

use crate::auth::Principal;
use crate::runtime::Runtime;
use crate::spending::seconds_until;

/// Time for which counts are kept, beyond the hour that they are of.
pub(crate) const QUOTA_USE_KEPT: Duration = Duration::from_secs(2 * 3600);

/// All quotas. Each that fits holds, beside the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaRules {
    pub calls: Vec<CallQuotaRule>,
    pub tokens: Vec<TokenQuotaRule>,
}

/// Calls in an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallQuotaRule {
    /// The slug of the organization for which it holds; `None` for each.
    pub organization: Option<String>,
    pub quota: CallQuota,
}

/// Tokens in a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenQuotaRule {
    /// The slug of the organization for which it holds; `None` for each.
    pub organization: Option<String>,
    pub of: QuotaHolder,
    /// At least 1.
    pub tokens_max: u64,
}

/// A quota of tokens of which nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokensReached {
    pub of: QuotaHolder,
    pub tokens_max: u64,
    pub used: u64,
    /// Time from now until the next minute begins, in seconds, rounded up.
    pub resets_in_s: u32,
}

fn holds(rule: Option<&str>, slug: &str) -> bool {
    rule.is_none_or(|rule| rule == slug)
}

impl QuotaRules {
    /// The quotas in which a call of a tool needs room.
    pub(crate) fn of_call(&self, slug: &str, tool: &str, names_user: bool) -> Vec<CallQuota> {
        let rules = self.calls.iter();
        let rules = rules.filter(|rule| holds(rule.organization.as_deref(), slug));
        let quotas = rules.map(|rule| &rule.quota);
        let quotas = quotas.filter(|quota| names_user || quota.of != QuotaHolder::EndUser);
        let quotas = quotas.filter(|quota| quota.tool.as_deref().is_none_or(|of| of == tool));
        let mut quotas: Vec<CallQuota> = quotas.cloned().collect();
        // In one order, so that two who lock rows do not wait for each other.
        quotas.sort_by(|one, other| {
            let by = |quota: &CallQuota| (quota.of, quota.tool.clone(), quota.calls_max);
            by(one).cmp(&by(other))
        });
        // Of several that count the same, the least is the one that holds.
        quotas.dedup_by(|other, one| (other.of, &other.tool) == (one.of, &one.tool));
        quotas
    }
}

impl Runtime {
    /// The quota of tokens that the caller has used up, if one; of several that of the widest.
    pub(crate) async fn tokens_reached(
        &self,
        caller: &Principal,
        end_user: Option<&str>,
    ) -> Result<Option<TokensReached>, ReadError> {
        let rules = self.0.config.quotas.tokens.iter();
        let slug = &*caller.organization_slug;
        let rules = rules.filter(|rule| holds(rule.organization.as_deref(), slug));
        let rules = rules.filter(|rule| rule.of != QuotaHolder::EndUser || end_user.is_some());
        let rules: Vec<&TokenQuotaRule> = rules.collect();
        if rules.is_empty() {
            return Ok(None);
        }
        let now = self.env().now();
        let minute = ClockMinute::of(now);
        let user = end_user.map(str::to_owned);
        let used = self
            .store()
            .tokens_used(caller.organization, caller.api_key, user, minute)
            .await?;
        let used_by = |of| match of {
            QuotaHolder::Organization => used.organization,
            QuotaHolder::Key => used.key,
            QuotaHolder::EndUser => used.end_user,
        };
        let reached = rules
            .into_iter()
            .filter(|rule| used_by(rule.of) >= rule.tokens_max);
        Ok(reached
            .min_by_key(|rule| rule.of)
            .map(|rule| TokensReached {
                of: rule.of,
                tokens_max: rule.tokens_max,
                used: used_by(rule.of),
                resets_in_s: seconds_until(minute.end(), now),
            }))
    }
}

/// Takes a place for a call in each of its quotas, or tells the model which one has none.
///
/// One that cannot be counted is not run.
pub(crate) async fn take(
    store: Store,
    env: Env,
    (organization, turn, call): (OrgId, TurnId, CallRef),
    (tool, quotas): (String, Vec<CallQuota>),
) -> Option<String> {
    let at = env.now();
    let take = TakeCallQuotas {
        organization,
        turn,
        quotas: quotas.clone(),
        at,
    };
    let outcomes = store
        .apply(vec![Change::TakeCallQuotas(Box::new(take))])
        .await;
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(error) => {
            tracing::warn!(
                turn.id = %turn, call.round = call.round, call.position = call.position, error = %error,
                "a call could not be counted"
            );
            return Some(NOT_COUNTED.to_owned());
        }
    };
    match outcomes.first() {
        Some(Outcome::QuotaReached { quota }) => {
            quotas.get(*quota).map(|quota| told(&tool, quota, at))
        }
        _ => None,
    }
}

const NOT_COUNTED: &str =
    "Not run: this call could not be counted against its limits. It may be made again.";

/// What the model is shown in place of a result.
fn told(tool: &str, quota: &CallQuota, at: Timestamp) -> String {
    let max = quota.calls_max;
    let calls = match (&quota.tool, max) {
        (Some(_), 1) => format!("1 call of {tool}"),
        (Some(_), _) => format!("{max} calls of {tool}"),
        (None, 1) => "1 call of a tool".to_owned(),
        (None, _) => format!("{max} calls of tools"),
    };
    let seconds = seconds_until(ClockHour::of(at).end(), at);
    format!(
        "Not run: this {} has reached its limit of {calls} per hour, 0 left. It begins anew in {seconds} s.",
        quota.of.called()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(
        organization: Option<&str>,
        of: QuotaHolder,
        tool: Option<&str>,
        calls_max: u32,
    ) -> CallQuotaRule {
        CallQuotaRule {
            organization: organization.map(str::to_owned),
            quota: CallQuota {
                of,
                tool: tool.map(str::to_owned),
                calls_max,
            },
        }
    }

    #[test]
    fn a_call_needs_room_in_each_quota_that_fits_it() {
        let rules = QuotaRules {
            calls: vec![
                rule(None, QuotaHolder::EndUser, Some("draw"), 1),
                rule(None, QuotaHolder::EndUser, None, 2),
                rule(Some("acme"), QuotaHolder::Organization, None, 3),
                rule(None, QuotaHolder::Key, Some("search"), 4),
                rule(Some("acme"), QuotaHolder::Key, Some("search"), 5),
                rule(Some("other"), QuotaHolder::Key, Some("search"), 1),
                rule(Some("other"), QuotaHolder::Key, Some("search"), 1),
            ],
            tokens: Vec::new(),
        };
        let rows: [(&str, &str, bool, &[u32]); 6] = [
            ("acme", "draw", true, &[3, 2, 1]),
            ("acme", "draw", false, &[3]),
            ("other", "draw", false, &[]),
            // Of several for the same, the least.
            ("other", "search", true, &[1, 2]),
            ("other", "search", false, &[1]),
            ("acme", "search", false, &[3, 4]),
        ];
        for (slug, tool, names_user, expected) in rows {
            let quotas = rules.of_call(slug, tool, names_user);
            let found: Vec<u32> = quotas.iter().map(|quota| quota.calls_max).collect();
            assert_eq!(found, expected, "{slug} {tool} {names_user}");
        }
    }

    #[test]
    fn the_model_is_told_whose_limit_it_is_and_when_it_begins_anew() {
        let at = Timestamp(3_600_000_000 * 5 - 90_000_000);
        for (of, tool, calls_max, text) in [
            (
                QuotaHolder::EndUser,
                Some("draw"),
                20,
                "Not run: this user has reached its limit of 20 calls of draw per hour, 0 left. It begins anew in 90 s.",
            ),
            (
                QuotaHolder::Key,
                None,
                1,
                "Not run: this API key has reached its limit of 1 call of a tool per hour, 0 left. It begins anew in 90 s.",
            ),
        ] {
            let quota = rule(None, of, tool, calls_max).quota;
            assert_eq!(told("draw", &quota, at), text);
        }
    }
}
