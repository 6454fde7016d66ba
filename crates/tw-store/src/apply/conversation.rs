//! The end of a conversation, and that of one of its turns.

use tw_core::change::{DeleteConversation, Outcome};
use tw_core::id::{OrgId, TurnId};
use tw_core::time::Timestamp;

use super::{StoreApplyError, execute, hint, query_key, run};
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::row::Row;

const WHAT: &str = "deleting a conversation";

const FIND: &str = "SELECT key FROM conversation WHERE organization = ?1 AND id = ?2";

/// The deletion of a conversation's turns. The hashes that a turn is found by go at once; a turn
/// that runs is stopped by whoever drives it, also after a crash.
const DELETE: &str = "UPDATE turn
    SET deleted_us = ?5, erase_after_us = ?5, history_hash = NULL, hidden_hash = NULL, updated_us = ?5,
        stop_reason = CASE WHEN status = 'running' THEN coalesce(stop_reason, 'requested') ELSE stop_reason END
    WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
      AND (?3 IS NULL OR api_key = ?3)
      AND (?4 IS NULL OR end_user = (SELECT key FROM end_user WHERE organization = ?1 AND name = ?4))
    RETURNING key, id, status = 'running'";

/// What was inserted by SQL, and is in no turn.
const DELETE_QUEUED: &str = "DELETE FROM queued_row
    WHERE organization = ?1 AND conversation = ?2 AND (?3 IS NULL OR api_key = ?3)";

/// The head is a turn that somebody still sees.
pub(super) const MOVE_HEAD: &str = "UPDATE conversation
    SET updated_us = ?3,
        head_turn = (SELECT max(key) FROM turn
                     WHERE organization = ?1 AND conversation = ?2 AND deleted_us IS NULL
                       AND status IN ('completed', 'incomplete')
                       AND (item_source IS NOT NULL OR conversation.api_key IS NULL))
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
    let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let deleted: Result<Vec<DeletedTurn>, _> = db.rows(DELETE, bound, read);
    let mut deleted = deleted.map_err(|error| StoreApplyError::db(WHAT, error))?;
    let bound = params![organization, key, api_key, end_user, at];
    if execute(db, WHAT, UNMAKE, bound)? == 0 && deleted.is_empty() {
        return Ok(Outcome::Already);
    }
    let bound = params![organization, delete.conversation, api_key];
    run(db, WHAT, DELETE_QUEUED, bound)?;
    deleted.sort_unstable();
    run(db, WHAT, MOVE_HEAD, params![organization, key, at])?;
    if deleted.iter().any(|(_, _, runs)| *runs) {
        hint(db, WHAT)?;
    }
    let running = deleted.iter().filter(|(_, _, runs)| *runs);
    let running = running.map(|(_, id, _)| TurnId::parse(id));
    let running = running
        .collect::<Option<_>>()
        .ok_or(StoreApplyError::Guard {
            what: "the id of a turn",
        })?;
    Ok(Outcome::Deleted { running })
}

/// A deleted turn's key and id, and whether it runs.
type DeletedTurn = (i64, String, bool);

const FIND_TURN: &str = "SELECT conversation, status = 'running' FROM turn
    WHERE organization = ?1 AND id = ?2 AND deleted_us IS NULL";

const DELETE_TURN: &str = "UPDATE turn
    SET deleted_us = ?3, erase_after_us = ?3, history_hash = NULL, hidden_hash = NULL, updated_us = ?3,
        stop_reason = CASE WHEN status = 'running' THEN coalesce(stop_reason, 'requested') ELSE stop_reason END
    WHERE organization = ?1 AND id = ?2 AND deleted_us IS NULL";

/// Deletes one turn. `Already` when there is none, or it was deleted.
pub fn delete_turn(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    turn: TurnId,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let id = turn.to_string();
    let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found: Option<(i64, bool)> = db
        .first(FIND_TURN, params![organization.0, id], read)
        .map_err(|error| StoreApplyError::db(WHAT, error))?;
    let Some((conversation, is_running)) = found else {
        return Ok(Outcome::Already);
    };
    if execute(db, WHAT, DELETE_TURN, params![organization.0, id, at.0])? == 0 {
        return Ok(Outcome::Already);
    }
    let bound = params![organization.0, conversation, at.0];
    run(db, WHAT, MOVE_HEAD, bound)?;
    if is_running {
        hint(db, WHAT)?;
    }
    Ok(Outcome::Deleted {
        running: is_running.then_some(turn).into_iter().collect(),
    })
}
