//! Turns that a request continues by name: what was said in all of them, as the model knows it.
//!
//! Nothing of this depends on what a client sends again. The rounds of each turn stand in it as the upstream gave them,
//! with calls that this server ran, reasoning, and what only its format understands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tw_core::approval::ApprovalState;
use tw_core::call::CallRunner;
use tw_core::conversation::ItemSource;
use tw_core::history;
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::json::Literal;
use tw_core::request::{Block, Message, ModelInput, ResultBlock, Role};
use tw_core::tenant::{KeyScope, TurnOwner};
use tw_core::turn::NOT_APPROVED;
use tw_core::turn_policy::{RecordPolicy, Surface};
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_store::read::ReadError;
use tw_store::read::chain::{ChainFound, ChainRoom, ChainedTurn};
use tw_store::read::items::{PathStart, PathTurn};
use tw_store::read::turn::{CallRow, TurnRow};
use tw_wire::client_request::body_text;
use tw_wire::format::WireFormat;
use tw_wire::stored::context::ListedTool;

use crate::auth::Principal;
use crate::kept_answer::KeptAnswer;
use crate::memory;
use crate::recover::accepted_limits;
use crate::runtime::{Runtime, RuntimeInner};

/// Turns of one chain, as many as the messages that a history may have.
const CHAIN_TURNS_MAX: usize = 4096;

/// A turn that a request continues by name.
#[derive(Clone, Copy, Debug)]
pub struct ChainWanted<'a> {
    pub caller: &'a Principal,
    /// The end user whom the request names.
    pub end_user: Option<&'a str>,
    /// The surface that the request came by: turns of others have names of their own.
    pub surface: Surface,
    pub turn: TurnId,
    pub kept: ChainKept,
}

/// The turns that may be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainKept {
    /// Those that are stored for their client.
    Stored,
    /// Also those whose contents are erased soon after their end: whoever asks held on to them.
    Any,
}

/// What a request is put behind: the turn that it continues, and those that one continues.
#[derive(Clone, Debug)]
pub struct ChainHistory {
    /// The turn that is continued.
    pub turn: TurnId,
    /// The public id of its conversation.
    pub conversation: String,
    /// Whose turn it is, if somebody was named.
    pub end_user: Option<String>,
    messages: Vec<Message>,
    /// Calls that clients were handed, by the id that the upstream knows.
    handed: BTreeMap<CallId, String>,
    /// Bytes of what was read, about.
    bytes: usize,
}

/// Reasons for which a turn is not continued.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// Nobody may know more: it is not there, is somebody else's, is not kept, or did not end with an answer.
    #[error("there is no such turn to continue")]
    NotFound,
    #[error("the turns before the request are more than one model request may hold")]
    TooLong,
    #[error("reading the turns before the request")]
    Read(#[from] ReadError),
}

impl Runtime {
    /// What was said in a turn and in those that it continues by name.
    ///
    /// What it gives can be held, and continued any time later with [`crate::accept::TurnRequest::previous`]; the turn
    /// must not be deleted until then.
    ///
    /// # Errors
    /// [`ChainError`].
    pub async fn chain(&self, wanted: ChainWanted<'_>) -> Result<ChainHistory, ChainError> {
        let read = read(&self.0, wanted.caller.organization, wanted.turn).await?;
        if !read.first().is_some_and(|turn| wanted.may_continue(turn)) {
            return Err(ChainError::NotFound);
        }
        ChainHistory::of(&self.0, &read).await
    }

    /// What was said in a turn, behind what it was put behind: of the turns before nothing is read, so that those may be
    /// erased which somebody holds on to.
    ///
    /// # Errors
    /// [`ChainError`].
    pub async fn chain_behind(
        &self,
        wanted: ChainWanted<'_>,
        before: &ChainHistory,
    ) -> Result<ChainHistory, ChainError> {
        let store = &self.0.store;
        let read = store.chained_turn(wanted.caller.organization, wanted.turn);
        let read = read.await?.filter(|turn| wanted.may_continue(turn));
        let turn = read.ok_or(ChainError::NotFound)?;
        let mut history = before.clone();
        history.add(&self.0, &turn).await?;
        history.turn = turn.row.id;
        history.conversation.clone_from(&turn.row.conversation);
        history.end_user.clone_from(&turn.row.end_user);
        if history.bytes > self.0.config.request.body_bytes_max {
            return Err(ChainError::TooLong);
        }
        Ok(history)
    }
}

