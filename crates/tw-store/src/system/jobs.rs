//! Jobs of whichever organization that are to be asked about.

use tw_core::id::{CallId, CallRef, JobKey, OrgId, TurnId};
use tw_core::time::Timestamp;

use crate::read::ReadError;
use crate::read::columns::{get, optional_time, time, word};
use crate::session::bound::params;
use crate::store::Store;

/// A job with all that is needed to ask about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobToAsk {
    pub organization: OrgId,
    pub organization_slug: String,
    pub turn: TurnId,
    pub call: CallRef,
    pub id: CallId,
    pub tool_name: String,
    /// The tool's definition, in the version that the call runs; `None` for one that is not stored.
    pub definition: Option<String>,
    pub idempotency_key: String,
    /// Not to be shown to anybody.
    pub callback_token: String,
    pub external_id: Option<String>,
    pub deadline: Option<Timestamp>,
    pub has_ended: bool,
    pub polls: u32,
    pub called_back: bool,
    /// Polls in a row of which nothing came.
    pub faults: u32,
    /// A callback that is the answer.
    pub answer: Option<String>,
}

const TO_ASK: &str =
    "SELECT j.organization, o.slug, t.id AS turn, j.round, j.position, c.id, c.tool_name,
        v.definition, c.idempotency_key, c.callback_token, j.external_id, c.deadline_us,
        CASE WHEN c.ended_us IS NOT NULL THEN 1 ELSE 0 END AS has_ended, j.polls,
        CASE WHEN j.called_back_us IS NOT NULL THEN 1 ELSE 0 END AS called_back, j.faults, j.answer
    FROM job j
    JOIN organization o ON o.key = j.organization
    JOIN turn_start t ON t.key = j.turn
    JOIN tool_call c ON c.turn = j.turn AND c.round = j.round AND c.position = j.position
    LEFT JOIN tool_version v ON v.key = c.tool_version
    WHERE j.key = ?1";

/// A job; `None` once its call has ended.
///
/// # Errors
/// See [`ReadError`].
pub async fn job_to_ask(store: &Store, job: JobKey) -> Result<Option<JobToAsk>, ReadError> {
    store
        .read(move |conn| {
            let mut statement = conn.prepare_cached(TO_ASK)?;
            let mut rows = statement.query(params![job.0])?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            Ok(Some(JobToAsk {
                organization: OrgId(get(row, "organization")?),
                organization_slug: get(row, "slug")?,
                turn: word(row, "turn", TurnId::parse)?,
                call: CallRef {
                    round: get(row, "round")?,
                    position: get(row, "position")?,
                },
                id: word(row, "id", CallId::parse)?,
                tool_name: get(row, "tool_name")?,
                definition: get(row, "definition")?,
                idempotency_key: get(row, "idempotency_key")?,
                callback_token: get(row, "callback_token")?,
                external_id: get(row, "external_id")?,
                deadline: optional_time(row, "deadline_us")?,
                has_ended: get(row, "has_ended")?,
                polls: get(row, "polls")?,
                called_back: get(row, "called_back")?,
                faults: get(row, "faults")?,
                answer: get(row, "answer")?,
            }))
        })
        .await
}

/// An organization that has jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueJobs {
    pub organization: OrgId,
    /// Time when the first of its jobs is due.
    pub due: Timestamp,
}

/// One look into the index for each organization that has jobs, however many jobs and organizations there are.
const DUE: &str = "WITH RECURSIVE with_jobs (organization) AS (
        SELECT min(j.organization) FROM job j
        UNION ALL
        SELECT (SELECT min(j.organization) FROM job j WHERE j.organization > w.organization)
        FROM with_jobs w WHERE w.organization IS NOT NULL)
    SELECT w.organization,
        (SELECT j.due_us FROM job j WHERE j.organization = w.organization ORDER BY j.due_us LIMIT 1) AS due_us
    FROM with_jobs w WHERE w.organization IS NOT NULL";

/// The organizations that have jobs, which are due now or later.
///
/// # Errors
/// See [`ReadError`].
pub async fn due(store: &Store) -> Result<Vec<DueJobs>, ReadError> {
    store
        .read(|conn| {
            let mut statement = conn.prepare_cached(DUE)?;
            let mut rows = statement.query(&[])?;
            let mut due = Vec::new();
            while let Some(row) = rows.next()? {
                due.push(DueJobs {
                    organization: OrgId(get(row, "organization")?),
                    due: time(row, "due_us")?,
                });
            }
            Ok(due)
        })
        .await
}
