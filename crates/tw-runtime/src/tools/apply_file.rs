//! Making an organization's tools equal to those of a file.

use tw_core::change::{Change, Outcome, SaveTool, ToolRoom};
use tw_core::definition::{DefinitionError, ToolDefinition};
use tw_core::id::{OrgId, ToolId};
use tw_egress::client::host_port::ORGANIZATION_DEFAULT;
use tw_egress::env::Env;
use tw_egress::secrets::Tenancy;
use tw_store::apply::StoreApplyError as WriteError;
use tw_store::read::ReadError;
use tw_store::read::tools::ToolRow;
use tw_store::store::Store;
use tw_store::system;

use super::DefinitionVetting;
use crate::admin::{self, CreateOrganizationError};

/// Fate of the tools that are not in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneTools {
    Keep,
    Remove,
}

/// Changes that would be made, in the file's order, removals last.
#[derive(Debug)]
pub struct PlannedChanges {
    /// The organization's slug.
    pub slug: String,
    /// Organization; `None` when it is still to be made.
    pub organization: Option<OrgId>,
    pub changes: Vec<ToolChange>,
    /// Room for all tools of the organization, once they are made.
    pub room: ToolRoom,
}

/// The change of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChange {
    Created {
        name: String,
        definition: String,
    },
    Changed {
        name: String,
        tool: ToolId,
        /// Number of the newest version before.
        follows: u32,
        before: String,
        definition: String,
    },
    Unchanged {
        name: String,
    },
    Removed {
        name: String,
        tool: ToolId,
    },
}

