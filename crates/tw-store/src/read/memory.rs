//! The turn that a request continues, and what its client never saw of the turns before.

use rusqlite::{Connection, OptionalExtension, Row, params};
use tw_core::call::Runs;
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::memory::{HiddenHash, HistoryHash};
use tw_core::recall::{RecalledCall, RecalledRound};
use tw_wire::own;

use super::ReadError;
use super::columns::{get, optional_word, word};
use crate::store::Store;

/// What became of looking for a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sought {
    Unknown,
    /// Several turns have it, and what is hidden of them differs.
    Ambiguous,
    /// The newest turn that has it.
    Found(Continued),
}

/// A turn that a request continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continued {
    pub turn: TurnId,
    /// The public id of its conversation.
    pub conversation: String,
    pub hidden: Option<HiddenHash>,
    /// It, or the nearest turn before it, that has hidden calls.
    pub memory_turn: Option<TurnId>,
}

/// A turn with hidden calls, as far as they are to come back.
#[derive(Clone, Debug)]
pub struct RememberedTurn {
    /// Up to and with its answer.
    pub history: HistoryHash,
    /// The newest of its rounds, oldest first; the last is the one whose text is the answer's end.
    pub rounds: Vec<RecalledRound>,
}

/// What is to come back.
#[derive(Clone, Debug)]
pub struct Room {
    /// Calls of other tools stay where they are.
    pub tools: Vec<String>,
    /// For the messages and results of all rounds that come back.
    pub bytes_max: usize,
}

/// Turns with hidden calls that are read for one request.
pub const REMEMBERED_TURNS_MAX: usize = 256;

impl Store {
    /// The turn of a key whose history, up to and with its answer, has this hash.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn turn_by_history(
        &self,
        organization: OrgId,
        api_key: ApiKeyId,
        history: HistoryHash,
    ) -> Result<Sought, ReadError> {
        self.read(move |conn| by_history(conn, organization, api_key, history))
            .await
    }

    /// Hidden rounds of a turn and of those with hidden calls before it, newest turn first: the
    /// newest whole rounds for which there is room.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn remembered(
        &self,
        organization: OrgId,
        newest: TurnId,
        room: Room,
    ) -> Result<Vec<RememberedTurn>, ReadError> {
        self.read(move |conn| remembered(conn, organization, newest, &room))
            .await
    }

    /// The hidden half of a turn, if it may still be continued.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn hidden_half(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<HiddenHash>, ReadError> {
        self.read(move |conn| {
            let sql = "SELECT hidden_hash FROM turn WHERE organization = ?1 AND id = ?2";
            let bound = params![organization.0, turn.to_string()];
            let found = conn
                .prepare_cached(sql)?
                .query_row(bound, |row| row.get("hidden_hash"))
                .optional()?;
            Ok(found.flatten().map(HiddenHash))
        })
        .await
    }
}

/// The least and the greatest hidden half of all turns that have a history; none is the least.
const EXTREMES: &str = "SELECT
    (SELECT hidden_hash FROM turn WHERE organization = ?1 AND api_key = ?2 AND history_hash = ?3
     ORDER BY hidden_hash LIMIT 1) AS least,
    (SELECT hidden_hash FROM turn WHERE organization = ?1 AND api_key = ?2 AND history_hash = ?3
     ORDER BY hidden_hash DESC LIMIT 1) AS greatest";

/// A turn whose hidden half is another than that of the turn before it has hidden calls itself.
const NEWEST: &str = "SELECT t.id, c.id AS conversation, t.hidden_hash,
        iif(t.hidden_hash IS NOT m.hidden_hash, t.id, m.id) AS memory_turn
    FROM turn t
    JOIN conversation c ON c.key = t.conversation
    LEFT JOIN turn m ON m.key = t.memory_turn AND m.deleted_us IS NULL
    WHERE t.organization = ?1 AND t.api_key = ?2 AND t.history_hash = ?3 AND t.hidden_hash IS ?4
    ORDER BY t.key DESC LIMIT 1";

fn by_history(
    conn: &Connection,
    organization: OrgId,
    api_key: ApiKeyId,
    history: HistoryHash,
) -> Result<Sought, ReadError> {
    let mut statement = conn.prepare_cached(EXTREMES)?;
    let bound = params![organization.0, api_key.0, history.0];
    let (least, greatest): (Option<[u8; 32]>, Option<[u8; 32]>) =
        statement.query_row(bound, |row| Ok((row.get("least")?, row.get("greatest")?)))?;
    if least != greatest {
        return Ok(Sought::Ambiguous);
    }
    let mut statement = conn.prepare_cached(NEWEST)?;
    let mut rows = statement.query(params![organization.0, api_key.0, history.0, least])?;
    match rows.next()? {
        Some(row) => Ok(Sought::Found(continued(row)?)),
        None => Ok(Sought::Unknown),
    }
}

