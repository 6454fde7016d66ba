//! A file that has its name only when it is whole.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::{Builder, NamedTempFile};

/// A file that is to be: only its owner may read it, and what it will be called is free until it is whole.
pub struct UnfinishedFile {
    file: NamedTempFile,
    wanted: PathBuf,
    folder: PathBuf,
}

impl UnfinishedFile {
    /// Makes an empty file beside the place where it is wanted.
    ///
    /// # Errors
    /// There is a file in that place, or none can be made beside it.
    pub fn beside(wanted: &Path) -> anyhow::Result<Self> {
        if wanted.exists() {
            bail!("{} exists, and nothing is overwritten", wanted.display());
        }
        let folder = match wanted.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        };
        remove_left_over(folder);
        let file = Builder::new()
            .prefix(UNFINISHED)
            .tempfile_in(folder)
            .with_context(|| format!("making a file in {}", folder.display()))?;
        // Held while this process lives, so that others know what is left over.
        file.as_file()
            .lock()
            .with_context(|| format!("locking a file in {}", folder.display()))?;
        Ok(Self {
            file,
            wanted: wanted.to_owned(),
            folder: folder.to_owned(),
        })
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives the file its name; its length in bytes.
    ///
    /// # Errors
    /// Somebody else has made a file of that name meanwhile.
    pub fn finish(self) -> anyhow::Result<u64> {
        let Self {
            file,
            wanted,
            folder,
        } = self;
        let bytes = file.as_file().metadata()?.len();
        if let Err(error) = file.persist_noclobber(&wanted) {
            if error.error.kind() == ErrorKind::AlreadyExists {
                bail!("{} exists, and nothing is overwritten", wanted.display());
            }
            return Err(error.error).with_context(|| format!("naming {}", wanted.display()));
        }
        // The name, too, is to survive a power cut.
        File::open(&folder)
            .and_then(|folder| folder.sync_all())
            .with_context(|| format!("writing {} to the disk", folder.display()))?;
        Ok(bytes)
    }
}

/// Beginning of the name of a file that is not whole yet.
const UNFINISHED: &str = ".turnwright-unfinished-";

/// Removes files whose makers were killed: nobody holds their locks.
fn remove_left_over(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            continue;
        }
        let path = entry.path();
        let is_left = File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
        if is_left && let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "what a killed command left cannot be removed");
        }
    }
}
