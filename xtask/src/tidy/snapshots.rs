//! Snapshots: every one belongs to a test that still exists, and none waits for review.

use super::TidyViolation;
use super::tree::{SourceFile, SourceTree};

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut found = Vec::new();
    for path in &tree.pending_snapshots {
        found.push(at(path, "a snapshot waits for review".to_owned()));
    }
    for file in tree
        .files
        .iter()
        .filter(|file| file.path.ends_with(".snap"))
    {
        if let Err(message) = belongs(tree, file) {
            found.push(at(&file.path, message));
        }
    }
    found
}

fn belongs(tree: &SourceTree, snapshot: &SourceFile) -> Result<(), String> {
    let recorded = source_of(&snapshot.text).ok_or("records no `source:`")?;
    let test = tree
        .get(recorded)
        .ok_or_else(|| format!("its test file {recorded} does not exist"))?;
    let name = name_of(&snapshot.path);
    if test.text.contains(name) || names_a_case(tree, name) {
        return Ok(());
    }
    Err(format!("{recorded} has no test or snapshot named `{name}`"))
}

/// The header's `source:`, which is relative to the workspace root.
fn source_of(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    if lines.next()? != "---" {
        return None;
    }
    lines
        .take_while(|line| *line != "---")
        .find_map(|line| line.strip_prefix("source:"))
        .map(|value| value.trim().trim_matches('"'))
}

/// The last part of `module__path__name@suffix-2.snap`: the test's own name, or the one it gave.
fn name_of(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.strip_suffix(".snap").unwrap_or(file);
    let name = stem.rsplit("__").next().unwrap_or(stem);
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    match name.rsplit_once('-') {
        Some((name, digits)) if digits.chars().all(|c| c.is_ascii_digit()) => name,
        _ => name,
    }
}

/// A test driven by data names its snapshots after its case: a folder, or a file without its ending.
fn names_a_case(tree: &SourceTree, name: &str) -> bool {
    tree.files
        .iter()
        .filter(|file| !file.path.ends_with(".snap"))
        .flat_map(|file| file.path.split('/'))
        .any(|part| part == name || part.rsplit_once('.').is_some_and(|(stem, _)| stem == name))
}

fn at(path: &str, message: String) -> TidyViolation {
    TidyViolation {
        path: path.to_owned(),
        line: 1,
        message,
    }
}

#[cfg(test)]
mod tests;
