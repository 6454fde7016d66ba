//! `turnwright backup`

use anyhow::bail;
use tw_store::backup::back_up;

use crate::cli::BackupArgs;
use crate::config::Settings;
use crate::database::{DATABASE, DatabasePlace};
use crate::new_file::UnfinishedFile;
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
    let copy = UnfinishedFile::beside(file)?;
    back_up(&database, copy.path())?;
    let bytes = copy.finish()?;
    printed::print(&format!("{}: {bytes} bytes, checked\n", file.display()))?;
    Ok(())
}
