//! Changes that a turn's driver writes under the turn's fence.

use std::borrow::Cow;

use tw_core::approval::ApprovalState;
use tw_core::call::{CallEnd, CallReason, CallStatus};
use tw_core::change::{
    AwaitedCallback, CloseAttempt, EndTurn, EventFlush, HandedCall, NewCall, NewMessage,
    OpenAttempt, Outcome,
};
use tw_core::id::CallRef;
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_wire::stored;

use super::{
    GuardRules, StoreApplyError, TurnKey, brought, charges, execute_guarded, execute_one, jobs,
    lock_rows, query_key, run, webhook_events,
};
use crate::blob::{self, ContentCutter, HeldText, TextHolder};
use crate::enum_words;
use crate::read::ReadError;
use crate::session::bound::{Params, params};
use crate::session::sql::Sql;
use crate::session::{Engine, WriteSession};

/// The position of an attempt of a model request, in the attempt's key.
pub(crate) const MODEL_REQUEST: i64 = -1;

fn place(position: Option<u32>) -> i64 {
    position.map_or(MODEL_REQUEST, i64::from)
}

/// The start of an attempt of a call that has not ended, for which SQLite looks before: an insert that looked for itself
/// would keep copies of the pages that it changes.
const OPEN_ATTEMPT: Sql = Sql {
    sqlite: "INSERT INTO attempt (turn, round, position, n, upstream, created_us, updated_us)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
    postgres: "INSERT INTO attempt (turn, round, position, n, upstream, created_us, updated_us)
        SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?6
        WHERE NOT EXISTS (SELECT 1 FROM tool_call
                          WHERE turn = ?1 AND round = ?2 AND position = ?3 AND ended_us IS NOT NULL)",
};

pub fn open_attempt(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    open: &OpenAttempt,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "opening an attempt";
    let round = open.round;
    let call = open.position.map(|position| CallRef { round, position });
    if db.engine() == Engine::Sqlite
        && let Some(call) = call
        && let Some(outcome) = end_of_call(db, turn, call, WHAT)?
    {
        return Ok(outcome);
    }
    let bound = params![
        turn.key,
        open.round,
        place(open.position),
        open.n,
        open.upstream,
        open.at.0
    ];
    match (execute_one(db, WHAT, OPEN_ATTEMPT, bound)?, call) {
        (0, Some(call)) => {
            end_of_call(db, turn, call, WHAT)?.ok_or(StoreApplyError::Guard { what: WHAT })
        }
        (0, None) => Err(StoreApplyError::Guard { what: WHAT }),
        (_, _) => Ok(Outcome::Done),
    }
}

const CLOSE_ATTEMPT: &str = "UPDATE attempt
    SET outcome = ?5, http_status = ?6, usage = ?7, ended_us = ?8, updated_us = ?8
    WHERE turn = ?1 AND round = ?2 AND position = ?3 AND n = ?4 /* guard */ AND outcome IS NULL";

pub fn close_attempt(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    turn: TurnKey<'_>,
    close: &CloseAttempt,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![
        turn.key,
        close.round,
        place(close.position),
        close.n,
        close.outcome.as_str(),
        close.http_status,
        close.usage.as_ref().map(stored::events::encode_usage),
        close.at.0,
    ];
    execute_guarded(db, "closing an attempt", rules.sql(CLOSE_ATTEMPT), bound)
}

pub fn add_message(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    message: &NewMessage,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "adding a message";
    let sql =
        "INSERT INTO message (turn, round, seq, role, blocks, created_us, updated_us, blob_bytes)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)";
    let (round, seq) = (message.round, message.seq);
    let blocks = stored::blocks::encode(&message.blocks, message.origin.as_deref());
    let held = turn.holds(TextHolder::Message { round, seq }, &blocks, message.at);
    let rest = blob::store(db, WHAT, held, &turn.contents.find(&blocks))?;
    let bound = params![
        turn.key,
        message.round,
        message.seq,
        enum_words::role(message.role),
        rest,
        message.at.0,
        (blocks.len() - rest.len()) as i64,
    ];
    let outcome = execute_guarded(db, WHAT, sql, bound)?;
    brought::note_results(db, turn, message)?;
    Ok(outcome)
}

