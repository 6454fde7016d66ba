//! Which turn a request continues, and what its client never saw of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tw_core::id::TurnId;
use tw_core::memory::{History, KeyHolder, MemoryScope, MemoryVerdict, TurnMemory};
use tw_core::recall::{self, RecalledTurn, SplicedHistory};
use tw_core::request::{Message, ModelInput, ROUND_GAP, Role};
use tw_core::tenant::KeyMemory;
use tw_core::turn::ToolOffer;
use tw_core::turn_policy::RecordPolicy;
use tw_store::read::ReadError;
use tw_store::read::memory::{
    ContinuedTurn, HistorySearch, HistoryWanted, RecallRoom, RememberedTurn,
};
use tw_store::read::turn::TurnRow;
use tw_wire::format::WireFormat;

use crate::recall::{HistoryOwner, KnownHistory};
use crate::runtime::RuntimeInner;

/// The turns before a request, as far as they are known.
#[derive(Debug)]
pub(crate) struct Recollection {
    pub(crate) verdict: MemoryVerdict,
    /// The turn that the request continues.
    pub(crate) continues: Option<ContinuedTurn>,
    /// `None` for a turn that is not to be found again.
    pub(crate) of_turn: Option<TurnMemory>,
    /// The history with what was hidden of it, if something was.
    pub(crate) history: Option<SplicedHistory>,
}

/// The part of a request that the model is sent: the history, repaired, and the tools.
pub(crate) struct SentHistory<'a> {
    pub(crate) messages: &'a [Message],
    pub(crate) offer: &'a ToolOffer,
    /// Turns that the ids of its calls lead to.
    pub(crate) known: &'a KnownHistory,
}

impl Recollection {
    fn without(verdict: MemoryVerdict) -> Self {
        Self {
            verdict,
            continues: None,
            of_turn: None,
            history: None,
        }
    }

    /// The turn that the request continues, and its conversation.
    pub(crate) fn parent(&self) -> Option<(TurnId, String)> {
        let turn = self.continues.as_ref()?;
        Some((turn.turn, turn.conversation.clone()))
    }
}

/// How the turn that a request continues is found.
#[derive(Debug)]
pub(crate) enum MemorySource<'a> {
    /// By the history of a request that begins a turn, within a scope; in none, nothing is looked for.
    History(Option<MemoryScope>),
    /// By the row of a turn that is taken over: as it was found when the turn was accepted.
    Row(&'a TurnRow),
    /// The request names it, and what was hidden of it stands before the request already.
    Named,
}

impl MemorySource<'_> {
    /// Whether memory is on: somebody in particular asks, and the turn may be found again.
    pub(crate) fn is_on(&self) -> bool {
        match self {
            Self::History(scope) => scope.is_some(),
            Self::Row(row) => row.memory != MemoryVerdict::Off,
            Self::Named => false,
        }
    }
}

/// The scope within which a new turn's memory is looked for; `None` for a turn that remembers nothing.
pub(crate) fn scope(
    inner: &RuntimeInner,
    owner: HistoryOwner<'_>,
    key: KeyMemory,
    record: RecordPolicy,
) -> Option<MemoryScope> {
    let holder = match key {
        KeyMemory::Key => KeyHolder::OnePerson,
        KeyMemory::Off => KeyHolder::Many,
    };
    match record {
        RecordPolicy::Full if inner.config.tools_enabled => {
            MemoryScope::of(owner.end_user, owner.conversation, holder)
        }
        RecordPolicy::Full | RecordPolicy::Minimal => None,
    }
}

/// Looks for the turn that a request continues, or uses what was found when it was accepted.
/// Where nobody in particular asks, nothing is read.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn recollect(
    inner: &RuntimeInner,
    owner: HistoryOwner<'_>,
    source: MemorySource<'_>,
    input: &ModelInput,
    sent: SentHistory<'_>,
) -> Result<Recollection, ReadError> {
    match source {
        MemorySource::History(Some(scope)) => find(inner, owner, &scope, input, sent).await,
        MemorySource::History(None) => Ok(Recollection::without(MemoryVerdict::Off)),
        MemorySource::Row(row) => find_again(inner, row, input, sent).await,
        MemorySource::Named => Ok(Recollection::without(MemoryVerdict::Attached)),
    }
}

async fn find(
    inner: &RuntimeInner,
    owner: HistoryOwner<'_>,
    scope: &MemoryScope,
    input: &ModelInput,
    sent: SentHistory<'_>,
) -> Result<Recollection, ReadError> {
    let history = History::read(scope, &input.messages, &input.shown_calls);
    let tools = tools_of(&sent);
    let (mut verdict, mut continues, mut remembered) = (MemoryVerdict::New, None, Arc::default());
    if let Some((_, hash)) = history.answers.last() {
        let store = &inner.store;
        let room = room(inner, &tools);
        let wanted = HistoryWanted {
            api_key: owner.api_key,
            history: *hash,
            conversation: scope.preferred(owner.conversation).map(str::to_owned),
        };
        let found = store.turn_by_history(owner.organization, wanted, room);
        let sought;
        (sought, remembered) = found.await?;
        (verdict, continues) = match sought {
            HistorySearch::Unknown => (MemoryVerdict::Mismatch, None),
            HistorySearch::Ambiguous => (MemoryVerdict::Ambiguous, None),
            HistorySearch::Found(turn) => (MemoryVerdict::Attached, Some(turn)),
        };
    }
    let restored = put_back(&remembered, &tools, (&history, &input.messages), &sent);
    let of_turn = TurnMemory {
        history: history.end,
        hidden: continues.as_ref().and_then(|turn| turn.hidden),
        restores: restored.is_some(),
        round_gap: round_gap(input),
    };
    Ok(Recollection {
        verdict,
        continues,
        of_turn: Some(of_turn),
        history: restored,
    })
}

