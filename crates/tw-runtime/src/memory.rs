//! Which turn a request continues, and what its client never saw of it.

use std::sync::Arc;

use tw_core::change::{KeyMemory, Record};
use tw_core::id::{ApiKeyId, OrgId, TurnId};
use tw_core::memory::{History, KeyOf, Scope, TurnMemory, Verdict};
use tw_core::recall::{self, RecalledTurn, Spliced};
use tw_core::request::{Message, ModelInput, Role};
use tw_core::turn::Offer;
use tw_store::read::ReadError;
use tw_store::read::memory::{Continued, RememberedTurn, Room, Sought};
use tw_store::read::turn::TurnRow;

use crate::accept::TurnRequest;
use crate::recall::Known;
use crate::runtime::Inner;

/// What is known of the turns before a request.
#[derive(Debug)]
pub(crate) struct Recollection {
    pub(crate) verdict: Verdict,
    /// The turn that the request continues.
    pub(crate) continues: Option<Continued>,
    /// `None` for a turn that is not to be found again.
    pub(crate) of_turn: Option<TurnMemory>,
    /// The history with what was hidden of it, if something was.
    pub(crate) history: Option<Spliced>,
}

/// What the model is sent of a request: the history, repaired, and the tools.
pub(crate) struct Sent<'a> {
    pub(crate) messages: &'a [Message],
    pub(crate) offer: &'a Offer,
    /// What the ids of its calls tell.
    pub(crate) known: &'a Known,
}

impl Recollection {
    fn without(verdict: Verdict) -> Self {
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

/// Whose history it is.
#[derive(Clone, Copy)]
pub(crate) enum Asks<'a> {
    /// A request that begins a turn.
    Begins {
        request: &'a TurnRequest,
        end_user: Option<&'a str>,
        record: Record,
    },
    /// A turn that is taken over.
    GoesOn(&'a TurnRow),
}

impl<'a> Asks<'a> {
    pub(crate) fn organization(self) -> OrgId {
        match self {
            Self::Begins { request, .. } => request.caller.organization,
            Self::GoesOn(row) => row.organization,
        }
    }

    pub(crate) fn whose(self) -> Whose<'a> {
        match self {
            Self::Begins {
                request, end_user, ..
            } => Whose {
                api_key: request.caller.api_key,
                end_user,
                conversation: request.conversation.as_deref(),
            },
            Self::GoesOn(row) => Whose {
                api_key: row.api_key,
                end_user: row.end_user.as_deref(),
                conversation: row.conversation_named.then_some(row.conversation.as_str()),
            },
        }
    }
}

/// Who asks, as far as it is known.
#[derive(Clone, Copy)]
pub(crate) struct Whose<'a> {
    pub(crate) api_key: ApiKeyId,
    pub(crate) end_user: Option<&'a str>,
    /// The conversation that is named.
    pub(crate) conversation: Option<&'a str>,
}

/// Looks for the turn that a request continues, or uses what was found when it was accepted.
/// Where nobody in particular asks, nothing is read.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn recollect(
    inner: &Inner,
    asks: Asks<'_>,
    input: &ModelInput,
    sent: Sent<'_>,
) -> Result<Recollection, ReadError> {
    match asks {
        Asks::Begins {
            request,
            end_user,
            record,
        } => find(inner, request, end_user, record, sent).await,
        Asks::GoesOn(row) => find_again(inner, row, input, sent).await,
    }
}

