//! The turn that a request continues, and what its client never saw of the turns before.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tw_core::call::CallRunner;
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::memory::{HiddenHash, HistoryHash};
use tw_core::recall::{RecalledCall, RecalledRound};
use tw_wire::stored::{self, blocks::StoredBlocks};

use super::ReadError;
use super::columns::{get, optional_word, unsigned, word};
use crate::blob::{self, TextHolder};
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;
use crate::store::Store;

/// The result of looking for a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistorySearch {
    Unknown,
    /// Several turns have this history, and their hidden calls differ.
    Ambiguous,
    /// The newest turn that has it.
    Found(ContinuedTurn),
}

/// A history that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryWanted {
    /// The key whose turns are meant.
    pub api_key: ApiKeyId,
    /// The hash up to and with the answer.
    pub history: HistoryHash,
    /// The public id of the conversation whose turns come before all others that have it.
    pub conversation: Option<String>,
}

/// A turn that a request continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinuedTurn {
    pub turn: TurnId,
    /// The public id of its conversation.
    pub conversation: String,
    pub hidden: Option<HiddenHash>,
    /// The turn itself, or the nearest turn before it, that has hidden calls.
    pub memory_turn: Option<TurnId>,
}

/// A turn with hidden calls, as far as they are to come back.
#[derive(Clone, Debug)]
pub struct RememberedTurn {
    /// The history up to and with the turn's answer.
    pub history: HistoryHash,
    /// The newest of its rounds, oldest first; the last is the one whose text is the answer's end.
    pub rounds: Vec<RecalledRound>,
}

/// The room for rounds that are to come back into a history, and the tools whose calls may.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecallRoom {
    /// Calls of other tools stay where they are.
    pub tools: Vec<String>,
    /// Bytes for the messages and results of all rounds that come back.
    pub bytes_max: usize,
}

/// Turns of a named conversation, its newest, among which a history is looked for.
pub const NAMED_TURNS_MAX: u32 = 1024;

/// Turns with hidden calls that are read for one request.
pub const REMEMBERED_TURNS_MAX: u32 = 256;

impl Store {
    /// The turn of a key that has a history, and what is to come back of it and those before it; see
    /// [`Store::remembered`]. Without room nothing is.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn turn_by_history(
        &self,
        organization: OrgId,
        wanted: HistoryWanted,
        room: Option<RecallRoom>,
    ) -> Result<(HistorySearch, Arc<[RememberedTurn]>), ReadError> {
        let kept = self.kept().clone();
        self.read(move |conn| {
            let sought = by_history(conn, organization, &wanted)?;
            let newest = match &sought {
                HistorySearch::Found(turn) => turn.memory_turn,
                HistorySearch::Unknown | HistorySearch::Ambiguous => None,
            };
            let remembered = match (newest, room) {
                (Some(newest), Some(room)) => kept.remembered(conn, organization, newest, room)?,
                (None, _) | (_, None) => Arc::default(),
            };
            Ok((sought, remembered))
        })
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
        room: RecallRoom,
    ) -> Result<Arc<[RememberedTurn]>, ReadError> {
        let kept = self.kept().clone();
        self.read(move |conn| kept.remembered(conn, organization, newest, room))
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
                .first(bound, |row| row.get::<Option<[u8; 32]>>("hidden_hash"))?;
            Ok(found.flatten().map(HiddenHash))
        })
        .await
    }
}

/// The least and the greatest hidden half of all turns that have a history; none is the least.
const EXTREMES: &str = "SELECT
    (SELECT hidden_hash FROM turn_state WHERE organization = ?1 AND api_key = ?2 AND history_hash = ?3
     ORDER BY hidden_hash NULLS FIRST LIMIT 1) AS least,
    (SELECT hidden_hash FROM turn_state WHERE organization = ?1 AND api_key = ?2 AND history_hash = ?3
     ORDER BY hidden_hash DESC NULLS LAST LIMIT 1) AS greatest";

/// A turn whose hidden half is another than that of the turn before it has hidden calls itself.
const NEWEST: &str = "SELECT t.id, c.id AS conversation, s.hidden_hash,
        CASE WHEN s.hidden_hash IS DISTINCT FROM ms.hidden_hash THEN t.id ELSE m.id END AS memory_turn
    FROM turn_state s
    JOIN turn_start t ON t.key = s.turn
    JOIN conversation c ON c.key = t.conversation
    LEFT JOIN turn_start m ON m.key = t.memory_turn AND m.deleted_us IS NULL
    LEFT JOIN turn_state ms ON ms.turn = m.key
    WHERE s.organization = ?1 AND s.api_key = ?2 AND s.history_hash = ?3 AND s.hidden_hash IS NOT DISTINCT FROM ?4
    ORDER BY s.turn DESC LIMIT 1";

