//! Turns that another system has recorded.
//!
//! They are written as they ended: nothing of them ran here, so nobody is told of their ends, and nothing is charged.
//! There are many, so the rows of one table are written together.

mod encoded;
mod kept_rows;
mod places;

use std::borrow::Cow;

use tw_core::call::{CallReason, CallRunner};
use tw_core::change::{FIRST_FENCE, NewMessage, Outcome};
use tw_core::imported::{ImportOutcome, ImportTurns, ImportedCall, ImportedTurn};
use tw_core::memory::MemoryVerdict;
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};
use tw_core::turn_status::TurnReason;
use tw_wire::stored;

use super::turn_changes::{MOVE_HEAD, StoredResult};
use super::{StoreApplyError, TurnKey, brought, run};
use crate::blob::{self, ContentCutter, HeldText, TextHolder};
use crate::db_error::DbError;
use crate::enum_words;
use crate::session::bound::params;
use crate::session::rows_into::{RowsInto, rows_into};
use crate::session::{KeyedTable, WriteSession};

pub use encoded::EncodedImport;
use encoded::EncodedTurn;
use places::{KnownPlaces, KnownTurn};

const WHAT: &str = "importing a turn";

/// A turn that is not there yet.
struct NewTurnRow<'t> {
    turn: &'t ImportedTurn,
    encoded: &'t EncodedTurn,
    key: i64,
    /// The key of the turn that it continues.
    parent: Option<i64>,
}

/// Writes the turns that are not there yet, and the rows that are kept beside them. The outcome has one for each turn.
pub fn import(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    encoded: Option<&EncodedImport>,
    contents: ContentCutter<'_>,
) -> Result<Outcome, StoreApplyError> {
    let encoded = encoded.ok_or(StoreApplyError::Guard { what: WHAT })?;
    let mut known = KnownPlaces::look_up(db, import)?;
    let (turns, new) = new_turns(db, import, encoded, &mut known)?;
    let mut replaced = Vec::new();
    if !new.is_empty() {
        known.add_end_users(db, import.organization, &new)?;
        known.add_conversations(db, import.organization, &new)?;
        insert_starts(db, import, &new, &known)?;
        insert_states(db, import, &new, &known)?;
        insert_bodies(db, &new).map_err(failed)?;
        insert_messages(db, import, &new, contents)?;
        insert_calls(db, import, &new, contents)?;
        known.set_heads(db)?;
        for row in &new {
            if known.conversation(row)?.moves_head {
                run(db, WHAT, MOVE_HEAD, params![row.key, row.turn.ended.0])?;
            }
        }
        replaced = kept_rows::forget(db, import, new.iter().map(|row| row.turn))?;
    }
    let changed = kept_rows::keep(db, import)?;
    Ok(Outcome::Imported {
        turns,
        changed,
        replaced,
    })
}

fn failed(error: DbError) -> StoreApplyError {
    StoreApplyError::db(WHAT, error)
}

/// What becomes of each turn, and those that are to be written.
fn new_turns<'t>(
    db: &mut WriteSession<'_>,
    import: &'t ImportTurns,
    encoded: &'t EncodedImport,
    known: &mut KnownPlaces,
) -> Result<(Vec<ImportOutcome>, Vec<NewTurnRow<'t>>), StoreApplyError> {
    let is_new = |turn: &&ImportedTurn| !known.turns.contains_key(&turn.id);
    let count = import.turns.iter().filter(is_new).count();
    let keys = db.new_keys(KeyedTable::Turn, count).map_err(failed)?;
    let mut keys = keys.into_iter();
    let mut outcomes = Vec::with_capacity(import.turns.len());
    let mut new = Vec::with_capacity(count);
    for (turn, encoded) in import.turns.iter().zip(&encoded.turns) {
        let body_hash = Some(encoded.body_hash);
        if let Some(there) = known.turns.get(&turn.id) {
            outcomes.push(match there.body_hash == body_hash {
                true => ImportOutcome::There,
                false => ImportOutcome::Differs,
            });
            continue;
        }
        let parent = turn.parent.and_then(|parent| known.turns.get(&parent));
        let parent = parent.map(|parent| parent.key);
        let key = keys.next().ok_or(StoreApplyError::Guard { what: WHAT })?;
        known.turns.insert(turn.id, KnownTurn { key, body_hash });
        new.push(NewTurnRow {
            turn,
            encoded,
            key,
            parent,
        });
        outcomes.push(ImportOutcome::Written);
    }
    Ok((outcomes, new))
}

const STARTS: RowsInto = rows_into!(
    "turn_start",
    "organization, id, api_key, end_user, conversation, conversation_named, surface, streamed, on_leave, record,
     model, request_id, projector_version, deadline_us, created_us, updated_us, memory, parent, key",
    "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19"
);

