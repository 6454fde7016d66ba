//! A turn's birth, the claim of an orphan, and the note that its answer was sent.

use tw_core::change::{ClaimTurn, FIRST_FENCE, NewTurn, Outcome};
use tw_core::id::{CallId, OrgId, TurnId};
use tw_core::time::Timestamp;
use tw_wire::stored;

use super::{
    StoreApplyError, TurnKey, approvals, execute, execute_one, hint, insert, items, new_key,
    query_key, run, turn_changes,
};
use crate::blob::ContentCutter;
use crate::body;
use crate::db_error::Failure;
use crate::enum_words;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;
use crate::session::{KeyedTable, WriteSession};

const WHAT: &str = "accepting a turn";

/// The value of a key's `end_user` column for a turn without an end user.
pub(crate) const NOBODY: i64 = 0;

const INSERT_START: &str = "INSERT INTO turn_start
    (organization, id, api_key, end_user, conversation, conversation_named, surface, streamed, on_leave, record,
     model, request_id, projector_version, deadline_us, created_us, updated_us, memory, parent, memory_turn,
     item_source, key)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15, ?16, ?17, ?18, ?19, ?20)";

const INSERT_STATE: &str = "INSERT INTO turn_state
    (turn, organization, api_key, names_somebody, body_hash, owner, fence, status, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'running', ?8, ?8)";

/// The outcome of accepting a new turn.
pub enum AcceptOutcome {
    New {
        key: i64,
    },
    KeyTaken {
        turn: TurnId,
        same_request: bool,
    },
    /// The turn that the new one continues was deleted.
    ParentDeleted,
    /// A question that the new turn answers is not open any more.
    ApprovalClosed {
        asked: CallId,
    },
    /// See [`Outcome::ConversationBusy`].
    ConversationBusy,
}

/// Stores a new turn. A taken key, a busy conversation and a deleted parent are found before anything is written.
pub fn accept_turn(
    db: &mut WriteSession<'_>,
    new: &NewTurn,
    contents: ContentCutter<'_>,
) -> Result<AcceptOutcome, StoreApplyError> {
    let known_user = match &new.end_user {
        Some(name) => find_end_user(db, WHAT, (new.organization, name))?,
        None => None,
    };
    if let Some(taken) = find_taken_key(db, new, known_user)? {
        return Ok(taken);
    }
    if items::is_busy(db, new)? {
        return Ok(AcceptOutcome::ConversationBusy);
    }
    let parent = find_turn(db, new.organization, new.parent)?;
    let memory_turn = find_turn(db, new.organization, new.memory_turn)?;
    if parent.is_deleted() || memory_turn.is_deleted() {
        return Ok(AcceptOutcome::ParentDeleted);
    }
    if let Some(asked) = approvals::closed(db, new)? {
        return Ok(AcceptOutcome::ApprovalClosed { asked });
    }
    let end_user = match (&new.end_user, known_user) {
        (None, _) => None,
        (Some(_), Some(key)) => Some(key),
        (Some(name), None) => Some(create_end_user(db, WHAT, (new.organization, name), new.at)?),
    };
    let conversation = find_or_create_conversation(db, new, end_user)?;
    let key = new_key(db, WHAT, KeyedTable::Turn)?;
    let bound = params![
        new.organization.0,
        new.id.to_string(),
        new.api_key.0,
        end_user,
        conversation,
        new.conversation_named,
        enum_words::surface(new.surface),
        new.streamed,
        enum_words::on_leave(new.on_leave),
        enum_words::record(new.record),
        new.model,
        new.request_id,
        stored::PROJECTOR_VERSION,
        new.deadline.0,
        new.at.0,
        new.memory.as_str(),
        parent.key(),
        memory_turn.key(),
        new.adds_items.as_ref().map(|adds| adds.source.as_str()),
        key,
    ];
    let inserted = insert(db, WHAT, INSERT_START, key, bound)?;
    let turn = inserted.ok_or(StoreApplyError::Guard { what: WHAT })?;
    let bound = params![
        turn,
        new.organization.0,
        new.api_key.0,
        new.end_user.is_some() || new.conversation_named,
        new.body_hash,
        new.owner,
        FIRST_FENCE,
        new.at.0,
    ];
    run(db, WHAT, INSERT_STATE, bound)?;
    items::note_busy(db, new, conversation, turn)?;
    body::insert(db, WHAT, turn, new, parent.key(), contents)?;
    let written = TurnKey {
        key: turn,
        organization: new.organization,
        fence: FIRST_FENCE,
        contents,
    };
    approvals::answer(db, new)?;
    for message in &new.messages {
        turn_changes::add_message(db, written, message)?;
    }
    if let Some(key) = &new.idempotency_key {
        insert_key(db, new, end_user, key, turn)?;
    }
    Ok(AcceptOutcome::New { key: turn })
}

