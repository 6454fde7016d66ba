//! Rules about the repository as a whole that neither the compiler nor clippy holds: one check per module.
//!
//! A check is a function from the tree to its violations; [`tree`] is the only module that touches the disk.

mod tree;

mod container;
mod counts;
mod docs;
mod edges;
mod features;
mod formats;
mod patterns;
mod purity;
mod sizes;
mod snapshots;
mod states;
mod type_names;

mod source;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use tree::SourceTree;

/// A broken rule, with the file and line where it is broken.
#[derive(Debug, PartialEq, Eq)]
pub struct TidyViolation {
    /// Path, relative to the workspace root.
    pub path: String,
    /// Line, from 1; 1 also when the whole file is meant.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for TidyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

type Check = fn(&SourceTree) -> Vec<TidyViolation>;

const CHECKS: [(&str, Check); 12] = [
    ("edges", edges::check),
    ("purity", purity::check),
    ("sizes", sizes::check),
    ("patterns", patterns::check),
    ("counts", counts::check),
    ("snapshots", snapshots::check),
    ("docs", docs::check),
    ("states", states::check),
    ("container", container::check),
    ("type names", type_names::check),
    ("formats", formats::check),
    ("features", features::check),
];

/// Prints every violation and one summary line; fails if there was any violation.
///
/// # Errors
/// The tree could not be listed or read.
pub fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let tree = SourceTree::read(root)?;
    let mut tally = Vec::new();
    let mut total = 0;
    for (name, check) in CHECKS {
        let found = check(&tree);
        for violation in &found {
            println!("{violation}");
        }
        tally.push(format!("{name} {}", found.len()));
        total += found.len();
    }
    println!(
        "tidy: {} files, {} checks, {total} violations ({})",
        tree.files.len(),
        CHECKS.len(),
        tally.join(", ")
    );
    Ok(if total == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
