//! Files that the calls of a turn made.

use tw_core::call_file::FileFault;
use tw_core::id::{CallRef, FileId};

use super::ReadError;
use super::columns::{get, optional_word, unsigned, word};
use crate::session::ReadSession;
use crate::session::bound::params;

/// A file without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileView {
    pub call: CallRef,
    pub id: FileId,
    /// `None` for one that is not in our storage.
    pub content_type: Option<String>,
    /// SHA-256.
    pub hash: Option<Vec<u8>>,
    pub bytes: u64,
    pub fault: Option<FileFault>,
}

const FILES: &str = "SELECT round, position, id, content_type, hash, bytes, fault FROM call_file
    WHERE turn = ?1 ORDER BY round, position, n";

/// The files of all calls of a turn, in order.
pub(super) fn files(conn: ReadSession<'_>, turn: i64) -> Result<Vec<FileView>, ReadError> {
    let mut statement = conn.prepare_cached(FILES)?;
    let mut rows = statement.query(params![turn])?;
    let mut files = Vec::new();
    while let Some(row) = rows.next()? {
        files.push(FileView {
            call: CallRef {
                round: get(row, "round")?,
                position: get(row, "position")?,
            },
            id: word(row, "id", FileId::parse)?,
            content_type: get(row, "content_type")?,
            hash: get(row, "hash")?,
            bytes: unsigned(row, "bytes")?,
            fault: optional_word(row, "fault", FileFault::parse)?,
        });
    }
    Ok(files)
}
