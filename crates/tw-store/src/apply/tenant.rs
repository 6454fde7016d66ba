//! Organizations and their keys.

use std::time::Duration;

use tw_core::change::{ChangeApiKey, NewApiKey, NewOrganization, Outcome};
use tw_core::id::{ApiKeyId, OrgId};
use tw_core::tenant::ToolGrant;
use tw_core::time::Timestamp;

use super::{StoreApplyError, execute, query_key, run};
use crate::enum_words;
use crate::session::WriteSession;
use crate::session::bound::params;

/// The use of a key is noted at most this often, so that a busy key does not cost a write for each request.
const TOUCH_INTERVAL: Duration = Duration::from_secs(60);

pub fn create_organization(
    db: &mut WriteSession<'_>,
    new: &NewOrganization,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "creating an organization";
    let sql = "INSERT INTO organization (slug, name, created_us, updated_us)
               VALUES (?1, ?2, ?3, ?3) RETURNING key";
    let key = query_key(db, WHAT, sql, params![new.slug, new.name, new.at.0])?;
    Ok(Outcome::Organization(OrgId(
        key.ok_or(StoreApplyError::Guard { what: WHAT })?,
    )))
}

const CREATE_API_KEY: &str = "INSERT INTO api_key
    (organization, id, created_by, name, hash, shown, scopes, tool_grant, tools_mode, record, memory, expires_us,
     requests_per_minute, concurrency_max, streams_max, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16) RETURNING key";

pub fn create_api_key(
    db: &mut WriteSession<'_>,
    new: &NewApiKey,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "creating an API key";
    let (grant, names) = granted(&new.tools);
    let bound = params![
        new.organization.0,
        new.uuid.to_string(),
        new.created_by.map(|maker| maker.0),
        new.name,
        new.hash,
        new.shown,
        enum_words::scopes(&new.scopes),
        grant,
        new.tools_mode.as_str(),
        enum_words::record(new.record),
        enum_words::memory(new.memory),
        new.expires.map(|at| at.0),
        new.limits.requests_per_minute,
        new.limits.concurrency_max,
        new.limits.streams_max,
        new.at.0,
    ];
    let key =
        query_key(db, WHAT, CREATE_API_KEY, bound)?.ok_or(StoreApplyError::Guard { what: WHAT })?;
    name_tools(db, WHAT, key, names, new.at)?;
    Ok(Outcome::ApiKey(ApiKeyId(key)))
}

const CHANGE_API_KEY: &str =
    "UPDATE api_key SET name = ?3, tool_grant = ?4, tools_mode = ?5, requests_per_minute = ?6,
        concurrency_max = ?7, streams_max = ?8, updated_us = ?9
    WHERE organization = ?1 AND key = ?2 AND (expires_us IS NULL OR expires_us > ?9)";

pub fn change_api_key(
    db: &mut WriteSession<'_>,
    change: &ChangeApiKey,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "changing a key";
    let (grant, names) = granted(&change.tools);
    let key = change.key.0;
    let bound = params![
        change.organization.0,
        key,
        change.name,
        grant,
        change.tools_mode.as_str(),
        change.limits.requests_per_minute,
        change.limits.concurrency_max,
        change.limits.streams_max,
        change.at.0,
    ];
    if execute(db, WHAT, CHANGE_API_KEY, bound)? == 0 {
        return Ok(Outcome::Already);
    }
    let sql = "DELETE FROM api_key_tool WHERE api_key = ?1";
    run(db, WHAT, sql, params![key])?;
    name_tools(db, WHAT, key, names, change.at)?;
    Ok(Outcome::Done)
}

/// The column's word, and the names that stand in a table of their own.
fn granted(tools: &ToolGrant) -> (&'static str, &[String]) {
    match tools {
        ToolGrant::None => ("none", &[]),
        ToolGrant::All => ("all", &[]),
        ToolGrant::Named(names) => ("named", names),
    }
}

fn name_tools(
    db: &mut WriteSession<'_>,
    what: &'static str,
    key: i64,
    names: &[String],
    at: Timestamp,
) -> Result<(), StoreApplyError> {
    for (place, name) in names.iter().enumerate() {
        let place = i64::try_from(place).map_err(|_| StoreApplyError::Encode {
            what: "a tool's place",
        })?;
        let sql = "INSERT INTO api_key_tool (api_key, place, name, created_us, updated_us)
                   VALUES (?1, ?2, ?3, ?4, ?4)";
        run(db, what, sql, params![key, place, name, at.0])?;
    }
    Ok(())
}

pub fn expire_api_key(
    db: &mut WriteSession<'_>,
    key: ApiKeyId,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let sql = "UPDATE api_key SET expires_us = ?2, updated_us = ?2
               WHERE key = ?1 AND (expires_us IS NULL OR expires_us > ?2)";
    let bound = params![key.0, at.0];
    Ok(match execute(db, "ending a key", sql, bound)? {
        0 => Outcome::Already,
        _ => Outcome::Done,
    })
}

pub fn touch_api_key(
    db: &mut WriteSession<'_>,
    key: ApiKeyId,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let sql = "UPDATE api_key SET last_used_us = ?2, updated_us = ?2
               WHERE key = ?1 AND (last_used_us IS NULL OR last_used_us <= ?3)";
    let bound = params![key.0, at.0, at.before(TOUCH_INTERVAL).0];
    Ok(match execute(db, "noting a key's use", sql, bound)? {
        0 => Outcome::Already,
        _ => Outcome::Done,
    })
}

const CHECK_WRITABLE: &str =
    "UPDATE migration SET updated_us = ?1 WHERE number = (SELECT max(number) FROM migration)";

/// A page is written, so a full disk shows.
pub fn check_writable(
    db: &mut WriteSession<'_>,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let what = "checking that the store takes writes";
    run(db, what, CHECK_WRITABLE, params![at.0])?;
    Ok(Outcome::Done)
}
