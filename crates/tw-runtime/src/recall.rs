//! Joining a client's answers to the turns that handed the calls over.

use std::collections::BTreeSet;
use std::sync::Arc;

use tw_core::call::{CallReason, CallRunner};
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::json::Literal;
use tw_core::limits;
use tw_core::model::CallForm;
use tw_core::recall::{
    self, Recalled, RecalledCall, RecalledRound, RecalledTurn, SentCall, SplicedHistory, WrittenId,
};
use tw_core::request::{Block, CallBlock, Message, Role};
use tw_core::tool::EffectClass;
use tw_core::turn::{NOT_APPROVED, ToolOffer};
use tw_store::read::ReadError;
use tw_store::read::recall::{AnsweredTurn, HandedSent};
use tw_store::read::turn::CallRow;

use crate::runtime::RuntimeInner;

/// Ids of one history that are looked up, the newest of them: as many as it may hold.
const CALLS_LOOKED_UP_MAX: usize = limits::MESSAGES_DEFAULT;
/// Ids in the texts of one history that are looked up, the newest of them: an agent of hundreds of steps has fewer.
const WRITTEN_LOOKED_UP_MAX: usize = 1024;
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
        if self.recalled.turns.is_empty() && self.recalled.sent.is_empty() {
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
/// Some clients write a call into the text of an answer. Whoever talks to a model can have it say any text, so such an
/// id brings something back only where memory would.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn look_up(
    inner: &RuntimeInner,
    whose: HistoryOwner<'_>,
    memory_is_on: bool,
    messages: &[Message],
) -> Result<KnownHistory, ReadError> {
    let ids = SentIds::of(messages);
    if ids.are_none() {
        return Ok(KnownHistory::default());
    }
    let sent = HandedSent {
        api_key: whose.api_key,
        calls: ids.all(),
        bytes_max: inner.config.recalled_bytes_max,
    };
    let found = inner.store.answered_turns(whose.organization, sent).await?;
    let mut found: Vec<FoundTurn> = found
        .into_iter()
        .filter_map(|turn| {
            let is_theirs = is_theirs(&turn, whose);
            let place = ids.place(&turn, is_theirs, messages)?;
            Some(FoundTurn {
                turn,
                is_theirs,
                place,
            })
        })
        .collect();
    // A call that stands in its place counts before one that is only spoken of.
    found.sort_by_key(|found| !matches!(found.place, CallsPlace::Made { .. }));
    let mut known = KnownHistory::default();
    let last_said = messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let writing: BTreeSet<usize> = found.iter().filter_map(FoundTurn::written_at).collect();
    let answer_from = last_said.and_then(|last| answer_from(messages, last, &writing));
    for FoundTurn {
        turn,
        is_theirs,
        place,
    } in found
    {
        let is_told = is_theirs && !turn.is_deleted;
        let (first, last, may_be_told) = match place {
            CallsPlace::Made { first, last } => (first, last, is_told),
            CallsPlace::Written { at } => (at, at, is_told && memory_is_on),
            // There is no message of the model's that its calls could stand in.
            CallsPlace::Told => {
                known.withheld.extend(ran_once(&turn.calls));
                continue;
            }
        };
        if may_be_told && known.parent.is_none() && Some(last) == last_said {
            known.parent = Some((turn.id, turn.conversation.clone()));
        }
        let rounds = if may_be_told {
            rounds_of(&turn)
        } else {
            Vec::new()
        };
        let turns = &mut known.recalled.turns;
        // Of two turns in one message the newer counts.
        let is_hidden = turns.iter().any(|other| other.at == first);
        // What ran for an answer that was given may be asked for again.
        let is_under_way = answer_from.is_some_and(|from| last >= from);
        if turn.is_deleted {
            if is_under_way {
                known.withheld.extend(ran_once(&turn.calls));
            }
            continue;
        }
        if is_under_way && (!may_be_told || turn.names_only || is_hidden) {
            known.withheld.extend(ran_once(&turn.calls));
        }
        if !is_hidden && !rounds.is_empty() {
            turns.push(RecalledTurn { at: first, rounds });
        }
        if matches!(place, CallsPlace::Made { .. }) {
            let handed = turn.handed.into_iter().map(|row| {
                let call = SentCall {
                    id: row.sent_id,
                    native: row.native.filter(|_| is_theirs),
                    behind: if is_theirs { row.behind } else { Vec::new() },
                    message: if is_theirs {
                        row.message
                    } else {
                        row.message.map(|message| Arc::new(message.origin_alone()))
                    },
                };
                (row.id, call)
            });
            known.recalled.sent.extend(handed);
        }
    }
    known.withheld.sort();
    known.withheld.dedup();
    Ok(known)
}