/// A turn that another one continues.
enum Before {
    None,
    Deleted,
    Kept { key: i64 },
}

impl Before {
    fn key(&self) -> Option<i64> {
        match self {
            Self::None | Self::Deleted => None,
            Self::Kept { key } => Some(*key),
        }
    }

    fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted)
    }
}

/// PostgreSQL keeps the turn from being deleted or erased until the new one is there.
const FIND_TURN: Sql = Sql {
    sqlite: "SELECT key, deleted_us IS NOT NULL FROM turn_start WHERE organization = ?1 AND id = ?2",
    postgres: "SELECT key, deleted_us IS NOT NULL FROM turn WHERE organization = ?1 AND id = ?2 FOR SHARE",
};

/// The state of a turn that the new one may continue; a turn that is not there is continued by nobody.
fn find_turn(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    turn: Option<TurnId>,
) -> Result<Before, StoreApplyError> {
    let Some(turn) = turn else {
        return Ok(Before::None);
    };
    let bound = params![organization.0, turn.to_string()];
    let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found = db
        .first(FIND_TURN, bound, read)
        .map_err(|error| StoreApplyError::db(WHAT, error))?;
    Ok(match found {
        None => Before::None,
        Some((_, true)) => Before::Deleted,
        Some((key, false)) => Before::Kept { key },
    })
}

/// An end user's name within its organization.
type Named<'a> = (OrgId, &'a str);

/// PostgreSQL keeps the name from being taken away until what is written for it is there, so that whoever forgets an end
/// user finds all that is theirs. The reference of what is written takes the same lock.
const FIND_END_USER: Sql = Sql {
    sqlite: "SELECT key FROM end_user WHERE organization = ?1 AND name = ?2",
    postgres: "SELECT key FROM end_user WHERE organization = ?1 AND name = ?2 FOR KEY SHARE",
};

fn find_end_user(
    db: &mut WriteSession<'_>,
    what: &'static str,
    (organization, name): Named<'_>,
) -> Result<Option<i64>, StoreApplyError> {
    query_key(db, what, FIND_END_USER, params![organization.0, name])
}

pub(super) fn create_end_user(
    db: &mut WriteSession<'_>,
    what: &'static str,
    (organization, name): Named<'_>,
    at: Timestamp,
) -> Result<i64, StoreApplyError> {
    let sql = "INSERT INTO end_user (organization, name, created_us, updated_us, key)
               VALUES (?1, ?2, ?3, ?3, ?4) ON CONFLICT (organization, name) DO NOTHING";
    let key = new_key(db, what, KeyedTable::EndUser)?;
    let bound = params![organization.0, name, at.0, key];
    match insert(db, what, sql, key, bound)? {
        Some(key) => Ok(key),
        // Somebody else has named them meanwhile.
        None => {
            find_end_user(db, what, (organization, name))?.ok_or(StoreApplyError::Guard { what })
        }
    }
}

