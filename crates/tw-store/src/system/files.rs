//! The file of a link, whose signature is what lets somebody read it.

use tw_core::id::FileId;

use crate::read::ReadError;
use crate::read::columns::get;
use crate::session::bound::params;
use crate::store::Store;

/// A file with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    pub content: Vec<u8>,
    pub content_type: String,
    /// SHA-256.
    pub hash: Vec<u8>,
}

/// One of a deleted turn is gone, whether or not its contents are yet.
const FILE: &str = "SELECT b.content, f.content_type, f.hash
    FROM call_file f
    JOIN turn_start t ON t.key = f.turn
    JOIN blob_use u ON u.turn = f.turn AND u.holder = 'file' AND u.round = f.round AND u.place = f.position
        AND u.at = f.n
    JOIN blob b ON b.key = u.blob
    WHERE f.id = ?1 AND t.deleted_us IS NULL";

/// The file; `None` for one that is not in our storage.
///
/// # Errors
/// See [`ReadError`].
pub async fn file(store: &Store, file: FileId) -> Result<Option<StoredFile>, ReadError> {
    store
        .read(move |conn| {
            let mut statement = conn.prepare_cached(FILE)?;
            let mut rows = statement.query(params![file.to_string()])?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            Ok(Some(StoredFile {
                content: get(row, "content")?,
                content_type: get(row, "content_type")?,
                hash: get(row, "hash")?,
            }))
        })
        .await
}
