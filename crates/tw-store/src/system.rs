//! The only reads without an organization: those that find out which one it is, and recovery.

pub mod callbacks;
pub mod ended_calls;
pub mod files;
pub mod jobs;
pub mod queued;
pub mod webhooks;

use std::time::Duration;

use tw_core::id::{ApiKeyId, OrgId, ToolVersionKey, TurnId};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;

use crate::enum_words;
use crate::read::ReadError;
use crate::read::api_keys::{self, ListedApiKey, granted, limits};
use crate::read::columns::unsigned;
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;
use crate::store::Store;

/// A key as it was created, and its organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyRow {
    pub id: ApiKeyId,
    pub organization: OrgId,
    pub organization_slug: String,
    /// The first characters of the key's text.
    pub shown: String,
    pub scopes: Vec<KeyScope>,
    pub tools: ToolGrant,
    pub tools_mode: ToolsMode,
    pub record: RecordPolicy,
    pub memory: KeyMemory,
    pub limits: RateLimits,
    /// Time when the key expires; whether that has passed is for the caller to decide.
    pub expires: Option<Timestamp>,
    pub last_used: Option<Timestamp>,
}

/// The key with this SHA-256.
///
/// # Errors
/// See [`ReadError`].
pub async fn api_key_by_hash(
    store: &Store,
    hash: [u8; 32],
) -> Result<Option<ApiKeyRow>, ReadError> {
    store.read(move |conn| find_api_key(conn, &hash)).await
}

/// The organization with this slug.
///
/// # Errors
/// See [`ReadError`].
pub async fn organization_by_slug(store: &Store, slug: &str) -> Result<Option<OrgId>, ReadError> {
    let slug = slug.to_owned();
    store
        .read(move |conn| {
            let mut statement =
                conn.prepare_cached("SELECT key FROM organization WHERE slug = ?1")?;
            let mut rows = statement.query(params![slug])?;
            Ok(rows
                .next()?
                .map(|row| row.get("key").map(OrgId))
                .transpose()?)
        })
        .await
}

/// The revision of an organization's tools, which tells whether they have to be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrganizationTools {
    pub slug: String,
    /// Rises with each change of a tool.
    pub revision: i64,
    /// Organizations that there are; more than 2 count as 2.
    pub organizations: u64,
}

/// The state of an organization's tools; `None` when there is no such organization.
///
/// # Errors
/// See [`ReadError`].
pub async fn organization_tools(
    store: &Store,
    organization: OrgId,
) -> Result<Option<OrganizationTools>, ReadError> {
    store
        .read(move |conn| find_organization_tools(conn, organization))
        .await
}

const ORGANIZATION_TOOLS: &str = "SELECT slug, tools_revision,
    (SELECT count(*) FROM (SELECT 1 FROM organization LIMIT 2) AS counted) AS organizations
    FROM organization WHERE key = ?1";

fn find_organization_tools(
    conn: ReadSession<'_>,
    organization: OrgId,
) -> Result<Option<OrganizationTools>, ReadError> {
    let mut statement = conn.prepare_cached(ORGANIZATION_TOOLS)?;
    let mut rows = statement.query(params![organization.0])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(OrganizationTools {
        slug: row.get("slug")?,
        revision: row.get("tools_revision")?,
        organizations: unsigned(row, "organizations")?,
    }))
}

/// The organizations with their slugs, oldest first.
///
/// # Errors
/// See [`ReadError`].
pub async fn organizations(store: &Store) -> Result<Vec<(OrgId, String)>, ReadError> {
    store
        .read(|conn| {
            let sql = "SELECT key, slug FROM organization ORDER BY key";
            let mut statement = conn.prepare_cached(sql)?;
            let mut rows = statement.query(&[])?;
            let mut organizations = Vec::new();
            while let Some(row) = rows.next()? {
                organizations.push((OrgId(row.get("key")?), row.get("slug")?));
            }
            Ok(organizations)
        })
        .await
}

