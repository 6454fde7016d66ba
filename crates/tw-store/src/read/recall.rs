//! Turns whose calls a client answers, by the ids that it was handed.

use std::sync::Arc;

use tw_core::change::NewMessage;
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::model::CallNative;
use tw_core::recall::{SentMessage, natives_behind};
use tw_core::request::{Block, call_in};
use tw_wire::stored::{self, blocks::StoredBlocks};

use super::ReadError;
use super::calls::{self, ContentsRead};
use super::columns::{get, unsigned, word};
use super::turn::CallRow;
use crate::blob::{self, TextHolder};
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::sql::Sql;
use crate::store::Store;

/// Ids of calls as a client sent them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedSent {
    /// The key whose client was handed the calls; another key's are not found.
    pub api_key: ApiKeyId,
    pub calls: Vec<CallId>,
    /// Contents beyond this are not read, those of the oldest turns; names are.
    pub bytes_max: usize,
}

/// A turn that handed calls over.
#[derive(Clone, Debug, PartialEq)]
pub struct AnsweredTurn {
    pub id: TurnId,
    /// The public id of the turn's conversation.
    pub conversation: String,
    /// The client named the conversation.
    pub conversation_named: bool,
    /// The end user whose turn it is, if somebody was named.
    pub end_user: Option<String>,
    /// The contents are gone, or are beyond what was asked for: of the calls there are names.
    pub names_only: bool,
    /// The turn's conversation was deleted. Nothing of it is told any more but which tools ran, so that one that must
    /// run once is not run again for the same answer.
    pub is_deleted: bool,
    /// The calls of the turn that were asked for.
    pub handed: Vec<HandedRow>,
    /// Messages by round and place; none for a turn that ran no call of ours.
    pub messages: Vec<NewMessage>,
    /// Calls in call order, without full results; none for a turn that ran no call of ours.
    pub calls: Vec<CallRow>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HandedRow {
    pub id: CallId,
    /// The id by which the upstream knows the call.
    pub sent_id: String,
    pub tool_name: String,
    /// Fields of the call that only its answer's format knows.
    pub native: Option<Box<CallNative>>,
    /// What only the format understands of the call.
    pub behind: Vec<Block>,
    /// The message that made the call; `None` if its contents are gone, or are beyond what was asked for.
    pub message: Option<Arc<SentMessage>>,
}

impl Store {
    /// The turns that handed these calls over, newest first; ids that are not found are left out.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn answered_turns(
        &self,
        organization: OrgId,
        sent: HandedSent,
    ) -> Result<Vec<AnsweredTurn>, ReadError> {
        self.read(move |conn| answered_turns(conn, organization, &sent))
            .await
    }
}

/// The list of ids is one bound text, a JSON array.
const HANDED: Sql = Sql {
    postgres:
        "SELECT c.id, c.tool_call_id, c.tool_name, c.turn, t.id AS turn_id, v.id AS conversation,
        c.round, t.conversation_named, u.name AS end_user, t.erased_us IS NOT NULL AS erased,
        t.deleted_us IS NOT NULL AS deleted,
        EXISTS (SELECT 1 FROM tool_call s WHERE s.turn = c.turn AND s.runs = 'server') AS has_ours
    FROM json_array_elements_text(CAST(?3 AS json)) AS asked (value)
    JOIN tool_call c ON c.organization = ?1 AND c.id = asked.value
    JOIN turn t ON t.key = c.turn
    JOIN conversation v ON v.key = t.conversation
    LEFT JOIN end_user u ON u.key = t.end_user
    WHERE c.runs = 'client' AND t.api_key = ?2
    ORDER BY c.turn DESC, c.round, c.position",
    sqlite:
        "SELECT c.id, c.tool_call_id, c.tool_name, c.turn, t.id AS turn_id, v.id AS conversation,
        c.round, t.conversation_named, u.name AS end_user, t.erased_us IS NOT NULL AS erased,
        t.deleted_us IS NOT NULL AS deleted,
        EXISTS (SELECT 1 FROM tool_call s WHERE s.turn = c.turn AND s.runs = 'server') AS has_ours
    FROM json_each(?3) AS asked
    CROSS JOIN tool_call c ON c.organization = ?1 AND c.id = asked.value
    JOIN turn t ON t.key = c.turn
    JOIN conversation v ON v.key = t.conversation
    LEFT JOIN end_user u ON u.key = t.end_user
    WHERE c.runs = 'client' AND t.api_key = ?2
    ORDER BY c.turn DESC, c.round, c.position",
};

