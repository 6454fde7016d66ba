//! Requests that are repeated: by key, or because they look the same.

use tw_core::id::{ApiKeyId, OrgId, TurnId};
use tw_core::memory::MemoryVerdict;
use tw_core::time::Timestamp;
use tw_core::turn_policy::Surface;
use tw_core::turn_status::{TurnReason, TurnStatus};

use super::ReadError;
use super::columns::{get, optional_time, optional_word, time, word};
use crate::enum_words;
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::store::Store;

/// An idempotency key as a client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySent {
    pub api_key: ApiKeyId,
    pub end_user: Option<String>,
    pub surface: Surface,
    pub key: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKeyRow {
    pub turn: TurnId,
    pub body_hash: [u8; 32],
    /// The conversation that its client named, if it did.
    pub conversation: Option<String>,
    /// Time when the key was stored. Whether that is too old to count is for the caller to decide.
    pub created: Timestamp,
}

/// The parts of a request that a repetition has in common with its first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatSent {
    pub api_key: ApiKeyId,
    pub surface: Surface,
    pub end_user: Option<String>,
    /// The conversation that the client named, if it did.
    pub conversation: Option<String>,
    pub body_hash: [u8; 32],
    /// Turns accepted before this are not looked at.
    pub accepted_since: Timestamp,
    /// Turns that ended before this do not count.
    pub since: Timestamp,
    /// The same time for turns that had effects.
    pub effects_since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatRow {
    pub turn: TurnId,
    pub status: TurnStatus,
    pub reason: Option<TurnReason>,
    /// The reason for which the turn is being stopped, or was.
    pub stop: Option<TurnReason>,
    /// The whole answer was handed to the client's connection then.
    pub answered: Option<Timestamp>,
    /// A call of ours that is not `read` was started.
    pub dispatched_effects: bool,
    /// The contents are gone, so that the turn cannot be shown again.
    pub erased: bool,
    /// The turn's conversation was deleted.
    pub deleted: bool,
    /// The public id of its conversation.
    pub conversation: String,
    pub memory: MemoryVerdict,
}

impl Store {
    /// The turn that was accepted under an idempotency key.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn request_key(
        &self,
        organization: OrgId,
        sent: KeySent,
    ) -> Result<Option<RequestKeyRow>, ReadError> {
        self.read(move |conn| request_key(conn, organization, &sent))
            .await
    }

    /// The turns that the request may be a repetition of, the most likely one first: the newest, the newest that
    /// runs, and of those that had effects the newest that was not answered and the newest.
    ///
    /// Where nobody is named, the newest is looked for among those that were not answered.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn repeat_candidates(
        &self,
        organization: OrgId,
        sent: RepeatSent,
    ) -> Result<Vec<RepeatRow>, ReadError> {
        self.read(move |conn| repeat_candidates(conn, organization, &sent))
            .await
    }

    /// A turn as one that a request may be a repetition of.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn repeat_state(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<RepeatRow>, ReadError> {
        self.read(move |conn| repeat_of(conn, organization, turn))
            .await
    }
}

/// The look for an idempotency key. Nobody's keys stand under 0, and a name that was never seen finds nothing.
const REQUEST_KEY: &str = "SELECT t.id, k.body_hash, k.created_us,
        CASE WHEN t.conversation_named = 1 THEN c.id END AS conversation
    FROM request_key k JOIN turn_start t ON t.key = k.turn JOIN conversation c ON c.key = t.conversation
    WHERE k.organization = ?1 AND k.api_key = ?2 AND k.route = ?4 AND k.key = ?5
      AND k.end_user = CASE WHEN ?3 IS NULL THEN 0
                       ELSE (SELECT key FROM end_user WHERE organization = ?1 AND name = ?3) END";

fn request_key(
    conn: ReadSession<'_>,
    organization: OrgId,
    sent: &KeySent,
) -> Result<Option<RequestKeyRow>, ReadError> {
    let mut statement = conn.prepare_cached(REQUEST_KEY)?;
    let route = enum_words::surface(sent.surface);
    let bound = params![
        organization.0,
        sent.api_key.0,
        sent.end_user,
        route,
        sent.key
    ];
    let mut rows = statement.query(bound)?;
    let read = |row: Row<'_>| {
        Ok(RequestKeyRow {
            turn: word(row, "id", TurnId::parse)?,
            body_hash: get(row, "body_hash")?,
            conversation: get(row, "conversation")?,
            created: time(row, "created_us")?,
        })
    };
    rows.next()?.map(read).transpose()
}

/// A call counts once the write before its dispatch was made, unless it certainly was not sent.
macro_rules! select_repeat {
    ($($rest:literal),+) => {
        concat!(
            "SELECT t.id, s.status, s.reason, s.stop_reason, s.answered_us,
        (s.erased_us IS NOT NULL OR s.events_expired_us IS NOT NULL) AS erased,
        t.deleted_us IS NOT NULL AS deleted, t.memory,
        (SELECT c.id FROM conversation c WHERE c.key = t.conversation) AS conversation,
        EXISTS (SELECT 1 FROM tool_call f WHERE f.turn = t.key AND f.runs = 'server'
                AND f.effect IS DISTINCT FROM 'read' AND f.started_us IS NOT NULL
                AND coalesce(f.reason, '') NOT IN ('not_sent', 'target_not_allowed')) AS dispatched_effects
    FROM turn_state s JOIN turn_start t ON t.key = s.turn ",
            $($rest),+
        )
    };
}

