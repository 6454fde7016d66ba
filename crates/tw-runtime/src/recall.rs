//! Joining a client's answers to the turns that handed the calls over.

use tw_core::call::{CallReason, CallRunner};
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::json::Literal;
use tw_core::limits;
use tw_core::model::CallForm;
use tw_core::recall::{self, Recalled, RecalledCall, RecalledRound, RecalledTurn, SplicedHistory};
use tw_core::request::{Block, CallBlock, Message, Role};
use tw_core::tool::EffectClass;
use tw_core::turn::ToolOffer;
use tw_store::read::ReadError;
use tw_store::read::recall::{AnsweredTurn, HandedSent};
use tw_store::read::turn::CallRow;

use crate::runtime::RuntimeInner;

/// Ids of one history that are looked up, the newest of them: as many as it may hold.
const CALLS_LOOKED_UP_MAX: usize = limits::MESSAGES_DEFAULT;
/// Text for the model in place of a result that was erased, or is beyond what is read.
const LOST_RESULT: &str = "This call was already made and has ended, but its result is no longer kept. \
                           Do not make it again only to see the result.";

/// The turns of ours that a history contains.
#[derive(Debug, Default)]
pub(crate) struct KnownHistory {
    recalled: Recalled,
    /// The turn whose calls the request answers, and its conversation.
    pub(crate) parent: Option<(TurnId, String)>,
    /// Names of `once` tools of ours that ran for the answer which is under way, and of which the
    /// model cannot be told more.
    pub(crate) withheld: Vec<String>,
}

impl KnownHistory {
    /// The recalled turns, with more of them. Of a message that both know, what the ids of its calls tell counts.
    pub(crate) fn with(&self, turns: impl Iterator<Item = RecalledTurn>) -> Recalled {
        let mut recalled = self.recalled.clone();
        for turn in turns {
            if recalled.turns.iter().all(|other| other.at != turn.at) {
                recalled.turns.push(turn);
            }
        }
        recalled
    }

    /// The history that the upstream is sent; `None` if nothing of `messages` has to change.
    pub(crate) fn put_back(
        &self,
        messages: &[Message],
        offer: &ToolOffer,
    ) -> Option<SplicedHistory> {
        if self.recalled.turns.is_empty() && self.recalled.sent_ids.is_empty() {
            return None;
        }
        let is_offered = |name: &str| offer.ours().any(|tool| tool.name == name);
        Some(recall::splice(messages, &self.recalled, &is_offered))
    }
}

/// The owner of a history, as far as its request names one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryOwner<'a> {
    pub(crate) organization: OrgId,
    pub(crate) api_key: ApiKeyId,
    pub(crate) end_user: Option<&'a str>,
    /// The conversation that the request names.
    pub(crate) conversation: Option<&'a str>,
}

/// Looks up the calls of a history that carry ids of ours. A history without any costs nothing.
///
/// Ids stand in histories that people share. Of a turn of somebody else only the client's own calls are known, so that
/// nobody's hidden results reach another's model, and the names of those that must not run twice.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn look_up(
    inner: &RuntimeInner,
    whose: HistoryOwner<'_>,
    messages: &[Message],
) -> Result<KnownHistory, ReadError> {
    let places: Vec<(usize, CallId)> = messages
        .iter()
        .enumerate()
        .rev()
        .flat_map(|(at, message)| message.calls().map(move |call| (at, call)))
        .filter_map(|(at, call)| Some((at, CallId::parse_handed(&call.id)?)))
        .take(CALLS_LOOKED_UP_MAX)
        .collect();
    if places.is_empty() {
        return Ok(KnownHistory::default());
    }
    let sent = HandedSent {
        api_key: whose.api_key,
        calls: places.iter().map(|(_, id)| *id).collect(),
        bytes_max: inner.config.recalled_bytes_max,
    };
    let found = inner.store.answered_turns(whose.organization, sent).await?;
    let mut known = KnownHistory::default();
    let last_said = messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let answer_from = last_said.and_then(|last| answer_from(messages, last));
    for turn in found {
        let is_theirs = is_theirs(&turn, whose);
        let of_turn = |at: &&(usize, CallId)| turn.handed.iter().any(|row| row.id == at.1);
        let at = places.iter().filter(of_turn).map(|(at, _)| *at);
        // A client may spread a turn's calls over several messages.
        let (first, last) = (at.clone().min(), at.max());
        if is_theirs && known.parent.is_none() && last.is_some() && last == last_said {
            known.parent = Some((turn.id, turn.conversation.clone()));
        }
        let rounds = if is_theirs {
            rounds_of(&turn)
        } else {
            Vec::new()
        };
        let turns = &mut known.recalled.turns;
        // Of two turns in one message the newer counts.
        let is_hidden = turns.iter().any(|other| Some(other.at) == first);
        // What ran for an answer that was given may be asked for again.
        let is_under_way = answer_from.is_some_and(|from| last.is_some_and(|last| last >= from));
        if is_under_way && (!is_theirs || turn.names_only || is_hidden) {
            known.withheld.extend(ran_once(&turn.calls));
        }
        if let Some(at) = first.filter(|_| !is_hidden && !rounds.is_empty()) {
            turns.push(RecalledTurn { at, rounds });
        }
        let handed = turn.handed.into_iter();
        let sent_ids = &mut known.recalled.sent_ids;
        sent_ids.extend(handed.map(|row| (row.id, row.sent_id)));
    }
    known.withheld.sort();
    known.withheld.dedup();
    Ok(known)
}

