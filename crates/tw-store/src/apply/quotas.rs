//! What was used of quotas, by hour and by minute.

use tw_core::change::Outcome;
use tw_core::quota::{ClockHour, ClockMinute, TakeCallQuotas};
use tw_core::time::Timestamp;

use super::charges::TOKENS_MAX;
use super::{StoreApplyError, TurnKey, execute, retention, run};
use crate::session::WriteSession;
use crate::session::bound::params;

/// The `tool` of a quota for all tools, since a key column holds no null.
pub(crate) const ALL_TOOLS: &str = "";

/// A quota that has no room touches no row.
const TAKE: &str = "INSERT INTO quota_use
    (organization, unit, period, holder, holder_key, tool, used, created_us, updated_us)
    SELECT organization, 'calls', ?3, ?4,
        CASE ?4 WHEN 'key' THEN api_key WHEN 'end_user' THEN coalesce(end_user, 0) ELSE 0 END, ?5, 1, ?6, ?6
    FROM turn_start WHERE organization = ?1 AND id = ?2
    ON CONFLICT (organization, unit, period, holder, holder_key, tool) DO UPDATE
    SET used = quota_use.used + 1, updated_us = excluded.updated_us
    WHERE quota_use.used < ?7";

const GIVE_BACK: &str = "UPDATE quota_use SET used = used - 1
    WHERE organization = ?1 AND unit = 'calls' AND period = ?3 AND holder = ?4 AND tool = ?5
      AND holder_key = (SELECT CASE ?4 WHEN 'key' THEN api_key WHEN 'end_user' THEN coalesce(end_user, 0) ELSE 0 END
                        FROM turn_start WHERE organization = ?1 AND id = ?2)";

/// Counts a call in each of its quotas, or in none.
pub fn take(db: &mut WriteSession<'_>, take: &TakeCallQuotas) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "counting a call";
    let (turn, hour) = (take.turn.to_string(), ClockHour::of(take.at).0);
    for (at, quota) in take.quotas.iter().enumerate() {
        let tool = quota.tool.as_deref().unwrap_or(ALL_TOOLS);
        let bound = params![
            take.organization.0,
            turn,
            hour,
            quota.of.as_str(),
            tool,
            take.at.0,
            i64::from(quota.calls_max),
        ];
        if execute(db, WHAT, TAKE, bound)? > 0 {
            continue;
        }
        for taken in &take.quotas[..at] {
            let tool = taken.tool.as_deref().unwrap_or(ALL_TOOLS);
            let holder = taken.of.as_str();
            let bound = params![take.organization.0, turn, hour, holder, tool];
            run(db, WHAT, GIVE_BACK, bound)?;
        }
        return Ok(Outcome::QuotaReached { quota: at });
    }
    Ok(Outcome::Done)
}

const COUNT_TOKENS: &str = "INSERT INTO quota_use
    (organization, unit, period, holder, holder_key, tool, used, created_us, updated_us)
    SELECT organization, 'tokens', ?2, 'organization', 0, '', ?3, ?4, ?4 FROM turn_start WHERE key = ?1
    UNION ALL
    SELECT organization, 'tokens', ?2, 'key', api_key, '', ?3, ?4, ?4 FROM turn_start WHERE key = ?1
    UNION ALL
    SELECT organization, 'tokens', ?2, 'end_user', end_user, '', ?3, ?4, ?4 FROM turn_start
    WHERE key = ?1 AND end_user IS NOT NULL
    ON CONFLICT (organization, unit, period, holder, holder_key, tool) DO UPDATE
    SET used = quota_use.used + excluded.used, updated_us = excluded.updated_us";

pub fn count_tokens(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    tokens: u64,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let tokens = tokens.min(TOKENS_MAX) as i64;
    let minute = ClockMinute::of(at).0;
    let bound = params![turn.key, minute, tokens, at.0];
    run(db, "counting tokens", COUNT_TOKENS, bound)?;
    Ok(Outcome::Done)
}

const EXPIRE: &str =
    "DELETE FROM quota_use WHERE (organization, unit, period, holder, holder_key, tool) IN
    (SELECT organization, unit, period, holder, holder_key, tool FROM quota_use
     WHERE updated_us < ?1 ORDER BY updated_us LIMIT ?2)";

pub fn expire(
    db: &mut WriteSession<'_>,
    before: Timestamp,
    rows_max: u32,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "deleting old counts of quotas";
    let deleted = execute(db, WHAT, EXPIRE, params![before.0, rows_max])?;
    Ok(retention::counted(deleted))
}