async fn find_again(
    inner: &RuntimeInner,
    row: &TurnRow,
    input: &ModelInput,
    sent: SentHistory<'_>,
) -> Result<Recollection, ReadError> {
    let nothing = Recollection::without(row.memory);
    if row.memory == MemoryVerdict::Off {
        return Ok(nothing);
    }
    let named = row.conversation_named.then_some(row.conversation.as_str());
    // Its memory was on, so that a key without any name was made for one person.
    let Some(scope) = MemoryScope::of(row.end_user.as_deref(), named, KeyHolder::OnePerson) else {
        return Ok(nothing);
    };
    let organization = row.organization;
    let hidden = match row.parent {
        Some(parent) => inner.store.hidden_half(organization, parent).await?,
        None => None,
    };
    let history = History::read(&scope, &input.messages, &input.shown_calls);
    let tools = tools_of(&sent);
    let remembered = match (row.memory_turn, room(inner, &tools)) {
        (Some(newest), Some(room)) => inner.store.remembered(organization, newest, room).await?,
        (None, _) | (_, None) => Arc::default(),
    };
    let restored = put_back(&remembered, &tools, (&history, &input.messages), &sent);
    let of_turn = TurnMemory {
        history: history.end,
        hidden,
        restores: restored.is_some(),
        round_gap: round_gap(input),
    };
    Ok(Recollection {
        of_turn: Some(of_turn),
        history: restored,
        ..nothing
    })
}

/// The messages of an accepted turn's request with what its client never saw of the turns before; `None` where nothing
/// was put back. `messages` are in order, and `tools` are those of ours that the turn was offered.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn restored(
    inner: &RuntimeInner,
    row: &TurnRow,
    tools: &[String],
    messages: &[Message],
    shown_calls: &BTreeSet<String>,
) -> Result<Option<Vec<Message>>, ReadError> {
    let (Some(newest), Some(room)) = (row.memory_turn, room(inner, tools)) else {
        return Ok(None);
    };
    let named = row.conversation_named.then_some(row.conversation.as_str());
    let Some(scope) = MemoryScope::of(row.end_user.as_deref(), named, KeyHolder::OnePerson) else {
        return Ok(None);
    };
    let remembered = inner.store.remembered(row.organization, newest, room);
    let remembered = remembered.await?;
    let history = History::read(&scope, messages, shown_calls);
    let sent = SentHistory {
        messages,
        offer: &ToolOffer::Relay,
        known: &KnownHistory::default(),
    };
    let restored = put_back(&remembered, tools, (&history, messages), &sent);
    let whole = restored.map(|spliced| spliced.messages(messages).into_iter().cloned().collect());
    Ok(whole)
}

/// What stands between the texts of two rounds in what the request's client has of an answer.
fn round_gap(input: &ModelInput) -> &'static str {
    let format = WireFormat::ALL
        .into_iter()
        .find(|format| format.format_name() == input.format);
    format.map_or(ROUND_GAP, WireFormat::round_gap)
}

/// The tools of ours that the model is offered.
fn tools_of(sent: &SentHistory<'_>) -> Vec<String> {
    sent.offer.ours().map(|tool| tool.name.clone()).collect()
}

/// The room for what memory puts back; `None` if nothing may come back.
fn room(inner: &RuntimeInner, tools: &[String]) -> Option<RecallRoom> {
    (!tools.is_empty()).then(|| RecallRoom {
        tools: tools.to_owned(),
        bytes_max: inner.config.memory_bytes_max,
    })
}

/// The history with what is remembered, newest turn first; `None` when there is nothing to put back. `asked` are the
/// messages that `history` was read of.
fn put_back(
    remembered: &[RememberedTurn],
    tools: &[String],
    (history, asked): (&History, &[Message]),
    sent: &SentHistory<'_>,
) -> Option<SplicedHistory> {
    if remembered.is_empty() {
        return None;
    }
    let (before, places) = (places(asked), places(sent.messages));
    // Each turn was answered before the one that was found before it.
    let mut answers = history.answers.as_slice();
    let mut turns = remembered
        .iter()
        .filter(|turn| !turn.rounds.is_empty())
        .filter_map(|turn| {
            let answer = answers
                .iter()
                .rposition(|(_, hash)| *hash == turn.history)?;
            let (at, _) = answers[answer];
            answers = &answers[..answer];
            let answer = before.binary_search(&at).ok()?;
            Some(RecalledTurn {
                at: *places.get(answer)?,
                rounds: turn.rounds.clone(),
            })
        })
        .peekable();
    turns.peek()?;
    let recalled = sent.known.with(turns);
    let is_offered = |name: &str| tools.iter().any(|tool| tool == name);
    Some(recall::splice(sent.messages, &recalled, &is_offered))
}

/// The places of what the model said in a history; a repaired one has as many as the one that was sent.
fn places(messages: &[Message]) -> Vec<usize> {
    let answers = messages.iter().enumerate();
    let answers = answers.filter(|(_, message)| message.role == Role::Assistant);
    answers.map(|(at, _)| at).collect()
}
