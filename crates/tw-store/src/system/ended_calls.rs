//! Calls that somebody else has ended while their turns wait for them.

use tw_core::call::{CallEnd, CallReason};
use tw_core::id::{CallRef, TurnId};

use crate::read::ReadError;
use crate::read::columns::{get, optional_word, word};
use crate::session::bound::params;
use crate::store::Store;

/// The end of a call of a turn that still runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedCall {
    pub turn: TurnId,
    pub call: CallRef,
    /// Without its whole result, which is in the record.
    pub end: CallEnd,
}

const ENDED: &str =
    "SELECT t.id AS turn, c.round, c.position, c.reason, c.shown, c.is_error, c.cached
    FROM turn_state s JOIN turn_start t ON t.key = s.turn JOIN tool_call c ON c.turn = s.turn
    WHERE s.status = 'running' AND (s.owner = ?1 OR substr(s.owner, 1, length(?1) + 1) = ?1 || ':')
      AND c.deadline_us IS NOT NULL AND c.approval IS NULL AND c.ended_us IS NOT NULL AND c.told IS NULL";

/// Ends of calls that are jobs, in the running turns of `owner` and of those whose name begins with it and a colon.
///
/// # Errors
/// See [`ReadError`].
pub async fn ended_calls(store: &Store, owner: &str) -> Result<Vec<EndedCall>, ReadError> {
    let owner = owner.to_owned();
    store
        .read(move |conn| {
            let mut statement = conn.prepare_cached(ENDED)?;
            let mut rows = statement.query(params![owner])?;
            let mut ended = Vec::new();
            while let Some(row) = rows.next()? {
                ended.push(EndedCall {
                    turn: word(row, "turn", TurnId::parse)?,
                    call: CallRef {
                        round: get(row, "round")?,
                        position: get(row, "position")?,
                    },
                    end: CallEnd {
                        reason: optional_word(row, "reason", CallReason::parse)?,
                        result: None,
                        shown: get(row, "shown")?,
                        is_error: get(row, "is_error")?,
                        cached: get(row, "cached")?,
                    },
                });
            }
            Ok(ended)
        })
        .await
}
