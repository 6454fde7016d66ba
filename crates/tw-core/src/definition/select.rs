//! JSONPath into an answer: which paths may be used, and what they find.

use std::collections::HashMap;
use std::fmt::Display;

use serde_json::Value;
use serde_json_path::JsonPath;

use super::Select;
use crate::json::Json;
use crate::json::tree::{Order, Tree};

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 512;
/// Commas between the selectors of a path: each multiplies what can be found.
const COMMAS_MAX: usize = 3;

/// Whether a path can be followed in time that grows with the answer, and no faster.
///
/// Both the path and the answer are a tenant's, so that a path which visits nodes again and again
/// would take a core of ours from the others.
pub(super) fn check(path: &JsonPath) -> Result<(), String> {
    let written = path.to_string();
    if written.len() > PATH_BYTES_MAX {
        return Err(format!("must have at most {PATH_BYTES_MAX} bytes"));
    }
    let bare = without_strings(&written);
    if bare.matches("..").count() > 1 {
        return Err("must hold .. once at most".to_owned());
    }
    if bare.matches('$').count() > 1 {
        return Err("must not hold a second $".to_owned());
    }
    if bare.matches(',').count() > COMMAS_MAX {
        return Err(format!("must hold at most {COMMAS_MAX} commas"));
    }
    if bare.matches('?').count() > 1 {
        return Err("must hold one filter at most".to_owned());
    }
    // Their patterns are compiled for each node, and may come from the answer.
    if bare.contains("match(") || bare.contains("search(") {
        return Err("must not use match() or search()".to_owned());
    }
    Ok(())
}

/// The path with every string literal emptied.
fn without_strings(path: &str) -> String {
    let mut bare = String::with_capacity(path.len());
    let (mut quote, mut is_escaped) = (None, false);
    for c in path.chars() {
        match quote {
            None => {
                bare.push(c);
                quote = matches!(c, '\'' | '"').then_some(c);
            }
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(open) if c == open => {
                bare.push(c);
                quote = None;
            }
            Some(_) => {}
        }
    }
    bare
}

/// Whether a path can find one node at most (RFC 9535, "singular query").
fn is_singular(path: &impl Display) -> bool {
    let bare = without_strings(&path.to_string());
    !bare.contains("..") && !bare.contains(['*', '?', ':', ','])
}

pub(super) fn apply(select: &Select, text: &str) -> Option<String> {
    // Also refuses text that nests too deep to be taken apart.
    let value: Value = serde_json::from_str(text).ok()?;
    let tree = Tree::read(&Json::parse(text).ok()?)?;
    let mut written = HashMap::new();
    pair_up(&value, &tree, &mut written);
    let found = match select {
        Select::One(path) => find(path, &value, &written),
        Select::Named(paths) => Tree::Object(
            paths
                .iter()
                .map(|(name, path)| (name.clone(), find(path, &value, &written)))
                .collect(),
        ),
    };
    Some(found.write(Order::AsItIs))
}

/// Nodes of the parsed answer, by their address, with what was written there.
///
/// Following a located path instead would search an object's members for each node found.
type Written<'a> = HashMap<*const Value, &'a Tree>;

/// Both were made of one text and keep its order.
fn pair_up<'a>(value: &Value, tree: &'a Tree, written: &mut Written<'a>) {
    written.insert(value, tree);
    match (value, tree) {
        (Value::Array(values), Tree::Array(trees)) => {
            for (value, tree) in values.iter().zip(trees) {
                pair_up(value, tree, written);
            }
        }
        (Value::Object(values), Tree::Object(trees)) => {
            for (value, (_, tree)) in values.values().zip(trees) {
                pair_up(value, tree, written);
            }
        }
        (_, Tree::Scalar(_) | Tree::Text(_) | Tree::Array(_) | Tree::Object(_)) => {}
    }
}

fn find(path: &JsonPath, value: &Value, written: &Written<'_>) -> Tree {
    let found = path.query(value);
    let mut nodes = found
        .iter()
        .filter_map(|&node| written.get(&std::ptr::from_ref(node)))
        .map(|&tree| tree.clone());
    if is_singular(path) {
        return nodes.next().unwrap_or(Tree::Scalar("null".to_owned()));
    }
    Tree::Array(nodes.collect())
}