fn continued(row: &Row<'_>) -> Result<Continued, ReadError> {
    Ok(Continued {
        turn: word(row, "id", TurnId::parse)?,
        conversation: get(row, "conversation")?,
        hidden: get::<Option<[u8; 32]>>(row, "hidden_hash")?.map(HiddenHash),
        memory_turn: optional_word(row, "memory_turn", TurnId::parse)?,
    })
}

const FIRST: &str =
    "SELECT key, history_hash, memory_turn FROM turn WHERE organization = ?1 AND id = ?2";
/// Turns refer to turns of their own organization only.
const BEFORE: &str =
    "SELECT key, history_hash, memory_turn FROM turn WHERE organization = ?1 AND key = ?2";

fn remembered(
    conn: &Connection,
    organization: OrgId,
    newest: TurnId,
    room: &Room,
) -> Result<Vec<RememberedTurn>, ReadError> {
    type Found = (i64, Option<[u8; 32]>, Option<i64>);
    let read = |row: &Row<'_>| -> rusqlite::Result<Found> {
        Ok((
            row.get("key")?,
            row.get("history_hash")?,
            row.get("memory_turn")?,
        ))
    };
    let mut turns = Vec::new();
    let mut left = room.bytes_max;
    let bound = params![organization.0, newest.to_string()];
    let mut next = conn
        .prepare_cached(FIRST)?
        .query_row(bound, read)
        .optional()?;
    for _ in 0..REMEMBERED_TURNS_MAX {
        let Some((key, history, before)) = next else {
            break;
        };
        // One that was erased meanwhile is passed over.
        if let Some(history) = history {
            let all = rounds(conn, key, &room.tools)?;
            let count = all.len();
            let rounds = newest_rounds(all, &mut left);
            let is_whole = rounds.len() == count;
            turns.push(RememberedTurn {
                history: HistoryHash(history),
                rounds,
            });
            if !is_whole {
                break;
            }
        }
        next = match before {
            Some(before) => conn
                .prepare_cached(BEFORE)?
                .query_row(params![organization.0, before], read)
                .optional()?,
            None => None,
        };
    }
    Ok(turns)
}

/// A round and what it takes of the room.
struct Weighed {
    round: RecalledRound,
    bytes: usize,
}

/// The newest rounds for which there is room, oldest first.
fn newest_rounds(mut rounds: Vec<Weighed>, left: &mut usize) -> Vec<RecalledRound> {
    let mut kept = 0;
    for round in rounds.iter().rev() {
        if round.bytes > *left {
            break;
        }
        *left -= round.bytes;
        kept += 1;
    }
    let from = rounds.len() - kept;
    rounds.drain(from..).map(|weighed| weighed.round).collect()
}

const ROUNDS: &str = "SELECT round, blocks FROM message
    WHERE turn = ?1 AND round > 0 AND role = 'assistant' ORDER BY round, seq";
const SHOWN: &str = "SELECT round, id, runs, tool_name, tool_call_id, shown FROM tool_call
    WHERE turn = ?1 ORDER BY round, position";

/// A round that nothing comes back of takes no room.
fn rounds(conn: &Connection, turn: i64, tools: &[String]) -> Result<Vec<Weighed>, ReadError> {
    let mut statement = conn.prepare_cached(ROUNDS)?;
    let mut rows = statement.query(params![turn])?;
    let mut rounds: Vec<(u32, usize, Weighed)> = Vec::new();
    while let Some(row) = rows.next()? {
        let blocks: String = get(row, "blocks")?;
        let round = RecalledRound {
            blocks: own::blocks::decode(&blocks)?,
            calls: Vec::new(),
        };
        rounds.push((
            get(row, "round")?,
            blocks.len(),
            Weighed { round, bytes: 0 },
        ));
    }
    let mut statement = conn.prepare_cached(SHOWN)?;
    let mut rows = statement.query(params![turn])?;
    while let Some(row) = rows.next()? {
        let number: u32 = get(row, "round")?;
        let Some((_, length, weighed)) = rounds.iter_mut().find(|(round, ..)| *round == number)
        else {
            continue;
        };
        let call = RecalledCall {
            runs: word(row, "runs", Runs::parse)?,
            id: word(row, "id", CallId::parse)?,
            sent_id: get(row, "tool_call_id")?,
            tool_name: get(row, "tool_name")?,
            shown: get::<Option<String>>(row, "shown")?.unwrap_or_default(),
        };
        if call.runs == Runs::Server && tools.contains(&call.tool_name) {
            if weighed.bytes == 0 {
                weighed.bytes = *length;
            }
            weighed.bytes = weighed.bytes.saturating_add(call.shown.len());
        }
        weighed.round.calls.push(call);
    }
    Ok(rounds.into_iter().map(|(.., weighed)| weighed).collect())
}
