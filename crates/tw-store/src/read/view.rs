//! A turn as somebody looks at it: round by round, without its secrets.

use std::collections::BTreeMap;

use tw_core::approval::ApprovalState;
use tw_core::call::{CallEnd, CallRunner, CallStatus};
use tw_core::change::NewMessage;
use tw_core::id::{CallId, CallRef, OrgId, TurnId};
use tw_core::request_changes::RequestChanges;
use tw_core::time::Timestamp;
use tw_core::tool::{EffectClass, ToolVersion};
use tw_wire::stored::context;

use super::ReadError;
use super::approvals::{self, ApprovalAnswered};
use super::call_files::{self, FileView};
use super::calls::{self, ContentsRead};
use super::turn::{AttemptRow, CallRow, TurnRow, find_turn};
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::store::Store;

/// The results of calls that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultDetail {
    /// The result that the model was given.
    Shown,
    /// The full result as well.
    Full,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TurnView {
    pub turn: TurnRow,
    /// What of the request the upstream that was asked first did not get as it was written; none once that is erased.
    pub changes: RequestChanges,
    /// The messages that the request brought.
    pub input: Vec<NewMessage>,
    /// The turn's rounds, from round 1; calls that it ran by an approval stand in a round 0 before them.
    pub rounds: Vec<RoundView>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RoundView {
    pub round: u32,
    /// Attempts of the model request, each with its usage.
    pub attempts: Vec<AttemptRow>,
    pub messages: Vec<NewMessage>,
    pub calls: Vec<CallView>,
}

/// A call without its callback token.
#[derive(Clone, Debug, PartialEq)]
pub struct CallView {
    pub call: CallRef,
    pub id: CallId,
    pub runs: CallRunner,
    pub effect: Option<EffectClass>,
    /// `None` for a tool that is not a stored one.
    pub tool_version: Option<ToolVersion>,
    pub tool_name: String,
    pub tool_call_id: String,
    pub arguments: String,
    pub status: CallStatus,
    /// Set when the status is final; `result` only at [`ResultDetail::Full`].
    pub end: Option<CallEnd>,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// Of a call whose tool requires approval.
    pub approval: Option<ApprovalView>,
    /// The call of an earlier turn whose approval it acts on.
    pub approves: Option<CallId>,
    /// The time until which a callback must have ended it, once its job has started.
    pub callback_until: Option<Timestamp>,
    /// The id by which its tool knows the job.
    pub external_id: Option<String>,
    /// What the model was told in place of a result, when the turn went on without the call's end.
    pub told: Option<String>,
    pub cost_microusd: Option<i64>,
    pub attempts: Vec<AttemptRow>,
    /// Files that its job made.
    pub files: Vec<FileView>,
}

/// How it stands with the approval of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalView {
    pub state: ApprovalState,
    /// The time until which it may be given, once it was asked for.
    pub until: Option<Timestamp>,
    pub answered: Option<ApprovalAnswered>,
}

impl Store {
    /// A turn that is not deleted, with its messages, attempts and calls, in one state.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn turn_view(
        &self,
        organization: OrgId,
        turn: TurnId,
        detail: ResultDetail,
    ) -> Result<Option<TurnView>, ReadError> {
        self.read(move |conn| {
            let found = find_turn(conn, organization, turn)?;
            let found = found.filter(|(_, turn)| turn.deleted.is_none());
            found
                .map(|(key, turn)| view(conn, key, turn, detail))
                .transpose()
        })
        .await
    }
}

