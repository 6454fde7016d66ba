//! End users who are forgotten: their turns are deleted, and counts and costs stay under another name.

use std::collections::BTreeSet;

use tw_core::change::{EraseEndUser, Outcome};
use tw_core::time::Timestamp;

use super::conversation::{MOVE_HEAD, delete_states};
use super::{StoreApplyError, execute, hint, run};
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;

const WHAT: &str = "erasing an end user";

const RENAME: &str = "UPDATE end_user SET name = ?3, erasing_us = ?4, updated_us = ?4
    WHERE organization = ?1 AND name = ?2";

const FORGET_ROWS: &str = "DELETE FROM imported_row WHERE organization = ?1 AND end_user = ?2";

/// From here on the name is nobody's, so that what is asked for it is a new person's.
pub fn erase(db: &mut WriteSession<'_>, erase: &EraseEndUser) -> Result<Outcome, StoreApplyError> {
    let bound = params![
        erase.organization.0,
        erase.name,
        erase.pseudonym,
        erase.at.0
    ];
    // Those that were imported are known by the name, and need be of nobody who has said something.
    let kept = params![erase.organization.0, erase.name];
    run(db, WHAT, FORGET_ROWS, kept)?;
    match execute(db, WHAT, RENAME, bound)? {
        0 => Ok(Outcome::Already),
        _ => Ok(Outcome::Done),
    }
}

const NEXT: Sql = Sql {
    sqlite: "SELECT key, organization FROM end_user WHERE erasing_us IS NOT NULL ORDER BY key LIMIT 1",
    postgres: "SELECT key, organization FROM end_user WHERE erasing_us IS NOT NULL ORDER BY key LIMIT 1 FOR UPDATE",
};

/// As a conversation is deleted: what turns are found by goes at once, and one that runs is stopped.
const DELETE_TURNS: &str = "UPDATE turn_start SET deleted_us = ?3, updated_us = ?3
    WHERE key IN (SELECT key FROM turn_start WHERE organization = ?1 AND end_user = ?2 AND deleted_us IS NULL
                  ORDER BY conversation, key LIMIT ?4)
    RETURNING conversation, key, id";

const UNMAKE: &str = "UPDATE conversation SET api_key = NULL, metadata = '{}', end_user = NULL, updated_us = ?3
    WHERE key IN (SELECT key FROM conversation
                  WHERE organization = ?1 AND end_user = ?2 AND api_key IS NOT NULL ORDER BY key LIMIT ?4)";

/// Rows that wait to be appended to their conversations, or were refused.
const FORGET_QUEUED: &str = "DELETE FROM queued_row WHERE organization = ?1 AND conversation IN (
    SELECT c.id FROM conversation c WHERE c.organization = ?1 AND (c.end_user = ?2 OR EXISTS (
        SELECT 1 FROM turn_start t WHERE t.organization = ?1 AND t.conversation = c.key AND t.end_user = ?2
          AND t.deleted_us IS NULL)))";

const DONE: &str = "UPDATE end_user SET erasing_us = NULL, updated_us = ?2 WHERE key = ?1";

/// Deletes some turns of one who is being erased, and then what else is theirs.
pub fn delete_erased(
    db: &mut WriteSession<'_>,
    at: Timestamp,
    turns_max: u32,
) -> Result<Outcome, StoreApplyError> {
    let failed = |error| StoreApplyError::db(WHAT, error);
    let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let next: Option<(i64, i64)> = db.first(NEXT, params![], read).map_err(failed)?;
    let Some((user, organization)) = next else {
        return Ok(Outcome::Already);
    };
    run(db, WHAT, FORGET_QUEUED, params![organization, user])?;
    let bound = params![organization, user, at.0, turns_max];
    let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let deleted: Vec<(i64, i64, String)> = db.rows(DELETE_TURNS, bound, read).map_err(failed)?;
    // In one order, so that two who lock rows do not wait for each other.
    let conversations: BTreeSet<i64> = deleted.iter().map(|(of, _, _)| *of).collect();
    let deleted = deleted.into_iter().map(|(_, key, id)| (key, id));
    let mut deleted: Vec<(i64, String)> = deleted.collect();
    deleted.sort_unstable();
    let running = delete_states(db, WHAT, &deleted, at)?;
    for conversation in &conversations {
        run(
            db,
            WHAT,
            MOVE_HEAD,
            params![organization, conversation, at.0],
        )?;
    }
    if deleted.is_empty() {
        let bound = params![organization, user, at.0, turns_max];
        if execute(db, WHAT, UNMAKE, bound)? == 0 {
            run(db, WHAT, DONE, params![user, at.0])?;
        }
    }
    if !running.is_empty() {
        hint(db, WHAT)?;
    }
    Ok(Outcome::Deleted { running })
}
