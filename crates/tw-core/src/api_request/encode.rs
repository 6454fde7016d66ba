//! Merging, and the writing of values as forms, queries and headers.

use super::BuildError;
use crate::json::tree::JsonTree;
use crate::template::url_part;

/// Longest name of a pair, in bytes, with those of the objects around it.
const PAIR_NAME_BYTES_MAX: usize = 8192;

/// Puts `over` on `under`: objects are merged member by member at every depth, and of everything
/// else `over` holds.
pub(super) fn merge(
    under: Vec<(String, JsonTree)>,
    over: Vec<(String, JsonTree)>,
) -> Vec<(String, JsonTree)> {
    let mut merged = under;
    for (name, value) in over {
        match merged.iter_mut().find(|(other, _)| *other == name) {
            None => merged.push((name, value)),
            Some((_, place)) => {
                *place = match (std::mem::replace(place, JsonTree::Array(Vec::new())), value) {
                    (JsonTree::Object(under), JsonTree::Object(over)) => {
                        JsonTree::Object(merge(under, over))
                    }
                    (_, over) => over,
                };
            }
        }
    }
    merged
}

/// Whether `taken` names what `name` names, or a part of it, or what it is a part of, in the way
/// that servers read brackets.
pub(super) fn overlaps(name: &str, taken: &str) -> bool {
    let holds = |outer: &str, inner: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
    };
    holds(name, taken) || holds(taken, name)
}

/// Writes members as `name=value` pairs: members of objects as `a[b]=c`, arrays of scalars by
/// repeating the name, other arrays by place as in `a[0][b]=c`. Null, and what is empty, is left
/// out.
///
/// # Errors
/// [`BuildError`] for the name of a nested member that servers would read as another one, and
/// when there is more than `limit`.
pub(super) fn pairs(
    members: &[(String, JsonTree)],
    limit: SizeLimit,
) -> Result<Vec<String>, BuildError> {
    let mut pairs = Pairs {
        written: Vec::new(),
        limit,
        left: limit.bytes_max,
    };
    for (name, value) in members {
        write_pairs(&url_part(name), value, &mut pairs)?;
    }
    Ok(pairs.written)
}

/// The limit on the length of a part of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeLimit {
    pub what: &'static str,
    pub bytes_max: usize,
}

impl SizeLimit {
    pub(super) fn exceeded(self) -> BuildError {
        BuildError(format!(
            "the {} has more than {} bytes with these arguments",
            self.what, self.bytes_max
        ))
    }
}

/// The `name=value` pairs written so far. A name in front of many values is written with each, so
/// that a short value can make a long text: what is too long is not made at all.
struct Pairs {
    written: Vec<String>,
    limit: SizeLimit,
    left: usize,
}

impl Pairs {
    fn push(&mut self, name: &str, value: &str) -> Result<(), BuildError> {
        let pair = format!("{name}={}", url_part(value));
        // One more stands between it and the next.
        match self.left.checked_sub(pair.len() + 1) {
            Some(left) => self.left = left,
            // The last has nothing behind it.
            None if self.left == pair.len() => self.left = 0,
            None => return Err(self.limit.exceeded()),
        }
        self.written.push(pair);
        Ok(())
    }
}

/// Writes the pairs of a value under `name`, which is encoded already.
fn write_pairs(name: &str, value: &JsonTree, pairs: &mut Pairs) -> Result<(), BuildError> {
    if name.len() > PAIR_NAME_BYTES_MAX {
        return Err(BuildError(format!(
            "a name in a form or query has more than {PAIR_NAME_BYTES_MAX} bytes"
        )));
    }
    match value {
        JsonTree::Scalar(_) | JsonTree::Text(_) => {
            if let Some(text) = value.as_plain_text() {
                pairs.push(name, text)?;
            }
        }
        JsonTree::Array(items) => {
            let is_flat = items
                .iter()
                .all(|item| matches!(item, JsonTree::Scalar(_) | JsonTree::Text(_)));
            for (index, item) in items.iter().enumerate() {
                if is_flat {
                    write_pairs(name, item, pairs)?;
                } else {
                    write_pairs(&format!("{name}%5B{index}%5D"), item, pairs)?;
                }
            }
        }
        JsonTree::Object(members) => {
            for (member, value) in members {
                if member.is_empty() || member.contains(['[', ']', '\0']) {
                    return Err(BuildError(format!(
                        "the name {member:?} cannot be written as part of another in a form or query"
                    )));
                }
                write_pairs(&format!("{name}%5B{}%5D", url_part(member)), value, pairs)?;
            }
        }
    }
    Ok(())
}

/// The text of a header's value; `None` for null, which leaves the header out.
///
/// # Errors
/// [`BuildError`] for a value with members and for control characters. It names the header and
/// does not repeat the value, which may be a secret.
pub(super) fn header_value(name: &str, value: &JsonTree) -> Result<Option<String>, BuildError> {
    if value.is_null() {
        return Ok(None);
    }
    let text = value
        .as_plain_text()
        .ok_or_else(|| BuildError(format!("the header {name:?} must be a single value")))?;
    if text.contains(char::is_control) {
        return Err(BuildError(format!(
            "the header {name:?} must not hold control characters"
        )));
    }
    Ok(Some(text.to_owned()))
}
