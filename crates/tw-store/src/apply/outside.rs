//! Ends of calls that come from somebody else than the turn's driver.

use tw_core::call::{CallEnd, CallReason, CallStatus};
use tw_core::change::{CompleteCall, Outcome};
use tw_core::effect_words;
use tw_core::id::{CallId, CallRef, OrgId};
use tw_core::job::LAST_POLL_MAX;
use tw_core::time::Timestamp;

use super::turn_changes::StoredResult;
use super::{
    StoreApplyError, TurnKey, execute_guarded, execute_one, hint, jobs, lock_rows, retention,
    webhook_events,
};
use crate::blob::{ContentCutter, HeldText, TextHolder};
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;

const WHAT: &str = "completing a tool call";

/// A call of the client's is handed over to it, and ends so; one that needs an approval ends by the answer.
const COMPLETE_CALL: &str = "UPDATE tool_call
    SET status = ?3, reason = ?4, result = ?5, shown = ?6, is_error = ?7, cached = ?8,
        ended_us = ?9, updated_us = ?9, blob_bytes = ?10
    WHERE organization = ?1 AND id = ?2 AND runs = 'server' AND status IN ('pending', 'processing')
      AND approval IS NULL";

pub fn complete_call(
    db: &mut WriteSession<'_>,
    complete: &CompleteCall,
    contents: ContentCutter<'_>,
) -> Result<Outcome, StoreApplyError> {
    Ok(match end_open_call(db, complete, contents)? {
        Some(_) => Outcome::Done,
        None => Outcome::Already,
    })
}

/// Ends a call that is open; `None` for one that is not. Nothing is kept of what was said in a turn that was erased.
pub(super) fn end_open_call(
    db: &mut WriteSession<'_>,
    complete: &CompleteCall,
    contents: ContentCutter<'_>,
) -> Result<Option<OpenCall>, StoreApplyError> {
    let Some(open) = find_open(db, complete.organization, complete.call)? else {
        return Ok(None);
    };
    let end = &complete.end;
    let (result, shown) = if open.is_erased {
        (StoredResult::none(), "")
    } else {
        let result = match end.result.as_deref() {
            None => StoredResult::none(),
            Some(result) => {
                let held = HeldText {
                    organization: complete.organization,
                    turn: open.turn,
                    holder: TextHolder::Result(open.call),
                    text: result,
                    at: complete.at,
                };
                StoredResult::of(db, WHAT, held, contents)?
            }
        };
        (result, end.shown.as_str())
    };
    let bound = params![
        complete.organization.0,
        complete.call.to_string(),
        end.status().as_str(),
        end.reason.map(CallReason::as_str),
        result.rest,
        shown,
        end.is_error,
        end.cached,
        complete.at.0,
        result.blob_bytes,
    ];
    match execute_one(db, WHAT, COMPLETE_CALL, bound)? {
        0 => Ok(None),
        _ => {
            webhook_events::tell_of_named_call(db, complete)?;
            jobs::forget(db, open.turn, open.call)?;
            // Another server may drive the turn that waits for it.
            hint(db, WHAT)?;
            Ok(Some(open))
        }
    }
}

/// A call that has not ended.
pub(super) struct OpenCall {
    pub(super) turn: i64,
    pub(super) call: CallRef,
    /// The contents of its turn are gone.
    pub(super) is_erased: bool,
}

/// The turn's row is locked before the call's, in the order in which its driver has them.
pub(super) const LOCK_TURN: &str = "SELECT 1 FROM turn_state
    WHERE turn = (SELECT turn FROM tool_call WHERE organization = ?1 AND id = ?2) FOR NO KEY UPDATE";

/// The result itself is a block of the turn that brings it.
const END_OUTSIDE_CALL: &str = "UPDATE tool_call
    SET status = ?3, reason = ?4, shown = '', is_error = ?5, ended_us = ?6, updated_us = ?6
    WHERE organization = ?1 AND id = ?2 AND runs = 'outside' AND status = 'pending'";

