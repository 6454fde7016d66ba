//! Tools, each in one of its versions.

use tw_core::id::{OrgId, ToolId, ToolVersionKey};
use tw_core::time::Timestamp;
use tw_core::tool::ToolVersion;

use super::ReadError;
use super::columns::{get, time, word};
use crate::session::ReadSession;
use crate::session::bound::{Params, params};
use crate::session::row::Row;
use crate::store::Store;

/// A version of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRow {
    pub id: ToolId,
    pub version: ToolVersion,
    /// The tool's name as of this version; the newest one may have another.
    pub name: String,
    /// The definition as JSON text.
    pub definition: String,
    /// Time when the tool was made.
    pub created: Timestamp,
    /// Time when this version was made.
    pub updated: Timestamp,
    /// The tool was deleted since; only [`Store::tool_version`] finds such a one.
    pub deleted: bool,
}

const TOOLS: &str = "SELECT t.id, v.key, v.version, v.name, v.definition, t.created_us,
        v.created_us AS version_created_us, t.deleted_us IS NOT NULL AS deleted
    FROM tool t JOIN tool_version v ON v.tool = t.key AND v.version = t.version
    WHERE t.organization = ?1 AND t.deleted_us IS NULL ORDER BY t.name";

const TOOL: &str = "SELECT t.id, v.key, v.version, v.name, v.definition, t.created_us,
        v.created_us AS version_created_us, t.deleted_us IS NOT NULL AS deleted
    FROM tool t JOIN tool_version v ON v.tool = t.key AND v.version = coalesce(?3, t.version)
    WHERE t.organization = ?1 AND t.id = ?2 AND t.deleted_us IS NULL";

const TOOL_VERSION: &str = "SELECT t.id, v.key, v.version, v.name, v.definition, t.created_us,
        v.created_us AS version_created_us, t.deleted_us IS NOT NULL AS deleted
    FROM tool_version v JOIN tool t ON t.key = v.tool
    WHERE t.organization = ?1 AND v.key = ?2";

const TOOL_IDS: &str = "SELECT id FROM tool WHERE organization = ?1";

impl Store {
    /// The ids of all tools of an organization, deleted ones among them as long as they are known.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn tool_ids(&self, organization: OrgId) -> Result<Vec<ToolId>, ReadError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(TOOL_IDS)?;
            let mut rows = statement.query(params![organization.0])?;
            let mut ids = Vec::new();
            while let Some(row) = rows.next()? {
                ids.push(word(row, "id", ToolId::parse)?);
            }
            Ok(ids)
        })
        .await
    }

    /// The newest version of each tool that is not deleted, by name.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn tools(&self, organization: OrgId) -> Result<Vec<ToolRow>, ReadError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(TOOLS)?;
            let mut rows = statement.query(params![organization.0])?;
            let mut tools = Vec::new();
            while let Some(row) = rows.next()? {
                tools.push(tool_row(row)?);
            }
            Ok(tools)
        })
        .await
    }

    /// A tool that is not deleted, in the version with this number, or the newest for `None`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn tool(
        &self,
        organization: OrgId,
        tool: ToolId,
        version: Option<u32>,
    ) -> Result<Option<ToolRow>, ReadError> {
        self.read(move |conn| {
            let bound = params![organization.0, tool.to_string(), version];
            find(conn, TOOL, bound)
        })
        .await
    }

    /// A version of a tool, also of a deleted one, since a call goes on with the version that it started with.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn tool_version(
        &self,
        organization: OrgId,
        version: ToolVersionKey,
    ) -> Result<Option<ToolRow>, ReadError> {
        self.read(move |conn| find(conn, TOOL_VERSION, params![organization.0, version.0]))
            .await
    }
}

fn find(
    conn: ReadSession<'_>,
    sql: &'static str,
    bound: Params<'_>,
) -> Result<Option<ToolRow>, ReadError> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(bound)?;
    rows.next()?.map(tool_row).transpose()
}

fn tool_row(row: Row<'_>) -> Result<ToolRow, ReadError> {
    let id = word(row, "id", ToolId::parse)?;
    Ok(ToolRow {
        id,
        version: ToolVersion {
            tool: id,
            key: ToolVersionKey(get(row, "key")?),
            number: get(row, "version")?,
        },
        name: get(row, "name")?,
        definition: get(row, "definition")?,
        created: time(row, "created_us")?,
        updated: time(row, "version_created_us")?,
        deleted: get(row, "deleted")?,
    })
}
