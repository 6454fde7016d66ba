//! Schemas that an owner wrote: small, self-contained, and checked in time that is bounded.

use serde_json::Value;

use super::{CheckedDefinition, refuse};
use crate::arguments::ArgumentsSchema;
use crate::definition::DefinitionError;
use crate::json::Json;
use crate::limits::RequestLimits;
use crate::parameters::schema::{DATA, NAMED};

/// Objects and arrays of all schemas of a definition, with references followed.
const EXPANDED_MAX: usize = 10_000;
/// References that lead to each other.
const REFERENCES_DEEP_MAX: usize = 16;
/// Regular expressions of a definition; each takes memory when compiled.
const PATTERNS_MAX: usize = 16;

/// The rest of the limits that all schemas of one definition share.
pub(super) struct Budget {
    expanded: usize,
    patterns: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            expanded: EXPANDED_MAX,
            patterns: PATTERNS_MAX,
        }
    }
}

pub(super) fn check(
    field: &str,
    json: &Json,
    limits: &RequestLimits,
    budget: &mut Budget,
) -> CheckedDefinition {
    if json.as_str().len() > limits.schema_bytes_max {
        let bytes = limits.schema_bytes_max;
        return refuse(field, format!("must have at most {bytes} bytes"));
    }
    if json.depth() > limits.schema_depth_max {
        return refuse(field, super::request::nests_deeper(limits));
    }
    let schema = json.to_value();
    if !schema.is_object() {
        return refuse(field, "must be an object");
    }
    check_patterns(field, &schema, budget)?;
    let mut walk = Walk {
        field,
        root: &schema,
        budget,
        on_the_way: Vec::new(),
    };
    walk.expand(&schema)?;
    match ArgumentsSchema::compile(json) {
        Ok(_) => Ok(()),
        Err(error) => refuse(field, error.to_string()),
    }
}

/// Whether only single values (strings, numbers, booleans, null) fit the schema.
pub(super) fn is_single(schema: &Value) -> bool {
    let is_single_type = |name: &Value| {
        name.as_str()
            .is_some_and(|name| !matches!(name, "object" | "array"))
    };
    let is_single_value = |value: &Value| !value.is_object() && !value.is_array();
    let by_type = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().all(is_single_type),
        Some(name) => is_single_type(name),
        None => false,
    };
    let by_values = schema
        .get("enum")
        .and_then(Value::as_array)
        .is_some_and(|values| values.iter().all(is_single_value));
    by_type || by_values || schema.get("const").is_some_and(is_single_value)
}

/// The number of properties that the schema names, at all depths.
pub(super) fn properties_of(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => {
            let own = members
                .get("properties")
                .and_then(Value::as_object)
                .map_or(0, serde_json::Map::len);
            own + members.values().map(properties_of).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(properties_of).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn check_patterns(field: &str, schema: &Value, budget: &mut Budget) -> CheckedDefinition {
    match patterns_of(schema) {
        count if count > budget.patterns => refuse(
            field,
            format!("a definition may hold at most {PATTERNS_MAX} patterns"),
        ),
        count => {
            budget.patterns -= count;
            Ok(())
        }
    }
}

fn patterns_of(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => {
            let own = usize::from(members.get("pattern").is_some_and(Value::is_string))
                + members
                    .get("patternProperties")
                    .and_then(Value::as_object)
                    .map_or(0, serde_json::Map::len);
            own + members.values().map(patterns_of).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(patterns_of).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Keywords whose references depend on more than the text, or lead out of it.
const REFUSED: [&str; 7] = [
    "$dynamicRef",
    "$recursiveRef",
    "$id",
    "id",
    "$anchor",
    "$dynamicAnchor",
    "$vocabulary",
];

/// Follows every reference, so that schemas which grow without end, or by doubling, are seen
/// before they meet an argument.
struct Walk<'a, 'b> {
    field: &'b str,
    root: &'a Value,
    budget: &'b mut Budget,
    /// The references that led here.
    on_the_way: Vec<&'a str>,
}

impl<'a> Walk<'a, '_> {
    fn refuse<T>(&self, problem: impl Into<String>) -> Result<T, DefinitionError> {
        refuse(self.field, problem)
    }

    fn expand(&mut self, schema: &'a Value) -> CheckedDefinition {
        let Some(left) = self.budget.expanded.checked_sub(1) else {
            return self.refuse(format!(
                "schemas of a definition, with their references, may hold at most {EXPANDED_MAX} objects and arrays"
            ));
        };
        match schema {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
            Value::Array(items) => {
                self.budget.expanded = left;
                items.iter().try_for_each(|item| self.expand(item))
            }
            Value::Object(members) => {
                self.budget.expanded = left;
                for (name, value) in members {
                    self.keyword(name, value)?;
                }
                Ok(())
            }
        }
    }

    fn keyword(&mut self, name: &'a str, value: &'a Value) -> CheckedDefinition {
        match value {
            Value::String(target) if name == "$ref" => self.follow(target),
            Value::String(_) if REFUSED.contains(&name) => {
                self.refuse(format!("{name:?} is not supported"))
            }
            // A reference to a place in these is followed all the same.
            _ if DATA.contains(&name) => Ok(()),
            Value::Object(named) if NAMED.contains(&name) => {
                named.values().try_for_each(|schema| self.expand(schema))
            }
            _ => self.expand(value),
        }
    }

    fn follow(&mut self, target: &'a str) -> CheckedDefinition {
        // Other ways to write a pointer would need to be decoded here as the compiler does.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-.$".contains(&byte);
        let Some(pointer) = target
            .strip_prefix("#/")
            .filter(|way| way.bytes().all(is_plain))
        else {
            return self.refuse(format!(
                "the reference {target:?} must be a place in this schema, such as \"#/$defs/name\""
            ));
        };
        if self.on_the_way.contains(&target) {
            return self.refuse(format!("the reference {target:?} leads back to itself"));
        }
        if self.on_the_way.len() >= REFERENCES_DEEP_MAX {
            return self.refuse(format!(
                "references must not lead further than {REFERENCES_DEEP_MAX} others"
            ));
        }
        let Some(place) = self.root.pointer(&format!("/{pointer}")) else {
            return self.refuse(format!("the reference {target:?} leads nowhere"));
        };
        self.on_the_way.push(target);
        self.expand(place)?;
        self.on_the_way.pop();
        Ok(())
    }
}
