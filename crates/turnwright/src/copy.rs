//! `turnwright copy`

use std::fs::File;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tw_egress::env::Env;
use tw_runtime::metrics::DroppedLogLines;
use tw_store::copy::{CopyPlace, CopyProgress, CopyReport, copy};

use crate::cli::CopyArgs;
use crate::config::Settings;
use crate::database::{DATABASE, DatabasePlace};
use crate::new_file::UnfinishedFile;
use crate::printed;
use crate::progress;
use crate::serve::{log_to_stderr, try_lock};

/// Prints each table with its rows and checksum, and how many rows a second that were.
pub async fn run(args: CopyArgs) -> anyhow::Result<()> {
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    let settings = Settings::of_file(args.config.as_deref())?;
    let from = Source::of(DatabasePlace::named(&args.from, &settings)?)?;
    let to = Target::of(DatabasePlace::named(&args.to, &settings)?)?;
    let now = Env::system().now();
    let copying = move || {
        let began = Instant::now();
        let mut progress = Progress::new();
        let report = copy(&from.place, &to.place(), now, &mut |seen| {
            progress.tell(seen);
        })?;
        progress.end();
        to.finish()?;
        anyhow::Ok((report, began.elapsed()))
    };
    // It has a runtime of its own.
    let (report, took) = tokio::task::spawn_blocking(copying).await??;
    print(&report, took)
}

/// What is read, and the lock that keeps servers away from it.
struct Source {
    place: CopyPlace,
    _lock: Option<File>,
}

impl Source {
    fn of(named: DatabasePlace) -> anyhow::Result<Self> {
        let path = match named {
            DatabasePlace::Server(server) => {
                let place = server.as_copied();
                return Ok(Self { place, _lock: None });
            }
            DatabasePlace::Folder(path) => path,
        };
        // A file that stands by itself, as a backup does, is served by nobody.
        if path.is_file() && path.file_name().is_none_or(|name| name != DATABASE) {
            let place = CopyPlace::File(path);
            return Ok(Self { place, _lock: None });
        }
        let folder = folder_of(path);
        let file = folder.join(DATABASE);
        if !file.exists() {
            bail!("there is no database in {}", folder.display());
        }
        let lock = lock(&folder)?;
        Ok(Self {
            place: CopyPlace::File(file),
            _lock: Some(lock),
        })
    }
}

/// What is written. A file has its name only when it is whole.
enum Target {
    Folder { file: UnfinishedFile, _lock: File },
    Server(CopyPlace),
}

impl Target {
    fn of(named: DatabasePlace) -> anyhow::Result<Self> {
        let folder = match named {
            DatabasePlace::Server(server) => return Ok(Self::Server(server.as_copied())),
            DatabasePlace::Folder(path) => folder_of(path),
        };
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("making the folder {}", folder.display()))?;
        let lock = lock(&folder)?;
        let file = UnfinishedFile::beside(&folder.join(DATABASE))?;
        Ok(Self::Folder { file, _lock: lock })
    }

    fn place(&self) -> CopyPlace {
        match self {
            Self::Folder { file, .. } => CopyPlace::File(file.path().to_owned()),
            Self::Server(place) => place.clone(),
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Folder { file, _lock } => file.finish().map(drop),
            Self::Server(_) => Ok(()),
        }
    }
}

/// The folder that is named, or that of the database's file.
fn folder_of(path: PathBuf) -> PathBuf {
    match path.parent() {
        Some(folder) if path.file_name().is_some_and(|name| name == DATABASE) => folder.to_owned(),
        Some(_) | None => path,
    }
}

fn lock(folder: &std::path::Path) -> anyhow::Result<File> {
    match try_lock(folder)? {
        Some(locked) => Ok(locked),
        None => bail!("a server runs on the folder {}", folder.display()),
    }
}

/// Tells on standard error how far it is, where somebody may look on.
struct Progress {
    is_seen: bool,
    began: Instant,
    told: Instant,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            is_seen: std::io::stderr().is_terminal(),
            began: now,
            told: now,
        }
    }

    fn tell(&mut self, seen: CopyProgress<'_>) {
        if !self.is_seen || self.told.elapsed() < progress::TELLS {
            return;
        }
        self.told = Instant::now();
        let CopyProgress { table, rows } = seen;
        let per_second = progress::per_second(rows, self.began.elapsed());
        printed::complain(&format!("{rows} rows, {per_second} rows/s, now {table}\n"));
    }

    fn end(&self) {
        if self.is_seen {
            printed::complain("read again and checked\n");
        }
    }
}

fn print(report: &CopyReport, took: Duration) -> anyhow::Result<()> {
    let row =
        |name: &str, rows: u64, checksum: String| [name.to_owned(), rows.to_string(), checksum];
    let tables = report.tables.iter();
    let rows: Vec<[String; 3]> = tables
        .map(|table| {
            row(
                &table.name,
                table.sum.rows,
                format!("{:032x}", table.sum.checksum),
            )
        })
        .collect();
    printed::print(&printed::table(["TABLE", "ROWS", "CHECKSUM"], &rows))?;
    let total: u64 = report.tables.iter().map(|table| table.sum.rows).sum();
    if report.texts_changed > 0 {
        let count = report.texts_changed;
        printed::print(&format!("{count} texts held NUL, which is U+FFFD now\n"))?;
    }
    let per_second = progress::per_second(total, took);
    printed::print(&format!(
        "{total} rows copied and checked, {per_second} rows/s\n"
    ))
}
