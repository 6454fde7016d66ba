//! Turns that another system has recorded.
//!
//! They are written as they ended: nothing of them ran here, so nobody is told of their ends, and nothing is charged.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use tw_core::call::{CallReason, CallRunner};
use tw_core::change::{FIRST_FENCE, Outcome};
use tw_core::id::{OrgId, TurnId};
use tw_core::imported::{ImportOutcome, ImportTurns, ImportedCall, ImportedTurn};
use tw_core::memory::MemoryVerdict;
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};
use tw_core::turn_status::TurnReason;
use tw_wire::stored;

use super::turn_changes::{self, MOVE_HEAD, StoredResult};
use super::{StoreApplyError, TurnKey, accept, execute_guarded, insert, new_key, query_key, run};
use crate::blob::{ContentCutter, HeldText, TextHolder};
use crate::enum_words;
use crate::session::bound::params;
use crate::session::{KeyedTable, WriteSession};

const WHAT: &str = "importing a turn";

/// Keys of what the same change has written before.
#[derive(Default)]
struct WrittenKeys {
    turns: HashMap<TurnId, i64>,
    conversations: HashMap<String, i64>,
}

/// Writes the turns that are not there yet. The outcome has one for each.
pub fn import(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    contents: ContentCutter<'_>,
) -> Result<Outcome, StoreApplyError> {
    let mut written = WrittenKeys::default();
    let outcomes = import
        .turns
        .iter()
        .map(|turn| import_turn(db, import, turn, contents, &mut written));
    Ok(Outcome::Imported(outcomes.collect::<Result<_, _>>()?))
}

const FIND: &str = "SELECT key FROM turn WHERE organization = ?1 AND id = ?2";
const FIND_SAME: &str =
    "SELECT key FROM turn WHERE organization = ?1 AND id = ?2 AND body_hash = ?3";

fn import_turn(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    turn: &ImportedTurn,
    contents: ContentCutter<'_>,
    written: &mut WrittenKeys,
) -> Result<ImportOutcome, StoreApplyError> {
    let organization = import.organization;
    let body = stored::imported::encode_body(import.shape, turn);
    let body_hash: [u8; 32] = Sha256::digest(body.as_bytes()).into();
    let id = turn.id.to_string();
    if let Some(key) = query_key(db, WHAT, FIND, params![organization.0, id])? {
        written.turns.insert(turn.id, key);
        let same = params![organization.0, id, body_hash];
        return Ok(match query_key(db, WHAT, FIND_SAME, same)? {
            Some(_) => ImportOutcome::There,
            None => ImportOutcome::Differs,
        });
    }
    let parent = match turn.parent {
        None => None,
        Some(parent) => match written.turns.get(&parent) {
            Some(key) => Some(*key),
            None => query_key(db, WHAT, FIND, params![organization.0, parent.to_string()])?,
        },
    };
    let end_user = match &turn.end_user {
        None => None,
        Some(name) => {
            let named = (organization, &**name);
            Some(accept::find_or_create_end_user(db, WHAT, named, turn.at)?)
        }
    };
    let conversation = match written.conversations.get(&turn.conversation) {
        Some(key) => *key,
        None => {
            let key = find_or_create_conversation(db, organization, turn, end_user)?;
            written.conversations.insert(turn.conversation.clone(), key);
            key
        }
    };
    let places = TurnPlaces {
        conversation,
        parent,
        end_user,
    };
    let key = insert_turn(db, import, turn, places, body_hash)?;
    written.turns.insert(turn.id, key);
    insert_body(db, key, turn, &body)?;
    let within = TurnKey {
        key,
        organization,
        fence: FIRST_FENCE,
        contents,
    };
    for message in &turn.messages {
        turn_changes::add_message(db, within, message)?;
    }
    for call in &turn.calls {
        insert_call(db, within, call)?;
    }
    run(db, WHAT, MOVE_HEAD, params![key, turn.ended.0])?;
    Ok(ImportOutcome::Written)
}

/// Rows that a turn refers to.
#[derive(Clone, Copy)]
struct TurnPlaces {
    conversation: i64,
    parent: Option<i64>,
    end_user: Option<i64>,
}

const FIND_CONVERSATION: &str = "SELECT key FROM conversation WHERE organization = ?1 AND id = ?2";
const INSERT_CONVERSATION: &str =
    "INSERT INTO conversation (organization, id, end_user, created_us, updated_us, key)
    VALUES (?1, ?2, ?3, ?4, ?4, ?5) ON CONFLICT (organization, id) DO NOTHING";

