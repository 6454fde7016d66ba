//! Questions whether calls may run: asking, answering, and the end of those that nobody answered.

use tw_core::approval::{ApprovalGiven, ApprovalState, ApprovalVerdict};
use tw_core::call::{CallReason, CallStatus};
use tw_core::change::{NewTurn, Outcome};
use tw_core::id::{CallId, CallRef};
use tw_core::time::Timestamp;

use super::turn_changes::change_call;
use super::{GuardRules, StoreApplyError, TurnKey, execute, lock_rows, retention, run};
use crate::session::WriteSession;
use crate::session::bound::params;

const ASK: &str = "UPDATE tool_call SET approval = 'asked', deadline_us = ?4, updated_us = ?5
    WHERE turn = ?1 AND round = ?2 AND position = ?3 /* guard */ AND status = 'pending' AND approval = 'needed'";

pub fn ask(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    turn: TurnKey,
    call: CallRef,
    (until, at): (Timestamp, Timestamp),
) -> Result<Outcome, StoreApplyError> {
    let bound = params![turn.key, call.round, call.position, until.0, at.0];
    let what = "asking for the approval of a call";
    change_call(db, (turn, call), what, rules.sql(ASK), bound)
}

/// Before the look, since a row of the call that acts on the answer is none of its own.
const LOCK: &str = "SELECT 1 FROM tool_call WHERE organization = ?1 AND id = ?2 FOR NO KEY UPDATE";

const FIND: &str = "SELECT c.approval FROM tool_call c JOIN turn_start t ON t.key = c.turn
    WHERE c.organization = ?1 AND c.id = ?2 AND t.deleted_us IS NULL
      AND NOT EXISTS (SELECT 1 FROM tool_call a WHERE a.organization = ?1 AND a.approves = ?2)";

/// The first question that a new turn answers and that is not open any more.
///
/// One that nobody answered in time can still be told that it came too late.
pub fn closed(db: &mut WriteSession<'_>, new: &NewTurn) -> Result<Option<CallId>, StoreApplyError> {
    for ApprovalGiven { asked, verdict } in &new.answers {
        let bound = params![new.organization.0, asked.to_string()];
        lock_rows(db, "locking a question", LOCK, bound)?;
        let found: Option<Option<String>> = db
            .first(FIND, bound, |row| row.get(0))
            .map_err(|error| StoreApplyError::db("finding a question", error))?;
        let state = found.flatten().as_deref().and_then(ApprovalState::parse);
        let is_open = match state {
            Some(ApprovalState::Asked) => true,
            Some(ApprovalState::Expired) => *verdict == ApprovalVerdict::Expired,
            Some(ApprovalState::Needed | ApprovalState::Approved | ApprovalState::Denied)
            | None => false,
        };
        if !is_open {
            return Ok(Some(*asked));
        }
    }
    Ok(None)
}

const ANSWER: &str = "UPDATE tool_call
    SET approval = ?3, status = ?4, reason = ?5, shown = '', is_error = ?6, ended_us = ?7, updated_us = ?7
    WHERE organization = ?1 AND id = ?2 AND approval = 'asked' AND status = 'pending'";

/// Ends the calls whose questions a new turn answers: what becomes of them is told by that turn's own.
pub fn answer(db: &mut WriteSession<'_>, new: &NewTurn) -> Result<(), StoreApplyError> {
    for ApprovalGiven { asked, verdict } in &new.answers {
        let (status, reason) = match verdict {
            ApprovalVerdict::Approved => (CallStatus::Completed, None),
            ApprovalVerdict::Denied { .. } => (CallStatus::Failed, Some(CallReason::Denied)),
            ApprovalVerdict::Expired => (CallStatus::Failed, Some(CallReason::ApprovalExpired)),
        };
        let bound = params![
            new.organization.0,
            asked.to_string(),
            verdict.state().as_str(),
            status.as_str(),
            reason.map(CallReason::as_str),
            reason.is_some(),
            new.at.0,
        ];
        run(db, "answering a question", ANSWER, bound)?;
    }
    Ok(())
}

const EXPIRE: &str = "UPDATE tool_call
    SET approval = 'expired', status = 'failed', reason = 'approval_expired', shown = '', is_error = 1,
        ended_us = ?1, updated_us = ?1
    WHERE approval = 'asked' AND (turn, round, position) IN
        (SELECT turn, round, position FROM tool_call
         WHERE approval = 'asked' AND deadline_us < ?1 ORDER BY deadline_us LIMIT ?2)";

pub fn expire(
    db: &mut WriteSession<'_>,
    now: Timestamp,
    calls_max: u32,
) -> Result<Outcome, StoreApplyError> {
    let what = "ending calls that nobody approved";
    let ended = execute(db, what, EXPIRE, params![now.0, calls_max])?;
    Ok(retention::counted(ended))
}
