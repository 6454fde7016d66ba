//! Which tables and columns there are to copy.

use super::CopyError;

/// The table of each engine's own history, which is not copied.
pub const HISTORY: &str = "migration";

/// A table with its columns, both by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    pub columns: Vec<String>,
}

impl Table {
    /// The columns as a statement lists them.
    pub fn column_list(&self) -> String {
        let quoted: Vec<String> = self.columns.iter().map(|name| quoted(name)).collect();
        quoted.join(", ")
    }
}

/// A name as a statement of either engine has it.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Tables from rows of a table's name and a column's, which are in order.
pub fn from_pairs(pairs: Vec<(String, String)>) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for (name, column) in pairs {
        match tables.last_mut() {
            Some(last) if last.name == name => last.columns.push(column),
            Some(_) | None => tables.push(Table {
                name,
                columns: vec![column],
            }),
        }
    }
    tables
}

/// The tables that both have.
///
/// # Errors
/// `Layout` where one has a table or a column that the other has not: nothing is left out in silence.
pub fn shared(source: Vec<Table>, target: Vec<Table>) -> Result<Vec<Table>, CopyError> {
    let differing = |ours: &[Table], theirs: &[Table]| {
        let found = ours.iter().find(|table| !theirs.contains(table));
        found.map(|table| table.name.clone())
    };
    match differing(&source, &target).or_else(|| differing(&target, &source)) {
        Some(name) => Err(CopyError::Layout(name)),
        None => Ok(source),
    }
}
