//! The choice of the tools that a request is offered.

use std::sync::Arc;

use crate::approval::ApprovalWords;
use crate::limits::OFFERED_BYTES_MAX;
use crate::request::{ModelInput, RequestTools, ToolEntry};
use crate::tenant::{ToolGrant, ToolsMode};
use crate::tool::Tool;

/// The tools that a turn offers, and the side that runs its calls.
#[derive(Clone, Debug)]
pub enum ToolOffer {
    /// No tool of ours is offered: what the client wrote passes, and calls go to the client.
    Relay,
    /// Tools of ours, in this order; the client sees none of their calls.
    Ours(Vec<Arc<Tool>>),
    /// Ours and the client's own, in the client's order. Calls of ours are hidden, calls of the
    /// client's are handed over when ours have ended.
    Mixed(Vec<MixedListEntry>),
}

/// A tool of a list that mixes ours with the client's own.
#[derive(Clone, Debug)]
pub enum MixedListEntry {
    Ours(Arc<Tool>),
    /// A tool of the client's by name; its entry stands in the request.
    Client(String),
}

impl ToolOffer {
    pub fn is_relay(&self) -> bool {
        matches!(self, Self::Relay)
    }

    /// A list with at least one tool of ours in it.
    pub fn of_list(listed: Vec<MixedListEntry>) -> Self {
        let is_mixed = listed.iter().any(|listed| match listed {
            MixedListEntry::Client(_) => true,
            MixedListEntry::Ours(_) => false,
        });
        let offer = Self::Mixed(listed);
        if is_mixed {
            return offer;
        }
        Self::Ours(offer.ours().cloned().collect())
    }

    /// Our tools, in order.
    pub fn ours(&self) -> impl Iterator<Item = &Arc<Tool>> {
        let (plain, mixed): (&[Arc<Tool>], &[MixedListEntry]) = match self {
            Self::Relay => (&[], &[]),
            Self::Ours(tools) => (tools, &[]),
            Self::Mixed(listed) => (&[], listed),
        };
        let mixed = mixed.iter().filter_map(|listed| match listed {
            MixedListEntry::Ours(tool) => Some(tool),
            MixedListEntry::Client(_) => None,
        });
        plain.iter().chain(mixed)
    }

    /// Whether calls of this name are for the client to run.
    pub fn is_clients(&self, name: &str) -> bool {
        match self {
            Self::Relay => true,
            Self::Ours(_) => false,
            Self::Mixed(listed) => listed.iter().any(|listed| match listed {
                MixedListEntry::Client(own) => own == name,
                MixedListEntry::Ours(_) => false,
            }),
        }
    }

    /// The same offer without the tools that require approval, and their names.
    fn without_approvals(self) -> (Self, Vec<String>) {
        let needs = |tool: &Arc<Tool>| tool.policy.requires_approval;
        let left_out: Vec<String> = self
            .ours()
            .filter(|tool| needs(tool))
            .map(|tool| tool.name.clone())
            .collect();
        let is_kept = |listed: &MixedListEntry| match listed {
            MixedListEntry::Ours(tool) => !needs(tool),
            MixedListEntry::Client(_) => true,
        };
        let offer = match self {
            Self::Relay => Self::Relay,
            Self::Ours(mut tools) => {
                tools.retain(|tool| !needs(tool));
                Self::Ours(tools)
            }
            Self::Mixed(mut listed) => {
                listed.retain(is_kept);
                Self::Mixed(listed)
            }
        };
        (offer, left_out)
    }

    /// The same offer, with each of our tools as `change` makes it.
    #[must_use]
    pub fn map_ours(self, change: impl Fn(Arc<Tool>) -> Arc<Tool>) -> Self {
        match self {
            Self::Relay => Self::Relay,
            Self::Ours(tools) => Self::Ours(tools.into_iter().map(change).collect()),
            Self::Mixed(listed) => Self::Mixed(
                listed
                    .into_iter()
                    .map(|listed| match listed {
                        MixedListEntry::Ours(tool) => MixedListEntry::Ours(change(tool)),
                        MixedListEntry::Client(name) => MixedListEntry::Client(name),
                    })
                    .collect(),
            ),
        }
    }
}

/// An offer, and what of the client's list was replaced.
#[derive(Clone, Debug)]
pub struct OfferOutcome {
    pub offer: ToolOffer,
    /// Tools of ours that the client described otherwise; our description holds.
    pub schemas_replaced: u32,
    /// Tools that were to be added and that the client's list names already, in its order; ours hold.
    pub names_shared: Vec<String>,
    /// Tools of ours that would be offered, but whose calls need an approval for which the client's format has no words.
    pub left_out: Vec<String>,
}

