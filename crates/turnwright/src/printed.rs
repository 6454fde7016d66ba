//! Output of the commands.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

use anyhow::Context;

/// A table: rows below a head, in columns that are as wide as what is in them.
pub fn table<const COLUMNS: usize>(head: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    let head = head.map(str::to_owned);
    let rows: Vec<&[String; COLUMNS]> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| width(column).unwrap_or_default());
    let line = |row: &&[String; COLUMNS]| {
        let cells = row.iter().zip(widths);
        let padded: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Prints what a command was asked for. That nobody reads it any more, as behind `| head`, is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let printed = stdout
        .write_all(harmless(text).as_bytes())
        .and_then(|()| stdout.flush());
    match printed {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("printing"),
    }
}

/// Says something on standard output that nobody need hear.
pub fn say(text: Arguments<'_>) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_fmt(text).and_then(|()| stdout.flush());
}

/// Says something on standard error, if it can.
pub fn complain(text: &str) {
    let _ = std::io::stderr().write_all(harmless(text).as_bytes());
}

/// The text without what would steer a terminal: names and texts are not all the operator's own.
pub fn harmless(text: &str) -> String {
    text.replace(
        |c: char| c.is_control() && c != '\n',
        char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]),
    )
}
