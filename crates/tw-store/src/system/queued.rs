//! Rows that applications have inserted by SQL.

use tw_core::id::QueuedRowId;

use crate::read::ReadError;
use crate::read::columns::get;
use crate::session::bound::params;
use crate::store::Store;

/// A row that is to be appended to a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedRow {
    pub id: QueuedRowId,
    /// SHA-256 of the key whose row it is.
    pub api_key_hash: [u8; 32],
    /// The word of the shape.
    pub shape: String,
    pub conversation: String,
    /// The row as the shape has it, as JSON.
    pub body: String,
}

const WAITING: &str = "SELECT q.key, k.hash, q.shape, q.conversation, q.body
    FROM queued_row q JOIN api_key k ON k.key = q.api_key
    WHERE q.fault IS NULL AND q.key > ?1 ORDER BY q.key LIMIT ?2";

/// Rows that nobody has refused, in the order in which they were inserted, behind one of them.
///
/// # Errors
/// See [`ReadError`].
pub async fn queued_rows(
    store: &Store,
    after: QueuedRowId,
    max: u32,
) -> Result<Vec<QueuedRow>, ReadError> {
    store
        .read(move |conn| {
            let mut statement = conn.prepare_cached(WAITING)?;
            let mut rows = statement.query(params![after.0, max])?;
            let mut waiting = Vec::new();
            while let Some(row) = rows.next()? {
                waiting.push(QueuedRow {
                    id: QueuedRowId(get(row, "key")?),
                    api_key_hash: get(row, "hash")?,
                    shape: get(row, "shape")?,
                    conversation: get(row, "conversation")?,
                    body: get(row, "body")?,
                });
            }
            Ok(waiting)
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::WAITING;
    use crate::read::plan::assert_each_looks;

    #[test]
    fn an_empty_queue_costs_one_look() {
        assert_each_looks(&[(WAITING, "queued_row_waiting")]);
    }
}
