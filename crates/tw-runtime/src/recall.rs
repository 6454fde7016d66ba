//! Joining a client's answers to the turns that handed the calls over.

use tw_core::call::{CallReason, Runs};
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::json::Literal;
use tw_core::limits;
use tw_core::model::CallForm;
use tw_core::recall::{self, Recalled, RecalledCall, RecalledRound, RecalledTurn, Spliced};
use tw_core::request::{Block, CallBlock, Message, Role};
use tw_core::tool::EffectClass;
use tw_core::turn::Offer;
use tw_store::read::ReadError;
use tw_store::read::recall::{AnsweredTurn, HandedSent};
use tw_store::read::turn::CallRow;
use tw_store::store::Store;

/// Ids of one history that are looked up, the newest of them: as many as it may hold.
const CALLS_LOOKED_UP_MAX: usize = limits::MESSAGES_DEFAULT;
/// Hidden arguments and results that are read for one request, in bytes, those of the newest
/// turns first; no model reads more.
const RECALLED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What the model is told of a call whose result was erased.
const LOST_RESULT: &str = "This call was already made and has ended, but its result is no longer kept. \
                           Do not make it again only to see the result.";

/// What is known of a history.
#[derive(Debug, Default)]
pub(crate) struct Known {
    recalled: Recalled,
    /// The turn whose calls the request answers, and its conversation.
    pub(crate) parent: Option<(TurnId, String)>,
    /// `once` tools of ours that this turn ran, and of which the model cannot be told more.
    pub(crate) withheld: Vec<String>,
}

impl Known {
    /// The same with more turns. Of a message that both know, what the ids of its calls tell
    /// counts.
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
    pub(crate) fn put_back(&self, messages: &[Message], offer: &Offer) -> Option<Spliced> {
        if self.recalled.turns.is_empty() && self.recalled.sent_ids.is_empty() {
            return None;
        }
        let is_offered = |name: &str| offer.ours().any(|tool| tool.name == name);
        Some(recall::splice(messages, &self.recalled, &is_offered))
    }
}

/// Looks up the calls of a history that carry ids of ours. A history without any costs nothing.
///
/// Ids stand in histories that people share. Of a turn of another end user only the client's own
/// calls are known, so that nobody's hidden results reach another's model.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn look_up(
    store: &Store,
    organization: OrgId,
    (api_key, end_user): (ApiKeyId, Option<&str>),
    messages: &[Message],
) -> Result<Known, ReadError> {
    let places: Vec<(usize, CallId)> = messages
        .iter()
        .enumerate()
        .rev()
        .flat_map(|(at, message)| message.calls().map(move |call| (at, call)))
        .filter_map(|(at, call)| Some((at, CallId::parse_handed(&call.id)?)))
        .take(CALLS_LOOKED_UP_MAX)
        .collect();
    if places.is_empty() {
        return Ok(Known::default());
    }
    let sent = HandedSent {
        api_key,
        calls: places.iter().map(|(_, id)| *id).collect(),
        bytes_max: RECALLED_BYTES_MAX,
    };
    let found = store.answered_turns(organization, sent).await?;
    let mut known = Known::default();
    let last_said = messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    for turn in found {
        let is_theirs = turn.end_user.as_deref() == end_user;
        let of_turn = |at: &&(usize, CallId)| turn.handed.iter().any(|row| row.id == at.1);
        let at = places.iter().filter(of_turn).map(|(at, _)| *at);
        // A client may spread a turn's calls over several messages.
        let (first, last) = (at.clone().min(), at.max());
        if is_theirs && known.parent.is_none() && last.is_some() && last == last_said {
            known.parent = Some((turn.id, turn.conversation.clone()));
            if turn.erased {
                known.withheld = ran_once(&turn.calls);
            }
        }
        let rounds = if is_theirs {
            rounds_of(&turn)
        } else {
            Vec::new()
        };
        let turns = &mut known.recalled.turns;
        // Of two turns in one message the newer counts.
        if let Some(at) = first
            && !rounds.is_empty()
            && turns.iter().all(|other| other.at != at)
        {
            turns.push(RecalledTurn { at, rounds });
        }
        let handed = turn.handed.into_iter();
        let sent_ids = &mut known.recalled.sent_ids;
        sent_ids.extend(handed.map(|row| (row.id, row.sent_id)));
    }
    Ok(known)
}

/// The rounds of a turn as the model saw them. Of an erased one the calls are known by name.
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
            blocks: if turn.erased {
                rows.iter().map(|row| without_arguments(row)).collect()
            } else {
                message.blocks.clone()
            },
            calls: rows
                .iter()
                .map(|row| recalled_call(row, turn.erased))
                .collect(),
        }
    })
    .collect()
}

fn recalled_call(row: &CallRow, erased: bool) -> RecalledCall {
    let shown = row.call.end.as_ref().map(|end| end.shown.as_str());
    RecalledCall {
        runs: row.call.runs,
        id: row.call.id,
        sent_id: row.call.tool_call_id.clone(),
        tool_name: row.call.tool_name.clone(),
        shown: if erased {
            LOST_RESULT.to_owned()
        } else {
            shown.unwrap_or_default().to_owned()
        },
    }
}

/// A call whose arguments were erased.
fn without_arguments(row: &CallRow) -> Block {
    Block::Call(CallBlock {
        id: row.call.tool_call_id.clone(),
        name: row.call.tool_name.clone(),
        form: CallForm::Function,
        arguments: Literal::default(),
    })
}

/// Names of `once` tools that may have acted.
fn ran_once(calls: &[CallRow]) -> Vec<String> {
    let acted = |row: &&CallRow| {
        let reason = row.call.end.as_ref().and_then(|end| end.reason);
        row.call.runs == Runs::Server
            && row.call.effect == Some(EffectClass::Once)
            && row.started.is_some()
            && !matches!(
                reason,
                Some(CallReason::NotSent | CallReason::TargetNotAllowed)
            )
    };
    let mut names: Vec<String> = calls
        .iter()
        .filter(acted)
        .map(|row| row.call.tool_name.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}