/// The versions of tools that are old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldToolVersions {
    /// Those that another took the place of before this, or whose tool was deleted.
    pub before: Timestamp,
    /// Those with so many newer ones.
    pub kept: u32,
    /// Not those whose place was taken since then, or since a margin before the oldest turn that runs: one may be about to
    /// run it.
    pub unused_since: Timestamp,
    pub margin: Duration,
}

/// At most `limit` old versions of tools that no call ran, oldest first.
///
/// # Errors
/// See [`ReadError`].
pub async fn old_tool_versions(
    store: &Store,
    old: OldToolVersions,
    limit: u32,
) -> Result<Vec<ToolVersionKey>, ReadError> {
    let margin_us = i64::try_from(old.margin.as_micros()).unwrap_or(i64::MAX);
    store
        .read(move |conn| {
            let mut statement = conn.prepare_cached(OLD_TOOL_VERSIONS)?;
            let bound = params![old.before.0, old.kept, old.unused_since.0, margin_us, limit];
            let mut rows = statement.query(bound)?;
            let mut versions = Vec::new();
            while let Some(row) = rows.next()? {
                versions.push(ToolVersionKey(row.get("key")?));
            }
            Ok(versions)
        })
        .await
}

/// A version that took another's place may be gone itself, long after that.
const OLD_TOOL_VERSIONS: &str = "SELECT key FROM
    (SELECT v.key, v.version, t.version AS newest, coalesce(n.created_us, t.deleted_us, v.created_us) AS replaced_us
     FROM tool t JOIN tool_version v ON v.tool = t.key
     LEFT JOIN tool_version n ON n.tool = v.tool AND n.version = v.version + 1
     WHERE (t.deleted_us IS NOT NULL OR v.version < t.version)
       AND NOT EXISTS (SELECT 1 FROM tool_call c WHERE c.tool_version = v.key)) AS replaced
    WHERE (replaced_us < ?1 OR version + ?2 < newest)
      AND replaced_us < ?3
      AND replaced_us < coalesce((SELECT min(created_us) FROM turn_state WHERE status = 'running') - ?4, ?3)
    ORDER BY key LIMIT ?5";

/// The secret from which the keys of seals are made.
///
/// # Errors
/// See [`ReadError`].
pub async fn seal_secret(store: &Store) -> Result<[u8; 32], ReadError> {
    store
        .read(|conn| {
            let mut statement = conn.prepare_cached("SELECT secret FROM seal")?;
            Ok(statement.one(&[], |row| row.get("secret"))?)
        })
        .await
}

/// The number of organizations.
///
/// # Errors
/// See [`ReadError`].
pub async fn organization_count(store: &Store) -> Result<u64, ReadError> {
    store
        .read(|conn| {
            let mut statement =
                conn.prepare_cached("SELECT count(*) AS organizations FROM organization")?;
            let mut rows = statement.query(&[])?;
            rows.next()?
                .map_or(Ok(0), |row| unsigned(row, "organizations"))
        })
        .await
}

/// Running turns of other owners than `owner` and those whose name begins with it and a colon: at most `limit`, oldest
/// first. On PostgreSQL, only those of owners that have no lease.
///
/// # Errors
/// See [`ReadError`].
pub async fn unfinished_turns(
    store: &Store,
    owner: &str,
    limit: u32,
) -> Result<Vec<(OrgId, TurnId)>, ReadError> {
    let owner = owner.to_owned();
    store
        .read(move |conn| find_unfinished(conn, &owner, limit))
        .await
}

/// [`unfinished_turns`] on the caller's thread.
///
/// # Errors
/// See [`ReadError`].
pub fn unfinished_turns_now(
    store: &Store,
    owner: &str,
    limit: u32,
) -> Result<Vec<(OrgId, TurnId)>, ReadError> {
    store.read_now(|conn| find_unfinished(conn, owner, limit))
}

