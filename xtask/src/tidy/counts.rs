//! Cases that must exist: rows of bad input, and one test per known oddity of upstreams and clients.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::TidyViolation;
use super::source;
use super::tree::{SourceFile, SourceTree};

const BAD_INPUT: &str = "testdata/bad_input.toml";

/// Fewest `[[row]]` entries of the table of bad input.
const BAD_INPUT_ROWS_MIN: usize = 32;

/// Path at which a missing test is reported: no file holds what does not exist.
const QUIRKS_PLACE: &str = "crates";

const QUIRK_PREFIX: &str = "fn quirk_";

/// Numbers of the oddities that a test must name, `quirk_NN_what_it_is`.
fn quirks_required() -> BTreeSet<u32> {
    (1..=28).chain([30, 31]).chain(33..=37).collect()
}

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut found = Vec::new();
    if let Err(message) = bad_input(tree) {
        found.push(at(BAD_INPUT, message));
    }
    let present = quirks_present(tree);
    let missing: Vec<String> = quirks_required()
        .difference(&present)
        .map(ToString::to_string)
        .collect();
    if !missing.is_empty() {
        let message = format!("no test `quirk_NN_…` for {}", missing.join(", "));
        found.push(at(QUIRKS_PLACE, message));
    }
    found
}

fn bad_input(tree: &SourceTree) -> Result<(), String> {
    let file = tree.get(BAD_INPUT).ok_or("missing")?;
    let table: Table = file
        .text
        .parse()
        .map_err(|error: toml::de::Error| format!("not TOML: {}", error.message()))?;
    let rows = table
        .get("row")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    if rows < BAD_INPUT_ROWS_MIN {
        return Err(format!("{rows} rows, at least {BAD_INPUT_ROWS_MIN} wanted"));
    }
    Ok(())
}

fn quirks_present(tree: &SourceTree) -> BTreeSet<u32> {
    tree.rust_files()
        .filter(|file| file.crate_name().is_some())
        .flat_map(quirks_in)
        .collect()
}

/// A function of that name counts only if it is a test.
fn quirks_in(file: &SourceFile) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut attributes = String::new();
    for line in file.code.lines().map(str::trim) {
        if let Some((_, name)) = line.split_once(QUIRK_PREFIX) {
            let number = name
                .split_once('_')
                .and_then(|(n, _)| n.parse::<u32>().ok());
            if source::has_word(&attributes, "test") {
                numbers.extend(number);
            }
            attributes.clear();
        } else if line.starts_with("#[") {
            attributes.push_str(line);
        } else if !line.is_empty() {
            attributes.clear();
        }
    }
    numbers
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
