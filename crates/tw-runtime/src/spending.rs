//! What may be spent in a month: whoever has spent it begins no further turn until the next one.
//!
//! What was spent stands in the store, written with each cost, so that it holds over restarts. What a turn will cost
//! nobody knows before it has; so turns that run when the last of it is spent go on to their end.

use std::collections::BTreeMap;

use tw_core::price::MicroUsd;
use tw_core::time::{CalendarMonth, Timestamp};
use tw_store::read::ReadError;

use crate::auth::Principal;
use crate::runtime::Runtime;

/// The most that may be spent in a calendar month (UTC); `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendRules {
    /// Of every key.
    pub key: Option<MicroUsd>,
    /// Of every end user.
    pub end_user: Option<MicroUsd>,
    /// Of every organization that has none of its own.
    pub organization: Option<MicroUsd>,
    /// Of organizations, by slug; `None` takes the limit away.
    pub organizations: BTreeMap<String, Option<MicroUsd>>,
}

/// Who has spent a month's money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spender {
    Organization,
    Key,
    EndUser,
}

/// A limit of which nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpentLimit {
    pub whose: Spender,
    pub max: MicroUsd,
    pub spent: MicroUsd,
    /// Time from now until the next month begins, in seconds, rounded up.
    pub resets_in_s: u32,
}

impl SpendRules {
    fn of_organization(&self, slug: &str) -> Option<MicroUsd> {
        match self.organizations.get(slug) {
            Some(own) => *own,
            None => self.organization,
        }
    }
}

impl Runtime {
    /// The limit of a month's money that the caller has reached, if one; of several that of the widest.
    pub(crate) async fn spent_limit(
        &self,
        caller: &Principal,
        end_user: Option<&str>,
    ) -> Result<Option<SpentLimit>, ReadError> {
        let rules = &self.0.config.spend;
        let of_user = end_user.and(rules.end_user);
        let limits = [
            (
                Spender::Organization,
                rules.of_organization(&caller.organization_slug),
            ),
            (Spender::Key, rules.key),
            (Spender::EndUser, of_user),
        ];
        if limits.iter().all(|(_, max)| max.is_none()) {
            return Ok(None);
        }
        let now = self.env().now();
        let month = CalendarMonth::of(now);
        let end_user = end_user.map(str::to_owned);
        let spent = self
            .store()
            .month_spent(caller.organization, caller.api_key, end_user, month)
            .await?;
        let reached = limits.into_iter().find_map(|(whose, max)| {
            let max = max?;
            let spent = match whose {
                Spender::Organization => spent.organization,
                Spender::Key => spent.key,
                Spender::EndUser => spent.end_user,
            };
            (spent >= max).then_some(SpentLimit {
                whose,
                max,
                spent,
                resets_in_s: seconds_until(month.end(), now),
            })
        });
        Ok(reached)
    }
}

/// Seconds from now until then, rounded up; at least 1.
pub(crate) fn seconds_until(end: Timestamp, now: Timestamp) -> u32 {
    let micros = end.since(now).as_micros().div_ceil(1_000_000);
    u32::try_from(micros).unwrap_or(u32::MAX).max(1)
}