/// What a turn that is taken over, and is added to its conversation, was put behind: what its own key and end user see
/// of the path to its parent. `None` if nothing was said before, or is left of it.
///
/// # Errors
/// [`ChainError`].
pub(crate) async fn in_conversation(
    runtime: &Runtime,
    row: &TurnRow,
) -> Result<Option<ChainHistory>, ChainError> {
    let Some(parent) = row.parent else {
        return Ok(None);
    };
    let whose = TurnOwner {
        api_key: Some(row.api_key),
        end_user: row.end_user.clone(),
    };
    let conversation = row.conversation.clone();
    let start = PathStart::Turn(parent);
    let path = runtime
        .store()
        .conversation_path(row.organization, conversation, whose, start);
    match path.await? {
        Some(path) => ChainHistory::of_path(runtime, row.organization, &path.turns).await,
        None => Ok(None),
    }
}

/// What a turn that is taken over was put behind. It was allowed when the turn was accepted.
///
/// # Errors
/// [`ChainError`]; what was deleted since is not found.
pub(crate) async fn of_accepted(
    inner: &RuntimeInner,
    organization: OrgId,
    parent: Option<TurnId>,
) -> Result<ChainHistory, ChainError> {
    let parent = parent.ok_or(ChainError::NotFound)?;
    let read = read(inner, organization, parent).await?;
    ChainHistory::of(inner, &read).await
}

async fn read(
    inner: &RuntimeInner,
    organization: OrgId,
    turn: TurnId,
) -> Result<Vec<ChainedTurn>, ChainError> {
    match inner.store.chain(organization, turn, room(inner)).await? {
        ChainFound::Turns(turns) => Ok(turns),
        ChainFound::Missing => Err(ChainError::NotFound),
        ChainFound::TooLong => Err(ChainError::TooLong),
    }
}

fn room(inner: &RuntimeInner) -> ChainRoom {
    ChainRoom {
        turns_max: CHAIN_TURNS_MAX,
        bytes_max: inner.config.request.body_bytes_max,
    }
}

impl ChainWanted<'_> {
    fn may_continue(&self, turn: &ChainedTurn) -> bool {
        let TurnRow {
            api_key,
            end_user,
            surface,
            record,
            ..
        } = &turn.row;
        let is_kept = match self.kept {
            ChainKept::Stored => *record == RecordPolicy::Full && turn.context.projection.is_kept(),
            ChainKept::Any => true,
        };
        let is_answer = turn.row.item_source != Some(ItemSource::Client);
        is_kept
            && is_answer
            && *surface == self.surface
            && self.sees(*api_key)
            && (self.end_user.is_none() || self.end_user == end_user.as_deref())
            && has_answer(&turn.row)
    }

    fn sees(&self, api_key: ApiKeyId) -> bool {
        self.caller.api_key == api_key || self.caller.may(KeyScope::TurnsReadAll)
    }
}

/// Whether the turn ended with an answer, or with as much of it as a limit allowed.
fn has_answer(row: &TurnRow) -> bool {
    match row.status {
        TurnStatus::Completed => true,
        TurnStatus::Incomplete => matches!(
            row.reason,
            Some(TurnReason::Length | TurnReason::Rounds | TurnReason::Calls | TurnReason::Cost)
        ),
        TurnStatus::Running | TurnStatus::Failed | TurnStatus::Cancelled => false,
    }
}