pub(super) fn view(
    conn: ReadSession<'_>,
    key: i64,
    turn: TurnRow,
    detail: ResultDetail,
) -> Result<TurnView, ReadError> {
    let contents = match detail {
        ResultDetail::Shown => ContentsRead::Shown,
        ResultDetail::Full => ContentsRead::Full,
    };
    let messages = calls::messages(conn, key, contents)?;
    let calls = calls::calls(conn, key, contents)?;
    let attempts = calls::attempts(conn, key)?;
    let organization = turn.organization;
    let mut view = TurnView {
        changes: changes(conn, key)?,
        ..by_round(turn, messages, calls, attempts)
    };
    let calls = view.rounds.iter_mut().flat_map(|round| &mut round.calls);
    for call in calls {
        if let Some(approval) = &mut call.approval {
            approval.answered = approvals::answered(conn, organization, call.id)?;
        }
    }
    if view.rounds.iter().any(|round| !round.calls.is_empty()) {
        put_files(&mut view, call_files::files(conn, key)?);
    }
    Ok(view)
}

fn put_files(view: &mut TurnView, files: Vec<FileView>) {
    for file in files {
        let mut calls = view.rounds.iter_mut().flat_map(|round| &mut round.calls);
        let of = calls.find(|call| call.call == file.call);
        if let Some(call) = of {
            call.files.push(file);
        }
    }
}

fn changes(conn: ReadSession<'_>, key: i64) -> Result<RequestChanges, ReadError> {
    let sql = "SELECT context FROM turn_input WHERE turn = ?1 AND context != ''";
    let mut statement = conn.prepare_cached(sql)?;
    let stored = statement.first(params![key], |row| row.get::<String>("context"))?;
    let Some(stored) = stored else {
        return Ok(RequestChanges::default());
    };
    // A turn whose context cannot be read has failed, and is shown all the same.
    Ok(context::decode(&stored)
        .map_or_else(|_| RequestChanges::default(), |context| context.changes))
}

fn by_round(
    turn: TurnRow,
    messages: Vec<NewMessage>,
    calls: Vec<CallRow>,
    attempts: Vec<AttemptRow>,
) -> TurnView {
    let mut input = Vec::new();
    let mut rounds: BTreeMap<u32, RoundView> = BTreeMap::new();
    let mut of_calls: BTreeMap<CallRef, Vec<AttemptRow>> = BTreeMap::new();
    for message in messages {
        match message.round {
            0 => input.push(message),
            round => at(&mut rounds, round).messages.push(message),
        }
    }
    for attempt in attempts {
        let round = attempt.round;
        match attempt.position {
            Some(position) => of_calls
                .entry(CallRef { round, position })
                .or_default()
                .push(attempt),
            None => at(&mut rounds, round).attempts.push(attempt),
        }
    }
    for row in calls {
        let call = row.call.call;
        let tries = of_calls.remove(&call).unwrap_or_default();
        at(&mut rounds, call.round)
            .calls
            .push(call_view(row, tries));
    }
    TurnView {
        turn,
        changes: RequestChanges::default(),
        input,
        rounds: rounds.into_values().collect(),
    }
}

fn at(rounds: &mut BTreeMap<u32, RoundView>, round: u32) -> &mut RoundView {
    rounds.entry(round).or_insert_with(|| RoundView {
        round,
        attempts: Vec::new(),
        messages: Vec::new(),
        calls: Vec::new(),
    })
}

fn call_view(row: CallRow, attempts: Vec<AttemptRow>) -> CallView {
    let CallRow {
        call,
        tool_version,
        started,
        ended,
        until,
        external_id,
        told,
        cost_microusd,
    } = row;
    let callback = until.filter(|_| call.approval.is_none());
    CallView {
        call: call.call,
        id: call.id,
        runs: call.runs,
        effect: call.effect,
        tool_version,
        tool_name: call.tool_name,
        tool_call_id: call.tool_call_id,
        arguments: call.arguments,
        status: call.status,
        end: call.end,
        created: call.at,
        started,
        ended,
        approval: call.approval.map(|state| ApprovalView {
            state,
            until,
            answered: None,
        }),
        approves: call.approves,
        callback_until: callback,
        external_id,
        told,
        cost_microusd,
        attempts,
        files: Vec::new(),
    }
}