/// Turns of a conversation that have a history, newest first.
const NAMED: Sql = Sql {
    postgres: "SELECT t.id, ?4 AS conversation, s.hidden_hash,
        CASE WHEN s.hidden_hash IS DISTINCT FROM ms.hidden_hash THEN t.id ELSE m.id END AS memory_turn
    FROM (SELECT key FROM turn_start
          WHERE organization = ?1 AND api_key = ?2 AND deleted_us IS NULL
            AND conversation = (SELECT key FROM conversation WHERE organization = ?1 AND id = ?4)
          ORDER BY key DESC LIMIT ?5) AS newest
    JOIN turn_start t ON t.key = newest.key
    JOIN turn_state s ON s.turn = t.key
    LEFT JOIN turn_start m ON m.key = t.memory_turn AND m.deleted_us IS NULL
    LEFT JOIN turn_state ms ON ms.turn = m.key
    WHERE s.history_hash = ?3
    ORDER BY t.key DESC",
    sqlite: "SELECT t.id, ?4 AS conversation, s.hidden_hash,
        CASE WHEN s.hidden_hash IS DISTINCT FROM ms.hidden_hash THEN t.id ELSE m.id END AS memory_turn
    FROM (SELECT key FROM turn_start
          WHERE organization = ?1 AND api_key = ?2 AND deleted_us IS NULL
            AND conversation = (SELECT key FROM conversation WHERE organization = ?1 AND id = ?4)
          ORDER BY key DESC LIMIT ?5) AS newest
    CROSS JOIN turn_start t ON t.key = newest.key
    CROSS JOIN turn_state s ON s.turn = t.key
    LEFT JOIN turn_start m ON m.key = t.memory_turn AND m.deleted_us IS NULL
    LEFT JOIN turn_state ms ON ms.turn = m.key
    WHERE s.history_hash = ?3",
};

fn by_history(
    conn: ReadSession<'_>,
    organization: OrgId,
    wanted: &HistoryWanted,
) -> Result<HistorySearch, ReadError> {
    let found = of_all(conn, organization, wanted)?;
    let Some(named) = &wanted.conversation else {
        return Ok(found);
    };
    match &found {
        HistorySearch::Unknown => Ok(found),
        HistorySearch::Found(turn) if turn.conversation == *named => Ok(found),
        HistorySearch::Found(_) | HistorySearch::Ambiguous => {
            match of_conversation(conn, organization, wanted, named)? {
                HistorySearch::Unknown => Ok(found),
                known => Ok(known),
            }
        }
    }
}

fn of_all(
    conn: ReadSession<'_>,
    organization: OrgId,
    wanted: &HistoryWanted,
) -> Result<HistorySearch, ReadError> {
    let (api_key, history) = (wanted.api_key, wanted.history);
    let mut statement = conn.prepare_cached(EXTREMES)?;
    let bound = params![organization.0, api_key.0, history.0];
    let (least, greatest): (Option<[u8; 32]>, Option<[u8; 32]>) =
        statement.one(bound, |row| Ok((row.get("least")?, row.get("greatest")?)))?;
    if least != greatest {
        return Ok(HistorySearch::Ambiguous);
    }
    let mut statement = conn.prepare_cached(NEWEST)?;
    let mut rows = statement.query(params![organization.0, api_key.0, history.0, least])?;
    match rows.next()? {
        Some(row) => Ok(HistorySearch::Found(continued(row)?)),
        None => Ok(HistorySearch::Unknown),
    }
}

fn of_conversation(
    conn: ReadSession<'_>,
    organization: OrgId,
    wanted: &HistoryWanted,
    named: &str,
) -> Result<HistorySearch, ReadError> {
    let mut statement = conn.prepare_cached(NAMED)?;
    let mut rows = statement.query(params![
        organization.0,
        wanted.api_key.0,
        wanted.history.0,
        named,
        NAMED_TURNS_MAX
    ])?;
    let Some(row) = rows.next()? else {
        return Ok(HistorySearch::Unknown);
    };
    let newest = continued(row)?;
    while let Some(row) = rows.next()? {
        if continued(row)?.hidden != newest.hidden {
            return Ok(HistorySearch::Ambiguous);
        }
    }
    Ok(HistorySearch::Found(newest))
}

fn continued(row: Row<'_>) -> Result<ContinuedTurn, ReadError> {
    Ok(ContinuedTurn {
        turn: word(row, "id", TurnId::parse)?,
        conversation: get(row, "conversation")?,
        hidden: get::<Option<[u8; 32]>>(row, "hidden_hash")?.map(HiddenHash),
        memory_turn: optional_word(row, "memory_turn", TurnId::parse)?,
    })
}