impl ChainHistory {
    /// The history of the turns on a conversation's path, newest first, without the items that were taken out of it;
    /// `None` if there are none.
    pub(crate) async fn of_path(
        runtime: &Runtime,
        organization: OrgId,
        path: &[PathTurn],
    ) -> Result<Option<Self>, ChainError> {
        let inner = &runtime.0;
        let ids = path.iter().map(|turn| turn.id).collect();
        let read = inner.store.path_turns(organization, ids, room(inner));
        let turns = match read.await? {
            ChainFound::Turns(turns) => turns,
            ChainFound::Missing => return Ok(None),
            ChainFound::TooLong => return Err(ChainError::TooLong),
        };
        let Some(newest) = turns.first() else {
            return Ok(None);
        };
        let mut history = Self::behind(&newest.row);
        for turn in turns.iter().rev() {
            let place = path.iter().find(|place| place.id == turn.row.id);
            match place.filter(|place| !place.deleted_items.is_empty()) {
                Some(place) => history.add_left(runtime, turn, place).await?,
                None => history.add(inner, turn).await?,
            }
        }
        Ok(Some(history))
    }

    /// Nothing yet, to stand behind a turn.
    fn behind(newest: &TurnRow) -> Self {
        Self {
            turn: newest.id,
            conversation: newest.conversation.clone(),
            end_user: newest.end_user.clone(),
            messages: Vec::new(),
            handed: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Adds what is left of a turn, as its items say it: calls keep the ids that its client knows.
    async fn add_left(
        &mut self,
        runtime: &Runtime,
        turn: &ChainedTurn,
        place: &PathTurn,
    ) -> Result<(), ChainError> {
        let kept = KeptAnswer {
            row: turn.row.clone(),
            context: turn.context.clone(),
        };
        let include = [WireFormat::ENCRYPTED_REASONING.to_owned()];
        let mut items = kept.conversation_items(runtime, &include).await?;
        items.retain(|(id, _)| !place.deleted_items.contains(id));
        if items.is_empty() {
            return Ok(());
        }
        let body = WireFormat::body_of_items(items.iter().map(|(_, item)| item));
        self.bytes += body.len();
        let request = WireFormat::OF_ITEMS.decode_request(&body, &accepted_limits());
        let request = request.map_err(|error| {
            tracing::error!(turn.id = %turn.row.id, error = %error, "the items of a turn cannot be read");
            ChainError::NotFound
        })?;
        self.bring(request.input.messages);
        Ok(())
    }

    /// The history of turns, newest first.
    async fn of(inner: &RuntimeInner, turns: &[ChainedTurn]) -> Result<Self, ChainError> {
        let newest = &turns.first().ok_or(ChainError::NotFound)?.row;
        let mut history = Self::behind(newest);
        for turn in turns.iter().rev() {
            history.add(inner, turn).await?;
        }
        Ok(history)
    }

    async fn add(&mut self, inner: &RuntimeInner, turn: &ChainedTurn) -> Result<(), ChainError> {
        let format = turn.context.projection.format();
        self.bytes += turn.body.len();
        let request = body_text(turn.body.clone())
            .and_then(|body| format.decode_request(&body, &accepted_limits()));
        let request = request.map_err(|error| {
            tracing::error!(turn.id = %turn.row.id, error = %error, "a stored request cannot be read");
            ChainError::NotFound
        })?;
        let ModelInput {
            messages,
            shown_calls,
            ..
        } = request.input;
        self.bring(restored(inner, turn, messages, &shown_calls).await?);
        for said in &turn.said {
            let calls = turn.calls.iter();
            let calls = calls.filter(|row| row.call.call.round == said.round);
            let results: Vec<Message> = calls.filter_map(result_of).collect();
            if said.blocks.is_empty() && results.is_empty() {
                continue;
            }
            self.messages.push(Message {
                origin: said.origin.clone(),
                ..Message::made(Role::Assistant, said.blocks.clone())
            });
            self.messages.extend(results);
        }
        let handed = turn.calls.iter();
        let handed = handed.filter(|row| row.call.runs == CallRunner::Client);
        self.handed
            .extend(handed.map(|row| (row.call.id, row.call.tool_call_id.clone())));
        Ok(())
    }

    /// Adds messages of a client, whose results answer calls by the ids that it was handed.
    fn bring(&mut self, brought: Vec<Message>) {
        let last_said = self
            .messages
            .iter()
            .rposition(|message| message.role == Role::Assistant);
        let results = brought
            .iter()
            .take_while(|message| message.role == Role::Tool)
            .count();
        let results_end = self.messages.len() + results;
        let handed = &self.handed;
        let brought = brought.into_iter().map(|message| renamed(message, handed));
        self.messages.extend(brought);
        // Of a round whose calls ran here and at the client, each half answers its own.
        if let Some(at) = last_said
            && results > 0
        {
            let (before, behind) = self.messages.split_at_mut(at + 1);
            let calls: Vec<&str> = before[at].calls().map(|call| call.id.as_str()).collect();
            let place = |message: &Message| {
                let id = message.result().map(|result| result.call_id.as_str());
                calls
                    .iter()
                    .position(|call| Some(*call) == id)
                    .unwrap_or(usize::MAX)
            };
            let answers = &mut behind[..results_end - at - 1];
            if answers.iter().all(|message| message.role == Role::Tool) {
                answers.sort_by_key(place);
            }
        }
    }

    /// The request as if its client had sent all of what it continues.
    pub(crate) fn before(&self, input: &ModelInput) -> ModelInput {
        let mut whole = self.clone();
        whole.bring(input.messages.clone());
        ModelInput {
            messages: whole.messages,
            ..input.clone()
        }
    }

    /// Whether a call under this id, as a client knows it, was made in it.
    pub fn has_call(&self, id: &str) -> bool {
        let handed = CallId::parse_handed(id).and_then(|call| self.handed.get(&call));
        let id = handed.map_or(id, String::as_str);
        let mut calls = self.messages.iter().flat_map(Message::calls);
        calls.any(|call| call.id == id)
    }

    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.messages.len() * size_of::<Message>()
    }
}

/// The messages of a turn's request, with what its client never saw of the turns that it continues by its history.
async fn restored(
    inner: &RuntimeInner,
    turn: &ChainedTurn,
    brought: Vec<Message>,
    shown_calls: &BTreeSet<String>,
) -> Result<Vec<Message>, ReadError> {
    if turn.row.memory_turn.is_none() {
        return Ok(brought);
    }
    let offered = turn.context.tools.iter().flatten();
    let ours = offered.filter_map(|listed| match listed {
        ListedTool::Ours(tool) => Some(tool.name.clone()),
        ListedTool::Client(_) => None,
    });
    let tools: Vec<String> = ours.collect();
    let in_order = history::repaired(&brought).0.unwrap_or(brought);
    let whole = memory::restored(inner, &turn.row, &tools, &in_order, shown_calls).await?;
    Ok(whole.unwrap_or(in_order))
}

/// The message with the upstream's ids of the calls that it answers.
fn renamed(mut message: Message, handed: &BTreeMap<CallId, String>) -> Message {
    for block in &mut message.blocks {
        if let Block::Result(result) = block
            && let Some(sent) = CallId::parse_handed(&result.call_id).and_then(|id| handed.get(&id))
        {
            result.call_id.clone_from(sent);
            message.is_changed = true;
        }
    }
    message
}

/// The result of a call that this server ran, as the model was given it. Of one that was asked about, nothing is known
/// here but that.
fn result_of(row: &CallRow) -> Option<Message> {
    let asked = row.call.approval;
    if asked.is_some_and(|state| state != ApprovalState::Needed) {
        let said = Literal::from_text(NOT_APPROVED);
        let result = ResultBlock::of_text(row.call.tool_call_id.as_str(), said);
        return Some(Message {
            awaits: Some(row.call.id),
            ..Message::made(Role::Tool, vec![Block::Result(result)])
        });
    }
    let seen = row.seen();
    let seen = seen.filter(|_| row.call.runs == CallRunner::Server)?;
    let said = Literal::from_text(seen);
    let result = ResultBlock::of_text(row.call.tool_call_id.as_str(), said);
    Some(Message::made(Role::Tool, vec![Block::Result(result)]))
}

/// The request that the model is asked, and what it continues.
pub(crate) fn input_of(input: &Arc<ModelInput>, chain: Option<&ChainHistory>) -> Arc<ModelInput> {
    match chain {
        Some(chain) => Arc::new(chain.before(input)),
        None => Arc::clone(input),
    }
}
