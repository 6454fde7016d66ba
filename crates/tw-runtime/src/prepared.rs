//! The history that a turn's model is sent: in order, and with what its client never saw.

use tw_core::history::{self, Repairs};
use tw_core::id::TurnId;
use tw_core::recall::Spliced;
use tw_core::request::{Message, ModelInput, Tools};
use tw_core::turn::{Offer, Turn};
use tw_store::read::ReadError;

use crate::memory::{self, Asks, Recollection};
use crate::recall;
use crate::runtime::Inner;

#[derive(Debug)]
pub(crate) struct Prepared {
    /// The client's history in order; `None` if it was.
    pub(crate) repaired: Option<Vec<Message>>,
    pub(crate) repairs: Repairs,
    /// The turn that the request continues, and its conversation.
    pub(crate) continued: Option<(TurnId, String)>,
    /// See [`recall::Known::withheld`].
    pub(crate) withheld: Vec<String>,
    pub(crate) memory: Recollection,
    /// With what the ids of its calls tell.
    joined: Option<Spliced>,
}

/// What the model may be sent of a client's history.
#[derive(Debug)]
pub(crate) struct Histories {
    repaired: Option<Vec<Message>>,
    joined: Option<Spliced>,
    /// With what memory puts back as well.
    remembered: Option<Spliced>,
}

/// Puts a history in order and looks up what was hidden of it.
///
/// In this order: ids of ours are unique once those of a client are, and memory leaves alone
/// what the ids have told.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn prepare(
    inner: &Inner,
    asks: Asks<'_>,
    input: &ModelInput,
    offer: &Offer,
) -> Result<Prepared, ReadError> {
    let (repaired, mut repairs) = history::repaired(&input.messages);
    repairs.half_characters = input.half_characters;
    repairs.empty_lists += u32::from(match &input.tools {
        Tools::Absent => false,
        Tools::List(entries) | Tools::Legacy(entries) => entries.is_empty(),
    });
    let messages = repaired.as_ref().unwrap_or(&input.messages);
    let known = recall::look_up(inner, asks.organization(), asks.whose(), messages).await?;
    let sent = memory::Sent {
        messages,
        offer,
        known: &known,
    };
    let memory = memory::recollect(inner, asks, input, sent).await?;
    let joined = known.put_back(messages, offer);
    let goes = memory.history.as_ref().or(joined.as_ref());
    repairs.repeated_ids += goes.map_or(0, |goes| goes.repeated_ids);
    Ok(Prepared {
        repairs,
        continued: known.parent.or_else(|| memory.parent()),
        withheld: known.withheld,
        memory,
        joined,
        repaired,
    })
}

impl Prepared {
    pub(crate) fn into_histories(self) -> Histories {
        Histories {
            repaired: self.repaired,
            joined: self.joined,
            remembered: self.memory.history,
        }
    }
}

impl Histories {
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
