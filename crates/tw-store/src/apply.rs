//! The one function that writes.

mod accept;
mod approvals;
mod brought;
mod call_files;
mod callbacks;
mod charges;
mod conversation;
mod end_users;
pub(crate) mod imported;
mod items;
mod jobs;
mod outside;
mod queued;
mod quotas;
mod relayed;
mod retention;
mod tenant;
mod tools;
mod turn_changes;
mod webhook_events;
mod webhooks;

use std::sync::Arc;

use tw_core::change::{Change, ChangeGroup, FIRST_FENCE, Fence, Outcome, TurnChange};
use tw_core::id::{CallRef, OrgId, TurnId};

use crate::blob::{ContentCutter, WritableGroup};
use crate::db_error::{DbError, DbErrorKind};
use crate::session::bound::{Params, params};
use crate::session::sql::Sql;
use crate::session::{Engine, KeyedTable, WriteSession};

use accept::AcceptOutcome;
use imported::EncodedImport;

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
        source: DbError,
    },
    /// A fault of the caller: the number does not fit the column.
    #[error("{what} does not fit its column")]
    Encode { what: &'static str },
    /// The group may have been written or not; only the store knows.
    #[error("whether the group was written is unknown")]
    Unknown {
        #[source]
        source: Option<Arc<DbError>>,
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
        source: Arc<DbError>,
    },
}

impl StoreApplyError {
    pub(crate) fn db(what: &'static str, source: DbError) -> Self {
        match source.kind() {
            DbErrorKind::Conflict => Self::Conflict { what, source },
            DbErrorKind::Passing | DbErrorKind::Lasting => Self::Db {
                what,
                source: Arc::new(source),
            },
        }
    }
}

/// The statements that ends of turns and calls, and the sender of deliveries, run again and again.
#[cfg(test)]
pub(crate) const WEBHOOK_STATEMENTS: [(&str, &str); 3] = [
    (webhook_events::IS_TOLD, "webhook_told"),
    (webhooks::DUE.sqlite, "webhook_delivery_due"),
    (jobs::DUE.sqlite, "job_due"),
];

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
struct TurnKey<'a> {
    key: i64,
    organization: OrgId,
    fence: i64,
    contents: ContentCutter<'a>,
}

/// The result of a group that met no error.
pub(crate) enum AppliedGroup {
    /// The outcomes, in the group's order.
    Whole(Vec<Outcome>),
    /// A change came too late, as its outcome says. Changes before it are written, and the caller has to roll back to
    /// where the group began.
    TooLate(Outcome),
}

/// Writes a group of changes into the open transaction.
///
/// # Errors
/// Any error asks the caller to roll back to where the group began.
pub(crate) fn apply(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    writable: &WritableGroup,
) -> Result<AppliedGroup, StoreApplyError> {
    let contents = writable.cutter();
    match &writable.group {
        ChangeGroup::Accept(new, first) => {
            let key = match accept::accept_turn(db, new, contents)? {
                AcceptOutcome::New { key } => key,
                AcceptOutcome::KeyTaken { turn, same_request } => {
                    let taken = Outcome::KeyTaken { turn, same_request };
                    return Ok(AppliedGroup::Whole(vec![taken]));
                }
                AcceptOutcome::ParentDeleted => {
                    return Ok(AppliedGroup::Whole(vec![Outcome::ParentDeleted]));
                }
                AcceptOutcome::ApprovalClosed { asked } => {
                    let closed = Outcome::ApprovalClosed { asked };
                    return Ok(AppliedGroup::Whole(vec![closed]));
                }
                AcceptOutcome::ConversationBusy => {
                    return Ok(AppliedGroup::Whole(vec![Outcome::ConversationBusy]));
                }
            };
            // Nobody else knows yet of a turn that this group makes, so its fence holds.
            let turn = TurnKey {
                key,
                organization: new.organization,
                fence: FIRST_FENCE,
                contents,
            };
            let mut outcomes = Vec::with_capacity(1 + first.len());
            outcomes.push(Outcome::Done);
            apply_each_of_turn(db, rules, turn, first, outcomes)
        }
        ChangeGroup::OfTurn(fence, changes) => {
            let turn = check_fence(db, rules, *fence, contents)?;
            let outcomes = Vec::with_capacity(changes.len());
            apply_each_of_turn(db, rules, turn, changes, outcomes)
        }
        ChangeGroup::Free(changes) => {
            let mut imports = writable.imports.iter();
            let outcomes = changes
                .iter()
                .map(|change| apply_free(db, change, &mut imports, contents));
            Ok(AppliedGroup::Whole(outcomes.collect::<Result<_, _>>()?))
        }
    }
}