fn find_or_create_conversation(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    turn: &ImportedTurn,
    end_user: Option<i64>,
) -> Result<i64, StoreApplyError> {
    let find = params![organization.0, turn.conversation];
    if let Some(key) = query_key(db, WHAT, FIND_CONVERSATION, find)? {
        return Ok(key);
    }
    let key = new_key(db, WHAT, KeyedTable::Conversation)?;
    let bound = params![organization.0, turn.conversation, end_user, turn.at.0, key];
    match insert(db, WHAT, INSERT_CONVERSATION, key, bound)? {
        Some(key) => Ok(key),
        None => {
            let found = query_key(db, WHAT, FIND_CONVERSATION, find)?;
            found.ok_or(StoreApplyError::Guard { what: WHAT })
        }
    }
}

/// It is marked as one that leads to the head, which [`MOVE_HEAD`] moves to it by the same rule.
const INSERT_TURN: &str = "INSERT INTO turn
    (organization, id, api_key, end_user, conversation, conversation_named, surface, streamed, on_leave, record,
     model, request_id, body_hash, projector_version, owner, fence, status, reason, deadline_us, created_us,
     updated_us, memory, parent, has_tool_calls, tool_count, answered_us, ended_us, events_expired_us, key,
     on_head_path)
    VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, 0, ?7, ?8, ?9, ?10, ?11, ?12, 'import', ?13, ?14, ?15, ?16, ?17, ?16, ?18,
            ?19, ?20, ?21, ?16, ?16, ?16, ?22,
            CASE WHEN EXISTS (SELECT 1 FROM conversation c WHERE c.key = ?5 AND c.api_key IS NOT NULL)
                THEN 0 ELSE 1 END)";

fn insert_turn(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    turn: &ImportedTurn,
    places: TurnPlaces,
    body_hash: [u8; 32],
) -> Result<i64, StoreApplyError> {
    let key = new_key(db, WHAT, KeyedTable::Turn)?;
    let calls = i64::try_from(turn.calls.len()).unwrap_or(i64::MAX);
    let bound = params![
        import.organization.0,
        turn.id.to_string(),
        import.api_key.0,
        places.end_user,
        places.conversation,
        enum_words::surface(Surface::ChatCompletions),
        enum_words::on_leave(OnLeave::Finish),
        enum_words::record(RecordPolicy::Full),
        stored::imported::MODEL,
        turn.first_row,
        body_hash,
        stored::PROJECTOR_VERSION,
        FIRST_FENCE,
        turn.status.as_str(),
        turn.reason.map(TurnReason::as_str),
        turn.ended.0,
        turn.at.0,
        MemoryVerdict::Off.as_str(),
        places.parent,
        !turn.calls.is_empty(),
        calls,
        key,
    ];
    let inserted = insert(db, WHAT, INSERT_TURN, key, bound)?;
    inserted.ok_or(StoreApplyError::Guard { what: WHAT })
}

/// Nobody recovers the turn, and so there is no context.
const INSERT_BODY: &str = "INSERT INTO turn_input (turn, body, context, created_us, updated_us)
    VALUES (?1, ?2, '{\"tools\":[],\"upstream\":[]}', ?3, ?3)";

fn insert_body(
    db: &mut WriteSession<'_>,
    key: i64,
    turn: &ImportedTurn,
    body: &str,
) -> Result<(), StoreApplyError> {
    run(
        db,
        WHAT,
        INSERT_BODY,
        params![key, body.as_bytes(), turn.at.0],
    )
}

const INSERT_CALL: &str = "INSERT INTO tool_call
    (turn, round, position, organization, id, runs, tool_name, tool_call_id, callback_token, idempotency_key,
     arguments, status, reason, result, shown, is_error, started_us, ended_us, created_us, updated_us, blob_bytes)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?19, ?5, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?15, ?17, ?18)";

/// The application has run it, or will complete it.
fn insert_call(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    new: &ImportedCall,
) -> Result<(), StoreApplyError> {
    let end = new.end.as_ref();
    let result = end.and_then(|end| end.result.as_deref());
    let result = match result {
        None => None,
        Some(text) => {
            let held = HeldText {
                organization: turn.organization,
                turn: turn.key,
                holder: TextHolder::Result(new.call),
                text,
                at: new.ended,
            };
            Some(StoredResult::of(db, WHAT, held, turn.contents)?)
        }
    };
    let bound = params![
        turn.key,
        new.call.round,
        new.call.position,
        turn.organization.0,
        new.id.to_string(),
        CallRunner::Outside.as_str(),
        new.tool_name,
        new.tool_call_id,
        new.arguments,
        new.status().as_str(),
        end.and_then(|end| end.reason).map(CallReason::as_str),
        result.as_ref().and_then(|result| result.rest.as_ref()),
        end.map(|end| end.shown.as_str()),
        end.map(|end| end.is_error),
        new.at.0,
        end.map(|_| new.ended.0),
        new.ended.0,
        result.as_ref().map_or(0, |result| result.blob_bytes),
        new.callback_token.to_string(),
    ];
    execute_guarded(db, WHAT, INSERT_CALL, bound).map(drop)
}
