//! Messages, calls and attempts of a turn, by its integer key.

use std::collections::HashMap;
use std::mem;

use tw_core::approval::ApprovalState;
use tw_core::call::{CallEnd, CallReason, CallRunner, CallStatus};
use tw_core::change::{NewCall, NewMessage};
use tw_core::definition::SensitiveCall;
use tw_core::id::{CallId, CallRef, OrgId, ToolId, ToolVersionKey};
use tw_core::request::Role;
use tw_core::tool::{EffectClass, ToolVersion};
use tw_wire::stored::{self, blocks::StoredBlocks};

use super::ReadError;
use super::columns::{get, optional_time, optional_word, time, unsigned, usage, word};
use super::turn::{AttemptEnd, AttemptRow, CallRow};
use crate::blob::{self, TextHolder};
use crate::enum_words;
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::store::Store;

/// The contents of a turn that are read with its rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContentsRead {
    /// No contents: no blocks, no arguments, no results.
    Names,
    /// Contents with results as the model was given them.
    Shown,
    Full,
}

const MESSAGES: &str =
    "SELECT round, seq, role, CASE WHEN ?2 = 1 THEN blocks ELSE '[]' END AS blocks,
        CASE WHEN ?2 = 1 THEN blob_bytes ELSE 0 END AS blob_bytes, created_us
    FROM message
    WHERE turn = ?1 AND round >= ?3 AND round <= ?4 ORDER BY round, seq";

/// The messages of a turn, in order of round and place.
pub fn messages(
    conn: ReadSession<'_>,
    turn: i64,
    contents: ContentsRead,
) -> Result<Vec<NewMessage>, ReadError> {
    messages_from(conn, turn, 0, contents)
}

/// The messages of one round.
pub fn messages_of_round(
    conn: ReadSession<'_>,
    turn: i64,
    round: u32,
    contents: ContentsRead,
) -> Result<Vec<NewMessage>, ReadError> {
    read_messages(conn, turn, (round, round), contents)
}

/// [`messages`] from a round on; in round 0 is what the request brought.
pub fn messages_from(
    conn: ReadSession<'_>,
    turn: i64,
    round: u32,
    contents: ContentsRead,
) -> Result<Vec<NewMessage>, ReadError> {
    read_messages(conn, turn, (round, u32::MAX), contents)
}

fn read_messages(
    conn: ReadSession<'_>,
    turn: i64,
    (first, last): (u32, u32),
    contents: ContentsRead,
) -> Result<Vec<NewMessage>, ReadError> {
    let mut statement = conn.prepare_cached(MESSAGES)?;
    let has_contents = contents > ContentsRead::Names;
    let mut rows = statement.query(params![turn, has_contents, first, last])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        let role: Role = word(row, "role", enum_words::read_role)?;
        let (round, seq) = (get(row, "round")?, get(row, "seq")?);
        let holder = TextHolder::Message { round, seq };
        let written = blob::whole_text(
            conn,
            turn,
            holder,
            get(row, "blocks")?,
            unsigned(row, "blob_bytes")?,
        )?;
        let StoredBlocks { blocks, origin } = stored::blocks::decode(&written)?;
        messages.push(NewMessage {
            round,
            seq,
            role,
            blocks,
            origin,
            at: time(row, "created_us")?,
        });
    }
    Ok(messages)
}

const CALLS: &str = "SELECT c.round, c.position, c.id, c.runs, c.effect, c.tool_version, t.id AS tool,
        v.version, c.tool_name, c.tool_call_id, c.callback_token, c.idempotency_key,
        CASE WHEN ?3 = 1 THEN c.arguments ELSE '' END AS arguments, CASE WHEN ?3 = 1 THEN c.sensitive END AS sensitive,
        c.status, c.reason,
        CASE WHEN ?2 = 1 THEN c.result END AS result,
        CASE WHEN ?3 = 1 OR c.shown IS NULL THEN c.shown ELSE '' END AS shown, c.is_error, c.cached, c.blob_bytes,
        c.cost_microusd, c.started_us, c.ended_us, c.created_us, c.approval, c.approves, c.deadline_us,
        c.external_id, CASE WHEN ?3 = 1 OR c.told IS NULL THEN c.told ELSE '' END AS told
    FROM tool_call c
    LEFT JOIN tool_version v ON v.key = c.tool_version
    LEFT JOIN tool t ON t.key = v.tool
    WHERE c.turn = ?1 ORDER BY c.round, c.position";

/// The calls of a turn, in call order.
pub fn calls(
    conn: ReadSession<'_>,
    turn: i64,
    contents: ContentsRead,
) -> Result<Vec<CallRow>, ReadError> {
    let mut statement = conn.prepare_cached(CALLS)?;
    let mut rows = statement.query(params![
        turn,
        contents == ContentsRead::Full,
        contents > ContentsRead::Names
    ])?;
    let mut calls = Vec::new();
    while let Some(row) = rows.next()? {
        let mut read = call(row)?;
        if let Some(result) = read.call.end.as_mut().and_then(|end| end.result.as_mut()) {
            let holder = TextHolder::Result(read.call.call);
            let blob_bytes = unsigned(row, "blob_bytes")?;
            *result = blob::whole_text(conn, turn, holder, mem::take(result), blob_bytes)?;
        }
        calls.push(read);
    }
    Ok(calls)
}

