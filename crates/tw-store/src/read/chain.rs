//! A turn and those that it continues by name, each with what its model was told and what it said.

use tw_core::change::NewMessage;
use tw_core::id::{OrgId, TurnId};
use tw_wire::stored::context::TurnContext;

use super::ReadError;
use super::calls::{self, ContentsRead};
use super::turn::{CallRow, TurnRow, context_of, find_turn};
use crate::body;
use crate::session::ReadSession;
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
        let shown = |row: &CallRow| row.call.end.as_ref().map_or(0, |end| end.shown.len());
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

fn chain(
    conn: ReadSession<'_>,
    organization: OrgId,
    newest: TurnId,
    room: ChainRoom,
) -> Result<ChainFound, ReadError> {
    let mut turns: Vec<ChainedTurn> = Vec::new();
    let mut bytes = 0;
    let mut next = Some(newest);
    while let Some(turn) = next {
        let Some(read) = link(conn, organization, turn)? else {
            return Ok(ChainFound::Missing);
        };
        bytes += read.bytes();
        if turns.len() >= room.turns_max || bytes > room.bytes_max {
            return Ok(ChainFound::TooLong);
        }
        next = match (read.context.projection.continues(), read.row.parent) {
            (None, _) => None,
            (Some(_), Some(parent)) => Some(parent),
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
