//! The size and the calls of a turn that nobody drives, read before the turn is loaded.

use tw_core::id::{OrgId, TurnId};

use super::ReadError;
use super::calls::{ContentsRead, calls};
use super::columns::{get, unsigned};
use super::turn::CallRow;
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::store::Store;

/// A turn that waits for a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfinishedTurn {
    /// Bytes of its request's body.
    pub body_bytes: u64,
    /// Bytes of what else a driver goes on from: rounds, calls and events.
    pub record_bytes: u64,
    /// Claims since which no driver has gone on with it.
    pub claims_open: u32,
}

impl Store {
    /// The size of a turn, without loading it; `None` if it does not run.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn unfinished_turn(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Option<UnfinishedTurn>, ReadError> {
        self.read(move |conn| find(conn, organization, turn)).await
    }

    /// The calls of a turn in call order, without their contents.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn calls_named(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Vec<CallRow>, ReadError> {
        self.read(move |conn| {
            let sql = "SELECT key FROM turn_start WHERE organization = ?1 AND id = ?2";
            let bound = params![organization.0, turn.to_string()];
            let mut statement = conn.prepare_cached(sql)?;
            let key = statement.first(bound, |row| row.get(0))?;
            key.map_or(Ok(Vec::new()), |key| calls(conn, key, ContentsRead::Names))
        })
        .await
    }
}

/// The sizes of a turn. Lengths stand at the start of a row: none of these is read. A body is so much of the start and
/// the end of its parent's as its row says, and its own part between them.
const FIND: &str = "SELECT t.claims_open,
        coalesce((SELECT octet_length(body) + blob_bytes + coalesce(kept_start_bytes, 0) + coalesce(kept_end_bytes, 0)
                  FROM turn_input WHERE turn = t.key), 0) AS body_bytes,
        CAST(coalesce((SELECT sum(octet_length(blocks) + blob_bytes) FROM message WHERE turn = t.key AND round > 0), 0)
        + coalesce((SELECT sum(octet_length(arguments) + coalesce(octet_length(result), 0) + blob_bytes
                               + coalesce(octet_length(shown), 0))
                    FROM tool_call WHERE turn = t.key), 0)
        + coalesce((SELECT sum(octet_length(payload) + blob_bytes) FROM turn_event WHERE turn = t.key), 0)
            AS bigint) AS record_bytes
    FROM turn t WHERE t.organization = ?1 AND t.id = ?2 AND t.status = 'running'";

fn find(
    conn: ReadSession<'_>,
    organization: OrgId,
    turn: TurnId,
) -> Result<Option<UnfinishedTurn>, ReadError> {
    let mut statement = conn.prepare_cached(FIND)?;
    let mut rows = statement.query(params![organization.0, turn.to_string()])?;
    let read = |row: Row<'_>| {
        Ok(UnfinishedTurn {
            body_bytes: unsigned(row, "body_bytes")?,
            record_bytes: unsigned(row, "record_bytes")?,
            claims_open: get(row, "claims_open")?,
        })
    };
    rows.next()?.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::FIND;
    use crate::read::plan::assert_each_looks;

    #[test]
    fn a_turn_is_found_by_its_id_and_what_belongs_to_it_by_its_key() {
        assert_each_looks(&[(FIND, "organization=? AND id=?"), (FIND, "turn=?")]);
    }
}
