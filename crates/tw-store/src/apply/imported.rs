//! Turns that another system has recorded.
//!
//! They are written as they ended: nothing of them ran here, so nobody is told of their ends, and nothing is charged.

mod kept_rows;

use std::collections::{BTreeSet, HashMap};

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
use crate::db_error::DbError;
use crate::enum_words;
use crate::session::bound::{params, without_nul};
use crate::session::row::Row;
use crate::session::sql::Sql;
use crate::session::{KeyedTable, WriteSession};

const WHAT: &str = "importing a turn";

/// Keys of what is there, by one look for the whole change, and of what the change has written since.
struct KnownKeys {
    turns: HashMap<TurnId, KnownTurn>,
    conversations: HashMap<String, i64>,
    end_users: HashMap<String, i64>,
}

#[derive(Clone, Copy)]
struct KnownTurn {
    key: i64,
    body_hash: Option<[u8; 32]>,
}

/// Writes the turns that are not there yet, and the rows that are kept beside them. The outcome has one for each turn.
pub fn import(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    contents: ContentCutter<'_>,
) -> Result<Outcome, StoreApplyError> {
    let mut known = KnownKeys::look_up(db, import)?;
    let outcomes = import
        .turns
        .iter()
        .map(|turn| import_turn(db, import, turn, contents, &mut known));
    let turns: Vec<ImportOutcome> = outcomes.collect::<Result<_, _>>()?;
    let outcomes = import.turns.iter().zip(&turns);
    let written = outcomes.filter(|(_, outcome)| **outcome == ImportOutcome::Written);
    kept_rows::forget(db, import, written.map(|(turn, _)| turn))?;
    let changed = kept_rows::keep(db, import)?;
    Ok(Outcome::Imported { turns, changed })
}

const FIND_TURNS: Sql = Sql {
    sqlite: "SELECT t.id, t.key, t.body_hash FROM json_each(?2) AS asked
        CROSS JOIN turn t ON t.organization = ?1 AND t.id = asked.value",
    postgres: "SELECT t.id, t.key, t.body_hash FROM json_array_elements_text(CAST(?2 AS json)) AS asked (value)
        JOIN turn t ON t.organization = ?1 AND t.id = asked.value",
};

const FIND_CONVERSATIONS: Sql = Sql {
    sqlite: "SELECT c.id, c.key FROM json_each(?2) AS asked
        CROSS JOIN conversation c ON c.organization = ?1 AND c.id = asked.value",
    postgres: "SELECT c.id, c.key FROM json_array_elements_text(CAST(?2 AS json)) AS asked (value)
        JOIN conversation c ON c.organization = ?1 AND c.id = asked.value",
};

/// As one end user is looked for ([`accept`]); in one order, so that two who lock them do not wait for each other.
const FIND_END_USERS: Sql = Sql {
    sqlite: "SELECT u.name, u.key FROM json_each(?2) AS asked
        CROSS JOIN end_user u ON u.organization = ?1 AND u.name = asked.value",
    postgres: "SELECT u.name, u.key FROM end_user u
        WHERE u.organization = ?1 AND u.name IN (SELECT value FROM json_array_elements_text(CAST(?2 AS json)) AS asked (value))
        ORDER BY u.key FOR KEY SHARE",
};

impl KnownKeys {
    fn look_up(db: &mut WriteSession<'_>, import: &ImportTurns) -> Result<Self, StoreApplyError> {
        let organization = import.organization.0;
        let turns = import.turns.iter();
        let asked = turns
            .flat_map(|turn| [Some(turn.id), turn.parent])
            .flatten();
        let asked: BTreeSet<String> = asked.map(|id| id.to_string()).collect();
        let read = |row: Row<'_>| {
            let hash: Option<Vec<u8>> = row.get(2)?;
            let body_hash = hash.and_then(|hash| hash.try_into().ok());
            let id: String = row.get(0)?;
            Ok((
                id,
                KnownTurn {
                    key: row.get(1)?,
                    body_hash,
                },
            ))
        };
        let found = list(db, FIND_TURNS, organization, &asked, read)?;
        let turns = found.into_iter();
        let turns = turns.filter_map(|(id, known)| Some((TurnId::parse(&id)?, known)));
        let named = |row: Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let asked = import.turns.iter();
        let asked = asked.map(|turn| without_nul(&turn.conversation)).collect();
        let conversations = list(db, FIND_CONVERSATIONS, organization, &asked, named)?;
        let asked = import
            .turns
            .iter()
            .filter_map(|turn| turn.end_user.as_deref());
        let asked = asked.map(without_nul).collect();
        let end_users = list(db, FIND_END_USERS, organization, &asked, named)?;
        Ok(Self {
            turns: turns.collect(),
            conversations: conversations.into_iter().collect(),
            end_users: end_users.into_iter().collect(),
        })
    }
}

/// What is found of a list of ids.
fn list<T>(
    db: &mut WriteSession<'_>,
    sql: Sql,
    organization: i64,
    asked: &BTreeSet<String>,
    read: impl Fn(Row<'_>) -> Result<T, DbError>,
) -> Result<Vec<T>, StoreApplyError> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let ids = serde_json::to_string(asked);
    let ids = ids.map_err(|_| StoreApplyError::Encode { what: WHAT })?;
    db.rows(sql, params![organization, ids], read)
        .map_err(|error| StoreApplyError::db(WHAT, error))
}

fn import_turn(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    turn: &ImportedTurn,
    contents: ContentCutter<'_>,
    known: &mut KnownKeys,
) -> Result<ImportOutcome, StoreApplyError> {
    let organization = import.organization;
    let body = stored::imported::encode_body(import.shape, turn);
    let body_hash: [u8; 32] = Sha256::digest(body.as_bytes()).into();
    if let Some(there) = known.turns.get(&turn.id) {
        return Ok(match there.body_hash == Some(body_hash) {
            true => ImportOutcome::There,
            false => ImportOutcome::Differs,
        });
    }
    let parent = turn.parent.and_then(|parent| known.turns.get(&parent));
    let parent = parent.map(|parent| parent.key);
    let end_user = match &turn.end_user {
        None => None,
        Some(name) => Some(match known.end_users.get(&without_nul(name)) {
            Some(key) => *key,
            None => {
                let named = (organization, &**name);
                let key = accept::create_end_user(db, WHAT, named, turn.at)?;
                known.end_users.insert(without_nul(name), key);
                key
            }
        }),
    };
    let conversation = without_nul(&turn.conversation);
    let conversation = match known.conversations.get(&conversation) {
        Some(key) => *key,
        None => {
            let key = create_conversation(db, organization, turn, end_user)?;
            known.conversations.insert(conversation, key);
            key
        }
    };
    let places = TurnPlaces {
        conversation,
        parent,
        end_user,
    };
    let key = insert_turn(db, import, turn, places, body_hash)?;
    let body_hash = Some(body_hash);
    known.turns.insert(turn.id, KnownTurn { key, body_hash });
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

fn create_conversation(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    turn: &ImportedTurn,
    end_user: Option<i64>,
) -> Result<i64, StoreApplyError> {
    let key = new_key(db, WHAT, KeyedTable::Conversation)?;
    let bound = params![organization.0, turn.conversation, end_user, turn.at.0, key];
    match insert(db, WHAT, INSERT_CONVERSATION, key, bound)? {
        Some(key) => Ok(key),
        None => {
            // Somebody else has made it meanwhile.
            let find = params![organization.0, turn.conversation];
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
