//! A public type's name stands once in the workspace, so that a search for it finds one thing.

use std::collections::BTreeMap;

use super::TidyViolation;
use super::tree::SourceTree;

const KEYWORDS: [&str; 5] = ["struct ", "enum ", "trait ", "type ", "union "];

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut first: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    let mut found = Vec::new();
    for file in tree.rust_files() {
        for (index, line) in file.code.lines().enumerate() {
            let Some(name) = public_type(line) else {
                continue;
            };
            let (path, line) = (file.path.as_str(), index + 1);
            if let Some((other, at)) = first.get(name) {
                found.push(TidyViolation {
                    path: path.to_owned(),
                    line,
                    message: format!("the type `{name}` has its name from {other}:{at}"),
                });
            } else {
                first.insert(name, (path, line));
            }
        }
    }
    found
}

/// The name of the type that a line declares for more than its own module.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(within) => within.split_once(')')?.1,
        None => rest,
    };
    // Associated types stand in traits and impls, which have no `pub` before them.
    let rest = rest.strip_prefix(' ')?;
    let name = KEYWORDS.iter().find_map(|word| rest.strip_prefix(word))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &name[..end.unwrap_or(name.len())];
    // A macro's parameter is no name yet.
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