fn apply_each_of_turn(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    turn: TurnKey<'_>,
    changes: &[TurnChange],
    mut outcomes: Vec<Outcome>,
) -> Result<AppliedGroup, StoreApplyError> {
    for (before, change) in changes.iter().enumerate() {
        let outcome = apply_of_turn(db, rules, turn, change)?;
        if let Outcome::CallEnded { call, .. } = &outcome {
            // A group that ends a call twice is wrong in itself, and no race was lost.
            if changes[..before].iter().any(|change| ends(change, *call)) {
                return Err(StoreApplyError::Guard {
                    what: "changing a call that the same group has ended",
                });
            }
            return Ok(AppliedGroup::TooLate(outcome));
        }
        outcomes.push(outcome);
    }
    Ok(AppliedGroup::Whole(outcomes))
}

fn ends(change: &TurnChange, at: CallRef) -> bool {
    match change {
        TurnChange::AddCall(new) => new.call == at && new.end.is_some(),
        TurnChange::HandOverCall(handed) => handed.call == at,
        TurnChange::EndCall { call, .. } => *call == at,
        TurnChange::OpenAttempt(_)
        | TurnChange::CloseAttempt(_)
        | TurnChange::Charge(_)
        | TurnChange::CountTokens { .. }
        | TurnChange::AddMessage(_)
        | TurnChange::StartCall { .. }
        | TurnChange::AskApproval { .. }
        | TurnChange::AwaitCallback(_)
        | TurnChange::DetachCall { .. }
        | TurnChange::EndOutsideCall { .. }
        | TurnChange::TakeQueuedRow(_)
        | TurnChange::AppendEvents(_)
        | TurnChange::NoteStop { .. }
        | TurnChange::NoteResumed { .. }
        | TurnChange::EndTurn(_) => false,
    }
}

/// The look for a turn under its fence. PostgreSQL locks its row, so that nobody claims it meanwhile.
pub(crate) const CHECK_FENCE: Sql = Sql {
    sqlite: "SELECT turn FROM turn_state
        WHERE turn = (SELECT key FROM turn_start WHERE organization = ?1 AND id = ?2) AND fence = ?3",
    postgres: "SELECT turn FROM turn_state
        WHERE turn = (SELECT key FROM turn_start WHERE organization = ?1 AND id = ?2) AND fence = ?3
        FOR NO KEY UPDATE",
};

/// The look for a turn without its fence, which only a test's store makes.
const FIND_WITHOUT_FENCE: &str =
    "SELECT key FROM turn_start WHERE organization = ?1 AND id = ?2 AND ?3 IS NOT NULL";

/// The first statement of every write to a turn. On SQLite a look is enough: the transaction holds the only
/// right to write, so no claim is made between this and its end.
fn check_fence<'a>(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    fence: Fence,
    contents: ContentCutter<'a>,
) -> Result<TurnKey<'a>, StoreApplyError> {
    let sql = if rules.fence {
        CHECK_FENCE
    } else {
        FIND_WITHOUT_FENCE.into()
    };
    let found = match db.fenced_turn(fence) {
        Some(found) => found,
        None => {
            let bound = params![fence.organization.0, fence.turn.to_string(), fence.fence];
            query_key(db, "checking the fence", sql, bound)?
        }
    };
    match found {
        Some(key) => Ok(TurnKey {
            key,
            organization: fence.organization,
            fence: fence.fence,
            contents,
        }),
        None => Err(StoreApplyError::Fenced {
            turn: fence.turn,
            fence: fence.fence,
        }),
    }
}

