//! A turn and those that it continues by name, each with what its model was told and what it said.

use tw_core::change::NewMessage;
use tw_core::id::{OrgId, TurnId};
use tw_wire::stored::context::TurnContext;

use super::ReadError;
use super::calls::{self, ContentsRead};
use super::columns::word;
use super::turn::{CallRow, TurnRow, context_of, find_turn};
use crate::body;
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::store::Store;

/// The room for the turns of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainRoom {
    pub turns_max: usize,
    /// Bytes of the bodies, messages and results of all of them.
    pub bytes_max: usize,
}

/// The result of reading a chain.
#[derive(Clone, Debug, PartialEq)]
pub enum ChainFound {
    /// The turn that was asked for first, then the one that it continues, and so on.
    Turns(Vec<ChainedTurn>),
    /// There is no such turn, or it or one before it was deleted or erased.
    Missing,
    /// There is more than there is room for.
    TooLong,
}

/// A turn of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainedTurn {
    pub row: TurnRow,
    pub context: TurnContext,
    /// The request as it came.
    pub body: Vec<u8>,
    /// The messages of the turn's rounds.
    pub said: Vec<NewMessage>,
    /// Calls in call order, without full results.
    pub calls: Vec<CallRow>,
}

impl ChainedTurn {
    fn bytes(&self) -> usize {
        let shown = |row: &CallRow| row.seen().map_or(0, str::len);
        let calls = self.calls.iter();
        let calls = calls.map(|row| row.call.arguments.len() + shown(row));
        self.body.len() + calls.sum::<usize>()
    }
}

impl Store {
    /// A turn and those that it continues by name, read in one state of the database.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn chain(
        &self,
        organization: OrgId,
        newest: TurnId,
        room: ChainRoom,
    ) -> Result<ChainFound, ReadError> {
        self.read(move |conn| chain(conn, organization, newest, room))
            .await
    }

    /// The turns of a conversation's path, newest first, each with its contents, as far back as a model must be told:
    /// a request that holds the whole history needs nothing before it. Turns of which nothing is left are passed over.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn path_turns(
        &self,
        organization: OrgId,
        path: Vec<TurnId>,
        room: ChainRoom,
    ) -> Result<ChainFound, ReadError> {
        self.read(move |conn| {
            let mut turns: Vec<ChainedTurn> = Vec::new();
            let mut bytes = 0;
            for turn in path {
                let Some(read) = link(conn, organization, turn)? else {
                    continue;
                };
                bytes += read.bytes();
                if turns.len() >= room.turns_max || bytes > room.bytes_max {
                    return Ok(ChainFound::TooLong);
                }
                let is_whole = !read.context.projection.follows_others();
                turns.push(read);
                if is_whole {
                    break;
                }
            }
            Ok(ChainFound::Turns(turns))
        })
        .await
    }

    /// A turn without those that it continues; `None` if it is not there, was deleted or erased.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn chained_turn(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<ChainedTurn>, ReadError> {
        self.read(move |conn| link(conn, organization, turn)).await
    }
}

/// How a turn continues the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainEdge {
    /// By its name, so that it must be there.
    Named,
    /// As the next one in its conversation, out of which the one before may have been taken.
    InConversation,
}

/// The turn before one that is gone, if both are of one conversation.
fn before_in_conversation(
    conn: ReadSession<'_>,
    organization: OrgId,
    turn: TurnId,
) -> Result<Option<TurnId>, ReadError> {
    let sql = "SELECT p.id FROM turn_start t JOIN turn_start p ON p.key = t.parent AND p.conversation = t.conversation
        WHERE t.organization = ?1 AND t.id = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![organization.0, turn.to_string()])?;
    rows.next()?
        .map(|row| word(row, "id", TurnId::parse))
        .transpose()
}

fn chain(
    conn: ReadSession<'_>,
    organization: OrgId,
    newest: TurnId,
    room: ChainRoom,
) -> Result<ChainFound, ReadError> {
    let mut turns: Vec<ChainedTurn> = Vec::new();
    let mut bytes = 0;
    let mut next = Some((newest, ChainEdge::Named));
    while let Some((turn, edge)) = next {
        let Some(read) = link(conn, organization, turn)? else {
            match edge {
                ChainEdge::Named => return Ok(ChainFound::Missing),
                ChainEdge::InConversation => {
                    let before = before_in_conversation(conn, organization, turn)?;
                    next = before.map(|turn| (turn, edge));
                    continue;
                }
            }
        };
        bytes += read.bytes();
        if turns.len() >= room.turns_max || bytes > room.bytes_max {
            return Ok(ChainFound::TooLong);
        }
        let projection = &read.context.projection;
        next = match (projection.continues(), read.row.parent) {
            (None, parent) if projection.conversation().is_some() => {
                parent.map(|parent| (parent, ChainEdge::InConversation))
            }
            (None, _) => None,
            (Some(_), Some(parent)) => Some((parent, ChainEdge::Named)),
            (Some(_), None) => return Ok(ChainFound::Missing),
        };
        turns.push(read);
    }
    Ok(ChainFound::Turns(turns))
}

fn link(
    conn: ReadSession<'_>,
    organization: OrgId,
    turn: TurnId,
) -> Result<Option<ChainedTurn>, ReadError> {
    let found = find_turn(conn, organization, turn)?;
    let is_there = |row: &TurnRow| row.deleted.is_none() && row.erased.is_none();
    let Some((key, row)) = found.filter(|(_, row)| is_there(row)) else {
        return Ok(None);
    };
    let Some(body) = body::whole(conn, key)? else {
        return Ok(None);
    };
    Ok(Some(ChainedTurn {
        row,
        context: context_of(conn, key)?,
        body,
        said: calls::messages_from(conn, key, 1, ContentsRead::Shown)?,
        calls: calls::calls(conn, key, ContentsRead::Shown)?,
    }))
}
