//! Which tools a request is offered.

use std::sync::Arc;

use crate::change::ToolGrant;
use crate::limits::OFFERED_BYTES_MAX;
use crate::request::{ModelInput, Tools};
use crate::tool::Tool;

/// Who runs the calls of a turn.
#[derive(Clone, Debug)]
pub enum Offer {
    /// No tool of ours is offered: what the client wrote passes, and calls go to the client.
    Relay,
    /// These, in this order; the client sees none of their calls.
    Ours(Vec<Arc<Tool>>),
}

impl Offer {
    pub fn is_relay(&self) -> bool {
        matches!(self, Self::Relay)
    }
}

/// An offer, and what of the client's list was replaced.
#[derive(Clone, Debug)]
pub struct Offered {
    pub offer: Offer,
    /// Tools of ours that the client described otherwise; our description holds.
    pub schemas_replaced: u32,
}

/// A list that cannot be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    #[error("a list that mixes this server's tools with the client's own is not supported")]
    Mixed,
    #[error(
        "{offered} tools of this server would be offered, and at most {max} may be; list those that are needed"
    )]
    TooMany { offered: usize, max: usize },
    #[error(
        "the tools of this server that would be offered have {bytes} bytes, and at most {max} may be; list those that are needed"
    )]
    TooLarge { bytes: usize, max: usize },
    #[error("the parameter n must be 1 when tools of this server are offered")]
    SeveralChoices,
}

/// Decides what a request is offered.
///
/// Without a list it is the key's tools, sorted by name so that the provider's prompt cache
/// hits. A list is exact: a name of ours that the key may use selects ours, any other name is the
/// client's own.
///
/// # Errors
/// [`OfferError`] for what cannot be run yet.
pub fn offer(
    input: &ModelInput,
    grant: &ToolGrant,
    registry: &[Arc<Tool>],
    tools_max: usize,
) -> Result<Offered, OfferError> {
    let ours = |name: &str| {
        registry
            .iter()
            .find(|tool| tool.name == name && grant.allows(name))
    };
    let mut schemas_replaced = 0;
    let tools: Vec<Arc<Tool>> = match &input.tools {
        Tools::Absent => {
            let mut tools: Vec<_> = registry
                .iter()
                .filter(|tool| grant.allows(&tool.name))
                .cloned()
                .collect();
            tools.sort_by(|a, b| a.name.cmp(&b.name));
            tools
        }
        Tools::List(entries) | Tools::Legacy(entries) => {
            let mut tools = Vec::new();
            for entry in entries {
                let Some(tool) = ours(&entry.name) else {
                    continue;
                };
                let differs = entry
                    .parameters
                    .as_ref()
                    .is_some_and(|parameters| parameters.to_value() != tool.parameters.to_value());
                schemas_replaced += u32::from(differs);
                tools.push(Arc::clone(tool));
            }
            if !tools.is_empty() && tools.len() < entries.len() {
                return Err(OfferError::Mixed);
            }
            tools
        }
    };
    if tools.is_empty() {
        return Ok(Offered {
            offer: Offer::Relay,
            schemas_replaced: 0,
        });
    }
    if tools.len() > tools_max {
        return Err(OfferError::TooMany {
            offered: tools.len(),
            max: tools_max,
        });
    }
    let bytes = tools
        .iter()
        .map(|tool| tool.description.len() + tool.parameters.as_str().len())
        .sum();
    if bytes > OFFERED_BYTES_MAX {
        return Err(OfferError::TooLarge {
            bytes,
            max: OFFERED_BYTES_MAX,
        });
    }
    if input.choices > 1 {
        return Err(OfferError::SeveralChoices);
    }
    Ok(Offered {
        offer: Offer::Ours(tools),
        schemas_replaced,
    })
}
