//! `turnwright import vapi`

use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;
use tokio::sync::mpsc;
use tw_core::imported::ToolRowNote;
use tw_core::shape::TableLayout;
use tw_egress::env::Env;
use tw_runtime::admin::key_given;
use tw_runtime::import::tools::{ToolImport, ToolImportFigures, ToolImportSettings};
use tw_runtime::metrics::DroppedLogLines;
use tw_store::foreign::{self, ForeignPlace};

use super::{BATCHES_WAITING, owner_of, source_of, store_of};
use crate::cli::ImportToolsArgs;
use crate::config::Settings;
use crate::printed;
use crate::progress;
use crate::serve::log_to_stderr;

/// Prints a line for each row that there is something to tell of, and tells on standard error how far it is.
pub async fn run(args: ImportToolsArgs) -> anyhow::Result<()> {
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    let env = Env::system();
    let of = &args.import;
    let settings = Settings::of_file(of.config.as_deref())?;
    let source = source_of(&of.source, &settings)?;
    if matches!(source, ForeignPlace::File(_)) {
        bail!("an application whose calls VAPI makes keeps its tools in PostgreSQL, not in a file");
    }
    let store = store_of(of, &settings, &env).await?;
    let key = key_given(&store, &env, &of.key).await.context("--key")?;
    let vetting = settings.vetting()?;
    let settings = ToolImportSettings {
        owner: owner_of(&store, &env, &of.key).await?,
        organization: key.organization_slug,
        vetting: &vetting,
        only: args.only,
    };
    let mut import = ToolImport::begin(&store, &env, settings).await?;
    let began = Instant::now();
    let read = take_all(source, &mut import, began).await?;
    tell(import.figures, began);
    read.with_context(|| {
        let rows = import.figures.rows;
        format!("the source ended after {rows} rows; those are imported, and the next run goes on")
    })
}

/// The outer error is of what is written, the inner one of the source.
async fn take_all(
    source: ForeignPlace,
    import: &mut ToolImport<'_>,
    began: Instant,
) -> anyhow::Result<anyhow::Result<()>> {
    let (sender, mut rows) = mpsc::channel(BATCHES_WAITING);
    let reading =
        tokio::task::spawn_blocking(move || foreign::read(&source, TableLayout::Vapi, sender));
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
    import.finish(&mut report).await?;
    Ok(read.map_err(Into::into))
}

fn report(note: &ToolRowNote) -> std::io::Result<()> {
    let mut line = json!({
        "table": note.table,
        "row": note.row,
        "problem": note.problem.as_str(),
        "done": note.problem.done(),
    });
    if !note.detail.is_empty() {
        line["detail"] = note.detail.as_str().into();
    }
    printed::print(&format!("{line}\n")).map_err(std::io::Error::other)
}

fn tell(figures: ToolImportFigures, began: Instant) {
    let per_second = progress::per_second(figures.rows, began.elapsed());
    let ToolImportFigures {
        rows,
        tools_made,
        tools_there,
        notes,
    } = figures;
    printed::complain(&format!(
        "{rows} rows, {per_second} rows/s: {tools_made} tools made, {tools_there} there before, {notes} notes\n"
    ));
}
