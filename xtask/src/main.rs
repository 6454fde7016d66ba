//! Repository chores: `cargo xtask tidy`.
//!
//! Depends on none of our crates, so that it builds while they do not.

mod tidy;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

const USAGE: &str = "usage: cargo xtask tidy";

fn main() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(&workspace_root()?),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("{USAGE}"),
    }
}

/// The folder above this package. Read when run, not when built, because one target folder may serve several checkouts.
fn workspace_root() -> anyhow::Result<PathBuf> {
    let package = env::var("CARGO_MANIFEST_DIR")
        .context("CARGO_MANIFEST_DIR is not set: start this through cargo")?;
    let root = PathBuf::from(&package)
        .parent()
        .map(PathBuf::from)
        .with_context(|| format!("{package} has no parent folder"))?;
    Ok(root)
}