pub(super) fn find_or_create_end_user(
    db: &mut WriteSession<'_>,
    what: &'static str,
    named: Named<'_>,
    at: Timestamp,
) -> Result<i64, StoreApplyError> {
    match find_end_user(db, what, named)? {
        Some(key) => Ok(key),
        None => create_end_user(db, what, named, at),
    }
}

fn find_or_create_conversation(
    db: &mut WriteSession<'_>,
    new: &NewTurn,
    end_user: Option<i64>,
) -> Result<i64, StoreApplyError> {
    let find = "SELECT key FROM conversation WHERE organization = ?1 AND id = ?2";
    let found = params![new.organization.0, new.conversation];
    // Most are new, so that is tried first; those that are named or continued are there already.
    // One that is to be made was not there a moment ago, and whoever makes it first is met by the insert.
    let made = items::metadata_of_made(new);
    let is_likely = made.is_none() && (new.conversation_named || new.parent.is_some());
    if is_likely
        && db.looks_before()
        && let Some(key) = query_key(db, WHAT, find, found)?
    {
        return Ok(key);
    }
    let create = "INSERT INTO conversation (organization, id, end_user, created_us, updated_us, api_key, metadata, key)
                  VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7) ON CONFLICT (organization, id) DO NOTHING";
    let key = new_key(db, WHAT, KeyedTable::Conversation)?;
    let bound = params![
        new.organization.0,
        new.conversation,
        end_user,
        new.at.0,
        made.map(|_| new.api_key.0),
        made.unwrap_or(items::NO_METADATA),
        key,
    ];
    if let Some(key) = insert(db, WHAT, create, key, bound)? {
        return Ok(key);
    }
    if let Some(metadata) = made {
        if let Some(key) = items::make_again(db, new, metadata, end_user)? {
            return Ok(key);
        }
        // Nobody had made it a moment ago.
        return Err(StoreApplyError::db(WHAT, Failure::Raced.into()));
    }
    query_key(db, WHAT, find, found)?.ok_or(StoreApplyError::Guard { what: WHAT })
}

const FIND_KEY: &str = "SELECT t.id,
        k.body_hash = ?6
          AND CASE WHEN ?8 IS NULL THEN t.conversation_named = 0 ELSE t.conversation_named = 1 AND c.id = ?8 END
          AS same_request
    FROM request_key k JOIN turn_start t ON t.key = k.turn JOIN conversation c ON c.key = t.conversation
    WHERE k.organization = ?1 AND k.api_key = ?2 AND k.end_user = ?3 AND k.route = ?4 AND k.key = ?5
      AND k.created_us >= ?7";

/// An end user whom nobody has seen has no keys.
fn find_taken_key(
    db: &mut WriteSession<'_>,
    new: &NewTurn,
    known_user: Option<i64>,
) -> Result<Option<AcceptOutcome>, StoreApplyError> {
    let Some(key) = &new.idempotency_key else {
        return Ok(None);
    };
    if new.end_user.is_some() && known_user.is_none() {
        return Ok(None);
    }
    let bound = params![
        new.organization.0,
        new.api_key.0,
        known_user.unwrap_or(NOBODY),
        enum_words::surface(new.surface),
        key,
        new.body_hash,
        new.keys_since.0,
        new.conversation_named.then_some(&new.conversation),
    ];
    let read = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found: Option<(String, bool)> = db
        .first(FIND_KEY, bound, read)
        .map_err(|error| StoreApplyError::db(WHAT, error))?;
    let Some((id, same_request)) = found else {
        return Ok(None);
    };
    let turn = TurnId::parse(&id).ok_or(StoreApplyError::Guard {
        what: "the turn of a request key",
    })?;
    Ok(Some(AcceptOutcome::KeyTaken { turn, same_request }))
}