fn answered_turns(
    conn: ReadSession<'_>,
    organization: OrgId,
    sent: &HandedSent,
) -> Result<Vec<AnsweredTurn>, ReadError> {
    // Ids are hexadecimal digits and hyphens.
    let ids: Vec<String> = sent.calls.iter().map(|id| format!("\"{id}\"")).collect();
    let ids = format!("[{}]", ids.join(","));
    let mut statement = conn.prepare_cached(HANDED)?;
    let mut rows = statement.query(params![organization.0, sent.api_key.0, ids])?;
    let mut turns: Vec<(i64, AnsweredTurn)> = Vec::new();
    let mut bytes = 0;
    let mut made: Option<MadeCalls> = None;
    while let Some(row) = rows.next()? {
        let key: i64 = get(row, "turn")?;
        if turns.last().is_none_or(|(last, _)| *last != key) {
            let is_deleted = get(row, "deleted")?;
            let mut turn = AnsweredTurn {
                id: word(row, "turn_id", TurnId::parse)?,
                conversation: get(row, "conversation")?,
                conversation_named: get(row, "conversation_named")?,
                end_user: get(row, "end_user")?,
                names_only: is_deleted || get(row, "erased")?,
                is_deleted,
                handed: Vec::new(),
                messages: Vec::new(),
                calls: Vec::new(),
            };
            if get(row, "has_ours")? {
                turn.names_only |= bytes >= sent.bytes_max;
                let contents = if turn.names_only {
                    ContentsRead::Names
                } else {
                    ContentsRead::Shown
                };
                if !is_deleted {
                    turn.messages = calls::messages(conn, key, contents)?;
                }
                turn.calls = calls::calls(conn, key, contents)?;
                bytes += bytes_of(&turn.calls);
            }
            turns.push((key, turn));
        }
        if let Some((_, turn)) = turns.last_mut() {
            let round: u32 = get(row, "round")?;
            let is_known = |made: &MadeCalls| (made.turn, made.round) == (key, round);
            if !made.as_ref().is_some_and(is_known) {
                let has_room = bytes < sent.bytes_max && !turn.is_deleted;
                made = Some(MadeCalls::read(conn, key, round, has_room)?);
                bytes += made.as_ref().map_or(0, |made| made.bytes);
            }
            let sent_id: String = get(row, "tool_call_id")?;
            let message = made.as_ref();
            let call = message.and_then(|made| call_in(&made.blocks, &sent_id));
            turn.handed.push(HandedRow {
                id: word(row, "id", CallId::parse)?,
                native: call.and_then(|call| call.native.clone()),
                behind: message.map_or(Vec::new(), |made| natives_behind(&made.blocks, &sent_id)),
                message: message.and_then(|made| made.message.clone()),
                sent_id,
                tool_name: get(row, "tool_name")?,
            });
        }
    }
    Ok(turns.into_iter().map(|(_, turn)| turn).collect())
}

/// The message in which calls were made.
#[derive(Default)]
struct MadeCalls {
    turn: i64,
    round: u32,
    blocks: Vec<Block>,
    message: Option<Arc<SentMessage>>,
    bytes: usize,
}

const MADE: &str = "SELECT seq, blocks, blob_bytes FROM message WHERE turn = ?1 AND round = ?2 AND role = 'assistant'";

impl MadeCalls {
    fn read(
        conn: ReadSession<'_>,
        turn: i64,
        round: u32,
        has_room: bool,
    ) -> Result<Self, ReadError> {
        let mut made = Self {
            turn,
            round,
            ..Self::default()
        };
        if !has_room {
            return Ok(made);
        }
        let mut statement = conn.prepare_cached(MADE)?;
        let mut rows = statement.query(params![turn, round])?;
        if let Some(row) = rows.next()? {
            let seq = get(row, "seq")?;
            let holder = TextHolder::Message { round, seq };
            let blob_bytes = unsigned(row, "blob_bytes")?;
            let written = blob::whole_text(conn, turn, holder, get(row, "blocks")?, blob_bytes)?;
            let StoredBlocks { blocks, origin } = stored::blocks::decode(&written)?;
            made.message = origin.map(|origin| Arc::new(SentMessage::of(origin, &blocks)));
            made.blocks = blocks;
            made.bytes = written.len();
        }
        Ok(made)
    }
}

fn bytes_of(calls: &[CallRow]) -> usize {
    let shown = |row: &CallRow| row.seen().map_or(0, str::len);
    calls
        .iter()
        .map(|row| row.call.arguments.len() + shown(row))
        .sum()
}
