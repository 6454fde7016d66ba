//! Checks of a data folder before a server owns it.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use tw_store::inspection::DatabaseInspection;

use crate::database::DATABASE;
use crate::serve::try_lock;

/// Least free space, in bytes, with which there is room for a write-ahead log at its limit.
pub const FREE_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// Bytes that are written to see that the disk takes something.
const TRIAL_BYTES: usize = 4096;

/// Bytes that a file in the folder may still take.
pub fn free_bytes(data: &Path) -> anyhow::Result<u64> {
    let found = rustix::fs::statvfs(data)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Checks that a server that gets the folder would come up on it, as far as that shows while
/// another one still has it. Nothing of the folder changes.
pub fn check(data: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(data)
        .with_context(|| format!("making the folder {}", data.display()))?;
    // Only whether it can be opened: whoever holds it gives it up later.
    drop(try_lock(data)?);
    let writing = || format!("writing to the folder {}", data.display());
    let mut trial = tempfile::tempfile_in(data).with_context(writing)?;
    trial
        .write_all(&[0; TRIAL_BYTES])
        .and_then(|()| trial.sync_all())
        .with_context(writing)?;
    let database = data.join(DATABASE);
    if !database.exists() {
        return Ok(());
    }
    let opening = || format!("opening {}", database.display());
    File::options()
        .write(true)
        .open(&database)
        .with_context(opening)?;
    let look = DatabaseInspection::open(&database).with_context(opening)?;
    let (found, known) = look.schema().with_context(opening)?;
    let free = free_bytes(data)?;
    if found < known && free < FREE_BYTES_MIN {
        bail!(
            "bringing the database from schema {found} to {known} needs {FREE_BYTES_MIN} bytes of the disk, and {free} are free"
        );
    }
    Ok(())
}