/// A cache of recalls that were read lately: a conversation asks for the same with each turn, and each hidden turn is
/// on pages of its own.
#[derive(Clone, Debug)]
pub(crate) struct RecentRecalls(Cache<Wanted, Entry>);

/// Bytes of recalls that may be kept, about.
const KEPT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Time without a request after which a recall is kept no longer.
const KEPT_IDLE: Duration = Duration::from_secs(300);
/// Bytes that a turn, a round or a call takes beside its texts.
const ITEM_BYTES: usize = 128;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Wanted {
    organization: OrgId,
    newest: TurnId,
    room: RecallRoom,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The number that [`FORGOTTEN`] gave; the entry is given no more once it gives another.
    forgotten: i64,
    turns: Arc<[RememberedTurn]>,
}

const FORGOTTEN: &str = "SELECT times FROM forgotten";

impl RecentRecalls {
    pub(crate) fn new() -> Self {
        let weigh = |_: &Wanted, entry: &Entry| u32::try_from(entry.bytes()).unwrap_or(u32::MAX);
        let cache = Cache::builder()
            .max_capacity(KEPT_BYTES_MAX)
            .weigher(weigh)
            .time_to_idle(KEPT_IDLE)
            .build();
        Self(cache)
    }

    /// The turns that were read lately, or are read now; `conn` is in a snapshot.
    fn remembered(
        &self,
        conn: ReadSession<'_>,
        organization: OrgId,
        newest: TurnId,
        room: RecallRoom,
    ) -> Result<Arc<[RememberedTurn]>, ReadError> {
        let mut statement = conn.prepare_cached(FORGOTTEN)?;
        let forgotten = statement.one(&[], |row| row.get(0))?;
        let wanted = Wanted {
            organization,
            newest,
            room,
        };
        if let Some(entry) = self.0.get(&wanted)
            && entry.forgotten == forgotten
        {
            return Ok(entry.turns);
        }
        let turns: Arc<[_]> = remembered(conn, organization, newest, &wanted.room)?.into();
        let entry = Entry {
            forgotten,
            turns: Arc::clone(&turns),
        };
        self.0.insert(wanted, entry);
        Ok(turns)
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        let rounds = self.turns.iter().flat_map(|turn| &turn.rounds);
        let bytes = rounds.map(|round| {
            // A block holds little beside what it says.
            let said =
                stored::blocks::encode(&round.blocks, None).len() + ITEM_BYTES * round.blocks.len();
            let calls = round.calls.iter();
            let calls = calls.map(|call| {
                call.shown.len() + call.sent_id.len() + call.tool_name.len() + ITEM_BYTES
            });
            said + calls.sum::<usize>() + ITEM_BYTES
        });
        bytes.sum::<usize>() + ITEM_BYTES * (self.turns.len() + 1)
    }
}

/// The turns with hidden calls, newest first, and of each its rounds and calls in their order, which the loops of the
/// joins give by themselves in SQLite: sorted, all would be read before the first. Turns refer to turns of their own
/// organization only.
const REMEMBERED: Sql = Sql {
    postgres: "WITH RECURSIVE before (turn, history, memory_turn, n) AS (
        SELECT key, history_hash, memory_turn, 1 FROM turn WHERE organization = ?1 AND id = ?2
        UNION ALL
        SELECT t.key, t.history_hash, t.memory_turn, b.n + 1 FROM before b
        JOIN turn t ON t.key = b.memory_turn AND t.organization = ?1 WHERE b.n < ?3
    )
    SELECT b.turn, m.round, c.id, c.runs, c.tool_name, c.tool_call_id, coalesce(c.told, c.shown) AS shown,
        m.seq, m.blocks,
        m.blob_bytes, b.history
    FROM before b
    LEFT JOIN message m ON m.turn = b.turn AND m.round > 0 AND m.role = 'assistant'
    LEFT JOIN tool_call c ON c.turn = m.turn AND c.round = m.round
    WHERE b.history IS NOT NULL
    ORDER BY b.n, m.round, m.seq, c.position",
    sqlite: "WITH RECURSIVE before (turn, history, memory_turn) AS (
        SELECT key, history_hash, memory_turn FROM turn WHERE organization = ?1 AND id = ?2
        UNION ALL
        SELECT t.key, t.history_hash, t.memory_turn FROM before
        CROSS JOIN turn t ON t.key = before.memory_turn AND t.organization = ?1
        LIMIT ?3
    )
    SELECT b.turn, m.round, c.id, c.runs, c.tool_name, c.tool_call_id, coalesce(c.told, c.shown) AS shown,
        m.seq, m.blocks,
        m.blob_bytes, b.history
    FROM before b
    LEFT JOIN message m ON m.turn = b.turn AND m.round > 0 AND m.role = 'assistant'
    LEFT JOIN tool_call c ON c.turn = m.turn AND c.round = m.round
    WHERE b.history IS NOT NULL",
};

