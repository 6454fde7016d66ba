//! Tools and their versions.

use tw_core::change::{Outcome, SaveTool};
use tw_core::id::{OrgId, ToolId, ToolVersionKey};
use tw_core::time::Timestamp;
use tw_core::tool::ToolVersion;
use tw_wire::stored;

use super::{StoreApplyError, execute, execute_guarded, lock_organization, query_key};
use crate::session::WriteSession;
use crate::session::bound::params;

const WHAT: &str = "saving a tool";

/// An outcome other than `ToolSaved` means that nothing was written.
pub fn save_tool(db: &mut WriteSession<'_>, save: &SaveTool) -> Result<Outcome, StoreApplyError> {
    lock_organization(db, WHAT, save.organization)?;
    match save.follows {
        0 => create(db, save),
        _ => follow(db, save),
    }
}

const CREATE: &str = "INSERT INTO tool (organization, id, name, version, created_us, updated_us)
    VALUES (?1, ?2, ?3, 1, ?4, ?4) RETURNING key";

fn create(db: &mut WriteSession<'_>, save: &SaveTool) -> Result<Outcome, StoreApplyError> {
    if is_name_of_another(db, save)? {
        return Ok(Outcome::NameTaken);
    }
    if let Some(refused) = refused_for_room(db, save)? {
        return Ok(refused);
    }
    let bound = params![
        save.organization.0,
        save.tool.to_string(),
        save.name,
        save.at.0
    ];
    let tool = returned(query_key(db, WHAT, CREATE, bound)?)?;
    add_version(db, save, tool, 1)
}

const FIND: &str = "SELECT key FROM tool
    WHERE organization = ?1 AND id = ?2 AND deleted_us IS NULL AND version = ?3";

const UPDATE: &str = "UPDATE tool SET name = ?2, version = ?3, updated_us = ?4
    WHERE key = ?1 AND deleted_us IS NULL AND version = ?5";

fn follow(db: &mut WriteSession<'_>, save: &SaveTool) -> Result<Outcome, StoreApplyError> {
    let bound = params![save.organization.0, save.tool.to_string(), save.follows];
    let Some(tool) = query_key(db, WHAT, FIND, bound)? else {
        return Ok(Outcome::Already);
    };
    if is_name_of_another(db, save)? {
        return Ok(Outcome::NameTaken);
    }
    if let Some(refused) = refused_for_room(db, save)? {
        return Ok(refused);
    }
    let number = save.follows.checked_add(1).ok_or(StoreApplyError::Encode {
        what: "a tool's version",
    })?;
    let bound = params![tool, save.name, number, save.at.0, save.follows];
    if execute(db, WHAT, UPDATE, bound)? == 0 {
        return Ok(Outcome::Already);
    }
    add_version(db, save, tool, number)
}

const NAMED: &str = "SELECT 1 FROM tool
    WHERE organization = ?1 AND name = ?2 AND deleted_us IS NULL AND id <> ?3";

fn is_name_of_another(db: &mut WriteSession<'_>, save: &SaveTool) -> Result<bool, StoreApplyError> {
    let bound = params![save.organization.0, save.name, save.tool.to_string()];
    Ok(query_key(db, WHAT, NAMED, bound)?.is_some())
}

const OTHERS: &str = "SELECT count(*), coalesce(sum(octet_length(v.definition)), 0)
    FROM tool t JOIN tool_version v ON v.tool = t.key AND v.version = t.version
    WHERE t.organization = ?1 AND t.deleted_us IS NULL AND t.id <> ?2";

/// The reason for which the organization has no room for the tool.
///
/// Asked in the transaction that writes: of two that are saved at once, each would find the room that is there for one.
fn refused_for_room(
    db: &mut WriteSession<'_>,
    save: &SaveTool,
) -> Result<Option<Outcome>, StoreApplyError> {
    let bound = params![save.organization.0, save.tool.to_string()];
    let others = db.first(OTHERS, bound, |row| Ok((row.get(0)?, row.get(1)?)));
    let (tools, bytes): (i64, i64) = others
        .map_err(|error| StoreApplyError::db(WHAT, error))?
        .unwrap_or_default();
    let size = |stored| usize::try_from(stored).unwrap_or(usize::MAX);
    // A version takes the place of the one before, which was within the number of tools that was allowed then.
    if save.follows == 0 && size(tools) >= save.room.tools_max {
        return Ok(Some(Outcome::TooManyTools));
    }
    let is_too_large = size(bytes).saturating_add(save.definition.len()) > save.room.bytes_max;
    Ok(is_too_large.then_some(Outcome::ToolsTooLarge))
}

const ADD_VERSION: &str =
    "INSERT INTO tool_version (tool, version, name, definition, shown, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) RETURNING key";

fn add_version(
    db: &mut WriteSession<'_>,
    save: &SaveTool,
    tool: i64,
    number: u32,
) -> Result<Outcome, StoreApplyError> {
    let shown = stored::tool::shown_parts(&save.definition).ok();
    let bound = params![tool, number, save.name, save.definition, shown, save.at.0];
    let key = returned(query_key(db, WHAT, ADD_VERSION, bound)?)?;
    note_change(db, WHAT, save.organization)?;
    Ok(Outcome::ToolSaved(ToolVersion {
        tool: save.tool,
        key: ToolVersionKey(key),
        number,
    }))
}

fn returned(key: Option<i64>) -> Result<i64, StoreApplyError> {
    key.ok_or(StoreApplyError::Guard { what: WHAT })
}

const DELETE: &str = "UPDATE tool SET deleted_us = ?3, updated_us = ?3
    WHERE organization = ?1 AND id = ?2 AND deleted_us IS NULL";

pub fn delete_tool(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    tool: ToolId,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "deleting a tool";
    let bound = params![organization.0, tool.to_string(), at.0];
    match execute(db, WHAT, DELETE, bound)? {
        0 => Ok(Outcome::Already),
        _ => note_change(db, WHAT, organization),
    }
}

/// Whoever chose the versions looked without a lock, so that it is looked again.
const DELETE_VERSION: &str = "DELETE FROM tool_version WHERE key = ?1
    AND NOT EXISTS (SELECT 1 FROM tool_call c WHERE c.tool_version = tool_version.key)
    AND NOT EXISTS (SELECT 1 FROM tool t
                    WHERE t.key = tool_version.tool AND t.version = tool_version.version AND t.deleted_us IS NULL)
    RETURNING tool";

const DELETE_UNVERSIONED: &str = "DELETE FROM tool WHERE key = ?1 AND deleted_us IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM tool_version v WHERE v.tool = tool.key)";

/// Deletes versions, and tools that are deleted and have none left.
pub fn delete_versions(
    db: &mut WriteSession<'_>,
    versions: &[ToolVersionKey],
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "deleting old versions of tools";
    let mut deleted = 0;
    for version in versions {
        if let Some(tool) = query_key(db, WHAT, DELETE_VERSION, params![version.0])? {
            deleted += 1;
            execute(db, WHAT, DELETE_UNVERSIONED, params![tool])?;
        }
    }
    Ok(Outcome::Count(deleted))
}

/// Raises the revision of an organization's tools, in the transaction of the change itself: who
/// sees one sees the other.
fn note_change(
    db: &mut WriteSession<'_>,
    what: &'static str,
    organization: OrgId,
) -> Result<Outcome, StoreApplyError> {
    let sql = "UPDATE organization SET tools_revision = tools_revision + 1 WHERE key = ?1";
    execute_guarded(db, what, sql, params![organization.0])
}
