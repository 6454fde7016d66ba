//! Callbacks: the row of each, and the end of the call that it tells, in one transaction.

use tw_core::callback::{CallbackMeaning, CallbackOutcome, CallbackVerdict, TakenCallback};
use tw_core::change::{CompleteCall, Outcome};
use tw_core::id::{CallId, CallRef, OrgId};
use tw_core::time::Timestamp;

use super::outside::{LOCK_TURN, end_open_call};
use super::{
    StoreApplyError, execute, execute_guarded, jobs, lock_rows, query_key, retention, run,
};
use crate::blob::ContentCutter;
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::row::Row;

const WHAT: &str = "taking a callback";

/// The call that a callback is of.
struct CalledBack {
    turn: i64,
    call: CallRef,
    has_ended: bool,
    /// The answer to the request that started its job is written.
    is_awaited: bool,
    is_erased: bool,
    /// The id that its job is known to have.
    external_id: Option<String>,
}

const FIND: &str = "SELECT c.turn, c.round, c.position, CASE WHEN c.ended_us IS NOT NULL THEN 1 ELSE 0 END,
        CASE WHEN c.deadline_us IS NOT NULL THEN 1 ELSE 0 END, CASE WHEN t.erased_us IS NOT NULL THEN 1 ELSE 0 END,
        coalesce(c.external_id, j.external_id)
    FROM tool_call c JOIN turn_state t ON t.turn = c.turn
    LEFT JOIN job j ON j.turn = c.turn AND j.round = c.round AND j.position = c.position
    WHERE c.organization = ?1 AND c.id = ?2";

const IS_DUPLICATE: &str = "SELECT 1 FROM callback_delivery
    WHERE turn = ?1 AND round = ?2 AND position = ?3 AND sender_id = ?4 AND verdict = 'genuine'
      AND outcome <> 'malformed' LIMIT 1";

const INSERT: &str = "INSERT INTO callback_delivery
        (id, organization, turn, round, position, tool, sender_id, source, verdict, fault, outcome, early, body_bytes,
         body_hash, body, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16)";