fn insert_starts(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    new: &[NewTurnRow<'_>],
    known: &KnownPlaces,
) -> Result<(), StoreApplyError> {
    let mut rows = db.rows_into(STARTS);
    for row in new {
        let turn = row.turn;
        let bound = params![
            import.organization.0,
            turn.id.to_string(),
            import.api_key.0,
            known.end_user(row)?,
            known.conversation(row)?.key,
            true,
            enum_words::surface(Surface::ChatCompletions),
            false,
            enum_words::on_leave(OnLeave::Finish),
            enum_words::record(RecordPolicy::Full),
            stored::imported::MODEL,
            turn.first_row,
            stored::PROJECTOR_VERSION,
            turn.ended.0,
            turn.at.0,
            turn.ended.0,
            MemoryVerdict::Off.as_str(),
            row.parent,
            row.key,
        ];
        rows.add(bound).map_err(failed)?;
    }
    rows.end().map_err(failed)
}

const STATES: RowsInto = rows_into!(
    "turn_state",
    "turn, organization, api_key, names_somebody, body_hash, owner, fence, status, reason, has_tool_calls, tool_count,
     answered_us, ended_us, events_expired_us, created_us, updated_us, on_head_path",
    "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17"
);

/// A turn is marked as one that leads to the head, which [`MOVE_HEAD`] moves to it by the same rule.
fn insert_states(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    new: &[NewTurnRow<'_>],
    known: &KnownPlaces,
) -> Result<(), StoreApplyError> {
    let mut rows = db.rows_into(STATES);
    for row in new {
        let turn = row.turn;
        let calls = i64::try_from(turn.calls.len()).unwrap_or(i64::MAX);
        let bound = params![
            row.key,
            import.organization.0,
            import.api_key.0,
            true,
            row.encoded.body_hash,
            "import",
            FIRST_FENCE,
            turn.status.as_str(),
            turn.reason.map(TurnReason::as_str),
            !turn.calls.is_empty(),
            calls,
            turn.ended.0,
            turn.ended.0,
            turn.ended.0,
            turn.at.0,
            turn.ended.0,
            !known.conversation(row)?.is_made,
        ];
        rows.add(bound).map_err(failed)?;
    }
    rows.end().map_err(failed)
}

const BODIES: RowsInto = rows_into!(
    "turn_input",
    "turn, body, context, created_us, updated_us",
    "?1, ?2, ?3, ?4, ?5"
);

/// Nobody recovers the turns, and so there is nothing in it.
const CONTEXT: &str = "{\"tools\":[],\"upstream\":[]}";

fn insert_bodies(db: &mut WriteSession<'_>, new: &[NewTurnRow<'_>]) -> Result<(), DbError> {
    let mut rows = db.rows_into(BODIES);
    for row in new {
        let (body, at) = (row.encoded.body.as_bytes(), row.turn.at.0);
        rows.add(params![row.key, body, CONTEXT, at, at])?;
    }
    rows.end()
}

const MESSAGES: RowsInto = rows_into!(
    "message",
    "turn, round, seq, role, blocks, created_us, updated_us, blob_bytes",
    "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8"
);

fn insert_messages(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    new: &[NewTurnRow<'_>],
    contents: ContentCutter<'_>,
) -> Result<(), StoreApplyError> {
    let mut stored: Vec<(i64, &NewMessage, Cow<'_, str>, i64)> = Vec::new();
    for row in new {
        for (message, blocks) in row.turn.messages.iter().zip(&row.encoded.messages) {
            let (round, seq) = (message.round, message.seq);
            let held = HeldText {
                organization: import.organization,
                turn: row.key,
                holder: TextHolder::Message { round, seq },
                text: blocks,
                at: message.at,
            };
            let rest = blob::store(db, WHAT, held, &contents.find(blocks))?;
            let blob_bytes = (blocks.len() - rest.len()) as i64;
            stored.push((row.key, message, rest, blob_bytes));
        }
    }
    let mut rows = db.rows_into(MESSAGES);
    for (turn, message, rest, blob_bytes) in &stored {
        let (role, at) = (enum_words::role(message.role), message.at.0);
        let bound = params![
            turn,
            message.round,
            message.seq,
            role,
            rest,
            at,
            at,
            blob_bytes
        ];
        rows.add(bound).map_err(failed)?;
    }
    rows.end().map_err(failed)?;
    for (key, message, ..) in stored {
        let turn = TurnKey {
            key,
            organization: import.organization,
            fence: FIRST_FENCE,
            contents,
        };
        brought::note_results(db, turn, message)?;
    }
    Ok(())
}

const CALLS: RowsInto = rows_into!(
    "tool_call",
    "turn, round, position, organization, id, runs, tool_name, tool_call_id, idempotency_key, arguments, status, reason,
     result, shown, is_error, started_us, ended_us, created_us, updated_us, blob_bytes",
    "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20"
);

/// The application has run them, or will complete them.
fn insert_calls(
    db: &mut WriteSession<'_>,
    import: &ImportTurns,
    new: &[NewTurnRow<'_>],
    contents: ContentCutter<'_>,
) -> Result<(), StoreApplyError> {
    let mut stored: Vec<(i64, &ImportedCall, StoredResult<'_>)> = Vec::new();
    for row in new {
        for call in &row.turn.calls {
            let result = call.end.as_ref().and_then(|end| end.result.as_deref());
            let result = match result {
                None => StoredResult::none(),
                Some(text) => {
                    let held = HeldText {
                        organization: import.organization,
                        turn: row.key,
                        holder: TextHolder::Result(call.call),
                        text,
                        at: call.ended,
                    };
                    StoredResult::of(db, WHAT, held, contents)?
                }
            };
            stored.push((row.key, call, result));
        }
    }
    let mut rows = db.rows_into(CALLS);
    for (turn, new, result) in &stored {
        let end = new.end.as_ref();
        let id = new.id.to_string();
        let bound = params![
            turn,
            new.call.round,
            new.call.position,
            import.organization.0,
            id,
            CallRunner::Outside.as_str(),
            new.tool_name,
            new.tool_call_id,
            id,
            new.arguments,
            new.status().as_str(),
            end.and_then(|end| end.reason).map(CallReason::as_str),
            result.rest,
            end.map(|end| end.shown.as_str()),
            end.map(|end| end.is_error),
            new.at.0,
            end.map(|_| new.ended.0),
            new.at.0,
            new.ended.0,
            result.blob_bytes,
        ];
        rows.add(bound).map_err(failed)?;
    }
    rows.end().map_err(failed)
}
