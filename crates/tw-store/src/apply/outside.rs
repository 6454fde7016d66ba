//! Ends of calls that come from somebody else than the turn's driver.

use tw_core::call::CallReason;
use tw_core::change::{CompleteCall, Outcome};

use super::{StoreApplyError, execute_one};
use crate::session::WriteSession;
use crate::session::bound::params;

/// A call of the client's is handed over to it, and ends so.
const COMPLETE_CALL: &str = "UPDATE tool_call
    SET status = ?3, reason = ?4, result = ?5, shown = ?6, is_error = ?7, cached = ?8,
        ended_us = ?9, updated_us = ?9
    WHERE organization = ?1 AND id = ?2 AND runs = 'server' AND status IN ('pending', 'processing')";

pub fn complete_call(
    db: &mut WriteSession<'_>,
    complete: &CompleteCall,
) -> Result<Outcome, StoreApplyError> {
    let end = &complete.end;
    let bound = params![
        complete.organization.0,
        complete.call.to_string(),
        end.status().as_str(),
        end.reason.map(CallReason::as_str),
        end.result,
        end.shown,
        end.is_error,
        end.cached,
        complete.at.0,
    ];
    match execute_one(db, "completing a tool call", COMPLETE_CALL, bound)? {
        0 => Ok(Outcome::Already),
        _ => Ok(Outcome::Done),
    }
}