/// Reasons for which a file was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyFileError {
    #[error("there is no organization {0:?}")]
    NoOrganization(String),
    /// The definition of a tool is not accepted; `place` is its position in the file, from 0.
    #[error("tool {place} {name:?}: {error}")]
    Invalid {
        place: usize,
        name: String,
        error: DefinitionError,
    },
    #[error("an organization may keep {0} tools")]
    TooMany(usize),
    #[error("the tools of an organization may have {0} bytes together")]
    TooLarge(usize),
    #[error(
        "the tools were changed by somebody else at the same time, and some of the file may be applied; apply it again"
    )]
    Conflict,
    #[error("making the organization")]
    Organization(#[from] CreateOrganizationError),
    #[error("reading tools")]
    Read(#[from] ReadError),
    #[error("writing tools")]
    Write(#[from] WriteError),
}

/// Finds out what would change. Nothing is written; the default organization need not exist yet.
///
/// # Errors
/// [`ApplyFileError::Invalid`] for the first tool that may not be kept.
pub async fn plan(
    store: &Store,
    vetting: &DefinitionVetting,
    organization: &str,
    wanted: &[(String, ToolDefinition)],
    prune: PruneTools,
) -> Result<PlannedChanges, ApplyFileError> {
    let id = system::organization_by_slug(store, organization).await?;
    if id.is_none() && organization != ORGANIZATION_DEFAULT {
        return Err(ApplyFileError::NoOrganization(organization.to_owned()));
    }
    let organizations = system::organization_count(store).await?;
    let others = organizations.saturating_sub(u64::from(id.is_some()));
    let tenancy = if others == 0 {
        Tenancy::Single
    } else {
        Tenancy::Several
    };
    for (place, (_, definition)) in wanted.iter().enumerate() {
        let invalid = |error| ApplyFileError::Invalid {
            place,
            name: definition.name.clone(),
            error,
        };
        vetting
            .vet(definition, organization, tenancy)
            .map_err(invalid)?;
        let earlier = &wanted[..place];
        if earlier
            .iter()
            .any(|(_, other)| other.name == definition.name)
        {
            return Err(invalid(DefinitionError {
                field: "name".to_owned(),
                problem: "stands in the file twice".to_owned(),
            }));
        }
    }
    let known = match id {
        Some(id) => store.tools(id).await?,
        None => Vec::new(),
    };
    let changes = changes(&known, wanted, prune);
    let count =
        |wanted: fn(&ToolChange) -> bool| changes.iter().filter(|change| wanted(change)).count();
    let created = count(|change| matches!(change, ToolChange::Created { .. }));
    let removed = count(|change| matches!(change, ToolChange::Removed { .. }));
    if known.len() + created - removed > vetting.room.tools_max {
        return Err(ApplyFileError::TooMany(vetting.room.tools_max));
    }
    let kept = known.iter().filter(|row| {
        prune == PruneTools::Keep && !wanted.iter().any(|(_, other)| other.name == row.name)
    });
    let kept_bytes: usize = kept.map(|row| row.definition.len()).sum();
    let wanted_bytes: usize = wanted.iter().map(|(text, _)| text.len()).sum();
    if kept_bytes + wanted_bytes > vetting.room.bytes_max {
        return Err(ApplyFileError::TooLarge(vetting.room.bytes_max));
    }
    Ok(PlannedChanges {
        slug: organization.to_owned(),
        organization: id,
        changes,
        room: vetting.room,
    })
}

/// Makes the planned changes.
///
/// # Errors
/// [`ApplyFileError::Conflict`] when something else happened since.
pub async fn apply(
    store: &Store,
    env: &Env,
    planned: &PlannedChanges,
) -> Result<(), ApplyFileError> {
    let organization = match planned.organization {
        Some(organization) => organization,
        None => admin::organization(store, env, &planned.slug).await?,
    };
    let at = env.now();
    let save = |tool, name: &String, definition: &String, follows| {
        Change::SaveTool(Box::new(SaveTool {
            organization,
            tool,
            name: name.clone(),
            definition: definition.clone(),
            follows,
            room: planned.room,
            at,
        }))
    };
    // What goes makes room for what comes.
    let removed = planned.changes.iter().filter_map(|change| match change {
        ToolChange::Removed { tool, .. } => Some(Change::DeleteTool {
            organization,
            tool: *tool,
            at,
        }),
        ToolChange::Created { .. } | ToolChange::Changed { .. } | ToolChange::Unchanged { .. } => {
            None
        }
    });
    let saved = planned.changes.iter().filter_map(|change| match change {
        ToolChange::Created { name, definition } => {
            Some(save(ToolId(env.ordered_id()), name, definition, 0))
        }
        ToolChange::Changed {
            name,
            tool,
            follows,
            definition,
            ..
        } => Some(save(*tool, name, definition, *follows)),
        ToolChange::Unchanged { .. } | ToolChange::Removed { .. } => None,
    });
    let changes: Vec<Change> = removed.chain(saved).collect();
    if changes.is_empty() {
        return Ok(());
    }
    let outcomes = store.apply(changes).await?;
    let done = |outcome: &Outcome| matches!(outcome, Outcome::ToolSaved(_) | Outcome::Done);
    if outcomes.iter().all(done) {
        Ok(())
    } else {
        Err(ApplyFileError::Conflict)
    }
}

fn changes(
    known: &[ToolRow],
    wanted: &[(String, ToolDefinition)],
    prune: PruneTools,
) -> Vec<ToolChange> {
    let mut changes: Vec<ToolChange> = wanted
        .iter()
        .map(|(text, definition)| {
            let name = definition.name.clone();
            match known.iter().find(|row| row.name == name) {
                None => ToolChange::Created {
                    name,
                    definition: text.clone(),
                },
                Some(row) if row.definition == *text => ToolChange::Unchanged { name },
                Some(row) => ToolChange::Changed {
                    name,
                    tool: row.id,
                    follows: row.version.number,
                    before: row.definition.clone(),
                    definition: text.clone(),
                },
            }
        })
        .collect();
    if prune == PruneTools::Remove {
        let kept = |row: &&ToolRow| !wanted.iter().any(|(_, other)| other.name == row.name);
        changes.extend(known.iter().filter(kept).map(|row| ToolChange::Removed {
            name: row.name.clone(),
            tool: row.id,
        }));
    }
    changes
}