const UNFINISHED: Sql = Sql {
    sqlite: "SELECT t.organization, t.id FROM turn_state s JOIN turn_start t ON t.key = s.turn
        WHERE s.status = 'running' AND s.owner <> ?1 AND substr(s.owner, 1, length(?1) + 1) <> ?1 || ':'
        ORDER BY s.created_us, s.turn LIMIT ?2",
    postgres: "SELECT t.organization, t.id FROM turn_state s JOIN turn_start t ON t.key = s.turn
        WHERE s.status = 'running' AND s.owner <> ?1 AND substr(s.owner, 1, length(?1) + 1) <> ?1 || ':'
          AND split_part(s.owner, ':', 1) NOT IN (SELECT id FROM instance WHERE lease_until_us > clock_us())
        ORDER BY s.created_us, s.turn LIMIT ?2",
};

/// Running turns of `owner`, and of those whose name begins with it and a colon, which somebody asked to stop.
///
/// # Errors
/// See [`ReadError`].
pub async fn turns_asked_to_stop(store: &Store, owner: &str) -> Result<Vec<TurnId>, ReadError> {
    let owner = owner.to_owned();
    store
        .read(move |conn| {
            let mut statement = conn.prepare_cached(ASKED_TO_STOP)?;
            let mut rows = statement.query(params![owner])?;
            let mut turns = Vec::new();
            while let Some(row) = rows.next()? {
                turns.push(turn_id(row)?);
            }
            Ok(turns)
        })
        .await
}

const ASKED_TO_STOP: &str =
    "SELECT id FROM turn WHERE status = 'running' AND stop_reason = 'requested'
    AND (owner = ?1 OR substr(owner, 1, length(?1) + 1) = ?1 || ':')";

fn turn_id(row: Row<'_>) -> Result<TurnId, ReadError> {
    let id: String = row.get("id")?;
    TurnId::parse(&id).ok_or(ReadError::Column { column: "id" })
}

fn find_unfinished(
    conn: ReadSession<'_>,
    owner: &str,
    limit: u32,
) -> Result<Vec<(OrgId, TurnId)>, ReadError> {
    let mut statement = conn.prepare_cached(UNFINISHED)?;
    let mut rows = statement.query(params![owner, limit])?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next()? {
        turns.push((OrgId(row.get("organization")?), turn_id(row)?));
    }
    Ok(turns)
}

/// The keys of all organizations, in the order in which they were made.
///
/// # Errors
/// See [`ReadError`].
pub async fn api_keys(store: &Store) -> Result<Vec<ListedApiKey>, ReadError> {
    store.read(api_keys::all).await
}

const API_KEY: &str =
    "SELECT k.key, k.organization, o.slug, k.shown, k.scopes, k.tool_grant, k.tools_mode, k.record, k.memory,
        k.requests_per_minute, k.concurrency_max, k.streams_max, k.expires_us, k.last_used_us
    FROM api_key k JOIN organization o ON o.key = k.organization
    WHERE k.hash = ?1";

fn find_api_key(conn: ReadSession<'_>, hash: &[u8; 32]) -> Result<Option<ApiKeyRow>, ReadError> {
    let mut statement = conn.prepare_cached(API_KEY)?;
    let mut rows = statement.query(params![hash])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let known = |column| ReadError::Column { column };
    let key: i64 = row.get("key")?;
    let scopes: String = row.get("scopes")?;
    let (record, memory): (String, String) = (row.get("record")?, row.get("memory")?);
    Ok(Some(ApiKeyRow {
        id: ApiKeyId(key),
        organization: OrgId(row.get("organization")?),
        organization_slug: row.get("slug")?,
        shown: row.get("shown")?,
        scopes: enum_words::read_scopes(&scopes).ok_or(known("scopes"))?,
        tools: granted(conn, key, row)?,
        tools_mode: tools_mode(row)?,
        record: enum_words::read_record(&record).ok_or(known("record"))?,
        memory: enum_words::read_memory(&memory).ok_or(known("memory"))?,
        limits: limits(row)?,
        expires: row.get::<Option<i64>>("expires_us")?.map(Timestamp),
        last_used: row.get::<Option<i64>>("last_used_us")?.map(Timestamp),
    }))
}

fn tools_mode(row: Row<'_>) -> Result<ToolsMode, ReadError> {
    let word: String = row.get("tools_mode")?;
    ToolsMode::parse(&word).ok_or(ReadError::Column {
        column: "tools_mode",
    })
}
