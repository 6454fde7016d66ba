//! The history that a turn's model is sent: in order, and with what its client never saw.

use tw_core::history::{self, HistoryRepairs};
use tw_core::id::TurnId;
use tw_core::recall::SplicedHistory;
use tw_core::request::{Message, ModelInput, RequestTools};
use tw_core::turn::{ToolOffer, Turn};
use tw_store::read::ReadError;

use crate::memory::{self, MemorySource, Recollection};
use crate::recall::{self, HistoryOwner};
use crate::runtime::RuntimeInner;

#[derive(Debug)]
pub(crate) struct PreparedHistory {
    /// The client's history in order; `None` if it was.
    pub(crate) repaired: Option<Vec<Message>>,
    pub(crate) repairs: HistoryRepairs,
    /// The turn that the request continues, and its conversation.
    pub(crate) continued: Option<(TurnId, String)>,
    /// See [`recall::KnownHistory::withheld`].
    pub(crate) withheld: Vec<String>,
    pub(crate) memory: Recollection,
    /// With what the ids of its calls tell.
    joined: Option<SplicedHistory>,
}

/// The forms of a client's history that the model may be sent.
#[derive(Debug)]
pub(crate) struct SendableHistories {
    repaired: Option<Vec<Message>>,
    joined: Option<SplicedHistory>,
    /// With what memory puts back as well.
    remembered: Option<SplicedHistory>,
}

/// Puts a history in order and looks up what was hidden of it.
///
/// In this order: ids of ours are unique once those of a client are, and memory leaves alone
/// what the ids have told.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn prepare(
    inner: &RuntimeInner,
    owner: HistoryOwner<'_>,
    source: MemorySource<'_>,
    input: &ModelInput,
    offer: &ToolOffer,
) -> Result<PreparedHistory, ReadError> {
    let (repaired, mut repairs) = history::repaired(&input.messages);
    repairs.half_characters = input.half_characters;
    repairs.empty_lists += input.empty_lists;
    repairs.empty_lists += u32::from(match &input.tools {
        RequestTools::Absent => false,
        RequestTools::List(entries) | RequestTools::ByName(entries) => entries.is_empty(),
    });
    let messages = repaired.as_ref().unwrap_or(&input.messages);
    let known = recall::look_up(inner, owner, source.is_on(), messages).await?;
    let sent = memory::SentHistory {
        messages,
        offer,
        known: &known,
    };
    let memory = memory::recollect(inner, owner, source, input, sent).await?;
    let joined = known.put_back(messages, offer);
    let goes = memory.history.as_ref().or(joined.as_ref());
    repairs.repeated_ids += goes.map_or(0, |goes| goes.repeated_ids);
    Ok(PreparedHistory {
        repairs,
        continued: known.parent.or_else(|| memory.parent()),
        withheld: known.withheld,
        memory,
        joined,
        repaired,
    })
}

impl PreparedHistory {
    pub(crate) fn into_histories(self) -> SendableHistories {
        SendableHistories {
            repaired: self.repaired,
            joined: self.joined,
            remembered: self.memory.history,
        }
    }
}

impl SendableHistories {
    /// The client's history in order; `None` if it was.
    pub(crate) fn repaired(&self) -> Option<&[Message]> {
        self.repaired.as_deref()
    }

    /// The history that the model is sent, with what memory puts back if that is to be restored.
    pub(crate) fn sent<'a>(&'a self, input: &'a ModelInput, turn: &Turn) -> Vec<&'a Message> {
        let messages = self.repaired.as_ref().unwrap_or(&input.messages);
        let remembered = self.remembered.as_ref().filter(|_| turn.is_restoring());
        match remembered.or(self.joined.as_ref()) {
            Some(spliced) => spliced.messages(messages),
            None => messages.iter().collect(),
        }
    }
}
