//! Organizations and their keys.

use std::time::Duration;

use rusqlite::params;
use tw_core::change::{NewApiKey, NewOrganization, Outcome, ToolGrant};
use tw_core::id::{ApiKeyId, OrgId};
use tw_core::time::Timestamp;

use super::{ApplyError, execute, query_key};
use crate::statements::Statements;
use crate::words;

/// The use of a key is noted at most this often, so that a busy key does not cost a write for each request.
const TOUCH_INTERVAL: Duration = Duration::from_secs(60);

pub fn create_organization(
    db: &mut Statements<'_>,
    new: &NewOrganization,
) -> Result<Outcome, ApplyError> {
    const WHAT: &str = "creating an organization";
    let sql = "INSERT INTO organization (slug, name, created_us, updated_us)
               VALUES (?1, ?2, ?3, ?3) RETURNING key";
    let key = query_key(db, WHAT, sql, params![new.slug, new.name, new.at.0])?;
    Ok(Outcome::Organization(OrgId(
        key.ok_or(ApplyError::Guard { what: WHAT })?,
    )))
}

const CREATE_API_KEY: &str = "INSERT INTO api_key
    (organization, name, hash, shown, scopes, tool_grant, tools_mode, record, memory, expires_us,
     requests_per_minute, concurrency_max, streams_max, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14) RETURNING key";

pub fn create_api_key(db: &mut Statements<'_>, new: &NewApiKey) -> Result<Outcome, ApplyError> {
    const WHAT: &str = "creating an API key";
    let (grant, names): (&str, &[String]) = match &new.tools {
        ToolGrant::None => ("none", &[]),
        ToolGrant::All => ("all", &[]),
        ToolGrant::Named(names) => ("named", names),
    };
    let bound = params![
        new.organization.0,
        new.name,
        new.hash,
        new.shown,
        words::scopes(&new.scopes),
        grant,
        new.tools_mode.as_str(),
        words::record(new.record),
        words::memory(new.memory),
        new.expires.map(|at| at.0),
        new.limits.requests_per_minute,
        new.limits.concurrency_max,
        new.limits.streams_max,
        new.at.0,
    ];
    let key =
        query_key(db, WHAT, CREATE_API_KEY, bound)?.ok_or(ApplyError::Guard { what: WHAT })?;
    for (place, name) in names.iter().enumerate() {
        let place = i64::try_from(place).map_err(|_| ApplyError::Encode {
            what: "a tool's place",
        })?;
        let sql = "INSERT INTO api_key_tool (api_key, place, name, created_us, updated_us)
                   VALUES (?1, ?2, ?3, ?4, ?4)";
        execute(db, WHAT, sql, params![key, place, name, new.at.0])?;
    }
    Ok(Outcome::ApiKey(ApiKeyId(key)))
}

pub fn expire_api_key(
    db: &mut Statements<'_>,
    key: ApiKeyId,
    at: Timestamp,
) -> Result<Outcome, ApplyError> {
    let sql = "UPDATE api_key SET expires_us = ?2, updated_us = ?2
               WHERE key = ?1 AND (expires_us IS NULL OR expires_us > ?2)";
    let bound = params![key.0, at.0];
    Ok(match execute(db, "ending a key", sql, bound)? {
        0 => Outcome::Already,
        _ => Outcome::Done,
    })
}

pub fn touch_api_key(
    db: &mut Statements<'_>,
    key: ApiKeyId,
    at: Timestamp,
) -> Result<Outcome, ApplyError> {
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
pub fn check_writable(db: &mut Statements<'_>, at: Timestamp) -> Result<Outcome, ApplyError> {
    let what = "checking that the store takes writes";
    execute(db, what, CHECK_WRITABLE, params![at.0])?;
    Ok(Outcome::Done)
}
