//! Jobs that are asked about: who asks, and what came of it.

use tw_core::call::CallReason;
use tw_core::change::{AwaitedCallback, CompleteCall, Outcome};
use tw_core::id::{CallId, CallRef, JobKey, OrgId};
use tw_core::job::{JobChange, JobClaim, JobEnding, PollFault, PolledJob, SettleJob};
use tw_core::time::Timestamp;

use super::call_files::{FileRoom, take_room};
use super::outside::{LOCK_TURN, end_open_call};
use super::{StoreApplyError, TurnKey, call_files, execute, lock_rows, retention, run};
use crate::blob::ContentCutter;
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::sql::Sql;

pub fn apply(
    db: &mut WriteSession<'_>,
    change: &JobChange,
    contents: ContentCutter<'_>,
) -> Result<Outcome, StoreApplyError> {
    match change {
        JobChange::Claim {
            organization,
            owner,
            jobs_max,
            at,
            until,
        } => claim(db, *organization, owner, *jobs_max, (*at, *until)),
        JobChange::Settle(settle) => settle_job(db, settle, contents),
        JobChange::FreeClaims { owner, at } => free_claims(db, owner, *at),
        JobChange::AskNow {
            organization,
            call,
            at,
        } => ask_now(db, *organization, *call, *at),
    }
}

/// A callback may have come before.
const ADD: &str = "INSERT INTO job (organization, turn, round, position, external_id, due_us, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
    ON CONFLICT (turn, round, position) DO UPDATE
    SET external_id = coalesce(excluded.external_id, job.external_id), updated_us = excluded.updated_us";

/// Adds the job of a call that awaits its end, if it is to be asked about.
pub(super) fn add(
    db: &mut WriteSession<'_>,
    turn: TurnKey<'_>,
    awaited: &AwaitedCallback,
) -> Result<(), StoreApplyError> {
    let Some(due) = awaited.poll_at else {
        return Ok(());
    };
    let bound = params![
        turn.organization.0,
        turn.key,
        awaited.call.round,
        awaited.call.position,
        awaited.external_id,
        due.0,
        awaited.at.0,
    ];
    run(db, "adding a job", ADD, bound)
}

/// Whoever is asking at the moment asks in vain: what it hears may be older than the callback.
const CALLED_BACK: &str = "INSERT INTO job
        (organization, turn, round, position, external_id, due_us, called_back_us, answer, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?7, ?7, ?6, ?7, ?7)
    ON CONFLICT (turn, round, position) DO UPDATE
    SET external_id = coalesce(job.external_id, excluded.external_id), due_us = excluded.due_us, claimed_by = NULL,
        polls = 0, called_back_us = excluded.called_back_us, answer = coalesce(job.answer, excluded.answer),
        updated_us = excluded.updated_us";

/// Notes that a callback has told the end of a job, which is to be asked about at once, unless the callback is the
/// `answer`.
pub(super) fn called_back(
    db: &mut WriteSession<'_>,
    (organization, turn, call): (OrgId, i64, CallRef),
    (external_id, answer): (Option<&str>, Option<&str>),
    at: Timestamp,
) -> Result<(), StoreApplyError> {
    let bound = params![
        organization.0,
        turn,
        call.round,
        call.position,
        external_id,
        answer,
        at.0,
    ];
    run(db, "noting the callback of a job", CALLED_BACK, bound)
}

const FORGET: &str = "DELETE FROM job WHERE turn = ?1 AND round = ?2 AND position = ?3";

/// The call has ended.
pub(super) fn forget(
    db: &mut WriteSession<'_>,
    turn: i64,
    call: CallRef,
) -> Result<(), StoreApplyError> {
    let bound = params![turn, call.round, call.position];
    run(db, "forgetting a job", FORGET, bound)
}

/// Jobs that somebody else claims or settles are left to a later time.
pub const DUE: Sql = Sql {
    sqlite: "SELECT key FROM job WHERE organization = ?1 AND due_us <= ?2 ORDER BY due_us LIMIT ?3",
    postgres:
        "SELECT key FROM job WHERE organization = ?1 AND due_us <= ?2 ORDER BY due_us LIMIT ?3
        FOR NO KEY UPDATE SKIP LOCKED",
};

const CLAIM: &str = "UPDATE job SET claimed_by = ?2, due_us = ?3, updated_us = ?4 WHERE key = ?1";

fn claim(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    owner: &str,
    jobs_max: u32,
    (at, until): (Timestamp, Timestamp),
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "claiming jobs";
    let due: Vec<i64> = db
        .all(DUE, params![organization.0, at.0, jobs_max])
        .map_err(|error| StoreApplyError::db(WHAT, error))?;
    for key in &due {
        run(db, WHAT, CLAIM, params![key, owner, until.0, at.0])?;
    }
    let claimed = due.into_iter().map(|key| JobClaim {
        job: JobKey(key),
        owner: owner.to_owned(),
        until,
    });
    Ok(Outcome::Jobs(claimed.collect()))
}

