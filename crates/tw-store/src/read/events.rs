//! A turn's log.

use std::borrow::Cow;

use tw_core::event::LogEvent;
use tw_core::id::{OrgId, TurnId};
use tw_core::turn_status::TurnStatus;
use tw_wire::stored::events::lines::FlushReader;

use super::ReadError;
use super::columns::{get, text, unsigned, word};
use crate::blob::{self, TextHolder};
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;
use crate::store::Store;

#[derive(Clone, Debug, PartialEq)]
pub struct NumberedEvent {
    /// The event's number in the log, from 1 without gaps.
    pub number: u64,
    /// The claim under which it was written.
    pub fence: i64,
    pub event: LogEvent,
}

/// A page of a turn's log, and the turn's standing when it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct EventsPage {
    pub events: Vec<NumberedEvent>,
    pub status: TurnStatus,
    /// Rises when another driver takes the turn over.
    pub fence: i64,
    /// Number of the log's last event; 0 when it holds none.
    pub last: u64,
    /// The turn is final and nothing follows this page.
    pub complete: bool,
    /// The log was erased or has expired.
    pub erased: bool,
    /// The turn was deleted: nobody may read its log any more.
    pub deleted: bool,
}

impl Store {
    /// The events of a turn after number `after`, at most `max`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn events_after(
        &self,
        organization: OrgId,
        turn: TurnId,
        after: u64,
        max: usize,
    ) -> Result<Option<EventsPage>, ReadError> {
        self.read(move |conn| page(conn, organization, turn, after, max))
            .await
    }

    /// [`Store::events_after`] on the caller's thread.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn events_after_now(
        &self,
        organization: OrgId,
        turn: TurnId,
        after: u64,
        max: usize,
    ) -> Result<Option<EventsPage>, ReadError> {
        self.read_now(|conn| page(conn, organization, turn, after, max))
    }
}

/// A page ends with the flush that passes this many stored bytes, so that a reader that does not
/// go on holds little.
const PAGE_BYTES_MAX: usize = 256 * 1024;

const TURN: &str = "SELECT key, status, fence, events_expired_us IS NOT NULL AS erased,
        deleted_us IS NOT NULL AS deleted,
        coalesce((SELECT first + count - 1 FROM turn_event WHERE turn = turn.key ORDER BY first DESC LIMIT 1), 0)
            AS last
    FROM turn WHERE organization = ?1 AND id = ?2";

fn page(
    conn: ReadSession<'_>,
    organization: OrgId,
    turn: TurnId,
    after: u64,
    max: usize,
) -> Result<Option<EventsPage>, ReadError> {
    let mut statement = conn.prepare_cached(TURN)?;
    let mut rows = statement.query(params![organization.0, turn.to_string()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let status: TurnStatus = word(row, "status", TurnStatus::parse)?;
    let last = unsigned(row, "last")?;
    let events = some(conn, get(row, "key")?, after, max, PAGE_BYTES_MAX)?;
    let reached = events.last().map_or(after, |event| event.number);
    Ok(Some(EventsPage {
        events,
        status,
        fence: get(row, "fence")?,
        last,
        complete: status.is_final() && reached >= last,
        erased: get(row, "erased")?,
        deleted: get(row, "deleted")?,
    }))
}

/// The flush that holds the next event, and those behind it; of PostgreSQL, which sends all that it finds, as many as
/// there is room for.
const FLUSHES: Sql = Sql {
    postgres: "SELECT first, count, fence, payload, blob_bytes
    FROM (SELECT first, count, fence, payload, blob_bytes,
                 sum(octet_length(payload) + blob_bytes) OVER (ORDER BY first)
                     - octet_length(payload) - blob_bytes AS bytes_before
          FROM turn_event
          WHERE turn = ?1
            AND first >= coalesce((SELECT first FROM turn_event WHERE turn = ?1 AND first <= ?2
                                   ORDER BY first DESC LIMIT 1), 1)) AS flush
    WHERE bytes_before < ?3 AND first < ?4
    ORDER BY first",
    sqlite: "SELECT first, count, fence, payload, blob_bytes FROM turn_event
    WHERE turn = ?1
      AND first >= coalesce((SELECT first FROM turn_event WHERE turn = ?1 AND first <= ?2
                             ORDER BY first DESC LIMIT 1), 1)
    ORDER BY first",
};

fn some(
    conn: ReadSession<'_>,
    turn: i64,
    after: u64,
    max: usize,
    bytes_max: usize,
) -> Result<Vec<NumberedEvent>, ReadError> {
    // A number beyond the column's range is beyond every log.
    let next = i64::try_from(after.saturating_add(1)).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(FLUSHES)?;
    let room = i64::try_from(bytes_max).unwrap_or(i64::MAX);
    let beyond = next.saturating_add(i64::try_from(max).unwrap_or(i64::MAX));
    let mut rows = statement.query(params![turn, next, room, beyond])?;
    let mut events = Vec::new();
    let mut bytes = 0;
    while events.len() < max
        && bytes < bytes_max
        && let Some(row) = rows.next()?
    {
        bytes += flush((conn, turn), row, (after, max), &mut events)?;
    }
    Ok(events)
}

/// The whole log.
pub(super) fn all(conn: ReadSession<'_>, turn: i64) -> Result<Vec<NumberedEvent>, ReadError> {
    some(conn, turn, 0, usize::MAX, usize::MAX)
}

/// Adds a flush's events after number `after` until there are `max`; returns the flush's length as stored.
///
/// A flush may hold many times the events of a page, so what is not of the page is not decoded.
fn flush(
    (conn, turn): (ReadSession<'_>, i64),
    row: Row<'_>,
    (after, max): (u64, usize),
    events: &mut Vec<NumberedEvent>,
) -> Result<usize, ReadError> {
    const COUNT: ReadError = ReadError::Column {
        column: "count of events",
    };
    let payload = match unsigned(row, "blob_bytes")? {
        0 => Cow::Borrowed(text(row, "payload")?),
        bytes => {
            let holder = TextHolder::Events {
                first: get(row, "first")?,
            };
            let rest = get(row, "payload")?;
            Cow::Owned(blob::whole_text(conn, turn, holder, rest, bytes)?)
        }
    };
    let fence = get(row, "fence")?;
    let (first, count) = (unsigned(row, "first")?, unsigned(row, "count")?);
    let mut stored = FlushReader::new(&payload);
    let behind = first.checked_add(count).ok_or(COUNT)?;
    for number in first..behind {
        if number <= after {
            stored.pass_over().ok_or(COUNT)??;
            continue;
        }
        if events.len() >= max {
            return Ok(payload.len());
        }
        let event = stored.next().ok_or(COUNT)??;
        events.push(NumberedEvent {
            number,
            fence,
            event,
        });
    }
    if stored.next().is_some() {
        return Err(COUNT);
    }
    Ok(payload.len())
}