/// Ends a call of an earlier turn whose result a new one brings. The conversation is locked and is as it was when the
/// call was found, so it still waits.
pub fn end_outside_call(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    (call, is_error): (CallId, bool),
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let (status, reason) = if is_error {
        (CallStatus::Failed, Some(CallReason::ToolError))
    } else {
        (CallStatus::Completed, None)
    };
    let bound = params![
        turn.organization.0,
        call.to_string(),
        status.as_str(),
        reason.map(CallReason::as_str),
        is_error,
        at.0,
    ];
    execute_guarded(
        db,
        "ending a call of an application",
        END_OUTSIDE_CALL,
        bound,
    )
}

/// PostgreSQL locks the call, so that contents are stored for one result alone.
const FIND_OPEN: Sql = Sql {
    sqlite: "SELECT c.turn, c.round, c.position, t.erased_us IS NOT NULL
        FROM tool_call c JOIN turn_state t ON t.turn = c.turn
        WHERE c.organization = ?1 AND c.id = ?2 AND c.runs = 'server' AND c.status IN ('pending', 'processing')
          AND c.approval IS NULL",
    postgres: "SELECT c.turn, c.round, c.position, CASE WHEN t.erased_us IS NOT NULL THEN 1 ELSE 0 END
        FROM tool_call c JOIN turn_state t ON t.turn = c.turn
        WHERE c.organization = ?1 AND c.id = ?2 AND c.runs = 'server' AND c.status IN ('pending', 'processing')
          AND c.approval IS NULL
        FOR NO KEY UPDATE OF c",
};

fn find_open(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    call: CallId,
) -> Result<Option<OpenCall>, StoreApplyError> {
    let bound = params![organization.0, call.to_string()];
    lock_rows(db, WHAT, LOCK_TURN, bound)?;
    let read = |row: Row<'_>| {
        Ok(OpenCall {
            turn: row.get(0)?,
            call: CallRef {
                round: row.get(1)?,
                position: row.get(2)?,
            },
            is_erased: row.get(3)?,
        })
    };
    db.first(FIND_OPEN, bound, read)
        .map_err(|error| StoreApplyError::db(WHAT, error))
}

/// A job is asked about once more at its deadline, by whom it is claimed.
const EXPIRED: &str = "SELECT c.organization, c.id FROM tool_call c
    WHERE c.deadline_us < ?1 AND c.deadline_us IS NOT NULL AND c.approval IS NULL AND c.ended_us IS NULL
      AND (c.deadline_us < ?3 OR NOT EXISTS
           (SELECT 1 FROM job j WHERE j.turn = c.turn AND j.round = c.round AND j.position = c.position))
    ORDER BY c.deadline_us LIMIT ?2";

pub fn expire_callbacks(
    db: &mut WriteSession<'_>,
    now: Timestamp,
    calls_max: u32,
    contents: ContentCutter<'_>,
) -> Result<Outcome, StoreApplyError> {
    let read = |row: Row<'_>| Ok((row.get::<i64>(0)?, row.get::<String>(1)?));
    let due = db
        .rows(
            EXPIRED,
            params![now.0, calls_max, now.before(LAST_POLL_MAX).0],
            read,
        )
        .map_err(|error| StoreApplyError::db("finding calls that nobody called back", error))?;
    let mut calls = 0;
    for (organization, id) in due {
        let call = CallId::parse(&id).ok_or(StoreApplyError::Guard {
            what: "reading the id of a call",
        })?;
        let complete = CompleteCall {
            organization: OrgId(organization),
            call,
            end: CallEnd {
                reason: Some(CallReason::Deadline),
                result: None,
                shown: effect_words::NO_CALLBACK.to_owned(),
                is_error: true,
                cached: false,
            },
            at: now,
        };
        if end_open_call(db, &complete, contents)?.is_some() {
            calls += 1;
        }
    }
    Ok(retention::counted(calls))
}
