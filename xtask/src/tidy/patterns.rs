//! Words that may not stand in the repository: silenced lints, unfinished code, waiting tests, and one machine's own places.

use super::TidyViolation;
use super::source;
use super::tree::{SourceFile, SourceTree};

/// Patterns of Rust code and of the documentation, whose examples are copied.
const EVERYWHERE: [(&str, &str); 7] = [
    ("#[allow(", "use `#[expect(lint, reason = \"…\")]`"),
    ("#![allow(", "use `#![expect(lint, reason = \"…\")]`"),
    ("#[ignore", "a test runs or is deleted"),
    ("#[should_panic", "assert the error"),
    ("todo!(", "unfinished code"),
    ("unimplemented!(", "unfinished code"),
    ("dbg!(", "left from debugging"),
];

const SLEEPS: [&str; 3] = ["thread::sleep", "tokio::time::sleep", "time::sleep("];

/// Crates that may report errors without naming them; so may tests.
const ANYHOW_CRATES: [&str; 2] = ["turnwright", "tw-bench"];

/// Package sources other than the ordinary ones belong in a machine's own settings. In two parts, so that this file does not break its own rule.
const SOURCES: [&str; 7] = [
    concat!("registry", ".npmjs"),
    concat!("registry", ".yarnpkg"),
    concat!("source", ".crates-io"),
    concat!("replace", "-with ="),
    concat!("sparse", "+http"),
    concat!("index", "-url"),
    concat!("files", ".pythonhosted"),
];

/// Absolute folders of one machine.
const FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut found = Vec::new();
    for file in &tree.files {
        if file.is_rust() {
            check_lines(file, &file.code, &mut found);
            check_anyhow(file, &mut found);
        } else if file.path.ends_with(".md") {
            check_lines(file, &file.text, &mut found);
        }
        check_machine_words(file, &mut found);
    }
    found
}

fn check_lines(file: &SourceFile, text: &str, found: &mut Vec<TidyViolation>) {
    for (index, line) in text.lines().enumerate() {
        for (pattern, instead) in EVERYWHERE {
            if line.contains(pattern) {
                found.push(at(file, index + 1, format!("`{pattern}`: {instead}")));
            }
        }
        if line.contains("cfg_attr(") && source::has_word(line, "allow") {
            let message = "`allow` inside `cfg_attr`: use `expect`".to_owned();
            found.push(at(file, index + 1, message));
        }
        if file.is_test() && SLEEPS.iter().any(|sleep| line.contains(sleep)) {
            let message = "a test waits for an event, never for time".to_owned();
            found.push(at(file, index + 1, message));
        }
    }
}

fn check_anyhow(file: &SourceFile, found: &mut Vec<TidyViolation>) {
    let Some(name) = file.crate_name() else {
        return;
    };
    if ANYHOW_CRATES.contains(&name) || file.is_test() {
        return;
    }
    for line in source::lines_with_word(&file.code, "anyhow") {
        let message = format!("`{name}` names its errors: no anyhow");
        found.push(at(file, line, message));
    }
}

fn check_machine_words(file: &SourceFile, found: &mut Vec<TidyViolation>) {
    for (index, line) in file.text.lines().enumerate() {
        for word in SOURCES {
            if line.contains(word) {
                let message = format!("`{word}`: name packages, not where they come from");
                found.push(at(file, index + 1, message));
            }
        }
        for folder in FOLDERS {
            if has_absolute(line, folder) {
                let message = format!("`{folder}` exists on one machine only");
                found.push(at(file, index + 1, message));
            }
        }
    }
}

/// Whether `folder` stands in `line` as the beginning of a path, not as a part of a longer one or of an address.
fn has_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-})*".contains(c))
    })
}

fn at(file: &SourceFile, line: usize, message: String) -> TidyViolation {
    TidyViolation {
        path: file.path.clone(),
        line,
        message,
    }
}

#[cfg(test)]
mod tests;