/// Whether the turn is of the end user who is named. Where nobody is, the conversation decides: one
/// that the request names, or that nobody named.
fn is_theirs(turn: &AnsweredTurn, whose: HistoryOwner<'_>) -> bool {
    let is_of_conversation = || match whose.conversation {
        Some(named) => turn.conversation == named,
        None => !turn.conversation_named,
    };
    turn.end_user.as_deref() == whose.end_user && (whose.end_user.is_some() || is_of_conversation())
}

/// Position in the history at which the answer that is under way begins: behind the user's message
/// before it. `None` when the last message calls for nothing, so that the answer was given.
fn answer_from(messages: &[Message], last_said: usize) -> Option<usize> {
    messages[last_said].calls().next()?;
    let asked = messages[..last_said]
        .iter()
        .rposition(|message| message.role == Role::User);
    Some(asked.map_or(0, |at| at + 1))
}

/// The rounds of a turn as the model saw them, or the names of its calls.
fn rounds_of(turn: &AnsweredTurn) -> Vec<RecalledRound> {
    let said = turn
        .messages
        .iter()
        .filter(|message| message.role == Role::Assistant && message.round > 0);
    said.map(|message| {
        let rows = turn.calls.iter();
        let rows: Vec<&CallRow> = rows
            .filter(|row| row.call.call.round == message.round)
            .collect();
        RecalledRound {
            blocks: if turn.names_only {
                rows.iter().map(|row| without_arguments(row)).collect()
            } else {
                message.blocks.clone()
            },
            calls: rows
                .iter()
                .map(|row| recalled_call(row, turn.names_only))
                .collect(),
        }
    })
    .collect()
}

fn recalled_call(row: &CallRow, names_only: bool) -> RecalledCall {
    let shown = row.call.end.as_ref().map(|end| end.shown.as_str());
    RecalledCall {
        runs: row.call.runs,
        id: row.call.id,
        sent_id: row.call.tool_call_id.clone(),
        tool_name: row.call.tool_name.clone(),
        shown: if names_only {
            LOST_RESULT.to_owned()
        } else {
            shown.unwrap_or_default().to_owned()
        },
    }
}

/// A call whose arguments are gone.
fn without_arguments(row: &CallRow) -> Block {
    Block::Call(CallBlock {
        id: row.call.tool_call_id.clone(),
        name: row.call.tool_name.clone(),
        form: CallForm::Function,
        arguments: Literal::default(),
    })
}

/// Names of `once` tools that may have acted.
fn ran_once(calls: &[CallRow]) -> impl Iterator<Item = String> {
    let acted = |row: &&CallRow| {
        let reason = row.call.end.as_ref().and_then(|end| end.reason);
        row.call.runs == CallRunner::Server
            && row.call.effect == Some(EffectClass::Once)
            && row.started.is_some()
            && !matches!(
                reason,
                Some(CallReason::NotSent | CallReason::TargetNotAllowed)
            )
    };
    let acted = calls.iter().filter(acted);
    acted.map(|row| row.call.tool_name.clone())
}
