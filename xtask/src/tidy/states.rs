//! The diagrams of states in ARCHITECTURE.md say what the code does: the same states, and each move with the function
//! that makes it.
//!
//! A diagram names its enum in a comment, `%% Phase in crates/tw-core/src/turn.rs`. Its nodes are the variants. An
//! edge's label lists the functions, of that file or its folder, in which the state that it leads to is made.

use std::collections::BTreeSet;

use super::TidyViolation;
use super::tree::{SourceFile, SourceTree};

const PAGE: &str = "ARCHITECTURE.md";
const FENCE: &str = "```mermaid";

pub fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    let Some(page) = tree.get(PAGE) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for diagram in diagrams(&page.text) {
        check_diagram(tree, &diagram, &mut found);
    }
    found
}

/// A diagram of the page.
#[derive(Debug, Default)]
struct Diagram {
    /// Line of its fence, from 1.
    line: usize,
    enum_name: String,
    enum_file: String,
    edges: Vec<Edge>,
}

#[derive(Debug)]
struct Edge {
    line: usize,
    from: String,
    to: String,
    functions: Vec<String>,
}

fn diagrams(text: &str) -> Vec<Diagram> {
    let mut found = Vec::new();
    let mut open: Option<Diagram> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line == FENCE {
            open = Some(Diagram {
                line: index + 1,
                ..Diagram::default()
            });
        } else if line == "```" {
            found.extend(open.take());
        } else if let Some(diagram) = &mut open {
            read_line(diagram, line, index + 1);
        }
    }
    found
}

fn read_line(diagram: &mut Diagram, line: &str, number: usize) {
    if let Some((name, file)) = line
        .strip_prefix("%% ")
        .and_then(|it| it.split_once(" in "))
    {
        diagram.enum_name = name.to_owned();
        diagram.enum_file = file.to_owned();
        return;
    }
    let Some((from, rest)) = line.split_once(" --> ") else {
        return;
    };
    let (to, label) = rest.split_once(" : ").unwrap_or((rest, ""));
    let functions = label.split(',').map(|name| name.trim().to_owned());
    diagram.edges.push(Edge {
        line: number,
        from: from.trim().to_owned(),
        to: to.trim().to_owned(),
        functions: functions.filter(|name| !name.is_empty()).collect(),
    });
}

fn check_diagram(tree: &SourceTree, diagram: &Diagram, found: &mut Vec<TidyViolation>) {
    let mut tell = |line: usize, message: String| {
        found.push(TidyViolation {
            path: PAGE.to_owned(),
            line,
            message,
        });
    };
    let name = &diagram.enum_name;
    let file = tree.get(&diagram.enum_file);
    let Some(variants) = file.and_then(|file| variants(&file.code, name)) else {
        let message = "the diagram names no enum of the code: `%% ENUM in FILE`".to_owned();
        tell(diagram.line, message);
        return;
    };
    let ends = diagram.edges.iter().flat_map(|edge| [&edge.from, &edge.to]);
    let nodes: BTreeSet<&str> = ends.map(String::as_str).filter(|it| *it != "[*]").collect();
    let variants: BTreeSet<&str> = variants.iter().map(String::as_str).collect();
    for node in nodes.difference(&variants) {
        tell(diagram.line, format!("`{name}` has no `{node}`"));
    }
    for variant in variants.difference(&nodes) {
        tell(diagram.line, format!("`{name}::{variant}` is missing"));
    }
    let made = made_in(tree, diagram);
    let mut told: BTreeSet<(&str, &str)> = BTreeSet::new();
    for edge in diagram.edges.iter().filter(|edge| edge.to != "[*]") {
        for function in &edge.functions {
            told.insert((function, &edge.to));
            if !made.contains(&(function.clone(), edge.to.clone())) {
                let message = format!("`{function}` makes no `{name}::{}`", edge.to);
                tell(edge.line, message);
            }
        }
        if edge.functions.is_empty() {
            tell(edge.line, "the edge names no function".to_owned());
        }
    }
    for (function, state) in &made {
        if !told.contains(&(function.as_str(), state.as_str())) {
            let message = format!("no edge says that `{function}` makes `{name}::{state}`");
            tell(diagram.line, message);
        }
    }
}

/// The variants of an enum, from its code as rustfmt writes it.
fn variants(code: &str, name: &str) -> Option<Vec<String>> {
    let opening = format!("enum {name} {{");
    let mut lines = code.lines().skip_while(|line| !line.ends_with(&opening));
    lines.next()?;
    let body = lines.take_while(|line| *line != "}");
    let variants = body.filter_map(|line| {
        let rest = line.strip_prefix("    ")?;
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
        word.starts_with(|c: char| c.is_ascii_uppercase())
            .then_some(word)
    });
    Some(variants.collect())
}

/// The functions that make each state: `state = Enum::X`, a field `state: Enum::X`, or an arm or a line that gives it.
fn made_in(tree: &SourceTree, diagram: &Diagram) -> BTreeSet<(String, String)> {
    let folder = format!("{}/", diagram.enum_file.trim_end_matches(".rs"));
    let files = tree
        .rust_files()
        .filter(|file| file.path == diagram.enum_file || file.path.starts_with(&folder))
        .filter(|file| !file.is_test());
    files.flat_map(|file| made_in_file(file, diagram)).collect()
}

fn made_in_file(file: &SourceFile, diagram: &Diagram) -> Vec<(String, String)> {
    let opening = format!("{}::", diagram.enum_name);
    let mut function = String::new();
    let mut made = Vec::new();
    for line in file.code.lines() {
        if let Some((_, rest)) = line.split_once("fn ") {
            function = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
        }
        let Some((before, after)) = line.split_once(&opening) else {
            continue;
        };
        let before = before.trim();
        let gives = before.ends_with("=>")
            || before.ends_with(" =") && !before.starts_with("let") && !before.contains("if let")
            || before.ends_with(':')
            || before.is_empty() && !is_pattern(after);
        if gives {
            let state: String = after.chars().take_while(|c| c.is_alphanumeric()).collect();
            made.push((function.clone(), state));
        }
    }
    made
}

/// Whether what follows at the start of a line is an arm of a `match` and not a value.
fn is_pattern(after: &str) -> bool {
    after.contains("=>") || after.contains(" .. }") || after.trim_end().ends_with("{ .. }")
}

#[cfg(test)]
mod tests;
