//! `turnwright import`

mod tools;

use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;
use tokio::sync::mpsc;
use tw_core::imported::RepairedRow;
use tw_core::shape::{Shape, TableLayout};
use tw_egress::env::Env;
use tw_runtime::admin::key_given;
use tw_runtime::import::{ImportFigures, ImportOwner, MessageImport, SourceEnd};
use tw_runtime::metrics::DroppedLogLines;
use tw_store::foreign::{self, ForeignPlace};
use tw_store::store::Store;
use tw_store::system;

use crate::cli::{ImportArgs, ImportCommand};
use crate::config::Settings;
use crate::database::DatabasePlace;
use crate::printed;
use crate::progress;
use crate::serve::log_to_stderr;

/// Batches of rows that may wait between who reads and who writes; each may be megabytes.
const BATCHES_WAITING: usize = 4;

/// Prints a line for each row that had to be repaired, and tells on standard error how far it is.
pub async fn run(command: ImportCommand) -> anyhow::Result<()> {
    let (shape, args) = match command {
        ImportCommand::Langchain(args) => (Shape::LangChain, args),
        ImportCommand::Openai(args) => (Shape::OpenAi, args),
        ImportCommand::Blocks(args) => (Shape::Blocks, args),
        ImportCommand::Pocketbase(args) => (Shape::PocketBase, args),
        ImportCommand::Vapi(args) => return tools::run(args).await,
    };
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    let env = Env::system();
    let settings = Settings::of_file(args.config.as_deref())?;
    let source = source_of(&args.source, &settings)?;
    if shape == Shape::PocketBase && matches!(source, ForeignPlace::Server { .. }) {
        bail!("PocketBase keeps its record in a file, pb_data/data.db");
    }
    let store = store_of(&args, &settings, &env).await?;
    let owner = owner_of(&store, &env, &args.key).await?;
    let mut import = MessageImport::new(&store, &env, owner, shape);
    let began = Instant::now();
    let read = take_all(source, shape, &mut import, began).await?;
    tell(import.figures, began);
    read.with_context(|| {
        let rows = import.figures.rows;
        format!("the source ended after {rows} rows; what was whole is imported, and the next run goes on")
    })
}

/// The file or the database that the source is.
fn source_of(source: &str, settings: &Settings) -> anyhow::Result<ForeignPlace> {
    match DatabasePlace::named(source, settings)? {
        DatabasePlace::Server(server) => Ok(server.as_foreign()),
        DatabasePlace::Folder(path) if path.is_file() => Ok(ForeignPlace::File(path)),
        DatabasePlace::Folder(path) => bail!(
            "there is no file {}; the source is a SQLite file, or a URL as postgres://user:password@host:port/database",
            path.display()
        ),
    }
}

/// The outer error is of what is written, the inner one of the source.
async fn take_all(
    source: ForeignPlace,
    shape: Shape,
    import: &mut MessageImport<'_>,
    began: Instant,
) -> anyhow::Result<anyhow::Result<()>> {
    let (sender, mut rows) = mpsc::channel(BATCHES_WAITING);
    let reading = tokio::task::spawn_blocking(move || {
        foreign::read(&source, TableLayout::Record(shape), sender)
    });
    let mut told = Instant::now();
    while let Some(rows) = rows.recv().await {
        for row in rows {
            import.take(row, &mut report).await?;
        }
        if told.elapsed() >= progress::TELLS {
            told = Instant::now();
            tell(import.figures, began);
        }
    }
    let read = reading.await?;
    let end = match &read {
        Ok(()) => SourceEnd::Whole,
        Err(_) => SourceEnd::Early,
    };
    import.finish(end, &mut report).await?;
    Ok(read.map_err(Into::into))
}

fn report(row: &RepairedRow, whole: Option<&str>) -> std::io::Result<()> {
    let mut line = json!({
        "conversation": row.conversation,
        "row": row.row,
        "problem": row.repair.as_str(),
        "done": row.repair.done(),
    });
    if let Some(whole) = whole {
        line["content"] = whole.into();
    }
    printed::print(&format!("{line}\n")).map_err(std::io::Error::other)
}

fn tell(figures: ImportFigures, began: Instant) {
    let per_second = progress::per_second(figures.rows, began.elapsed());
    let ImportFigures {
        rows,
        turns_written,
        turns_there,
        rows_beside,
        repairs,
    } = figures;
    printed::complain(&format!(
        "{rows} rows, {per_second} rows/s: {turns_written} turns written, {turns_there} there before, {rows_beside} rows beside, {repairs} repairs\n"
    ));
}

async fn store_of(args: &ImportArgs, settings: &Settings, env: &Env) -> anyhow::Result<Store> {
    let data = args.data.clone().unwrap_or(settings.server.data.clone());
    let place = DatabasePlace::of(&args.store, settings, &data)?;
    let found = place.open_existing_to_fill(env).await?;
    found.with_context(|| format!("there is no database in {place}"))
}

async fn owner_of(store: &Store, env: &Env, key: &str) -> anyhow::Result<ImportOwner> {
    let key = key_given(store, env, key).await.context("--key")?;
    let found = system::organization_by_slug(store, &key.organization_slug).await?;
    Ok(ImportOwner {
        organization: found.context("the key's organization is gone")?,
        api_key: key.id,
    })
}