impl TurnKey<'_> {
    /// A text of the turn.
    fn holds<'t>(self, holder: TextHolder, text: &'t str, at: Timestamp) -> HeldText<'t> {
        HeldText {
            organization: self.organization,
            turn: self.key,
            holder,
            text,
            at,
        }
    }
}

/// The result of a call as its row holds it.
pub(super) struct StoredResult<'a> {
    pub rest: Option<Cow<'a, str>>,
    pub blob_bytes: i64,
}

impl<'a> StoredResult<'a> {
    /// Stores the contents of a call's result, which its row must not hold yet.
    fn store(
        db: &mut WriteSession<'_>,
        what: &'static str,
        (turn, call): (TurnKey<'_>, CallRef),
        (end, at): (Option<&'a CallEnd>, Timestamp),
    ) -> Result<Self, StoreApplyError> {
        let Some(result) = end.and_then(|end| end.result.as_deref()) else {
            return Ok(Self::none());
        };
        let held = turn.holds(TextHolder::Result(call), result, at);
        Self::of(db, what, held, turn.contents)
    }

    pub(super) fn none() -> Self {
        Self {
            rest: None,
            blob_bytes: 0,
        }
    }

    pub(super) fn of(
        db: &mut WriteSession<'_>,
        what: &'static str,
        held: HeldText<'a>,
        contents: ContentCutter<'_>,
    ) -> Result<Self, StoreApplyError> {
        let rest = blob::store(db, what, held, &contents.find(held.text))?;
        Ok(Self {
            blob_bytes: (held.text.len() - rest.len()) as i64,
            rest: Some(rest),
        })
    }
}

const ADD_CALL: &str = "INSERT INTO tool_call
    (turn, round, position, organization, id, runs, effect, tool_name, tool_call_id, callback_token,
     idempotency_key, arguments, status, reason, result, shown, is_error, started_us, ended_us,
     created_us, updated_us, cached, tool_version, blob_bytes, approval, approves, sensitive)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?20, ?21,
            ?22, ?23, ?24, ?25, ?26)";

const OWNER_OF_VERSION: &str =
    "SELECT t.organization FROM tool_version v JOIN tool t ON t.key = v.tool
    WHERE v.key = ?1";

/// A call names a version only of its own organization's tools.
///
/// An insert that looked for itself would keep copies of the pages that it changes, in case that it fails halfway.
pub fn add_call(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    new: &NewCall,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "adding a tool call";
    if let Some(version) = new.tool_version
        && query_key(db, WHAT, OWNER_OF_VERSION, params![version.0])? != Some(turn.organization.0)
    {
        return Err(StoreApplyError::Guard { what: WHAT });
    }
    if new
        .end
        .as_ref()
        .map_or(!new.status.is_final(), |end| end.status() == new.status)
    {
        let end = new.end.as_ref();
        let result = StoredResult::store(db, WHAT, (turn, new.call), (end, new.at))?;
        let started = (new.status == CallStatus::Processing).then_some(new.at.0);
        let bound = params![
            turn.key,
            new.call.round,
            new.call.position,
            turn.organization.0,
            new.id.to_string(),
            new.runs.as_str(),
            new.effect.map(EffectClass::as_str),
            new.tool_name,
            new.tool_call_id,
            new.callback_token,
            new.idempotency_key,
            new.arguments,
            new.status.as_str(),
            end.and_then(|end| end.reason).map(CallReason::as_str),
            result.rest,
            end.map(|end| end.shown.as_str()),
            end.map(|end| end.is_error),
            started,
            end.map(|_| new.at.0),
            new.at.0,
            end.is_some_and(|end| end.cached),
            new.tool_version.map(|version| version.0),
            result.blob_bytes,
            new.approval.map(ApprovalState::as_str),
            new.approves.map(|asked| asked.to_string()),
            new.sensitive.as_ref().map(stored::sensitive_call::encode),
        ];
        let outcome = execute_guarded(db, WHAT, ADD_CALL, bound)?;
        if let Some(end) = end {
            webhook_events::tell_of_call(db, turn, new.call, end, new.at)?;
        }
        return Ok(outcome);
    }
    Err(StoreApplyError::Guard {
        what: "a tool call's status and its end",
    })
}

const END_OF_CALL: &str =
    "SELECT reason, result, shown, is_error, cached, blob_bytes FROM tool_call
    WHERE turn = ?1 AND round = ?2 AND position = ?3 AND ended_us IS NOT NULL";

/// The outcome of a change of a call that has ended; `None` while it has not, or is not there.
fn end_of_call(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    call: CallRef,
    what: &'static str,
) -> Result<Option<Outcome>, StoreApplyError> {
    let bound = params![turn.key, call.round, call.position];
    let found = db.first(END_OF_CALL, bound, |row| {
        let end = CallEnd {
            reason: None,
            result: row.get(1)?,
            shown: row.get(2)?,
            is_error: row.get(3)?,
            cached: row.get(4)?,
        };
        Ok((row.get::<Option<String>>(0)?, end, row.get::<i64>(5)?))
    });
    let found = found.map_err(|error| StoreApplyError::db(what, error))?;
    let Some((word, mut end, blob_bytes)) = found else {
        return Ok(None);
    };
    if let Some(rest) = end.result.take() {
        let holder = TextHolder::Result(call);
        let whole = blob::whole_text(
            db.reader(),
            turn.key,
            holder,
            rest,
            blob_bytes.unsigned_abs(),
        );
        end.result = Some(whole.map_err(|error| unread(what, error))?);
    }
    let reason = match word {
        Some(word) => Some(CallReason::parse(&word).ok_or(StoreApplyError::Guard {
            what: "reading why a tool call failed",
        })?),
        None => None,
    };
    let end = CallEnd { reason, ..end };
    Ok(Some(Outcome::CallEnded { call, end }))
}

fn unread(what: &'static str, error: ReadError) -> StoreApplyError {
    match error {
        ReadError::Db(error) => StoreApplyError::db(what, error),
        ReadError::Damaged(_)
        | ReadError::Column { .. }
        | ReadError::Newer { .. }
        | ReadError::Closed => StoreApplyError::Guard { what },
    }
}

/// Runs an update of one call, which must be in a state that allows it.
pub(super) fn change_call(
    db: &mut WriteSession<'_>,
    (turn, call): (TurnKey<'_>, CallRef),
    what: &'static str,
    sql: &'static str,
    bound: Params<'_>,
) -> Result<Outcome, StoreApplyError> {
    match execute_one(db, what, sql, bound)? {
        0 => end_of_call(db, turn, call, what)?.ok_or(StoreApplyError::Guard { what }),
        _ => Ok(Outcome::Done),
    }
}

const START_CALL: &str = "UPDATE tool_call
    SET status = 'processing', started_us = coalesce(started_us, ?4), updated_us = ?4
    WHERE turn = ?1 AND round = ?2 AND position = ?3 /* guard */ AND status = 'pending'";

pub fn start_call(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    turn: TurnKey<'_>,
    call: CallRef,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![turn.key, call.round, call.position, at.0];
    let sql = rules.sql(START_CALL);
    change_call(db, (turn, call), "starting a tool call", sql, bound)
}

const HAND_OVER_CALL: &str = "UPDATE tool_call
    SET tool_name = ?4, tool_call_id = ?5, arguments = ?6, status = 'completed', shown = '', is_error = 0,
        ended_us = ?7, updated_us = ?7
    WHERE turn = ?1 AND round = ?2 AND position = ?3 AND runs = 'client' /* guard */ AND status = 'pending'";

pub fn hand_over_call(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    turn: TurnKey<'_>,
    handed: &HandedCall,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![
        turn.key,
        handed.call.round,
        handed.call.position,
        handed.tool_name,
        handed.tool_call_id,
        handed.arguments,
        handed.at.0,
    ];
    let sql = rules.sql(HAND_OVER_CALL);
    change_call(db, (turn, handed.call), "handing over a call", sql, bound)
}

const AWAIT_CALLBACK: &str = "UPDATE tool_call SET external_id = coalesce(?4, external_id), deadline_us = ?5, updated_us = ?6
    WHERE turn = ?1 AND round = ?2 AND position = ?3 AND runs = 'server' /* guard */ AND status = 'processing'";

pub fn await_callback(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    turn: TurnKey<'_>,
    awaited: &AwaitedCallback,
) -> Result<Outcome, StoreApplyError> {
    let call = awaited.call;
    let bound = params![
        turn.key,
        call.round,
        call.position,
        awaited.external_id,
        awaited.until.0,
        awaited.at.0,
    ];
    let sql = rules.sql(AWAIT_CALLBACK);
    let outcome = change_call(db, (turn, call), "awaiting a callback", sql, bound)?;
    if outcome == Outcome::Done {
        jobs::add(db, turn, awaited)?;
    }
    Ok(outcome)
}

const DETACH_CALL: &str = "UPDATE tool_call SET told = ?4, updated_us = ?5
    WHERE turn = ?1 AND round = ?2 AND position = ?3 AND deadline_us IS NOT NULL /* guard */ AND status = 'processing'";

pub fn detach_call(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    turn: TurnKey<'_>,
    call: CallRef,
    (told, at): (&str, Timestamp),
) -> Result<Outcome, StoreApplyError> {
    let bound = params![turn.key, call.round, call.position, told, at.0];
    let sql = rules.sql(DETACH_CALL);
    change_call(db, (turn, call), "going on without a call", sql, bound)
}

const END_CALL: &str = "UPDATE tool_call
    SET status = ?4, reason = ?5, result = ?6, shown = ?7, is_error = ?8, cached = ?9,
        ended_us = ?10, updated_us = ?10, blob_bytes = ?11
    WHERE turn = ?1 AND round = ?2 AND position = ?3 /* guard */ AND status IN ('pending', 'processing')";

/// It may end from outside meanwhile.
const LOCK_CALL: &str = "SELECT 1 FROM tool_call
    WHERE turn = ?1 AND round = ?2 AND position = ?3 FOR NO KEY UPDATE";

pub fn end_call(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    turn: TurnKey<'_>,
    call: CallRef,
    end: &CallEnd,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "ending a tool call";
    let is_large = |result: &str| !turn.contents.find(result).is_empty();
    if end.result.as_deref().is_some_and(is_large) {
        // The contents of a result that is there stand where those of this one would.
        lock_rows(
            db,
            WHAT,
            LOCK_CALL,
            params![turn.key, call.round, call.position],
        )?;
        if let Some(ended) = end_of_call(db, turn, call, WHAT)? {
            return Ok(ended);
        }
    }
    let result = StoredResult::store(db, WHAT, (turn, call), (Some(end), at))?;
    let bound = params![
        turn.key,
        call.round,
        call.position,
        end.status().as_str(),
        end.reason.map(CallReason::as_str),
        result.rest,
        end.shown,
        end.is_error,
        end.cached,
        at.0,
        result.blob_bytes,
    ];
    let sql = rules.sql(END_CALL);
    let outcome = change_call(db, (turn, call), WHAT, sql, bound)?;
    if outcome == Outcome::Done {
        webhook_events::tell_of_call(db, turn, call, end, at)?;
    }
    Ok(outcome)
}

const NEXT_EVENT: &str =
    "SELECT first + count FROM turn_event WHERE turn = ?1 ORDER BY first DESC LIMIT 1";

/// PostgreSQL looks itself for the event that comes before.
const APPEND_EVENTS: Sql = Sql {
    sqlite: "INSERT INTO turn_event (turn, first, count, fence, payload, created_us, updated_us, blob_bytes)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)",
    postgres: "INSERT INTO turn_event (turn, first, count, fence, payload, created_us, updated_us, blob_bytes)
        SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7
        WHERE ?2 = 1
           OR ?2 = (SELECT first + count FROM turn_event WHERE turn = ?1 ORDER BY first DESC LIMIT 1)",
};

/// The log has no gaps and no event twice.
pub fn append_events(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    flush: &EventFlush,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "appending events";
    if flush.events.is_empty() {
        return Ok(Outcome::Done);
    }
    let first = i64::try_from(flush.first).map_err(|_| StoreApplyError::Encode {
        what: "an event's number",
    })?;
    let count = i64::try_from(flush.events.len()).map_err(|_| StoreApplyError::Encode {
        what: "a count of events",
    })?;
    // Before the first there is nothing, or the insert meets it.
    if db.engine() == Engine::Sqlite
        && first > 1
        && query_key(db, WHAT, NEXT_EVENT, params![turn.key])? != Some(first)
    {
        return Err(StoreApplyError::Guard { what: WHAT });
    }
    let payload = stored::events::encode(&flush.events);
    let held = turn.holds(TextHolder::Events { first }, &payload, flush.at);
    let rest = blob::store(db, WHAT, held, &turn.contents.find(&payload))?;
    let bound = params![
        turn.key,
        first,
        count,
        turn.fence,
        rest,
        flush.at.0,
        (payload.len() - rest.len()) as i64,
    ];
    execute_guarded(db, WHAT, APPEND_EVENTS, bound)
}

/// The first reason stands.
const NOTE_STOP: &str =
    "UPDATE turn_state SET stop_reason = coalesce(stop_reason, ?2), updated_us = ?3
    WHERE turn = ?1 AND status = 'running'";

pub fn note_stop(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    reason: TurnReason,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![turn.key, reason.as_str(), at.0];
    execute_guarded(db, "noting that a turn is to stop", NOTE_STOP, bound)
}

const NOTE_RESUMED: &str = "UPDATE turn_state SET claims_open = 0, updated_us = ?2 WHERE turn = ?1";

pub fn note_resumed(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![turn.key, at.0];
    execute_guarded(db, "noting that a turn goes on", NOTE_RESUMED, bound)
}

/// The end of a turn. A turn that was deleted while it ran is found by nothing, and its contents are due at once.
const END_TURN: &str = "UPDATE turn_state
    SET status = ?2, reason = ?3, usage = ?4, has_tool_calls = ?5, tool_count = ?6,
        erase_after_us = (SELECT CASE WHEN t.deleted_us IS NOT NULL THEN ?8 WHEN t.record = 'minimal' THEN ?7 END
                          FROM turn_start t WHERE t.key = ?1),
        ended_us = ?8, updated_us = ?8,
        history_hash = (SELECT ?9 FROM turn_start t WHERE ?9 IS NOT NULL AND t.key = ?1 AND t.deleted_us IS NULL),
        hidden_hash = (SELECT ?10 FROM turn_start t WHERE ?10 IS NOT NULL AND t.key = ?1 AND t.deleted_us IS NULL),
        had_effects = ?11,
        on_head_path = (SELECT count(*) FROM turn_start t
                        WHERE ?12 = 1 AND t.key = ?1 AND t.deleted_us IS NULL
                          AND (t.item_source IS NOT NULL
                               OR NOT EXISTS (SELECT 1 FROM conversation c
                                              WHERE c.key = t.conversation AND c.api_key IS NOT NULL)))
    WHERE turn = ?1 /* guard */ AND status = 'running'";

/// A conversation that a client made by itself has the items of those turns that are to add theirs, and no branches.
/// [`END_TURN`] marks the turn by the same rule, and a trigger the rest of the path where the head moves to a branch.
pub(super) const MOVE_HEAD: &str = "UPDATE conversation SET head_turn = ?1, updated_us = ?2
    WHERE key = (SELECT conversation FROM turn_start WHERE key = ?1 AND deleted_us IS NULL)
      AND (api_key IS NULL OR (SELECT item_source FROM turn_start WHERE key = ?1) IS NOT NULL)";

pub fn end_turn(
    db: &mut WriteSession<'_>,
    rules: GuardRules,
    turn: TurnKey<'_>,
    end: &EndTurn,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "ending a turn";
    let moves_head = match end.status {
        TurnStatus::Running => return Err(StoreApplyError::Guard { what: WHAT }),
        TurnStatus::Completed | TurnStatus::Incomplete => true,
        TurnStatus::Failed | TurnStatus::Cancelled => false,
    };
    let bound = params![
        turn.key,
        end.status.as_str(),
        end.reason.map(TurnReason::as_str),
        end.usage.as_ref().map(stored::events::encode_usage),
        end.has_tool_calls,
        end.tool_count,
        end.erase_after.map(|at| at.0),
        end.at.0,
        end.remembered.map(|found_by| found_by.history.0),
        end.remembered
            .and_then(|found_by| found_by.hidden)
            .map(|hidden| hidden.0),
        end.had_effects,
        moves_head,
    ];
    let outcome = execute_guarded(db, WHAT, rules.sql(END_TURN), bound)?;
    charges::add_to_day(db, turn, end)?;
    if moves_head {
        run(db, WHAT, MOVE_HEAD, params![turn.key, end.at.0])?;
    }
    webhook_events::tell_of_turn(db, turn, end.status, end.at)?;
    Ok(outcome)
}
