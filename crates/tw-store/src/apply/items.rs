//! Conversations that hold items: how they are made, which turn may add to them, and what is taken out.

use tw_core::change::{NewTurn, Outcome};
use tw_core::conversation::{
    ChangeConversation, DeleteItem, ItemPlace, ItemSource, NewConversation,
};
use tw_core::id::TurnId;

use super::{StoreApplyError, accept, execute, lock_rows, query_key, run};
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::row::Row;

/// The metadata of a conversation that has none.
pub const NO_METADATA: &str = "{}";

const CREATE: &str = "INSERT INTO conversation
    (organization, id, end_user, api_key, metadata, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (organization, id) DO NOTHING";

/// Makes a conversation. `Already` when its id is in use.
pub fn create_conversation(
    db: &mut WriteSession<'_>,
    new: &NewConversation,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "making a conversation";
    let end_user = match &new.end_user {
        None => None,
        Some(name) => {
            let named = (new.organization, name.as_str());
            Some(accept::find_or_create_end_user(db, WHAT, named, new.at)?)
        }
    };
    let bound = params![
        new.organization.0,
        new.id,
        end_user,
        new.api_key.0,
        new.metadata,
        new.at.0,
    ];
    Ok(match execute(db, WHAT, CREATE, bound)? {
        0 => Outcome::Already,
        _ => Outcome::Done,
    })
}

const CHANGE: &str = "UPDATE conversation SET metadata = ?3, updated_us = ?4
    WHERE organization = ?1 AND id = ?2 AND api_key IS NOT NULL";

pub fn change_conversation(
    db: &mut WriteSession<'_>,
    change: &ChangeConversation,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![
        change.organization.0,
        change.conversation,
        change.metadata,
        change.at.0,
    ];
    Ok(
        match execute(db, "changing a conversation", CHANGE, bound)? {
            0 => Outcome::Already,
            _ => Outcome::Done,
        },
    )
}

const FIND_TURN: &str =
    "SELECT key FROM turn_start WHERE organization = ?1 AND id = ?2 AND deleted_us IS NULL";

const DELETE_ITEM: &str = "INSERT INTO deleted_item (turn, id, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?3) ON CONFLICT (turn, id) DO NOTHING";

pub fn delete_item(
    db: &mut WriteSession<'_>,
    delete: &DeleteItem,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "deleting an item";
    let bound = params![delete.organization.0, delete.turn.to_string()];
    let Some(turn) = query_key(db, WHAT, FIND_TURN, bound)? else {
        return Ok(Outcome::Already);
    };
    let bound = params![turn, delete.item, delete.at.0];
    Ok(match execute(db, WHAT, DELETE_ITEM, bound)? {
        0 => Outcome::Already,
        _ => Outcome::Done,
    })
}

/// The metadata of the conversation that a new turn makes; `None` where it makes none by itself.
pub fn metadata_of_made(new: &NewTurn) -> Option<&str> {
    match &new.adds_items.as_ref()?.place {
        ItemPlace::First { metadata } => Some(metadata),
        ItemPlace::Behind { .. } => None,
    }
}

const LOCK: &str =
    "SELECT 1 FROM conversation WHERE organization = ?1 AND id = ?2 FOR NO KEY UPDATE";

/// The state of a conversation to which a turn is to add items. A turn that was deleted while it ran adds nothing.
const STATE: &str = "SELECT h.id, c.api_key IS NOT NULL,
        EXISTS (SELECT 1 FROM turn b WHERE b.key = c.busy_turn AND b.status = 'running' AND b.deleted_us IS NULL),
        c.api_key IS NULL AND NOT EXISTS (SELECT 1 FROM turn_start t
            WHERE t.organization = ?1 AND t.conversation = c.key AND t.deleted_us IS NULL)
    FROM conversation c LEFT JOIN turn_start h ON h.key = c.head_turn
    WHERE c.organization = ?1 AND c.id = ?2";

/// Whether a new turn cannot add items: another one is about to, or the conversation is another than the turn was
/// prepared for.
pub fn is_busy(db: &mut WriteSession<'_>, new: &NewTurn) -> Result<bool, StoreApplyError> {
    const WHAT: &str = "looking at a conversation";
    let Some(adds) = &new.adds_items else {
        return Ok(false);
    };
    let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let bound = params![new.organization.0, new.conversation];
    lock_rows(db, WHAT, LOCK, bound)?;
    let found: Option<(Option<String>, bool, bool, bool)> = db
        .first(STATE, bound, read)
        .map_err(|error| StoreApplyError::db(WHAT, error))?;
    Ok(match (&adds.place, found) {
        // The name of one that was deleted is free.
        (ItemPlace::First { .. }, found) => found.is_some_and(|(_, _, _, is_vacant)| !is_vacant),
        (ItemPlace::Behind { .. }, None) => true,
        (ItemPlace::Behind { head }, Some((found, is_made, is_worked_on, _))) => {
            // One that nobody made, and in which nothing was answered yet, takes its first ones.
            let is_gone = found.is_none() && !is_made && head.is_some();
            is_gone || is_worked_on || found.as_deref().and_then(TurnId::parse) != *head
        }
    })
}

/// Makes a conversation anew whose name is free, since nobody sees anything of it any more.
const MAKE_AGAIN: &str = "UPDATE conversation
    SET api_key = ?3, metadata = ?4, end_user = ?5, head_turn = NULL, busy_turn = NULL, created_us = ?6, updated_us = ?6
    WHERE organization = ?1 AND id = ?2 AND api_key IS NULL
      AND NOT EXISTS (SELECT 1 FROM turn_start t
          WHERE t.organization = ?1 AND t.conversation = conversation.key AND t.deleted_us IS NULL)
    RETURNING key";

/// The key of a conversation that is made anew for a turn; `None` where somebody has it.
pub fn make_again(
    db: &mut WriteSession<'_>,
    new: &NewTurn,
    metadata: &str,
    end_user: Option<i64>,
) -> Result<Option<i64>, StoreApplyError> {
    let bound = params![
        new.organization.0,
        new.conversation,
        new.api_key.0,
        metadata,
        end_user,
        new.at.0,
    ];
    query_key(db, "making a conversation anew", MAKE_AGAIN, bound)
}

/// A conversation that a client made for nobody in particular is theirs whom its first turn is for.
const NOTE_BUSY: &str = "UPDATE conversation
    SET busy_turn = ?2, updated_us = ?3,
        end_user = CASE WHEN api_key IS NULL THEN end_user
                   ELSE coalesce(end_user, (SELECT end_user FROM turn_start WHERE key = ?2)) END
    WHERE key = ?1";

/// Notes that the turn works on its conversation, for as long as it runs.
pub fn note_busy(
    db: &mut WriteSession<'_>,
    new: &NewTurn,
    conversation: i64,
    turn: i64,
) -> Result<(), StoreApplyError> {
    match new.adds_items.as_ref().map(|adds| adds.source) {
        None | Some(ItemSource::Client) => {}
        Some(ItemSource::Answer) => {
            let bound = params![conversation, turn, new.at.0];
            run(db, "noting who adds items", NOTE_BUSY, bound)?;
        }
    }
    Ok(())
}
