//! JSONPath into an answer: which paths may be used, and what they find.

use std::collections::HashMap;
use std::fmt::Display;

use serde_json::Value;
use serde_json_path::JsonPath;

use super::ResponseSelect;
use crate::json::bounded::{BoundedText, TextFull};
use crate::json::tree::{JsonTree, MemberOrder};
use crate::json::{Json, depth, values};
use crate::limits::JSON_DEPTH_DEFAULT;
use crate::tool::SelectedAnswer;

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 512;
/// Commas between the selectors of a path: each multiplies what can be found.
const COMMAS_MAX: usize = 3;
/// `@`s in a path's filter: what each stands for is looked through again for every node.
const CURRENT_NODES_MAX: usize = 4;
/// Values of an answer that is selected from; in memory each takes some 200 bytes.
const ANSWER_VALUES_MAX: usize = 200_000;

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
    if bare.contains("..") && bare.contains(',') {
        return Err("must not hold a comma beside ..".to_owned());
    }
    if bare.matches('@').count() > CURRENT_NODES_MAX {
        return Err(format!("must hold at most {CURRENT_NODES_MAX} @"));
    }
    if bare.matches('?').count() > 1 {
        return Err("must hold one filter at most".to_owned());
    }
    // Their patterns are compiled for each node, and may come from the answer.
    if bare.contains("match(") || bare.contains("search(") {
        return Err("must not use match() or search()".to_owned());
    }
    if has_wide_list(&bare) {
        return Err("must not hold *, a slice or a filter beside a comma".to_owned());
    }
    Ok(())
}

/// Whether a selector that finds any number of nodes stands between brackets with another one,
/// which may find the same ones.
fn has_wide_list(bare: &str) -> bool {
    let mut open: Vec<(bool, bool)> = Vec::new();
    for c in bare.chars() {
        if c == '[' {
            open.push((false, false));
        } else if c == ']' && open.pop() == Some((true, true)) {
            return true;
        } else if let Some((has_comma, is_wide)) = open.last_mut() {
            *has_comma |= c == ',';
            *is_wide |= matches!(c, '*' | ':' | '?');
        }
    }
    false
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
pub(super) fn is_singular(path: &impl Display) -> bool {
    let bare = without_strings(&path.to_string());
    !bare.contains("..") && !bare.contains(['*', '?', ':', ','])
}

/// The answer's nodes that the paths find, as JSON text; `None` when the text is no JSON, or more
/// of it than is taken apart.
///
/// No more than `bytes_max` bytes are written, however much the paths find.
pub(super) fn apply(
    select: &ResponseSelect,
    text: &str,
    bytes_max: usize,
) -> Option<SelectedAnswer> {
    let value = parse(text)?;
    let tree = JsonTree::read(&Json::parse(text).ok()?)?;
    let mut nodes = HashMap::new();
    pair_up(&value, &tree, &mut nodes);
    let answer = Answer {
        value: &value,
        nodes,
    };
    let mut out = BoundedText::new(bytes_max);
    let written = match select {
        ResponseSelect::One(path) => answer.write(path, &mut out),
        ResponseSelect::Named(paths) => answer.write_named(paths, &mut out),
    };
    Some(SelectedAnswer {
        cut: written.is_err(),
        text: out.into_text(),
    })
}

/// The text as JSON; `None` when it is none, or more than is taken apart.
pub(super) fn parse(text: &str) -> Option<Value> {
    if depth(text.as_bytes()) > JSON_DEPTH_DEFAULT || values(text.as_bytes()) > ANSWER_VALUES_MAX {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Nodes of the parsed answer, by their address, with what was written there.
///
/// Following a located path instead would search an object's members for each node found.
type Written<'a> = HashMap<*const Value, &'a JsonTree>;

/// Notes the written form of each node of `value`; both trees were made of one text and keep its
/// order.
fn pair_up<'a>(value: &Value, tree: &'a JsonTree, written: &mut Written<'a>) {
    written.insert(value, tree);
    match (value, tree) {
        (Value::Array(values), JsonTree::Array(trees)) => {
            for (value, tree) in values.iter().zip(trees) {
                pair_up(value, tree, written);
            }
        }
        (Value::Object(values), JsonTree::Object(trees)) => {
            for (value, (_, tree)) in values.values().zip(trees) {
                pair_up(value, tree, written);
            }
        }
        (_, JsonTree::Scalar(_) | JsonTree::Text(_) | JsonTree::Array(_) | JsonTree::Object(_)) => {
        }
    }
}

struct Answer<'a> {
    /// The answer's root, by reference to where it was when its nodes were paired up: moved, it
    /// would have another address.
    value: &'a Value,
    nodes: Written<'a>,
}

impl Answer<'_> {
    fn write_named(
        &self,
        paths: &[(String, JsonPath)],
        out: &mut BoundedText,
    ) -> Result<(), TextFull> {
        out.push("{")?;
        for (index, (name, path)) in paths.iter().enumerate() {
            if index > 0 {
                out.push(",")?;
            }
            out.push(&Value::from(name.as_str()).to_string())?;
            out.push(":")?;
            self.write(path, out)?;
        }
        out.push("}")
    }

    fn write(&self, path: &JsonPath, out: &mut BoundedText) -> Result<(), TextFull> {
        let found = path.query(self.value);
        let mut found = found
            .iter()
            .filter_map(|&node| self.nodes.get(&std::ptr::from_ref(node)));
        if is_singular(path) {
            return match found.next() {
                Some(node) => node.write_into(MemberOrder::AsItIs, out),
                None => out.push("null"),
            };
        }
        out.push("[")?;
        for (index, node) in found.enumerate() {
            if index > 0 {
                out.push(",")?;
            }
            node.write_into(MemberOrder::AsItIs, out)?;
        }
        out.push("]")
    }
}