fn apply_of_turn(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    turn: TurnKey<'_>,
    change: &TurnChange,
) -> Result<Outcome, StoreApplyError> {
    match change {
        TurnChange::OpenAttempt(open) => turn_changes::open_attempt(db, turn, open),
        TurnChange::CloseAttempt(close) => turn_changes::close_attempt(db, rules, turn, close),
        TurnChange::Charge(charge) => charges::charge(db, turn, charge),
        TurnChange::CountTokens { tokens, at } => quotas::count_tokens(db, turn, *tokens, *at),
        TurnChange::AddMessage(message) => turn_changes::add_message(db, turn, message),
        TurnChange::AddCall(call) => turn_changes::add_call(db, turn, call),
        TurnChange::StartCall { call, at } => turn_changes::start_call(db, rules, turn, *call, *at),
        TurnChange::HandOverCall(handed) => turn_changes::hand_over_call(db, rules, turn, handed),
        TurnChange::AskApproval { call, until, at } => {
            approvals::ask(db, rules, turn, *call, (*until, *at))
        }
        TurnChange::AwaitCallback(awaited) => {
            turn_changes::await_callback(db, rules, turn, awaited)
        }
        TurnChange::DetachCall { call, told, at } => {
            turn_changes::detach_call(db, rules, turn, *call, (told, *at))
        }
        TurnChange::EndCall { call, end, at } => {
            turn_changes::end_call(db, rules, turn, *call, end, *at)
        }
        TurnChange::EndOutsideCall { call, is_error, at } => {
            outside::end_outside_call(db, turn, (*call, *is_error), *at)
        }
        TurnChange::TakeQueuedRow(row) => queued::take(db, turn, *row),
        TurnChange::AppendEvents(flush) => turn_changes::append_events(db, turn, flush),
        TurnChange::NoteStop { reason, at } => turn_changes::note_stop(db, turn, *reason, *at),
        TurnChange::NoteResumed { at } => turn_changes::note_resumed(db, turn, *at),
        TurnChange::EndTurn(end) => turn_changes::end_turn(db, rules, turn, end),
    }
}

fn apply_free(
    db: &mut WriteSession<'_>,
    change: &Change,
    imports: &mut std::slice::Iter<'_, EncodedImport>,
    contents: ContentCutter<'_>,
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
        Change::CreateConversation(new) => items::create_conversation(db, new),
        Change::ChangeConversation(change) => items::change_conversation(db, change),
        Change::DeleteConversation(delete) => conversation::delete(db, delete),
        Change::DeleteItem(delete) => items::delete_item(db, delete),
        Change::DeleteTurn {
            organization,
            turn,
            at,
        } => conversation::delete_turn(db, *organization, *turn, *at),
        Change::EraseEndUser(erase) => end_users::erase(db, erase),
        Change::DeleteErased { at, turns_max } => end_users::delete_erased(db, *at, *turns_max),
        Change::ImportTurns(import) => imported::import(db, import, imports.next(), contents),
        Change::CompleteCall(complete) => outside::complete_call(db, complete, contents),
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
        Change::ExpireContents {
            organization,
            before,
            now,
            turns_max,
        } => retention::expire_contents(db, *organization, (*before, *now), *turns_max),
        Change::DeleteToolVersions { versions } => tools::delete_versions(db, versions),
        Change::ExpireEvents { before, turns_max } => {
            retention::expire_events(db, *before, *turns_max)
        }
        Change::TakeCallback(taken) => callbacks::take(db, taken, contents),
        Change::ExpireCallbackDeliveries {
            before,
            deliveries_max,
        } => callbacks::expire(db, *before, *deliveries_max),
        Change::ExpireCallbacks { now, calls_max } => {
            outside::expire_callbacks(db, *now, *calls_max, contents)
        }
        Change::ExpireApprovals { now, calls_max } => approvals::expire(db, *now, *calls_max),
        Change::TakeCallQuotas(take) => quotas::take(db, take),
        Change::ExpireQuotas { before, rows_max } => quotas::expire(db, *before, *rows_max),
        Change::CheckWritable { at } => tenant::check_writable(db, *at),
        Change::ExpireRequestKeys { before, keys_max } => {
            retention::expire_request_keys(db, *before, *keys_max)
        }
        Change::OfWebhook(change) => webhooks::apply(db, change),
        Change::OfJob(change) => jobs::apply(db, change, contents),
        Change::RefuseQueuedRow { row, fault, at } => queued::refuse(db, *row, (fault, *at)),
        Change::ExpireQueuedRows { before, rows_max } => queued::expire(db, *before, *rows_max),
        Change::RecordRelayedRequest(relayed) => relayed::record(db, relayed),
        Change::ExpireRelayedRequests {
            before,
            requests_max,
        } => relayed::expire(db, *before, *requests_max),
    }
}

