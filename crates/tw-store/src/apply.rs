//! The one function that writes.

mod accept;
mod conversation;
mod relayed;
mod retention;
mod tenant;
mod tools;
mod turn_changes;

use std::sync::Arc;

use rusqlite::{Params, params};
use tw_core::change::{Change, Fence, Outcome};
use tw_core::id::{OrgId, TurnId};

use crate::statements::PreparedStatements;

use accept::AcceptOutcome;

/// The reason for which a group was not written. Unless it says otherwise, nothing of the group was.
#[derive(Debug, thiserror::Error)]
pub enum StoreApplyError {
    /// Another driver has claimed the turn since, or there is no such turn.
    #[error("turn {turn} is not under fence {fence}")]
    Fenced { turn: TurnId, fence: i64 },
    /// A guarded update touched no row: what is stored is in another state than the caller thinks.
    #[error("{what}: the stored state does not allow it")]
    Guard { what: &'static str },
    /// A row that must be unique exists, or one that is referred to does not, or a final state would change.
    #[error("{what}: contradicts what is stored")]
    Conflict {
        what: &'static str,
        #[source]
        source: rusqlite::Error,
    },
    /// A fault of the caller: these changes may not stand in one group.
    #[error("a group that cannot be applied: {what}")]
    Misgrouped { what: &'static str },
    /// A fault of the caller: the number does not fit the column.
    #[error("{what} does not fit its column")]
    Encode { what: &'static str },
    /// The group may have been written or not; only the store knows.
    #[error("whether the group was written is unknown")]
    Unknown {
        #[source]
        source: Option<Arc<rusqlite::Error>>,
    },
    /// The writer has ended.
    #[error("the store is closed")]
    Closed,
    /// A write of the inline kind was asked of a store whose writer is a thread.
    #[error("this store does not write inline")]
    NotInline,
    #[error("{what}: the database failed")]
    Db {
        what: &'static str,
        #[source]
        source: Arc<rusqlite::Error>,
    },
}

impl StoreApplyError {
    pub(crate) fn db(what: &'static str, source: rusqlite::Error) -> Self {
        if source.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) {
            return Self::Conflict { what, source };
        }
        Self::Db {
            what,
            source: Arc::new(source),
        }
    }
}

/// The guards that hold: all of them, except in a test that shows what finds their absence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardRules {
    pub status_guard: bool,
    pub fence: bool,
}

/// The mark in a statement behind which its guard stands.
const GUARD: &str = "/* guard */";

impl GuardRules {
    pub const STRICT: Self = Self {
        status_guard: true,
        fence: true,
    };