/// The turns with hidden calls that come back into a history. One that was erased meanwhile is passed over.
fn remembered(
    conn: ReadSession<'_>,
    organization: OrgId,
    newest: TurnId,
    room: &RecallRoom,
) -> Result<Vec<RememberedTurn>, ReadError> {
    let mut statement = conn.prepare_cached(REMEMBERED)?;
    let bound = params![organization.0, newest.to_string(), REMEMBERED_TURNS_MAX];
    let mut rows = statement.query(bound)?;
    let mut turns = Vec::new();
    let mut left = room.bytes_max;
    let mut reading: Option<Reading> = None;
    while let Some(row) = rows.next()? {
        let key: i64 = get(row, "turn")?;
        if reading.as_ref().is_none_or(|turn| turn.key != key) {
            let next = Reading::begin(key, row)?;
            let is_whole = reading
                .replace(next)
                .is_none_or(|turn| turn.keep(&mut left, &mut turns));
            if !is_whole {
                return Ok(turns);
            }
        }
        if let Some(turn) = &mut reading {
            turn.add(conn, row, room)?;
        }
    }
    if let Some(turn) = reading {
        turn.keep(&mut left, &mut turns);
    }
    Ok(turns)
}

/// A turn of which rows are coming.
struct Reading {
    key: i64,
    history: HistoryHash,
    rounds: Vec<Weighed>,
}

/// A round and what it takes of the room.
struct Weighed {
    number: u32,
    round: RecalledRound,
    /// Bytes of the round's message.
    said_bytes: usize,
    /// 0 for a round that nothing comes back of.
    bytes: usize,
}

impl Reading {
    fn begin(key: i64, row: Row<'_>) -> Result<Self, ReadError> {
        Ok(Self {
            key,
            history: HistoryHash(get(row, "history")?),
            rounds: Vec::new(),
        })
    }

    /// Takes a call and, with its first one, the round that it is of.
    fn add(
        &mut self,
        conn: ReadSession<'_>,
        row: Row<'_>,
        room: &RecallRoom,
    ) -> Result<(), ReadError> {
        let Some(number) = get(row, "round")? else {
            return Ok(());
        };
        if self.rounds.last().is_none_or(|last| last.number != number) {
            let holder = TextHolder::Message {
                round: number,
                seq: get(row, "seq")?,
            };
            let blob_bytes = unsigned(row, "blob_bytes")?;
            let written =
                blob::whole_text(conn, self.key, holder, get(row, "blocks")?, blob_bytes)?;
            let StoredBlocks { blocks, origin } = stored::blocks::decode(&written)?;
            self.rounds.push(Weighed {
                number,
                round: RecalledRound {
                    blocks,
                    origin,
                    calls: Vec::new(),
                },
                said_bytes: written.len(),
                bytes: 0,
            });
        }
        let id = optional_word(row, "id", CallId::parse)?;
        if let (Some(id), Some(round)) = (id, self.rounds.last_mut()) {
            round.add(id, row, room)?;
        }
        Ok(())
    }

    /// Keeps the newest rounds for which there is room; `false` if these are not all.
    fn keep(mut self, left: &mut usize, turns: &mut Vec<RememberedTurn>) -> bool {
        let mut kept = 0;
        for round in self.rounds.iter().rev() {
            if round.bytes > *left {
                break;
            }
            *left -= round.bytes;
            kept += 1;
        }
        let from = self.rounds.len() - kept;
        let rounds = self.rounds.drain(from..);
        turns.push(RememberedTurn {
            history: self.history,
            rounds: rounds.map(|weighed| weighed.round).collect(),
        });
        from == 0
    }
}

impl Weighed {
    fn add(&mut self, id: CallId, row: Row<'_>, room: &RecallRoom) -> Result<(), ReadError> {
        let call = RecalledCall {
            runs: word(row, "runs", CallRunner::parse)?,
            id,
            sent_id: get(row, "tool_call_id")?,
            tool_name: get(row, "tool_name")?,
            shown: get::<Option<String>>(row, "shown")?.unwrap_or_default(),
        };
        if call.runs == CallRunner::Server && room.tools.contains(&call.tool_name) {
            if self.bytes == 0 {
                self.bytes = self.said_bytes;
            }
            self.bytes = self.bytes.saturating_add(call.shown.len());
        }
        self.round.calls.push(call);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
