//! `turnwright backup`

use std::fs::File;
use std::path::Path;

use anyhow::{Context, bail};
use tempfile::Builder;
use tw_store::backup::back_up;

use crate::cli::BackupArgs;
use crate::config::Settings;
use crate::database::{DATABASE, DatabasePlace};
use crate::printed;
use crate::serve::log_to_stderr;
use tw_runtime::metrics::DroppedLogLines;

/// Prints where the copy is and how large.
pub fn run(args: &BackupArgs) -> anyhow::Result<()> {
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    let place = DatabasePlace::of(&args.store, &Settings::of_file(None)?, &args.data)?;
    if let DatabasePlace::Server(server) = place {
        bail!("{server} is backed up by the tools of its server, such as pg_dump");
    }
    let database = args.data.join(DATABASE);
    if !database.exists() {
        bail!("there is no database in {}", args.data.display());
    }
    let file = &args.file;
    let exists = || anyhow::anyhow!("{} exists, and no backup is overwritten", file.display());
    if file.exists() {
        return Err(exists());
    }
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    // Only its owner may read it, and it has its name only when it is whole and checked.
    remove_left_over(folder);
    let copy = Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(folder)
        .with_context(|| format!("making a file in {}", folder.display()))?;
    // Held while this process lives, so that others know what is left over.
    copy.as_file()
        .lock()
        .with_context(|| format!("locking a file in {}", folder.display()))?;
    back_up(&database, copy.path())?;
    let bytes = copy.as_file().metadata()?.len();
    if let Err(error) = copy.persist_noclobber(file) {
        if error.error.kind() == std::io::ErrorKind::AlreadyExists {
            return Err(exists());
        }
        return Err(error.error).with_context(|| format!("naming {}", file.display()));
    }
    // The name, too, is to survive a power cut.
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("writing {} to the disk", folder.display()))?;
    printed::print(&format!("{}: {bytes} bytes, checked\n", file.display()))?;
    Ok(())
}

/// Beginning of the name of a copy that is not whole yet.
const UNFINISHED: &str = ".turnwright-backup-";

/// Removes copies whose makers were killed: nobody holds their locks.
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
            tracing::warn!(path = %path.display(), %error, "what a killed backup left cannot be removed");
        }
    }
}
