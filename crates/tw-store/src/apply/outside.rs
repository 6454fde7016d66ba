//! Ends of calls that come from somebody else than the turn's driver.

use tw_core::call::{CallReason, CallStatus};
use tw_core::change::{CompleteCall, Outcome};
use tw_core::id::{CallId, CallRef};
use tw_core::time::Timestamp;

use super::turn_changes::StoredResult;
use super::{StoreApplyError, TurnKey, execute_guarded, execute_one, webhook_events};
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
    let end = &complete.end;
    let result = match end.result.as_deref() {
        None => StoredResult {
            rest: None,
            blob_bytes: 0,
        },
        Some(result) if contents.find(result).is_empty() => StoredResult {
            rest: Some(result.into()),
            blob_bytes: 0,
        },
        Some(result) => {
            let Some((turn, call)) = find_open(db, complete)? else {
                return Ok(Outcome::Already);
            };
            let held = HeldText {
                organization: complete.organization,
                turn,
                holder: TextHolder::Result(call),
                text: result,
                at: complete.at,
            };
            StoredResult::of(db, WHAT, held, contents)?
        }
    };
    let bound = params![
        complete.organization.0,
        complete.call.to_string(),
        end.status().as_str(),
        end.reason.map(CallReason::as_str),
        result.rest,
        end.shown,
        end.is_error,
        end.cached,
        complete.at.0,
        result.blob_bytes,
    ];
    match execute_one(db, WHAT, COMPLETE_CALL, bound)? {
        0 => Ok(Outcome::Already),
        _ => {
            webhook_events::tell_of_named_call(db, complete)?;
            Ok(Outcome::Done)
        }
    }
}

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
    sqlite: "SELECT turn, round, position FROM tool_call
        WHERE organization = ?1 AND id = ?2 AND runs = 'server' AND status IN ('pending', 'processing')
          AND approval IS NULL",
    postgres: "SELECT turn, round, position FROM tool_call
        WHERE organization = ?1 AND id = ?2 AND runs = 'server' AND status IN ('pending', 'processing')
          AND approval IS NULL
        FOR NO KEY UPDATE",
};

fn find_open(
    db: &mut WriteSession<'_>,
    complete: &CompleteCall,
) -> Result<Option<(i64, CallRef)>, StoreApplyError> {
    let bound = params![complete.organization.0, complete.call.to_string()];
    let read = |row: Row<'_>| {
        let call = CallRef {
            round: row.get(1)?,
            position: row.get(2)?,
        };
        Ok((row.get(0)?, call))
    };
    db.first(FIND_OPEN, bound, read)
        .map_err(|error| StoreApplyError::db(WHAT, error))
}
