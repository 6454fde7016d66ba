//! A file too long to hold in the head is split.

use super::TidyViolation;
use super::tree::SourceTree;

/// Longest Rust file, in lines. The style guide says: aim for 250, look hard at 500, split at 800.
const FILE_LINES_MAX: usize = 800;

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    tree.rust_files()
        .filter(|file| file.path.starts_with("crates/") || file.path.starts_with("xtask/"))
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(file, lines)| TidyViolation {
            path: file.path.clone(),
            line: FILE_LINES_MAX + 1,
            message: format!("{lines} lines; split at {FILE_LINES_MAX}"),
        })
        .collect()
}

#[cfg(test)]
mod tests;