const AGAIN: &str = "UPDATE job
    SET claimed_by = NULL, due_us = ?4, polls = polls + 1, polled_us = ?5, http_status = ?6, fault = ?7,
        faults = CASE WHEN ?7 IS NULL THEN 0 ELSE faults + 1 END, updated_us = ?5
    WHERE key = ?1 AND claimed_by = ?2 AND due_us = ?3";

const OVER: &str = "DELETE FROM job WHERE key = ?1 AND claimed_by = ?2 AND due_us = ?3";

const STILL_CLAIMED: &str =
    "UPDATE job SET updated_us = ?4 WHERE key = ?1 AND claimed_by = ?2 AND due_us = ?3";

fn settle_job(
    db: &mut WriteSession<'_>,
    settle: &SettleJob,
    contents: ContentCutter<'_>,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "settling a job";
    let SettleJob { claim, end, at } = settle;
    let touched = match end {
        JobEnding::Ended {
            organization,
            call,
            end,
            files,
            files_bytes_max,
        } => {
            let complete = CompleteCall {
                organization: *organization,
                call: *call,
                end: end.clone(),
                at: *at,
            };
            // In the order in which whoever erases the turn locks them.
            let of_call = params![organization.0, call.to_string()];
            lock_rows(db, WHAT, LOCK_TURN, of_call)?;
            // That nobody has told the end in time is our word, and does not hold once somebody has.
            let claimed = params![claim.job.0, claim.owner, claim.until.0, at.0];
            if end.reason == Some(CallReason::Deadline)
                && execute(db, WHAT, STILL_CLAIMED, claimed)? == 0
            {
                return Ok(Outcome::Already);
            }
            let room = take_room(db, *organization, files, *files_bytes_max, *at)?;
            if room == FileRoom::None {
                return Ok(Outcome::TooMany);
            }
            // Whoever has claimed it since: what the tool says is true. The job goes with the call.
            match end_open_call(db, &complete, contents)? {
                Some(of) if of.is_erased => {
                    call_files::give_room_back(db, *organization, files, *at)?;
                    1
                }
                Some(of) => {
                    call_files::add(db, (*organization, of.turn, of.call), files, *at)?;
                    1
                }
                None => {
                    call_files::give_room_back(db, *organization, files, *at)?;
                    0
                }
            }
        }
        JobEnding::Again { due, poll } => again(db, claim, *due, poll, *at)?,
        JobEnding::Over => {
            let claimed = params![claim.job.0, claim.owner, claim.until.0];
            execute(db, WHAT, OVER, claimed)?
        }
    };
    Ok(match touched {
        0 => Outcome::Already,
        _ => Outcome::Done,
    })
}

fn again(
    db: &mut WriteSession<'_>,
    claim: &JobClaim,
    due: Timestamp,
    poll: &PolledJob,
    at: Timestamp,
) -> Result<usize, StoreApplyError> {
    let bound = params![
        claim.job.0,
        claim.owner,
        claim.until.0,
        due.0,
        at.0,
        poll.http_status,
        poll.fault.map(PollFault::as_str),
    ];
    execute(db, "settling a job", AGAIN, bound)
}

/// On PostgreSQL another process may still be asking about what it claimed.
const FREE: Sql = Sql {
    sqlite: "UPDATE job SET claimed_by = NULL, due_us = ?2, updated_us = ?2
        WHERE claimed_by IS NOT NULL AND claimed_by <> ?1",
    postgres: "UPDATE job SET claimed_by = NULL, due_us = ?2, updated_us = ?2
        WHERE claimed_by IS NOT NULL AND claimed_by <> ?1
          AND claimed_by NOT IN (SELECT id FROM instance WHERE lease_until_us > clock_us())",
};

fn free_claims(
    db: &mut WriteSession<'_>,
    owner: &str,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let freed = execute(db, "freeing jobs", FREE, params![owner, at.0])?;
    Ok(retention::counted(freed))
}

const ASK_NOW: &str = "UPDATE job SET due_us = ?3, claimed_by = NULL, updated_us = ?3
    WHERE (turn, round, position) = (SELECT turn, round, position FROM tool_call WHERE organization = ?1 AND id = ?2)";

fn ask_now(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    call: CallId,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let bound = params![organization.0, call.to_string(), at.0];
    Ok(match execute(db, "asking about a job", ASK_NOW, bound)? {
        0 => Outcome::Already,
        _ => Outcome::Done,
    })
}
