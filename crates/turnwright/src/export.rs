//! `turnwright export`

use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use anyhow::{Context, bail};
use tw_core::id::OrgId;
use tw_core::shape::{Shape, TableLayout};
use tw_egress::env::Env;
use tw_runtime::export::{self, ExportFigures};
use tw_runtime::metrics::DroppedLogLines;
use tw_store::foreign::ForeignPlace;
use tw_store::foreign::export::{ExportItem, write};
use tw_store::store::Store;
use tw_store::system;

use crate::cli::{ExportArgs, ExportCommand};
use crate::config::Settings;
use crate::database::DatabasePlace;
use crate::new_file::UnfinishedFile;
use crate::printed;
use crate::progress;
use crate::serve::log_to_stderr;

/// Rows, and bytes of them, that are sent together from who reads to who writes.
const ROWS_TOGETHER: usize = 256;
const BYTES_TOGETHER: usize = 1024 * 1024;
/// Of these, how many may wait; one row may be megabytes.
const SENDS_WAITING: usize = 4;

/// Prints how many rows were written.
pub async fn run(command: ExportCommand) -> anyhow::Result<()> {
    let (layout, args) = match command {
        ExportCommand::Langchain(args) => (TableLayout::Record(Shape::LangChain), args),
        ExportCommand::Openai(args) => (TableLayout::Record(Shape::OpenAi), args),
        ExportCommand::Blocks(args) => (TableLayout::Record(Shape::Blocks), args),
        ExportCommand::Pocketbase(args) => (TableLayout::Record(Shape::PocketBase), args),
        ExportCommand::Vapi(args) => (TableLayout::Vapi, args),
    };
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    let env = Env::system();
    let settings = Settings::of_file(args.config.as_deref())?;
    let store = store_of(&args, &settings, &env).await?;
    let found = system::organization_by_slug(&store, &args.organization).await?;
    let organization =
        found.with_context(|| format!("there is no organization {}", args.organization))?;
    let tables = export::layout(&store, organization, layout).await?;
    let target = ExportTarget::of(&args.target, &settings)?;
    let began = Instant::now();
    let place = target.place();
    let (sender, items) = sync_channel(SENDS_WAITING);
    let writing = tokio::task::spawn_blocking(move || write(&place, &tables, &items));
    let read = read(&store, organization, layout, sender).await;
    // What hindered the writing is why the reading ended early.
    let rows = writing.await??;
    let figures = read?;
    target.finish()?;
    let per_second = progress::per_second(rows, began.elapsed());
    printed::print(&format!("{rows} rows, {per_second} rows/s\n"))?;
    if figures.turns_left > 0 {
        printed::complain(&format!(
            "{} turns are not of this application and were left out\n",
            figures.turns_left
        ));
    }
    Ok(())
}

async fn read(
    store: &Store,
    organization: OrgId,
    layout: TableLayout,
    sender: SyncSender<Vec<ExportItem>>,
) -> anyhow::Result<ExportFigures> {
    let mut told = Instant::now();
    let (mut waiting, mut bytes) = (Vec::new(), 0);
    let mut take = move |item, figures: ExportFigures| {
        if told.elapsed() >= progress::TELLS {
            told = Instant::now();
            printed::complain(&format!("{} rows\n", figures.rows));
        }
        let is_end = match &item {
            ExportItem::Row { json, .. } => {
                bytes += json.len();
                false
            }
            ExportItem::End => true,
        };
        waiting.push(item);
        if !is_end && waiting.len() < ROWS_TOGETHER && bytes < BYTES_TOGETHER {
            return true;
        }
        bytes = 0;
        let sent = std::mem::take(&mut waiting);
        // There are other threads for what else runs here.
        tokio::task::block_in_place(|| sender.send(sent)).is_ok()
    };
    Ok(export::rows(store, organization, layout, &mut take).await?)
}

/// What is written. A new file has its name only when it is whole.
enum ExportTarget {
    New(UnfinishedFile),
    There(ForeignPlace),
}

impl ExportTarget {
    fn of(target: &str, settings: &Settings) -> anyhow::Result<Self> {
        match DatabasePlace::named(target, settings)? {
            DatabasePlace::Server(server) => Ok(Self::There(server.as_foreign())),
            DatabasePlace::Folder(path) if path.is_dir() => {
                bail!("{} is a folder; a file is to be named", path.display())
            }
            DatabasePlace::Folder(path) if path.exists() => {
                Ok(Self::There(ForeignPlace::File(path)))
            }
            DatabasePlace::Folder(path) => UnfinishedFile::beside(&path).map(Self::New),
        }
    }

    fn place(&self) -> ForeignPlace {
        let path = |file: &UnfinishedFile| Path::to_owned(file.path());
        match self {
            Self::New(file) => ForeignPlace::File(path(file)),
            Self::There(place) => place.clone(),
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::New(file) => file.finish().map(drop),
            Self::There(_) => Ok(()),
        }
    }
}

async fn store_of(args: &ExportArgs, settings: &Settings, env: &Env) -> anyhow::Result<Store> {
    let data = args.data.clone().unwrap_or(settings.server.data.clone());
    let place = DatabasePlace::of(&args.store, settings, &data)?;
    let found = place.open_existing(env).await?;
    found.with_context(|| format!("there is no database in {place}"))
}