/// A list that cannot be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// Calls by name have neither ids, by which a client's results are told from ours, nor more
    /// than one call at a time.
    #[error(
        "the old form 'functions' cannot mix this server's tools with the client's own; use 'tools'"
    )]
    MixedByName,
    #[error(
        "{offered} tools, this server's among them, would be offered, and at most {max} may be; list those that are needed"
    )]
    TooMany { offered: usize, max: usize },
    #[error(
        "the tools of this server that would be offered have {bytes} bytes, and at most {max} may be; list those that are needed"
    )]
    TooLarge { bytes: usize, max: usize },
    #[error("the parameter n must be 1 when tools of this server are offered")]
    SeveralChoices,
}

/// What a request may be offered.
#[derive(Clone, Copy, Debug)]
pub struct OfferRules<'a> {
    pub grant: &'a ToolGrant,
    pub mode: ToolsMode,
    pub approvals: ApprovalWords,
    pub tools_max: usize,
}

/// Decides what a request is offered.
///
/// Without a list it is the key's tools, sorted by name so that the provider's prompt cache
/// hits. A name of ours in a list that the key may use selects ours, any other name is the client's
/// own. By the mode, a list is exact, or the rest of the key's tools stand behind what it names,
/// sorted likewise.
///
/// # Errors
/// [`OfferError`] for what cannot be run.
pub fn offer(
    input: &ModelInput,
    rules: &OfferRules<'_>,
    registry: &[Arc<Tool>],
) -> Result<OfferOutcome, OfferError> {
    let OfferRules {
        grant,
        mode,
        approvals,
        tools_max,
    } = *rules;
    let mut schemas_replaced = 0;
    let mut names_shared = Vec::new();
    let offer = match &input.tools {
        RequestTools::Absent => ToolOffer::Ours(granted(grant, registry)),
        RequestTools::List(entries) | RequestTools::ByName(entries) => {
            let mut listed: Vec<MixedListEntry> = entries
                .iter()
                .map(|entry| select(entry, grant, registry, &mut schemas_replaced))
                .collect();
            match mode {
                ToolsMode::Replace => {}
                ToolsMode::Add => names_shared = add(&mut listed, granted(grant, registry)),
            }
            ToolOffer::of_list(listed)
        }
    };
    let (offer, left_out) = match approvals {
        ApprovalWords::Known => (offer, Vec::new()),
        ApprovalWords::Missing => offer.without_approvals(),
    };
    // What was left out of the client's own list must not go out with the rest of it.
    let goes_as_sent = left_out.is_empty() || matches!(input.tools, RequestTools::Absent);
    if offer.ours().next().is_none() && goes_as_sent {
        return Ok(OfferOutcome {
            offer: ToolOffer::Relay,
            schemas_replaced: 0,
            names_shared,
            left_out,
        });
    }
    if matches!(
        (&offer, &input.tools),
        (ToolOffer::Mixed(_), RequestTools::ByName(_))
    ) {
        return Err(OfferError::MixedByName);
    }
    let offered = match &offer {
        ToolOffer::Relay => 0,
        ToolOffer::Ours(tools) => tools.len(),
        ToolOffer::Mixed(listed) => listed.len(),
    };
    if offered > tools_max {
        return Err(OfferError::TooMany {
            offered,
            max: tools_max,
        });
    }
    let bytes = offer
        .ours()
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
    Ok(OfferOutcome {
        offer,
        schemas_replaced,
        names_shared,
        left_out,
    })
}

/// The tools that a key may use, by name.
fn granted(grant: &ToolGrant, registry: &[Arc<Tool>]) -> Vec<Arc<Tool>> {
    let granted = registry.iter().filter(|tool| grant.allows(&tool.name));
    let mut tools: Vec<_> = granted.cloned().collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools
}

/// Adds the tools that a list does not name, and returns the names of those that it does.
fn add(listed: &mut Vec<MixedListEntry>, tools: Vec<Arc<Tool>>) -> Vec<String> {
    let shared: Vec<String> = listed
        .iter()
        .filter_map(|listed| match listed {
            MixedListEntry::Ours(tool) => Some(tool.name.clone()),
            MixedListEntry::Client(_) => None,
        })
        .collect();
    let rest = tools
        .into_iter()
        .filter(|tool| !shared.contains(&tool.name));
    listed.extend(rest.map(MixedListEntry::Ours));
    shared
}

/// The tool of ours that an entry names, if the key may use it; else the client's own.
fn select(
    entry: &ToolEntry,
    grant: &ToolGrant,
    registry: &[Arc<Tool>],
    schemas_replaced: &mut u32,
) -> MixedListEntry {
    let ours = registry
        .iter()
        .find(|tool| tool.name == entry.name && grant.allows(&tool.name));
    let Some(tool) = ours else {
        return MixedListEntry::Client(entry.name.clone());
    };
    let differs = entry
        .parameters
        .as_ref()
        .is_some_and(|parameters| parameters.to_value() != tool.parameters.to_value());
    *schemas_replaced += u32::from(differs);
    MixedListEntry::Ours(Arc::clone(tool))
}
