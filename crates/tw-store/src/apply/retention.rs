//! Retention: the contents, logs and keys that are forgotten once they are due.

use tw_core::change::Outcome;
use tw_core::id::OrgId;
use tw_core::time::Timestamp;

use super::{StoreApplyError, execute, run};
use crate::body::MadeWhole;
use crate::session::WriteSession;
use crate::session::bound::{Params, params};
use crate::session::sql::Sql;

/// Turns that somebody else erases, or continues, are left to a later time.
const DUE: Sql = Sql {
    sqlite: "SELECT turn FROM turn_state
        WHERE erase_after_us <= ?1 AND erased_us IS NULL AND status <> 'running'
        ORDER BY erase_after_us LIMIT ?2",
    postgres: "SELECT turn FROM turn_state
        WHERE erase_after_us <= ?1 AND erased_us IS NULL AND status <> 'running'
        ORDER BY erase_after_us LIMIT ?2 FOR UPDATE SKIP LOCKED",
};

/// Statements that erase a turn's contents: rows stay, with status, usage and timings; what was
/// said in them goes. Each statement takes the turn, the time and an empty body.
const ERASE: [&str; 9] = [
    "UPDATE turn_input SET body = ?3, context = '', parent = NULL, kept_start_bytes = NULL, kept_end_bytes = NULL,
        start_bytes = NULL, start_hash = NULL, end_hash = NULL, blob_bytes = 0, updated_us = ?2
     WHERE turn = ?1",
    "UPDATE message SET blocks = '[]', blob_bytes = 0, updated_us = ?2 WHERE turn = ?1",
    "UPDATE tool_call SET arguments = '', sensitive = NULL, result = NULL, shown = CASE WHEN shown IS NOT NULL THEN '' END,
        told = CASE WHEN told IS NOT NULL THEN '' END, external_id = NULL,
        blob_bytes = 0, updated_us = ?2
     WHERE turn = ?1",
    "DELETE FROM turn_event WHERE turn = ?1 AND ?2 IS NOT NULL",
    "UPDATE callback_delivery SET body = NULL, updated_us = ?2 WHERE turn = ?1",
    "DELETE FROM call_file WHERE turn = ?1 AND ?2 IS NOT NULL",
    "UPDATE job SET answer = NULL, updated_us = ?2 WHERE turn = ?1",
    "DELETE FROM blob_use WHERE turn = ?1 AND ?2 IS NOT NULL",
    "UPDATE turn_state SET erased_us = ?2, events_expired_us = coalesce(events_expired_us, ?2), updated_us = ?2,
        history_hash = NULL, hidden_hash = NULL
     WHERE turn = ?1",
];

pub fn erase_due(
    db: &mut WriteSession<'_>,
    now: Timestamp,
    turns_max: u32,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "erasing contents";
    let mut turns = keys(db, WHAT, DUE, params![now.0, turns_max])?;
    // Newest first: what is erased itself need not be made whole before.
    turns.sort_unstable_by(|one, other| other.cmp(one));
    let mut made_whole = MadeWhole::default();
    for (erased, turn) in (0..).zip(&turns) {
        if !made_whole.free(db, WHAT, *turn, now)? {
            return Ok(Outcome::Partly(erased));
        }
        for sql in ERASE {
            run(db, WHAT, sql, params![turn, now.0, [0_u8; 0]])?;
        }
    }
    Ok(counted(turns.len()))
}

const CONTENTS_OLD: Sql = Sql {
    sqlite: "SELECT turn FROM turn_state
        WHERE organization = ?1 AND ended_us < ?2 AND erased_us IS NULL
          AND (erase_after_us IS NULL OR erase_after_us > ?3)
        ORDER BY ended_us LIMIT ?4",
    postgres: "SELECT turn FROM turn_state
        WHERE organization = ?1 AND ended_us < ?2 AND erased_us IS NULL
          AND (erase_after_us IS NULL OR erase_after_us > ?3)
        ORDER BY ended_us LIMIT ?4 FOR UPDATE SKIP LOCKED",
};

/// What is due is erased by [`erase_due`].
pub fn expire_contents(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    (before, now): (Timestamp, Timestamp),
    turns_max: u32,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "letting old contents be erased";
    let bound = params![organization.0, before.0, now.0, turns_max];
    let turns = keys(db, WHAT, CONTENTS_OLD, bound)?;
    for turn in &turns {
        let sql = "UPDATE turn_state SET erase_after_us = ?2, updated_us = ?2 WHERE turn = ?1";
        run(db, WHAT, sql, params![turn, now.0])?;
    }
    Ok(counted(turns.len()))
}

const LOGS_OLD: Sql = Sql {
    sqlite: "SELECT turn FROM turn_state
        WHERE ended_us < ?1 AND events_expired_us IS NULL ORDER BY ended_us LIMIT ?2",
    postgres: "SELECT turn FROM turn_state
        WHERE ended_us < ?1 AND events_expired_us IS NULL ORDER BY ended_us LIMIT ?2 FOR UPDATE SKIP LOCKED",
};

const FORGET_CONTENTS: &str = "DELETE FROM blob_use WHERE turn = ?1 AND holder = 'events'";

pub fn expire_events(
    db: &mut WriteSession<'_>,
    before: Timestamp,
    turns_max: u32,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "deleting old event logs";
    let turns = keys(db, WHAT, LOGS_OLD, params![before.0, turns_max])?;
    for turn in &turns {
        let sql = "DELETE FROM turn_event WHERE turn = ?1";
        run(db, WHAT, sql, params![turn])?;
        run(db, WHAT, FORGET_CONTENTS, params![turn])?;
        // The caller's bound stands in for the time, which it does not tell.
        let sql = "UPDATE turn_state SET events_expired_us = ?2 WHERE turn = ?1";
        run(db, WHAT, sql, params![turn, before.0])?;
    }
    Ok(counted(turns.len()))
}

const DELETE_KEYS: &str = "DELETE FROM request_key
    WHERE (organization, api_key, end_user, route, key) IN
        (SELECT organization, api_key, end_user, route, key FROM request_key
         WHERE created_us < ?1 ORDER BY created_us LIMIT ?2)";

pub fn expire_request_keys(
    db: &mut WriteSession<'_>,
    before: Timestamp,
    keys_max: u32,
) -> Result<Outcome, StoreApplyError> {
    let deleted = execute(
        db,
        "deleting old request keys",
        DELETE_KEYS,
        params![before.0, keys_max],
    )?;
    Ok(counted(deleted))
}

fn keys(
    db: &mut WriteSession<'_>,
    what: &'static str,
    sql: Sql,
    bound: Params<'_>,
) -> Result<Vec<i64>, StoreApplyError> {
    db.all(sql, bound)
        .map_err(|error| StoreApplyError::db(what, error))
}

pub(super) fn counted(rows: usize) -> Outcome {
    Outcome::Count(u64::try_from(rows).unwrap_or(u64::MAX))
}
