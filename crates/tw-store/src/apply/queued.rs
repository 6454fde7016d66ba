//! Rows that applications insert by SQL, on their way into conversations.

use tw_core::change::Outcome;
use tw_core::id::QueuedRowId;
use tw_core::time::Timestamp;

use super::{StoreApplyError, TurnKey, execute, execute_guarded, retention};
use crate::session::WriteSession;
use crate::session::bound::params;

const TAKE: &str = "DELETE FROM queued_row WHERE key = ?1 AND organization = ?2 AND fault IS NULL";

/// Takes a row out of the queue, in the transaction that puts it into a conversation. One that somebody else has taken
/// ends the transaction.
pub fn take(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    row: QueuedRowId,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![row.0, turn.organization.0];
    execute_guarded(db, "taking an inserted row", TAKE, bound)
}

const REFUSE: &str =
    "UPDATE queued_row SET fault = ?2, updated_us = ?3 WHERE key = ?1 AND fault IS NULL";

pub fn refuse(
    db: &mut WriteSession<'_>,
    row: QueuedRowId,
    (fault, at): (&str, Timestamp),
) -> Result<Outcome, StoreApplyError> {
    let bound = params![row.0, fault, at.0];
    Ok(
        match execute(db, "refusing an inserted row", REFUSE, bound)? {
            0 => Outcome::Already,
            _ => Outcome::Done,
        },
    )
}

const EXPIRE: &str = "DELETE FROM queued_row WHERE key IN
    (SELECT key FROM queued_row WHERE fault IS NOT NULL AND updated_us < ?1 ORDER BY updated_us LIMIT ?2)";

pub fn expire(
    db: &mut WriteSession<'_>,
    before: Timestamp,
    rows_max: u32,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![before.0, rows_max];
    let deleted = execute(db, "deleting refused rows", EXPIRE, bound)?;
    Ok(retention::counted(deleted))
}
