//! Records of requests that were relayed without a turn.

use tw_core::change::Outcome;
use tw_core::relayed_request::RelayedRequest;
use tw_core::time::Timestamp;

use super::accept::find_or_create_end_user;
use super::{StoreApplyError, execute, execute_guarded};
use crate::session::WriteSession;
use crate::session::bound::params;

const INSERT: &str = "INSERT INTO relayed_request
    (organization, api_key, end_user, path, model, upstream, attempts, outcome, http_status, input_tokens,
     output_tokens, request_bytes, response_bytes, request_id, created_us, ended_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16)";

pub fn record(
    db: &mut WriteSession<'_>,
    relayed: &RelayedRequest,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "recording a relayed request";
    let end_user = match &relayed.end_user {
        Some(name) => Some(find_or_create_end_user(
            db,
            WHAT,
            (relayed.organization, name),
            relayed.started,
        )?),
        None => None,
    };
    let bound = params![
        relayed.organization.0,
        relayed.api_key.0,
        end_user,
        relayed.path,
        relayed.model,
        relayed.upstream,
        relayed.attempts,
        relayed.outcome.as_str(),
        relayed.http_status,
        relayed.tokens.input.map(column),
        relayed.tokens.output.map(column),
        column(relayed.request_bytes),
        column(relayed.response_bytes),
        relayed.request_id,
        relayed.started.0,
        relayed.ended.0,
    ];
    execute_guarded(db, WHAT, INSERT, bound)
}

/// An upstream may name any number.
fn column(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

const DELETE_OLD: &str = "DELETE FROM relayed_request
    WHERE key IN (SELECT key FROM relayed_request WHERE ended_us < ?1 ORDER BY ended_us LIMIT ?2)";

pub fn expire(
    db: &mut WriteSession<'_>,
    before: Timestamp,
    requests_max: u32,
) -> Result<Outcome, StoreApplyError> {
    let what = "deleting old relayed requests";
    let deleted = execute(db, what, DELETE_OLD, params![before.0, requests_max])?;
    Ok(Outcome::Count(u64::try_from(deleted).unwrap_or(u64::MAX)))
}