/// Runs a statement and returns how many rows it touched.
pub(crate) fn execute(
    db: &mut WriteSession<'_>,
    what: &'static str,
    sql: impl Into<Sql>,
    bound: Params<'_>,
) -> Result<usize, StoreApplyError> {
    db.execute(sql, bound)
        .map_err(|error| StoreApplyError::db(what, error))
}

/// Runs a statement that nearly always touches one row, and returns how many it touched.
fn execute_one(
    db: &mut WriteSession<'_>,
    what: &'static str,
    sql: impl Into<Sql>,
    bound: Params<'_>,
) -> Result<usize, StoreApplyError> {
    db.execute_one(sql, bound)
        .map_err(|error| StoreApplyError::db(what, error))
}

/// Runs a statement of which nobody asks how many rows it touched.
pub(crate) fn run(
    db: &mut WriteSession<'_>,
    what: &'static str,
    sql: impl Into<Sql>,
    bound: Params<'_>,
) -> Result<(), StoreApplyError> {
    db.run(sql, bound)
        .map_err(|error| StoreApplyError::db(what, error))
}

/// Runs a statement that must touch one row.
fn execute_guarded(
    db: &mut WriteSession<'_>,
    what: &'static str,
    sql: impl Into<Sql>,
    bound: Params<'_>,
) -> Result<Outcome, StoreApplyError> {
    match execute_one(db, what, sql, bound)? {
        0 => Err(StoreApplyError::Guard { what }),
        _ => Ok(Outcome::Done),
    }
}

/// The key for a row that will be inserted; `None` where the insert makes it.
pub(crate) fn new_key(
    db: &mut WriteSession<'_>,
    what: &'static str,
    table: KeyedTable,
) -> Result<Option<i64>, StoreApplyError> {
    db.new_key(table)
        .map_err(|error| StoreApplyError::db(what, error))
}

/// Runs an insert of one row under the key that [`new_key`] gave and returns its key; `None` if no row was written.
pub(crate) fn insert(
    db: &mut WriteSession<'_>,
    what: &'static str,
    sql: impl Into<Sql>,
    key: Option<i64>,
    bound: Params<'_>,
) -> Result<Option<i64>, StoreApplyError> {
    db.insert(sql, key, bound)
        .map_err(|error| StoreApplyError::db(what, error))
}

/// Runs a statement that locks what is looked at next, so that a look and the write behind it see the same; SQLite has
/// one writer and needs none.
fn lock_rows(
    db: &mut WriteSession<'_>,
    what: &'static str,
    sql: &'static str,
    bound: Params<'_>,
) -> Result<(), StoreApplyError> {
    match db.engine() {
        Engine::Sqlite => Ok(()),
        Engine::Postgres => run(db, what, sql, bound),
    }
}

/// Tells the other servers on the database, once this is committed, that there is something for them; it may get lost.
fn hint(db: &mut WriteSession<'_>, what: &'static str) -> Result<(), StoreApplyError> {
    match db.engine() {
        Engine::Sqlite => Ok(()),
        Engine::Postgres => {
            db.note_hint();
            run(db, what, "SELECT pg_notify('turnwright', '')", params![])
        }
    }
}

/// Locks an organization, for a count of its rows that decides whether there is one more.
fn lock_organization(
    db: &mut WriteSession<'_>,
    what: &'static str,
    organization: OrgId,
) -> Result<(), StoreApplyError> {
    let sql = "SELECT 1 FROM organization WHERE key = ?1 FOR NO KEY UPDATE";
    lock_rows(db, what, sql, params![organization.0])
}

/// The integer that a statement returns, if it returns a row.
pub(crate) fn query_key(
    db: &mut WriteSession<'_>,
    what: &'static str,
    sql: impl Into<Sql>,
    bound: Params<'_>,
) -> Result<Option<i64>, StoreApplyError> {
    db.first(sql, bound, |row| row.get(0))
        .map_err(|error| StoreApplyError::db(what, error))
}
