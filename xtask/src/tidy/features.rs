//! The table of what becomes of each feature of a format: every row has every cell.

use std::collections::BTreeSet;

use toml::Value;

use super::TidyViolation;
use super::tree::SourceTree;

const TABLE: &str = "testdata/features.toml";
const FORMATS: [&str; 3] = ["chat", "messages", "responses"];
/// Words of cells that stand alone, and those that names follow.
const ALONE: [&str; 3] = ["carried", "here", "none"];
const NAMING: [&str; 3] = ["changed", "reported", "refused"];

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let Some(file) = tree.get(TABLE) else {
        return Vec::new();
    };
    let violation = |line, message| TidyViolation {
        path: TABLE.to_owned(),
        line,
        message,
    };
    let table: Value = match file.text.parse::<toml::Table>() {
        Ok(table) => Value::Table(table),
        Err(error) => return vec![violation(1, error.message().to_owned())],
    };
    let rows = table.get("feature").and_then(Value::as_array);
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for row in rows.into_iter().flatten() {
        let name = row.get("name").and_then(Value::as_str).unwrap_or_default();
        let line = line_of(&file.text, name);
        if name.is_empty() || !names.insert(name.to_owned()) {
            found.push(violation(
                line,
                format!("a row needs a name of its own: '{name}'"),
            ));
        }
        for message in missing(row) {
            found.push(violation(line, format!("'{name}': {message}")));
        }
    }
    if names.is_empty() {
        found.push(violation(1, "no rows".to_owned()));
    }
    found
}

fn line_of(text: &str, name: &str) -> usize {
    let wanted = format!("name = \"{name}\"");
    let at = text.lines().position(|line| line == wanted);
    at.map_or(1, |at| at + 1)
}

fn missing(row: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for from in FORMATS {
        let cells = row.get("from").and_then(|cells| cells.get(from));
        let cells = cells
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        if cells.len() != FORMATS.len() {
            found.push(format!(
                "from.{from} has {} cells of {}",
                cells.len(),
                FORMATS.len()
            ));
        }
        let has_fragment = row.get(from).is_some();
        for (cell, to) in cells.iter().zip(FORMATS) {
            let cell = cell.as_str().unwrap_or_default();
            if !is_cell(cell) {
                found.push(format!("{from} to {to} is no cell: '{cell}'"));
            } else if has_fragment == (cell == "none") {
                found.push(format!(
                    "{from} to {to} is '{cell}', and a fragment is {}",
                    if has_fragment { "there" } else { "missing" }
                ));
            }
        }
    }
    found
}

fn is_cell(cell: &str) -> bool {
    let head = cell.split(": ").next().unwrap_or_default();
    let mut words = head.split(' ');
    let word = words.next().unwrap_or_default();
    let names = words.filter(|name| !name.is_empty()).count();
    (ALONE.contains(&word) && names == 0) || (NAMING.contains(&word) && names > 0)
}

#[cfg(test)]
mod tests;