const REPEAT_OF: &str = select_repeat!("WHERE t.organization = ?1 AND t.id = ?2");

macro_rules! select_equal {
    ($($rest:literal),+) => {
        select_repeat!(
            "WHERE s.organization = ?1 AND s.api_key = ?2 AND s.body_hash = ?3 AND s.created_us >= ?4
      AND t.surface = ?5 AND (s.ended_us IS NULL OR s.ended_us >= ?6) ",
            $($rest),+,
            " ORDER BY s.created_us DESC, s.turn DESC LIMIT 1"
        )
    };
}

macro_rules! select_of_nobody {
    ($rest:literal) => {
        select_equal!($rest, " AND s.names_somebody = 0")
    };
}

macro_rules! select_of_somebody {
    ($rest:literal) => {
        select_equal!(
            $rest,
            " AND s.names_somebody = 1
      AND t.end_user IS NOT DISTINCT FROM (SELECT key FROM end_user WHERE organization = ?1 AND name = ?7)
      AND (?7 IS NULL) = (t.end_user IS NULL)
      AND t.conversation_named = CASE WHEN ?8 IS NULL THEN 0 ELSE 1 END
      AND (?8 IS NULL
           OR t.conversation = (SELECT key FROM conversation WHERE organization = ?1 AND id = ?8))"
        )
    };
}

/// Statements that find the newest turn which equals a request: any, one that runs, one that had effects and was
/// not answered, and one that had effects.
type Looks = [&'static str; 4];

/// Looks for repetitions of requests that name nobody. An answer that was written to its end counts only if it had
/// effects: else the next equal request is a new one.
const REPEATS_OF_NOBODY: Looks = [
    select_of_nobody!("AND s.answered_us IS NULL"),
    select_of_nobody!("AND s.answered_us IS NULL AND s.status = 'running'"),
    select_of_nobody!("AND +s.answered_us IS NULL AND s.had_effects = 1"),
    select_of_nobody!("AND s.had_effects = 1"),
];

/// Looks for repetitions of requests that name somebody. An answer that was written to its end counts, since it may not
/// have arrived.
const REPEATS_OF_SOMEBODY: Looks = [
    select_of_somebody!(""),
    select_of_somebody!("AND s.status = 'running'"),
    select_of_somebody!("AND s.answered_us IS NULL AND s.had_effects = 1"),
    select_of_somebody!("AND s.had_effects = 1"),
];

/// The looks see one database after the other. A turn that ends in between is found by a later one.
fn repeat_candidates(
    conn: ReadSession<'_>,
    organization: OrgId,
    sent: &RepeatSent,
) -> Result<Vec<RepeatRow>, ReadError> {
    let surface = enum_words::surface(sent.surface);
    let is_nobodys = sent.end_user.is_none() && sent.conversation.is_none();
    let looks = if is_nobodys {
        REPEATS_OF_NOBODY
    } else {
        REPEATS_OF_SOMEBODY
    };
    let sinces = [
        sent.since,
        sent.since,
        sent.effects_since,
        sent.effects_since,
    ];
    let mut found: Vec<RepeatRow> = Vec::new();
    for (sql, since) in looks.into_iter().zip(sinces) {
        let mut statement = conn.prepare_cached(sql)?;
        let whose = params![sent.end_user, sent.conversation];
        let whose = if is_nobodys { &[] } else { whose };
        let equal = params![
            organization.0,
            sent.api_key.0,
            sent.body_hash,
            sent.accepted_since.0,
            surface,
            since.0
        ];
        let bound: Vec<_> = equal.iter().chain(whose).copied().collect();
        let row = statement
            .query(&bound)?
            .next()?
            .map(repeat_row)
            .transpose()?;
        if let Some(row) = row
            && found.iter().all(|earlier| earlier.turn != row.turn)
        {
            found.push(row);
        }
    }
    Ok(found)
}

fn repeat_of(
    conn: ReadSession<'_>,
    organization: OrgId,
    turn: TurnId,
) -> Result<Option<RepeatRow>, ReadError> {
    let mut statement = conn.prepare_cached(REPEAT_OF)?;
    let mut rows = statement.query(params![organization.0, turn.to_string()])?;
    rows.next()?.map(repeat_row).transpose()
}

fn repeat_row(row: Row<'_>) -> Result<RepeatRow, ReadError> {
    Ok(RepeatRow {
        turn: word(row, "id", TurnId::parse)?,
        status: word(row, "status", TurnStatus::parse)?,
        reason: optional_word(row, "reason", TurnReason::parse)?,
        stop: optional_word(row, "stop_reason", TurnReason::parse)?,
        answered: optional_time(row, "answered_us")?,
        dispatched_effects: get(row, "dispatched_effects")?,
        erased: get(row, "erased")?,
        deleted: get(row, "deleted")?,
        conversation: get(row, "conversation")?,
        memory: optional_word(row, "memory", MemoryVerdict::parse)?.unwrap_or(MemoryVerdict::Off),
    })
}

#[cfg(test)]
mod tests;