fn call(row: Row<'_>) -> Result<CallRow, ReadError> {
    let status: CallStatus = word(row, "status", CallStatus::parse)?;
    let end = if status.is_final() {
        Some(CallEnd {
            reason: optional_word(row, "reason", CallReason::parse)?,
            result: get(row, "result")?,
            shown: get(row, "shown")?,
            is_error: get(row, "is_error")?,
            cached: get(row, "cached")?,
        })
    } else {
        None
    };
    let version = version(row)?;
    Ok(CallRow {
        call: NewCall {
            call: CallRef {
                round: get(row, "round")?,
                position: get(row, "position")?,
            },
            id: word(row, "id", CallId::parse)?,
            runs: word(row, "runs", CallRunner::parse)?,
            effect: optional_word(row, "effect", EffectClass::parse)?,
            tool_version: version.map(|version| version.key),
            tool_name: get(row, "tool_name")?,
            tool_call_id: get(row, "tool_call_id")?,
            arguments: get(row, "arguments")?,
            sensitive: sensitive(row)?,
            status,
            end,
            idempotency_key: get(row, "idempotency_key")?,
            callback_token: get(row, "callback_token")?,
            approval: optional_word(row, "approval", ApprovalState::parse)?,
            approves: optional_word(row, "approves", CallId::parse)?,
            at: time(row, "created_us")?,
        },
        tool_version: version,
        started: optional_time(row, "started_us")?,
        ended: optional_time(row, "ended_us")?,
        until: optional_time(row, "deadline_us")?,
        external_id: get(row, "external_id")?,
        told: get(row, "told")?,
        cost_microusd: get(row, "cost_microusd")?,
    })
}

fn sensitive(row: Row<'_>) -> Result<Option<SensitiveCall>, ReadError> {
    let stored: Option<String> = get(row, "sensitive")?;
    let decoded = stored.map(|text| stored::sensitive_call::decode(&text));
    Ok(decoded.transpose()?)
}

fn version(row: Row<'_>) -> Result<Option<ToolVersion>, ReadError> {
    let Some(key) = get(row, "tool_version")? else {
        return Ok(None);
    };
    Ok(Some(ToolVersion {
        tool: word(row, "tool", ToolId::parse)?,
        key: ToolVersionKey(key),
        number: get(row, "version")?,
    }))
}

const SENSITIVE: &str = "SELECT sensitive FROM tool_call
    WHERE organization = ?1 AND id = ?2 AND sensitive IS NOT NULL";

impl Store {
    /// What of these calls may not be shown, for those of which there is something.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn sensitive_calls(
        &self,
        organization: OrgId,
        calls: Vec<CallId>,
    ) -> Result<HashMap<CallId, SensitiveCall>, ReadError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(SENSITIVE)?;
            let mut found = HashMap::new();
            for call in calls {
                let mut rows = statement.query(params![organization.0, call.to_string()])?;
                if let Some(row) = rows.next()?
                    && let Some(sensitive) = sensitive(row)?
                {
                    found.insert(call, sensitive);
                }
            }
            Ok(found)
        })
        .await
    }
}

/// A model request has no position.
const ATTEMPTS: &str =
    "SELECT round, CASE WHEN position >= 0 THEN position END AS position, n, upstream, outcome,
        http_status, usage, cost_microusd, ended_us, created_us
    FROM attempt WHERE turn = ?1 ORDER BY round, attempt.position, n";

/// The attempts of a turn by round; in a round the model's first, then by call.
pub fn attempts(conn: ReadSession<'_>, turn: i64) -> Result<Vec<AttemptRow>, ReadError> {
    let mut statement = conn.prepare_cached(ATTEMPTS)?;
    let mut rows = statement.query(params![turn])?;
    let mut attempts = Vec::new();
    while let Some(row) = rows.next()? {
        let outcome: Option<String> = get(row, "outcome")?;
        let end = match outcome {
            Some(outcome) => Some(AttemptEnd {
                outcome: enum_words::read_outcome(outcome),
                http_status: get(row, "http_status")?,
                usage: usage(row, "usage")?,
                cost_microusd: get(row, "cost_microusd")?,
                at: time(row, "ended_us")?,
            }),
            None => None,
        };
        attempts.push(AttemptRow {
            round: get(row, "round")?,
            position: get(row, "position")?,
            n: get(row, "n")?,
            upstream: get(row, "upstream")?,
            started: time(row, "created_us")?,
            end,
        });
    }
    Ok(attempts)
}