    fn sql(self, guarded: &'static str) -> &'static str {
        if self.status_guard {
            return guarded;
        }
        guarded
            .split_once(GUARD)
            .map_or(guarded, |(unguarded, _)| unguarded)
    }
}

/// The turn that a group writes to, once its fence was checked.
#[derive(Clone, Copy)]
struct TurnKey {
    key: i64,
    organization: OrgId,
    fence: i64,
}

/// Writes a group of changes into the open transaction; the outcomes are in the group's order.
///
/// If the first change meets a taken idempotency key or continues what was deleted, its outcome is the only one
/// and nothing was written.
///
/// # Errors
/// Any error asks the caller to roll back to where the group began.
pub(crate) fn apply(
    db: &mut PreparedStatements<'_>,
    rules: GuardRules,
    changes: &[Change],
    fence: Option<Fence>,
) -> Result<Vec<Outcome>, StoreApplyError> {
    check_group(changes, fence)?;
    let mut outcomes = Vec::with_capacity(changes.len());
    let mut rest = changes;
    let mut accepted = None;
    if let Some((Change::AcceptTurn(new), after)) = changes.split_first() {
        match accept::accept_turn(db, new)? {
            AcceptOutcome::New { key } => {
                outcomes.push(Outcome::Done);
                accepted = Some(TurnKey {
                    key,
                    organization: new.organization,
                    fence: FIRST_FENCE,
                });
            }
            AcceptOutcome::KeyTaken { turn, same_body } => {
                outcomes.push(Outcome::KeyTaken { turn, same_body });
                return Ok(outcomes);
            }
            AcceptOutcome::ParentDeleted => {
                outcomes.push(Outcome::ParentDeleted);
                return Ok(outcomes);
            }
        }
        rest = after;
    }
    let Some(fence) = fence else {
        for change in rest {
            outcomes.push(apply_unfenced(db, change)?);
        }
        return Ok(outcomes);
    };
    // Nobody else knows yet of a turn that this group makes, so its fence holds.
    let turn = match accepted {
        Some(turn) => turn,
        None => check_fence(db, rules, fence)?,
    };
    for change in rest {
        outcomes.push(apply_of_turn(db, rules, turn, change)?);
    }
    Ok(outcomes)
}

#[derive(PartialEq, Eq)]
enum Kind {
    Accept,
    OfTurn,
    Unfenced,
}

fn kind(change: &Change) -> Kind {
    match change {
        Change::AcceptTurn(_) => Kind::Accept,
        Change::OpenAttempt(_)
        | Change::CloseAttempt(_)
        | Change::AddMessage(_)
        | Change::AddCall(_)
        | Change::StartCall { .. }
        | Change::HandOverCall(_)
        | Change::EndCall { .. }
        | Change::AppendEvents(_)
        | Change::NoteStop { .. }
        | Change::NoteResumed { .. }
        | Change::EndTurn(_) => Kind::OfTurn,
        Change::CreateOrganization(_)
        | Change::CreateApiKey(_)
        | Change::ChangeApiKey(_)
        | Change::ExpireApiKey { .. }
        | Change::TouchApiKey { .. }
        | Change::SaveTool(_)
        | Change::DeleteTool { .. }
        | Change::DeleteConversation(_)
        | Change::ClaimTurn(_)
        | Change::AskStop { .. }
        | Change::MarkAnswered { .. }
        | Change::CheckWritable { .. }
        | Change::EraseDue { .. }
        | Change::ExpireEvents { .. }
        | Change::ExpireRequestKeys { .. }
        | Change::RecordRelayedRequest(_)
        | Change::ExpireRelayedRequests { .. } => Kind::Unfenced,
    }
}

fn check_group(changes: &[Change], fence: Option<Fence>) -> Result<(), StoreApplyError> {
    let refuse = |what| Err(StoreApplyError::Misgrouped { what });
    for (index, change) in changes.iter().enumerate() {
        match (kind(change), fence) {
            (Kind::Accept, _) if index > 0 => {
                return refuse("a turn is accepted first in its group");
            }
            (Kind::OfTurn, None) => return refuse("a turn's change without a fence"),
            (Kind::Unfenced, Some(_)) => return refuse("a fence over a change of no turn"),
            (Kind::Accept | Kind::OfTurn, Some(_)) | (Kind::Accept | Kind::Unfenced, None) => {}
        }
    }
    if let (Some(Change::AcceptTurn(new)), Some(fence)) = (changes.first(), fence) {
        let own = Fence {
            organization: new.organization,
            turn: new.id,
            fence: FIRST_FENCE,
        };
        if fence != own {
            return refuse("a new turn under another fence than its first");
        }
    }
    Ok(())
}

/// The fence of a turn that was never claimed again.
const FIRST_FENCE: i64 = 1;

const CHECK_FENCE: &str = "SELECT key FROM turn WHERE organization = ?1 AND id = ?2 AND fence = ?3";

/// The look for a turn without its fence, which only a test's store makes.
const FIND_WITHOUT_FENCE: &str =
    "SELECT key FROM turn WHERE organization = ?1 AND id = ?2 AND ?3 IS NOT NULL";

/// The first statement of every write to a turn. A look is enough: the transaction holds the only
/// right to write, so no claim is made between this and its end.
fn check_fence(
    db: &mut PreparedStatements<'_>,
    rules: GuardRules,
    fence: Fence,
) -> Result<TurnKey, StoreApplyError> {
    let sql = if rules.fence {
        CHECK_FENCE
    } else {
        FIND_WITHOUT_FENCE
    };
    let bound = params![fence.organization.0, fence.turn.to_string(), fence.fence];
    match query_key(db, "checking the fence", sql, bound)? {
        Some(key) => Ok(TurnKey {
            key,
            organization: fence.organization,
            fence: fence.fence,
        }),
        None => Err(StoreApplyError::Fenced {
            turn: fence.turn,
            fence: fence.fence,
        }),
    }
}

fn apply_of_turn(
    db: &mut PreparedStatements<'_>,
    rules: GuardRules,
    turn: TurnKey,
    change: &Change,
) -> Result<Outcome, StoreApplyError> {
    match change {
        Change::OpenAttempt(open) => turn_changes::open_attempt(db, turn, open),
        Change::CloseAttempt(close) => turn_changes::close_attempt(db, rules, turn, close),
        Change::AddMessage(message) => turn_changes::add_message(db, turn.key, message),
        Change::AddCall(call) => turn_changes::add_call(db, turn, call),
        Change::StartCall { call, at } => turn_changes::start_call(db, rules, turn, *call, *at),
        Change::HandOverCall(handed) => turn_changes::hand_over_call(db, rules, turn, handed),
        Change::EndCall { call, end, at } => {
            turn_changes::end_call(db, rules, turn, *call, end, *at)
        }
        Change::AppendEvents(flush) => turn_changes::append_events(db, turn, flush),
        Change::NoteStop { reason, at } => turn_changes::note_stop(db, turn, *reason, *at),
        Change::NoteResumed { at } => turn_changes::note_resumed(db, turn, *at),
        Change::EndTurn(end) => turn_changes::end_turn(db, rules, turn, end),
        Change::AcceptTurn(_)
        | Change::CreateOrganization(_)
        | Change::CreateApiKey(_)
        | Change::ChangeApiKey(_)
        | Change::ExpireApiKey { .. }
        | Change::TouchApiKey { .. }
        | Change::SaveTool(_)
        | Change::DeleteTool { .. }
        | Change::DeleteConversation(_)
        | Change::ClaimTurn(_)
        | Change::AskStop { .. }
        | Change::MarkAnswered { .. }
        | Change::CheckWritable { .. }
        | Change::EraseDue { .. }
        | Change::ExpireEvents { .. }
        | Change::ExpireRequestKeys { .. }
        | Change::RecordRelayedRequest(_)
        | Change::ExpireRelayedRequests { .. } => Err(StoreApplyError::Misgrouped {
            what: "not of a turn",
        }),
    }
}

fn apply_unfenced(
    db: &mut PreparedStatements<'_>,
    change: &Change,
) -> Result<Outcome, StoreApplyError> {
    match change {
        Change::CreateOrganization(new) => tenant::create_organization(db, new),
        Change::CreateApiKey(new) => tenant::create_api_key(db, new),
        Change::ChangeApiKey(change) => tenant::change_api_key(db, change),
        Change::ExpireApiKey { key, at } => tenant::expire_api_key(db, *key, *at),
        Change::TouchApiKey { key, at } => tenant::touch_api_key(db, *key, *at),
        Change::SaveTool(save) => tools::save_tool(db, save),
        Change::DeleteTool {
            organization,
            tool,
            at,
        } => tools::delete_tool(db, *organization, *tool, *at),
        Change::DeleteConversation(delete) => conversation::delete(db, delete),
        Change::ClaimTurn(claim) => accept::claim_turn(db, claim),
        Change::AskStop {
            organization,
            turn,
            at,
        } => accept::ask_stop(db, *organization, *turn, *at),
        Change::MarkAnswered {
            organization,
            turn,
            at,
        } => accept::mark_answered(db, *organization, *turn, *at),
        Change::EraseDue { now, turns_max } => retention::erase_due(db, *now, *turns_max),
        Change::ExpireEvents { before, turns_max } => {
            retention::expire_events(db, *before, *turns_max)
        }
        Change::CheckWritable { at } => tenant::check_writable(db, *at),
        Change::ExpireRequestKeys { before, keys_max } => {
            retention::expire_request_keys(db, *before, *keys_max)
        }
        Change::RecordRelayedRequest(relayed) => relayed::record(db, relayed),
        Change::ExpireRelayedRequests {
            before,
            requests_max,
        } => relayed::expire(db, *before, *requests_max),
        Change::AcceptTurn(_)
        | Change::OpenAttempt(_)
        | Change::CloseAttempt(_)
        | Change::AddMessage(_)
        | Change::AddCall(_)
        | Change::StartCall { .. }
        | Change::HandOverCall(_)
        | Change::EndCall { .. }
        | Change::AppendEvents(_)
        | Change::NoteStop { .. }
        | Change::NoteResumed { .. }
        | Change::EndTurn(_) => Err(StoreApplyError::Misgrouped { what: "of a turn" }),
    }
}

/// Runs a statement and returns how many rows it touched.
pub(crate) fn execute(
    db: &mut PreparedStatements<'_>,
    what: &'static str,
    sql: &'static str,
    bound: impl Params,
) -> Result<usize, StoreApplyError> {
    db.execute(sql, bound)
        .map_err(|error| StoreApplyError::db(what, error))
}

/// Runs a statement that must touch one row.
fn execute_guarded(
    db: &mut PreparedStatements<'_>,
    what: &'static str,
    sql: &'static str,
    bound: impl Params,
) -> Result<Outcome, StoreApplyError> {
    match execute(db, what, sql, bound)? {
        0 => Err(StoreApplyError::Guard { what }),
        _ => Ok(Outcome::Done),
    }
}

/// Runs an insert of one row and returns its key.
///
/// Not by `RETURNING`: SQLite keeps what that returns in a table of its own for each run, which
/// costs more than the insert.
fn insert(
    db: &mut PreparedStatements<'_>,
    what: &'static str,
    sql: &'static str,
    bound: impl Params,
) -> Result<i64, StoreApplyError> {
    match execute(db, what, sql, bound)? {
        1 => Ok(db.conn().last_insert_rowid()),
        _ => Err(StoreApplyError::Guard { what }),
    }
}

/// The integer that a statement returns, if it returns a row.
fn query_key(
    db: &mut PreparedStatements<'_>,
    what: &'static str,
    sql: &'static str,
    bound: impl Params,
) -> Result<Option<i64>, StoreApplyError> {
    db.first(sql, bound, |row| row.get(0))
        .map_err(|error| StoreApplyError::db(what, error))
}