/// Ids of ours in a history.
struct SentIds {
    /// Those of its calls, with the places of these.
    made: Vec<(usize, CallId)>,
    /// Those in its texts.
    written: Vec<WrittenId>,
}

/// A turn that handed calls of a history over, and where these stand in it.
struct FoundTurn {
    turn: AnsweredTurn,
    is_theirs: bool,
    place: CallsPlace,
}

/// The place of a turn's calls in a history.
#[derive(Clone, Copy)]
enum CallsPlace {
    /// Calls of messages; a client may spread them over several.
    Made { first: usize, last: usize },
    /// The text of an answer.
    Written { at: usize },
    /// Words of the user, who says them now.
    Told,
}

impl FoundTurn {
    fn written_at(&self) -> Option<usize> {
        match self.place {
            CallsPlace::Written { at } => Some(at),
            CallsPlace::Made { .. } | CallsPlace::Told => None,
        }
    }
}

impl SentIds {
    fn of(messages: &[Message]) -> Self {
        let calls = messages
            .iter()
            .enumerate()
            .rev()
            .flat_map(|(at, message)| message.calls().map(move |call| (at, call)));
        let made = calls.filter_map(|(at, call)| Some((at, CallId::parse_handed(&call.id)?)));
        Self {
            made: made.take(CALLS_LOOKED_UP_MAX).collect(),
            written: recall::written_ids(messages, WRITTEN_LOOKED_UP_MAX),
        }
    }

    fn are_none(&self) -> bool {
        self.made.is_empty() && self.written.is_empty()
    }

    /// The ids, each once.
    fn all(&self) -> Vec<CallId> {
        let made = self.made.iter().map(|(_, id)| *id);
        let all: BTreeSet<CallId> = made.chain(self.written.iter().map(|id| id.id)).collect();
        all.into_iter().collect()
    }

    /// The place of a turn's calls; `None` for a turn that is only spoken of: that of somebody else, unless an answer has
    /// the name of its tool as well as the id. Else whoever got hold of an id could keep tools from others by having it repeated to them.
    fn place(
        &self,
        turn: &AnsweredTurn,
        is_theirs: bool,
        messages: &[Message],
    ) -> Option<CallsPlace> {
        let row_of = |id: CallId| turn.handed.iter().find(|row| row.id == id);
        let made = self.made.iter().filter(|(_, id)| row_of(*id).is_some());
        let made = made.map(|(at, _)| *at);
        if let (Some(first), Some(last)) = (made.clone().min(), made.max()) {
            return Some(CallsPlace::Made { first, last });
        }
        let answers = self.written.iter().filter_map(|written| {
            let row = row_of(written.id)?;
            let message = &messages[written.at];
            let is_answer = message.role == Role::Assistant;
            (is_answer && (is_theirs || recall::mentions(message, &row.tool_name)))
                .then_some(written.at)
        });
        // Where it is spoken of later, it was called before.
        match answers.min() {
            Some(at) => Some(CallsPlace::Written { at }),
            None => is_theirs.then_some(CallsPlace::Told),
        }
    }
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
///
/// A message of the user behind one that is `writing` its calls holds their results.
fn answer_from(messages: &[Message], last_said: usize, writing: &BTreeSet<usize>) -> Option<usize> {
    if !writing.contains(&last_said) {
        messages[last_said].calls().next()?;
    }
    let mut from = last_said;
    loop {
        let before = &messages[..from];
        let asked = before
            .iter()
            .rposition(|message| message.role == Role::User);
        let Some(asked) = asked else {
            return Some(0);
        };
        let said = before[..asked]
            .iter()
            .rposition(|message| message.role != Role::User);
        match said.filter(|at| writing.contains(at)) {
            Some(at) => from = at,
            None => return Some(asked + 1),
        }
    }
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
            origin: message.origin.clone(),
            calls: rows
                .iter()
                .map(|row| recalled_call(row, turn.names_only))
                .collect(),
        }
    })
    .collect()
}

fn recalled_call(row: &CallRow, names_only: bool) -> RecalledCall {
    let shown = row.seen();
    // What became of it is told where its question stands in the history.
    let shown = if row.call.approval.is_some() {
        Some(NOT_APPROVED)
    } else {
        shown
    };
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
        native: None,
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
