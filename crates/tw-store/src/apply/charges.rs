//! What turns cost, and the sums of it by day and by month.

use tw_core::change::{ChargedUse, EndTurn, NewCharge, Outcome};
use tw_core::time::{CalendarDay, CalendarMonth};
use tw_core::turn_status::TurnStatus;

use super::{StoreApplyError, TurnKey, execute_guarded, run};
use crate::session::WriteSession;
use crate::session::bound::params;

const WHAT: &str = "charging a turn";

const CHARGE_REQUEST: &str = "UPDATE attempt SET cost_microusd = ?4, updated_us = ?5
    WHERE turn = ?1 AND round = ?2 AND position = -1 AND n = ?3 AND cost_microusd IS NULL";
const CHARGE_CALL: &str = "UPDATE tool_call SET cost_microusd = ?4, updated_us = ?5
    WHERE turn = ?1 AND round = ?2 AND position = ?3 AND cost_microusd IS NULL";
const CHARGE_TURN: &str = "UPDATE turn_state
    SET cost_microusd = coalesce(cost_microusd, 0) + ?2, updated_us = ?3 WHERE turn = ?1";

/// Adds to the month of the organization, the key, and the end user if somebody is named.
const SPEND: &str = "INSERT INTO spend_month
    (organization, month, spender, spender_key, cost_microusd, created_us, updated_us)
    SELECT organization, ?2, 'organization', 0, ?3, ?4, ?4 FROM turn_start WHERE key = ?1
    UNION ALL
    SELECT organization, ?2, 'key', api_key, ?3, ?4, ?4 FROM turn_start WHERE key = ?1
    UNION ALL
    SELECT organization, ?2, 'end_user', end_user, ?3, ?4, ?4 FROM turn_start WHERE key = ?1 AND end_user IS NOT NULL
    ON CONFLICT (organization, month, spender, spender_key) DO UPDATE
    SET cost_microusd = spend_month.cost_microusd + excluded.cost_microusd, updated_us = excluded.updated_us";

/// Nothing is charged twice.
pub fn charge(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    charge: &NewCharge,
) -> Result<Outcome, StoreApplyError> {
    let (cost, at) = (charge.cost.0, charge.at.0);
    match charge.of {
        ChargedUse::ModelRequest { round, n } => {
            let bound = params![turn.key, round, n, cost, at];
            execute_guarded(db, WHAT, CHARGE_REQUEST, bound)?;
        }
        ChargedUse::Call(call) => {
            let bound = params![turn.key, call.round, call.position, cost, at];
            execute_guarded(db, WHAT, CHARGE_CALL, bound)?;
        }
    }
    run(db, WHAT, CHARGE_TURN, params![turn.key, cost, at])?;
    let month = CalendarMonth::of(charge.at).0;
    run(db, WHAT, SPEND, params![turn.key, month, cost, at])?;
    Ok(Outcome::Done)
}

const ADD_TURN: &str = "INSERT INTO usage_day
    (organization, day, kind, name, api_key, end_user, uses, failed, cached, input_tokens, cached_tokens,
     output_tokens, reasoning_tokens, cost_microusd, created_us, updated_us)
    SELECT organization, ?2, 'model', model, api_key, coalesce(end_user, 0), 1, ?3, 0, ?4, ?5, ?6, ?7,
        coalesce(cost_microusd, 0)
        - CASE WHEN ?8 = 0 THEN 0
          ELSE (SELECT coalesce(sum(c.cost_microusd), 0) FROM tool_call c WHERE c.turn = turn.key) END,
        ?9, ?9
    FROM turn WHERE key = ?1
    ON CONFLICT (organization, day, kind, name, api_key, end_user) DO UPDATE
    SET uses = usage_day.uses + 1, failed = usage_day.failed + excluded.failed,
        input_tokens = usage_day.input_tokens + excluded.input_tokens,
        cached_tokens = usage_day.cached_tokens + excluded.cached_tokens,
        output_tokens = usage_day.output_tokens + excluded.output_tokens,
        reasoning_tokens = usage_day.reasoning_tokens + excluded.reasoning_tokens,
        cost_microusd = usage_day.cost_microusd + excluded.cost_microusd, updated_us = excluded.updated_us";

/// A name that a model made up is no tool's.
const ADD_CALLS: &str = "INSERT INTO usage_day
    (organization, day, kind, name, api_key, end_user, uses, failed, cached, input_tokens, cached_tokens,
     output_tokens, reasoning_tokens, cost_microusd, created_us, updated_us)
    SELECT t.organization, ?2, 'tool', c.tool_name, t.api_key, coalesce(t.end_user, 0), count(*),
        count(*) FILTER (WHERE c.status = 'failed'), sum(c.cached), 0, 0, 0, 0, coalesce(sum(c.cost_microusd), 0), ?3, ?3
    FROM tool_call c JOIN turn_start t ON t.key = c.turn
    WHERE c.turn = ?1 AND c.runs = 'server' AND c.reason IS DISTINCT FROM 'unknown_tool'
    GROUP BY t.key, c.tool_name
    ON CONFLICT (organization, day, kind, name, api_key, end_user) DO UPDATE
    SET uses = usage_day.uses + excluded.uses, failed = usage_day.failed + excluded.failed,
        cached = usage_day.cached + excluded.cached,
        cost_microusd = usage_day.cost_microusd + excluded.cost_microusd, updated_us = excluded.updated_us";

/// Most tokens of a turn, or of one model request, that are added: what an upstream says is no reason for a sum to overflow.
pub(super) const TOKENS_MAX: u64 = 1_000_000_000_000;

/// Adds a turn that has ended, and its calls, to the sums of the day.
pub fn add_to_day(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    end: &EndTurn,
) -> Result<(), StoreApplyError> {
    const WHAT: &str = "adding up the use of a day";
    let day = CalendarDay::of(end.at).0;
    let usage = end.usage.as_ref();
    let tokens = |count: Option<u64>| count.unwrap_or_default().min(TOKENS_MAX) as i64;
    let bound = params![
        turn.key,
        day,
        i64::from(end.status == TurnStatus::Failed),
        tokens(usage.map(|usage| usage.prompt_tokens)),
        tokens(usage.and_then(|usage| usage.cached_tokens)),
        tokens(usage.map(|usage| usage.completion_tokens)),
        tokens(usage.and_then(|usage| usage.reasoning_tokens)),
        end.tool_count,
        end.at.0,
    ];
    run(db, WHAT, ADD_TURN, bound)?;
    if end.tool_count > 0 {
        run(db, WHAT, ADD_CALLS, params![turn.key, day, end.at.0])?;
    }
    Ok(())
}
