//! Links between pages: one that nothing links to is a page that nobody reads.

use std::collections::BTreeSet;

use super::TidyViolation;
use super::tree::{SourceFile, SourceTree};

/// The pages from which every other must be one click away.
const INDEXES: [&str; 3] = ["README.md", "docs/README.md", DECISIONS];

/// Index of the pages for those who change the code; the page of the map links to it.
const DECISIONS: &str = "docs/decisions/README.md";

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let linked: BTreeSet<String> = INDEXES
        .iter()
        .filter_map(|path| tree.get(path))
        .flat_map(links)
        .collect();
    tree.files
        .iter()
        .filter(|file| file.path.starts_with("docs/") && file.path.ends_with(".md"))
        .filter(|file| file.path != DECISIONS && !is_linked(&linked, &file.path))
        .map(|file| TidyViolation {
            path: file.path.clone(),
            line: 1,
            message: format!("linked from none of {}", INDEXES.join(", ")),
        })
        .collect()
}

/// A link to a folder shows its README.md.
fn is_linked(linked: &BTreeSet<String>, path: &str) -> bool {
    let folder = path.strip_suffix("/README.md");
    linked.contains(path) || folder.is_some_and(|folder| linked.contains(folder))
}

/// Targets of `[text](target)` and `[label]: target`, relative to the workspace root.
fn links(page: &SourceFile) -> Vec<String> {
    let inline = page.text.split("](").skip(1).filter_map(|rest| {
        let end = rest.find([')', ' ', '\n'])?;
        Some(&rest[..end])
    });
    let labelled = page.text.lines().filter_map(|line| {
        let (_, target) = line.strip_prefix('[')?.split_once("]: ")?;
        target.split_whitespace().next()
    });
    inline
        .chain(labelled)
        .map(|target| resolve(&page.path, target))
        .collect()
}

fn resolve(page: &str, target: &str) -> String {
    let target = target.split('#').next().unwrap_or(target);
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests;
