//! Links to files in our storage: whoever has one may read the file until it expires.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use tw_core::id::FileId;
use tw_core::time::Timestamp;
use tw_store::read::ReadError;
use tw_store::system::files::{self, StoredFile};

use crate::runtime::{Runtime, RuntimeInner};
use crate::sealing::Sealer;

/// The path under which files are read; the id of the file follows.
pub const FILE_PATH: &str = "/files";
/// What the key of links is for, and the version of what is signed.
const PURPOSE: &[u8] = b"turnwright file link 1";
/// Time for which a link in a record that is read holds.
const FRESH_LINK: Duration = Duration::from_secs(3600);

/// How files are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKeeping {
    /// Bytes that all files of an organization may have.
    pub organization_bytes_max: u64,
    /// Time for which a link holds that the model is shown.
    pub link: Duration,
}

/// Some thousand large photographs.
pub const FILES_BYTES_DEFAULT: u64 = 10 * 1024 * 1024 * 1024;
/// A week, since the model's answer with the link is read again.
pub const FILE_LINK_DEFAULT: Duration = Duration::from_secs(7 * 24 * 3600);

impl FileKeeping {
    pub fn defaults() -> Self {
        Self {
            organization_bytes_max: FILES_BYTES_DEFAULT,
            link: FILE_LINK_DEFAULT,
        }
    }
}

/// Reasons for which nobody gets a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Unknown and forged get the same answer.
    #[error("this is the link of no file, or its signature is wrong")]
    NotFound,
    #[error("this link has expired; the record of the turn holds a new one")]
    Expired,
    #[error("reading a file")]
    Read(#[from] ReadError),
}

/// Makes links.
#[derive(Clone)]
pub struct FileLinks {
    key: Arc<hmac::Key>,
    base: Arc<str>,
    now: Timestamp,
}

impl std::fmt::Debug for FileLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileLinks(***)")
    }
}

impl FileLinks {
    /// A link to a file that holds for a while.
    pub fn fresh(&self, file: FileId) -> String {
        self.until(file, self.now.after(FRESH_LINK))
    }

    /// Whether links are whole URLs: it is known where clients reach this server.
    pub(crate) fn are_absolute(&self) -> bool {
        !self.base.is_empty()
    }

    pub(crate) fn until(&self, file: FileId, until: Timestamp) -> String {
        let expires = until.seconds();
        let signature = hmac::sign(&self.key, signed(file, expires).as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature);
        format!(
            "{}{FILE_PATH}/{file}?expires={expires}&signature={signature}",
            self.base
        )
    }
}

fn signed(file: FileId, expires: i64) -> String {
    format!("{file}.{expires}")
}

impl Runtime {
    /// Links to files of this database.
    ///
    /// # Errors
    /// When the database's secret cannot be read.
    pub async fn file_links(&self) -> Result<FileLinks, ReadError> {
        self.0.file_links().await
    }

    /// The file of a link, by what its URL says.
    ///
    /// # Errors
    /// [`FileError`].
    pub async fn file(
        &self,
        file: &str,
        expires: &str,
        signature: &str,
    ) -> Result<StoredFile, FileError> {
        let known = FileId::parse(file).zip(expires.parse::<i64>().ok());
        let given = URL_SAFE_NO_PAD.decode(signature).ok();
        let (Some((file, expires)), Some(given)) = (known, given) else {
            return Err(FileError::NotFound);
        };
        let links = self.0.file_links().await?;
        let signed = signed(file, expires);
        if hmac::verify(&links.key, signed.as_bytes(), &given).is_err() {
            return Err(FileError::NotFound);
        }
        if expires <= self.0.env.now().seconds() {
            return Err(FileError::Expired);
        }
        let found = files::file(&self.0.store, file).await?;
        found.ok_or(FileError::NotFound)
    }
}

impl RuntimeInner {
    pub(crate) async fn file_links(&self) -> Result<FileLinks, ReadError> {
        let key = self.sealer().await?.signing_key(PURPOSE);
        // Only a key of another length could fail to be made.
        let key = key.ok_or(ReadError::Column {
            column: "seal_secret",
        })?;
        Ok(FileLinks {
            key: Arc::new(key),
            base: self
                .config
                .callback_base
                .as_deref()
                .unwrap_or_default()
                .into(),
            now: self.env.now(),
        })
    }

    async fn sealer(&self) -> Result<Arc<Sealer>, ReadError> {
        Sealer::of(&self.sealer, &self.store, &self.env).await
    }
}
