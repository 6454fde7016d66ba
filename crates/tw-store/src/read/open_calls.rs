//! Calls that wait for somebody outside this server, and how it stands with their jobs.

use tw_core::call::{CallRunner, CallStatus};
use tw_core::id::{CallId, CallRef, OrgId, TurnId};
use tw_core::job::PollFault;
use tw_core::time::Timestamp;

use super::ReadError;
use super::columns::{get, optional_time, optional_word, time, word};
use crate::session::bound::params;
use crate::session::row::Row;
use crate::store::Store;

/// A call that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCallRow {
    pub turn: TurnId,
    pub call: CallRef,
    pub id: CallId,
    pub runs: CallRunner,
    pub status: CallStatus,
    pub tool_name: String,
    pub external_id: Option<String>,
    pub created: Timestamp,
    /// The time until which it must have ended; `None` for one that an application writes itself.
    pub deadline: Option<Timestamp>,
    /// `None` for one that nobody asks about.
    pub job: Option<OpenJobRow>,
}

/// How it stands with a job that is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenJobRow {
    pub due: Timestamp,
    pub polls: u32,
    /// Polls in a row of which nothing came.
    pub faults: u32,
    pub fault: Option<PollFault>,
    pub http_status: Option<u16>,
    pub polled: Option<Timestamp>,
    /// When a callback said that the job has ended.
    pub called_back: Option<Timestamp>,
}

/// The open calls that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenCallsWanted {
    All,
    /// Those past their deadline at `now`, those of which the last `faults_min` polls said nothing, and those of an
    /// application that are older than `outside_before`.
    Stuck {
        now: Timestamp,
        faults_min: u32,
        outside_before: Timestamp,
    },
}

/// A page of them, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCallsPage {
    pub items: Vec<OpenCallRow>,
    pub has_more: bool,
}

macro_rules! open_calls {
    ($rest:literal) => {
        concat!(
            "SELECT t.id AS turn, c.round, c.position, c.id, c.runs, c.status, c.tool_name, c.external_id, c.created_us,
                c.deadline_us, j.due_us, j.polls, j.faults, j.fault, j.http_status, j.polled_us, j.called_back_us
            FROM tool_call c
            JOIN turn_start t ON t.key = c.turn
            LEFT JOIN job j ON j.turn = c.turn AND j.round = c.round AND j.position = c.position
            WHERE c.organization = ?1 AND c.ended_us IS NULL AND t.deleted_us IS NULL
              AND (c.runs = 'outside' OR c.runs = 'server' AND c.deadline_us IS NOT NULL AND c.approval IS NULL) ",
            $rest
        )
    };
}

const PAGE: &str = open_calls!(
    "AND (?2 = 1 OR c.deadline_us < ?3 OR j.faults >= ?4 OR c.runs = 'outside' AND c.created_us < ?5)
     AND (?6 IS NULL OR (c.created_us, c.id) > (SELECT created_us, id FROM tool_call WHERE organization = ?1 AND id = ?6))
     ORDER BY c.created_us, c.id LIMIT ?7"
);

const ONE: &str = open_calls!("AND c.id = ?2");

impl Store {
    /// Open calls of an organization behind `after`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn open_calls(
        &self,
        organization: OrgId,
        wanted: OpenCallsWanted,
        after: Option<CallId>,
        calls_max: usize,
    ) -> Result<OpenCallsPage, ReadError> {
        let (all, now, faults_min, outside_before) = match wanted {
            OpenCallsWanted::All => (true, 0, 0, 0),
            OpenCallsWanted::Stuck {
                now,
                faults_min,
                outside_before,
            } => (false, now.0, faults_min, outside_before.0),
        };
        let after = after.map(|after| after.to_string());
        let rows_max = i64::try_from(calls_max.saturating_add(1)).unwrap_or(i64::MAX);
        self.read(move |conn| {
            let bound = params![
                organization.0,
                all,
                now,
                faults_min,
                outside_before,
                after,
                rows_max
            ];
            let mut statement = conn.prepare_cached(PAGE)?;
            let mut rows = statement.query(bound)?;
            let mut items = Vec::new();
            while let Some(row) = rows.next()? {
                items.push(open_call(row)?);
            }
            let has_more = items.len() > calls_max;
            items.truncate(calls_max);
            Ok(OpenCallsPage { items, has_more })
        })
        .await
    }

    /// An open call; `None` for one that has ended, or that waits for nobody outside.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn open_call(
        &self,
        organization: OrgId,
        call: CallId,
    ) -> Result<Option<OpenCallRow>, ReadError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(ONE)?;
            let mut rows = statement.query(params![organization.0, call.to_string()])?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            open_call(row).map(Some)
        })
        .await
    }
}

fn open_call(row: Row<'_>) -> Result<OpenCallRow, ReadError> {
    let due = optional_time(row, "due_us")?;
    let job = match due {
        None => None,
        Some(due) => Some(OpenJobRow {
            due,
            polls: get(row, "polls")?,
            faults: get(row, "faults")?,
            fault: optional_word(row, "fault", PollFault::parse)?,
            http_status: get(row, "http_status")?,
            polled: optional_time(row, "polled_us")?,
            called_back: optional_time(row, "called_back_us")?,
        }),
    };
    Ok(OpenCallRow {
        turn: word(row, "turn", TurnId::parse)?,
        call: CallRef {
            round: get(row, "round")?,
            position: get(row, "position")?,
        },
        id: word(row, "id", CallId::parse)?,
        runs: word(row, "runs", CallRunner::parse)?,
        status: word(row, "status", CallStatus::parse)?,
        tool_name: get(row, "tool_name")?,
        external_id: get(row, "external_id")?,
        created: time(row, "created_us")?,
        deadline: optional_time(row, "deadline_us")?,
        job,
    })
}