async fn find(
    inner: &Inner,
    request: &TurnRequest,
    end_user: Option<&str>,
    record: Record,
    sent: Sent<'_>,
) -> Result<Recollection, ReadError> {
    let caller = &request.caller;
    let key_of = match caller.memory {
        KeyMemory::Key => KeyOf::OnePerson,
        KeyMemory::Off => KeyOf::Many,
    };
    let scope = match record {
        Record::Full if inner.config.tools_enabled => {
            Scope::of(end_user, request.conversation.as_deref(), key_of)
        }
        Record::Full | Record::Minimal => None,
    };
    let Some(scope) = scope else {
        return Ok(Recollection::without(Verdict::Off));
    };
    let history = History::read(&scope, &request.input.messages);
    let tools = tools_of(&sent);
    let (mut verdict, mut continues, mut remembered) = (Verdict::New, None, Arc::default());
    if let Some((_, hash)) = history.answers.last() {
        let store = &inner.store;
        let room = room(inner, &tools);
        let found = store.turn_by_history(caller.organization, caller.api_key, *hash, room);
        let sought;
        (sought, remembered) = found.await?;
        (verdict, continues) = match sought {
            Sought::Unknown => (Verdict::Mismatch, None),
            Sought::Ambiguous => (Verdict::Ambiguous, None),
            Sought::Found(turn) => (Verdict::Attached, Some(turn)),
        };
    }
    let restored = put_back(&remembered, &tools, &history, &sent);
    let of_turn = TurnMemory {
        history: history.end,
        hidden: continues.as_ref().and_then(|turn| turn.hidden),
        restores: restored.is_some(),
    };
    Ok(Recollection {
        verdict,
        continues,
        of_turn: Some(of_turn),
        history: restored,
    })
}

async fn find_again(
    inner: &Inner,
    row: &TurnRow,
    input: &ModelInput,
    sent: Sent<'_>,
) -> Result<Recollection, ReadError> {
    let nothing = Recollection::without(row.memory);
    if row.memory == Verdict::Off {
        return Ok(nothing);
    }
    let named = row.conversation_named.then_some(row.conversation.as_str());
    // Its memory was on, so that a key without any name was made for one person.
    let Some(scope) = Scope::of(row.end_user.as_deref(), named, KeyOf::OnePerson) else {
        return Ok(nothing);
    };
    let organization = row.organization;
    let hidden = match row.parent {
        Some(parent) => inner.store.hidden_half(organization, parent).await?,
        None => None,
    };
    let history = History::read(&scope, &input.messages);
    let tools = tools_of(&sent);
    let remembered = match (row.memory_turn, room(inner, &tools)) {
        (Some(newest), Some(room)) => inner.store.remembered(organization, newest, room).await?,
        (None, _) | (_, None) => Arc::default(),
    };
    let restored = put_back(&remembered, &tools, &history, &sent);
    let of_turn = TurnMemory {
        history: history.end,
        hidden,
        restores: restored.is_some(),
    };
    Ok(Recollection {
        of_turn: Some(of_turn),
        history: restored,
        ..nothing
    })
}

/// The tools of ours that the model is offered.
fn tools_of(sent: &Sent<'_>) -> Vec<String> {
    sent.offer.ours().map(|tool| tool.name.clone()).collect()
}

/// What may come back; `None` if nothing may.
fn room(inner: &Inner, tools: &[String]) -> Option<Room> {
    (!tools.is_empty()).then(|| Room {
        tools: tools.to_owned(),
        bytes_max: inner.config.memory_bytes_max,
    })
}

/// The history with what is remembered, newest turn first; `None` when there is nothing to put back.
fn put_back(
    remembered: &[RememberedTurn],
    tools: &[String],
    history: &History,
    sent: &Sent<'_>,
) -> Option<Spliced> {
    if remembered.is_empty() {
        return None;
    }
    let places = places(sent.messages);
    // Each turn was answered before the one that was found before it.
    let mut answers = history.answers.as_slice();
    let mut turns = remembered
        .iter()
        .filter(|turn| !turn.rounds.is_empty())
        .filter_map(|turn| {
            let answer = answers
                .iter()
                .rposition(|(_, hash)| *hash == turn.history)?;
            answers = &answers[..answer];
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

/// Where the answers stand in a repaired history, which has as many as the one that was sent.
fn places(messages: &[Message]) -> Vec<usize> {
    let answers = messages.iter().enumerate();
    let answers = answers.filter(|(_, message)| message.role == Role::Assistant);
    answers.map(|(at, _)| at).collect()
}