/// Of two that come at once, the second sees the first: the row of their turn is locked before the look.
pub fn take(
    db: &mut WriteSession<'_>,
    taken: &TakenCallback,
    contents: ContentCutter<'_>,
) -> Result<Outcome, StoreApplyError> {
    let found = match taken.call {
        Some((organization, call)) => find(db, organization, call)?,
        None => None,
    };
    let outcome = match (&taken.meaning, &found) {
        (CallbackMeaning::Refused, _) | (_, None) => CallbackOutcome::Refused,
        (CallbackMeaning::Malformed, Some(_)) => CallbackOutcome::Malformed,
        (_, Some(of)) if is_of_other_job(of, taken) => CallbackOutcome::Malformed,
        (meaning, Some(of)) if is_duplicate(db, of, taken)? => {
            debug_assert!(!matches!(meaning, CallbackMeaning::Refused));
            CallbackOutcome::Duplicate
        }
        (_, Some(of)) if of.has_ended => CallbackOutcome::Late,
        (CallbackMeaning::Progress, Some(_)) => CallbackOutcome::Progress,
        (CallbackMeaning::Over { answer }, Some(of)) => {
            let (organization, _) = taken.call.ok_or(StoreApplyError::Guard { what: WHAT })?;
            let answer = answer.as_deref().filter(|_| !of.is_erased);
            let says = (taken.external_id.as_deref(), answer);
            jobs::called_back(db, (organization, of.turn, of.call), says, taken.at)?;
            CallbackOutcome::Kept
        }
        (CallbackMeaning::Ended(end), Some(_)) => {
            let (organization, call) = taken.call.ok_or(StoreApplyError::Guard { what: WHAT })?;
            let complete = CompleteCall {
                organization,
                call,
                end: end.clone(),
                at: taken.at,
            };
            match end_open_call(db, &complete, contents)? {
                Some(_) if end.reason.is_none() => CallbackOutcome::Completed,
                Some(_) => CallbackOutcome::Failed,
                // It waits for an approval, so that no job of it can have been started.
                None => CallbackOutcome::Late,
            }
        }
    };
    if outcome != CallbackOutcome::Malformed
        && let (Some(of), Some(id)) = (&found, &taken.external_id)
        && of.external_id.is_none()
        && !of.has_ended
        && !of.is_erased
    {
        let bound = params![of.turn, of.call.round, of.call.position, id, taken.at.0];
        run(db, WHAT, LEARN_ID, bound)?;
    }
    // A service may say the same, or how far it is, without end.
    let keeps_body = taken.verdict == CallbackVerdict::Genuine
        && !matches!(
            outcome,
            CallbackOutcome::Progress | CallbackOutcome::Duplicate | CallbackOutcome::Late
        );
    let body = found.as_ref().filter(|of| keeps_body && !of.is_erased);
    let bound = params![
        taken.id,
        found
            .as_ref()
            .and(taken.call)
            .map(|(organization, _)| organization.0),
        found.as_ref().map(|of| of.turn),
        found.as_ref().map(|of| of.call.round),
        found.as_ref().map(|of| of.call.position),
        taken.tool,
        taken.sender_id,
        taken.source,
        taken.verdict.as_str(),
        taken.fault,
        outcome.as_str(),
        found
            .as_ref()
            .is_some_and(|of| !of.is_awaited && !of.has_ended),
        i64::try_from(taken.body.len()).unwrap_or(i64::MAX),
        taken.body_hash,
        body.map(|_| taken.body.as_slice()),
        taken.at.0,
    ];
    execute_guarded(db, WHAT, INSERT, bound)?;
    Ok(Outcome::CallbackTaken(outcome))
}

fn find(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    call: CallId,
) -> Result<Option<CalledBack>, StoreApplyError> {
    let bound = params![organization.0, call.to_string()];
    lock_rows(db, WHAT, LOCK_TURN, bound)?;
    let read = |row: Row<'_>| {
        Ok(CalledBack {
            turn: row.get(0)?,
            call: CallRef {
                round: row.get(1)?,
                position: row.get(2)?,
            },
            has_ended: row.get(3)?,
            is_awaited: row.get(4)?,
            is_erased: row.get(5)?,
            external_id: row.get(6)?,
        })
    };
    db.first(FIND, bound, read)
        .map_err(|error| StoreApplyError::db(WHAT, error))
}

fn is_duplicate(
    db: &mut WriteSession<'_>,
    of: &CalledBack,
    taken: &TakenCallback,
) -> Result<bool, StoreApplyError> {
    let bound = params![of.turn, of.call.round, of.call.position, taken.sender_id];
    Ok(query_key(db, WHAT, IS_DUPLICATE, bound)?.is_some())
}

/// What the answer to the request would have said.
const LEARN_ID: &str = "UPDATE tool_call SET external_id = ?4, updated_us = ?5
    WHERE turn = ?1 AND round = ?2 AND position = ?3 AND external_id IS NULL";

fn is_of_other_job(of: &CalledBack, taken: &TakenCallback) -> bool {
    match (&of.external_id, &taken.external_id) {
        (Some(known), Some(said)) => known != said,
        (Some(_) | None, None) | (None, Some(_)) => false,
    }
}

const DELETE_OLD: &str = "DELETE FROM callback_delivery
    WHERE key IN (SELECT key FROM callback_delivery WHERE created_us < ?1 ORDER BY created_us LIMIT ?2)";

pub fn expire(
    db: &mut WriteSession<'_>,
    before: Timestamp,
    deliveries_max: u32,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![before.0, deliveries_max];
    let deleted = execute(db, "deleting old callbacks", DELETE_OLD, bound)?;
    Ok(retention::counted(deleted))
}