/// The statement that stores an idempotency key; a row that it replaces is too old to count, or else came first.
const INSERT_KEY: &str = "INSERT INTO request_key
    (organization, api_key, end_user, route, key, body_hash, turn, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
    ON CONFLICT (organization, api_key, end_user, route, key)
    DO UPDATE SET body_hash = excluded.body_hash, turn = excluded.turn,
        created_us = excluded.created_us, updated_us = excluded.updated_us
    WHERE request_key.created_us < ?9";

fn insert_key(
    db: &mut WriteSession<'_>,
    new: &NewTurn,
    end_user: Option<i64>,
    key: &str,
    turn: i64,
) -> Result<(), StoreApplyError> {
    let bound = params![
        new.organization.0,
        new.api_key.0,
        end_user.unwrap_or(NOBODY),
        enum_words::surface(new.surface),
        key,
        new.body_hash,
        turn,
        new.at.0,
        new.keys_since.0,
    ];
    match execute_one(db, WHAT, INSERT_KEY, bound)? {
        0 => Err(StoreApplyError::db(WHAT, Failure::Raced.into())),
        _ => Ok(()),
    }
}

/// On PostgreSQL a turn is its owner's for as long as that one has a lease, and of two that claim it the second finds the
/// first's.
const CLAIM: Sql = Sql {
    sqlite: "UPDATE turn_state SET fence = fence + 1, claims_open = claims_open + 1, owner = ?3, updated_us = ?4
        WHERE turn = (SELECT key FROM turn_start WHERE organization = ?1 AND id = ?2)
          AND status = 'running' AND owner <> ?3
        RETURNING fence, claims_open - 1",
    postgres: "UPDATE turn_state SET fence = fence + 1, claims_open = claims_open + 1, owner = ?3, updated_us = ?4
        WHERE turn = (SELECT key FROM turn_start WHERE organization = ?1 AND id = ?2)
          AND status = 'running' AND owner <> ?3
          AND (split_part(owner, ':', 1) = split_part(?3, ':', 1)
               OR split_part(owner, ':', 1) NOT IN (SELECT id FROM instance WHERE lease_until_us > clock_us()))
        RETURNING fence, claims_open - 1",
};

/// The claim is counted with it, so that it is known to the next process if this one does not outlive it.
pub fn claim_turn(
    db: &mut WriteSession<'_>,
    claim: &ClaimTurn,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![
        claim.organization.0,
        claim.turn.to_string(),
        claim.owner,
        claim.at.0
    ];
    let read = |row: Row<'_>| {
        Ok(Outcome::Claimed {
            fence: row.get(0)?,
            open: row.get(1)?,
        })
    };
    let claimed = db
        .first(CLAIM, bound, read)
        .map_err(|error| StoreApplyError::db("claiming a turn", error))?;
    Ok(claimed.unwrap_or(Outcome::Already))
}

/// The first reason stands. A turn that has ended is left as it is.
pub fn ask_stop(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    turn: TurnId,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let sql = "UPDATE turn_state SET stop_reason = coalesce(stop_reason, 'requested'), updated_us = ?3
               WHERE turn = (SELECT key FROM turn_start WHERE organization = ?1 AND id = ?2) AND status = 'running'";
    const WHAT: &str = "asking a turn to stop";
    let bound = params![organization.0, turn.to_string(), at.0];
    if execute(db, WHAT, sql, bound)? == 0 {
        return Ok(Outcome::Already);
    }
    hint(db, WHAT)?;
    Ok(Outcome::Done)
}

pub fn mark_answered(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    turn: TurnId,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let sql = "UPDATE turn_state SET answered_us = ?3, updated_us = ?3
               WHERE turn = (SELECT key FROM turn_start WHERE organization = ?1 AND id = ?2) AND answered_us IS NULL";
    let bound = params![organization.0, turn.to_string(), at.0];
    let touched = execute_one(db, "noting that a turn was answered", sql, bound)?;
    Ok(match touched {
        0 => Outcome::Already,
        _ => Outcome::Done,
    })
}
