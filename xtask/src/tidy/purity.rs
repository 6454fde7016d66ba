//! tw-core decides and does nothing else: no I/O, clock, randomness, async or serde derives.
//! Its tests may read their cases from files.

use toml::{Table, Value};

use super::TidyViolation;
use super::source;
use super::tree::{SourceFile, SourceTree};

const SOURCES: &str = "crates/tw-core/src/";
const MANIFEST: &str = "crates/tw-core/Cargo.toml";

/// Identifiers that no source of the crate may hold, and what each would bring in.
const WORDS: [(&str, &str); 8] = [
    ("tokio", "a runtime"),
    ("async", "async"),
    ("SystemTime", "the clock"),
    ("rand", "randomness"),
    ("getrandom", "randomness"),
    ("serde", "serde derives"),
    ("Serialize", "serde derives"),
    ("Deserialize", "serde derives"),
];

/// Paths, with no space inside.
const PATHS: [(&str, &str); 5] = [
    ("Instant::now", "the clock"),
    ("std::fs", "files"),
    ("std::net", "the network"),
    ("std::process", "other processes"),
    ("std::env", "the environment"),
];

/// Names that would say the same as [`PATHS`] from inside `use std::{…}`.
const STD_MODULES: [&str; 4] = ["fs", "net", "process", "env"];

const PACKAGES: [&str; 4] = ["tokio", "rand", "getrandom", "serde"];

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut found = Vec::new();
    for file in tree.rust_files() {
        if file.path.starts_with(SOURCES) && !file.is_test() {
            check_source(file, &mut found);
        }
    }
    if let Some(manifest) = tree.get(MANIFEST) {
        check_manifest(manifest, &mut found);
    }
    found
}

fn check_source(file: &SourceFile, found: &mut Vec<TidyViolation>) {
    for (word, brings) in WORDS {
        for line in source::lines_with_word(&file.code, word) {
            found.push(refused(file, line, word, brings));
        }
    }
    for (path, brings) in PATHS {
        for line in source::lines_with_word(&file.code, path) {
            found.push(refused(file, line, path, brings));
        }
    }
    for (start, open) in file.code.match_indices("std::{") {
        let group = &file.code[start + open.len()..];
        let group = &group[..group.find(';').unwrap_or(group.len())];
        for module in STD_MODULES {
            if source::has_word(group, module) {
                let line = source::line_of(&file.code, start);
                found.push(refused(file, line, module, "the outside world"));
            }
        }
    }
}

fn check_manifest(file: &SourceFile, found: &mut Vec<TidyViolation>) {
    // A manifest that is not TOML is reported by the check of edges.
    let Ok(manifest) = file.text.parse::<Table>() else {
        return;
    };
    let Some(Value::Table(dependencies)) = manifest.get("dependencies") else {
        return;
    };
    for package in PACKAGES {
        if dependencies.contains_key(package) {
            let line = source::lines_with_word(&file.text, package).next();
            found.push(refused(
                file,
                line.unwrap_or(1),
                package,
                "what it must not use",
            ));
        }
    }
}

fn refused(file: &SourceFile, line: usize, what: &str, brings: &str) -> TidyViolation {
    TidyViolation {
        path: file.path.clone(),
        line,
        message: format!("tw-core may not use `{what}`: it brings in {brings}"),
    }
}

#[cfg(test)]
mod tests;
