//! API keys as those see them who manage them.

use tw_core::id::{ApiKeyId, ApiKeyUuid, OrgId};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;

use super::ReadError;
use super::columns::{get, optional_time, optional_word, time, word};
use crate::enum_words;
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::store::Store;

/// A key as it is listed; the key itself is kept nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedApiKey {
    pub id: ApiKeyId,
    pub uuid: ApiKeyUuid,
    pub organization_slug: String,
    pub name: String,
    /// The first characters of the key's text.
    pub shown: String,
    pub scopes: Vec<KeyScope>,
    pub tools: ToolGrant,
    pub tools_mode: ToolsMode,
    pub record: RecordPolicy,
    pub memory: KeyMemory,
    /// The key's own limits.
    pub limits: RateLimits,
    /// The key that made it over HTTP; `None` for one made by a command.
    pub created_by: Option<ApiKeyUuid>,
    pub created: Timestamp,
    pub last_used: Option<Timestamp>,
    pub expires: Option<Timestamp>,
}

impl ListedApiKey {
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

/// The keys of one organization or, for the operator's commands, of all.
const KEYS: &str = "SELECT k.key, k.id, o.slug, k.name, k.shown, k.scopes, k.tool_grant, k.tools_mode, k.record,
        k.memory, k.requests_per_minute, k.concurrency_max, k.streams_max, k.created_us, k.last_used_us,
        k.expires_us, maker.id AS created_by
    FROM api_key k JOIN organization o ON o.key = k.organization LEFT JOIN api_key maker ON maker.key = k.created_by
    WHERE (?1 IS NULL OR k.organization = ?1) AND (?2 IS NULL OR k.id = ?2) AND k.key > ?3 ORDER BY k.key LIMIT ?4";

/// A limit that no list reaches.
const NO_LIMIT: i64 = i64::MAX;

impl Store {
    /// Keys of an organization in the order in which they were made, at most `limit` behind `after`; also those that
    /// have ended.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn api_keys(
        &self,
        organization: OrgId,
        after: Option<ApiKeyId>,
        limit: u32,
    ) -> Result<Vec<ListedApiKey>, ReadError> {
        self.read(move |conn| find(conn, Some(organization), None, after, i64::from(limit)))
            .await
    }

    /// A key of an organization by its public id.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn api_key(
        &self,
        organization: OrgId,
        key: ApiKeyUuid,
    ) -> Result<Option<ListedApiKey>, ReadError> {
        self.read(move |conn| Ok(find(conn, Some(organization), Some(key), None, 1)?.pop()))
            .await
    }
}

/// The keys of all organizations.
pub(crate) fn all(conn: ReadSession<'_>) -> Result<Vec<ListedApiKey>, ReadError> {
    find(conn, None, None, None, NO_LIMIT)
}

fn find(
    conn: ReadSession<'_>,
    organization: Option<OrgId>,
    key: Option<ApiKeyUuid>,
    after: Option<ApiKeyId>,
    limit: i64,
) -> Result<Vec<ListedApiKey>, ReadError> {
    let mut statement = conn.prepare_cached(KEYS)?;
    let mut rows = statement.query(params![
        organization.map(|organization| organization.0),
        key.map(|key| key.to_string()),
        after.map_or(0, |after| after.0),
        limit,
    ])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        keys.push(listed(conn, row)?);
    }
    Ok(keys)
}

fn listed(conn: ReadSession<'_>, row: Row<'_>) -> Result<ListedApiKey, ReadError> {
    let key: i64 = get(row, "key")?;
    Ok(ListedApiKey {
        id: ApiKeyId(key),
        uuid: word(row, "id", ApiKeyUuid::parse)?,
        organization_slug: get(row, "slug")?,
        name: get(row, "name")?,
        shown: get(row, "shown")?,
        scopes: word(row, "scopes", enum_words::read_scopes)?,
        tools: granted(conn, key, row)?,
        tools_mode: word(row, "tools_mode", ToolsMode::parse)?,
        record: word(row, "record", enum_words::read_record)?,
        memory: word(row, "memory", enum_words::read_memory)?,
        limits: limits(row)?,
        created_by: optional_word(row, "created_by", ApiKeyUuid::parse)?,
        created: time(row, "created_us")?,
        last_used: optional_time(row, "last_used_us")?,
        expires: optional_time(row, "expires_us")?,
    })
}

/// The limits of a key.
pub(crate) fn limits(row: Row<'_>) -> Result<RateLimits, ReadError> {
    Ok(RateLimits {
        requests_per_minute: get(row, "requests_per_minute")?,
        concurrency_max: get(row, "concurrency_max")?,
        streams_max: get(row, "streams_max")?,
    })
}

/// The tools of a key.
pub(crate) fn granted(
    conn: ReadSession<'_>,
    key: i64,
    row: Row<'_>,
) -> Result<ToolGrant, ReadError> {
    let grant: String = get(row, "tool_grant")?;
    match grant.as_str() {
        "none" => Ok(ToolGrant::None),
        "all" => Ok(ToolGrant::All),
        "named" => Ok(ToolGrant::Named(granted_names(conn, key)?)),
        _ => Err(ReadError::Column {
            column: "tool_grant",
        }),
    }
}

fn granted_names(conn: ReadSession<'_>, key: i64) -> Result<Vec<String>, ReadError> {
    let sql = "SELECT name FROM api_key_tool WHERE api_key = ?1 ORDER BY place";
    let mut statement = conn.prepare_cached(sql)?;
    Ok(statement.all(params![key])?)
}
