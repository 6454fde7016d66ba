//! The end of a conversation, and that of one of its turns.

use std::collections::BTreeSet;

use tw_core::change::{DeleteConversation, Outcome};
use tw_core::id::{OrgId, TurnId};
use tw_core::time::Timestamp;

use super::{StoreApplyError, execute, hint, query_key, run};
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;

const WHAT: &str = "deleting a conversation";

const FIND: &str = "SELECT key FROM conversation WHERE organization = ?1 AND id = ?2";

/// The deletion of a conversation's turns. The hashes that a turn is found by go at once; a turn
/// that runs is stopped by whoever drives it, also after a crash.
const DELETE: &str = "UPDATE turn_start SET deleted_us = ?5, updated_us = ?5
    WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
      AND (?3 IS NULL OR api_key = ?3)
      AND (?4 IS NULL OR end_user = (SELECT key FROM end_user WHERE organization = ?1 AND name = ?4))
    RETURNING key, id";

/// The list of keys is one bound text, a JSON array. A turn that ends meanwhile has the row of its state, and this waits
/// for it.
const DELETE_STATES: Sql = Sql {
    sqlite: "UPDATE turn_state
        SET erase_after_us = ?2, history_hash = NULL, hidden_hash = NULL, updated_us = ?2,
            stop_reason = CASE WHEN status = 'running' THEN coalesce(stop_reason, 'requested') ELSE stop_reason END
        WHERE turn IN (SELECT value FROM json_each(?1))
        RETURNING turn, status = 'running'",
    postgres: "UPDATE turn_state
        SET erase_after_us = ?2, history_hash = NULL, hidden_hash = NULL, updated_us = ?2,
            stop_reason = CASE WHEN status = 'running' THEN coalesce(stop_reason, 'requested') ELSE stop_reason END
        WHERE turn IN (SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(?1 AS json)) AS deleted (value))
        RETURNING turn, status = 'running'",
};

/// Whoever erases does so last, too: a row that all have in common is locked behind those of turns.
const NOTE_FORGOTTEN: &str = "UPDATE forgotten SET times = times + 1";

/// What is to follow the deletion of turns: the hashes by which they are found go, their contents are due, those that
/// run, which are given back, are stopped, and whoever keeps something of turns sees it.
pub(super) fn delete_states(
    db: &mut WriteSession<'_>,
    what: &'static str,
    turns: &[(i64, String)],
    at: Timestamp,
) -> Result<Vec<TurnId>, StoreApplyError> {
    if turns.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<String> = turns.iter().map(|(key, _)| key.to_string()).collect();
    let keys = format!("[{}]", keys.join(","));
    let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let states: Vec<(i64, bool)> = db
        .rows(DELETE_STATES, params![keys, at.0], read)
        .map_err(|error| StoreApplyError::db(what, error))?;
    run(db, what, NOTE_FORGOTTEN, &[])?;
    let running = states.into_iter().filter(|(_, is_running)| *is_running);
    let running: BTreeSet<i64> = running.map(|(key, _)| key).collect();
    let ids = turns.iter().filter(|(key, _)| running.contains(key));
    ids.map(|(_, id)| TurnId::parse(id))
        .collect::<Option<_>>()
        .ok_or(StoreApplyError::Guard {
            what: "the id of a turn",
        })
}

/// What was inserted by SQL, and is in no turn.
const DELETE_QUEUED: &str = "DELETE FROM queued_row
    WHERE organization = ?1 AND conversation = ?2 AND (?3 IS NULL OR api_key = ?3)";

/// The head is a turn that somebody still sees.
pub(super) const MOVE_HEAD: &str = "UPDATE conversation
    SET updated_us = ?3,
        head_turn = (SELECT t.key FROM turn t
                     WHERE t.organization = ?1 AND t.conversation = ?2 AND t.deleted_us IS NULL
                       AND t.status IN ('completed', 'incomplete')
                       AND (t.item_source IS NOT NULL OR conversation.api_key IS NULL)
                     ORDER BY t.key DESC LIMIT 1)
    WHERE key = ?2";

/// A conversation that a client made by itself is there without turns, until its maker takes it away.
const UNMAKE: &str =
    "UPDATE conversation SET api_key = NULL, metadata = '{}', end_user = NULL, updated_us = ?5
    WHERE key = ?2 AND organization = ?1 AND api_key IS NOT NULL AND (?3 IS NULL OR api_key = ?3)
      AND (?4 IS NULL OR end_user IS NULL
           OR end_user = (SELECT key FROM end_user WHERE organization = ?1 AND name = ?4))";

/// Deletes a conversation's turns, and the conversation itself where a client made it. `Already` when nothing is meant:
/// there never was anything, or all of it is deleted.
pub fn delete(
    db: &mut WriteSession<'_>,
    delete: &DeleteConversation,
) -> Result<Outcome, StoreApplyError> {
    let organization = delete.organization.0;
    let Some(key) = query_key(db, WHAT, FIND, params![organization, delete.conversation])? else {
        return Ok(Outcome::Already);
    };
    let api_key = delete.whose.api_key.map(|key| key.0);
    let end_user = delete.whose.end_user.as_deref();
    let at = delete.at.0;
    let bound = params![organization, key, api_key, end_user, at];
    let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let deleted: Result<Vec<(i64, String)>, _> = db.rows(DELETE, bound, read);
    let mut deleted = deleted.map_err(|error| StoreApplyError::db(WHAT, error))?;
    deleted.sort_unstable();
    let running = delete_states(db, WHAT, &deleted, delete.at)?;
    let bound = params![organization, key, api_key, end_user, at];
    if execute(db, WHAT, UNMAKE, bound)? == 0 && deleted.is_empty() {
        return Ok(Outcome::Already);
    }
    let bound = params![organization, delete.conversation, api_key];
    run(db, WHAT, DELETE_QUEUED, bound)?;
    run(db, WHAT, MOVE_HEAD, params![organization, key, at])?;
    if !running.is_empty() {
        hint(db, WHAT)?;
    }
    Ok(Outcome::Deleted { running })
}

const DELETE_TURN: &str = "UPDATE turn_start SET deleted_us = ?3, updated_us = ?3
    WHERE organization = ?1 AND id = ?2 AND deleted_us IS NULL
    RETURNING key, conversation";

/// Deletes one turn. `Already` when there is none, or it was deleted.
pub fn delete_turn(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    turn: TurnId,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let id = turn.to_string();
    let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found: Option<(i64, i64)> = db
        .first(DELETE_TURN, params![organization.0, id, at.0], read)
        .map_err(|error| StoreApplyError::db(WHAT, error))?;
    let Some((key, conversation)) = found else {
        return Ok(Outcome::Already);
    };
    let running = delete_states(db, WHAT, &[(key, id)], at)?;
    let bound = params![organization.0, conversation, at.0];
    run(db, WHAT, MOVE_HEAD, bound)?;
    if !running.is_empty() {
        hint(db, WHAT)?;
    }
    Ok(Outcome::Deleted { running })
}
