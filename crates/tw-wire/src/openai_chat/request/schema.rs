//! Schemas for upstreams that know less than JSON Schema.
//!
//! [`open_api`] follows the subset of OpenAPI 3.0 that the Gemini API documents for function
//! declarations (2025). What it cannot say is left out where that only allows more, since arguments
//! are checked against the whole schema when they come; a schema of which something needed cannot be
//! said is none. [`is_strict`] follows the rules of OpenAI's guide "Structured model outputs" (2025).
//!
//! Known differences:
//! - `oneOf` becomes `anyOf`;
//! - the limits of strict schemas are those of the first version, 100 properties in 5 levels.

use serde_json::{Map, Value, json};
use tw_core::json::Json;

/// Nesting of what comes out, references included.
const DEPTH_MAX: usize = 32;
/// Objects that come out: a few references to references could make any number of them.
const OBJECTS_MAX: usize = 4096;
const STRICT_PROPERTIES_MAX: usize = 100;
const STRICT_DEPTH_MAX: usize = 5;

/// The schema cannot be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsayableSchema;

/// The schema in OpenAPI's words; `None` if it is in them already.
///
/// # Errors
/// [`UnsayableSchema`], for a reference that leads outside or into itself, and for what is too large.
pub fn open_api(schema: &Json) -> Result<Option<Json>, UnsayableSchema> {
    let root = schema.to_value();
    let mut compiler = Compiler {
        root: &root,
        open: Vec::new(),
        objects: 0,
    };
    let compiled = compiler.schema(&root, 0)?.ok_or(UnsayableSchema)?;
    if compiled.get("type") != Some(&json!("object")) {
        return Err(UnsayableSchema);
    }
    let compiled = Value::Object(compiled);
    Ok((compiled != root).then(|| Json::from_value(&compiled)))
}

struct Compiler<'a> {
    root: &'a Value,
    /// References that are being followed.
    open: Vec<&'a str>,
    objects: usize,
}

type Object = Map<String, Value>;

impl<'a> Compiler<'a> {
    /// Adapts a schema; `None` for one that nothing fits.
    fn schema(
        &mut self,
        schema: &'a Value,
        depth: usize,
    ) -> Result<Option<Object>, UnsayableSchema> {
        let from = match schema {
            Value::Bool(true) => return Ok(Some(Object::new())),
            Value::Bool(false) => return Ok(None),
            Value::Object(from) => from,
            _ => return Err(UnsayableSchema),
        };
        self.objects += 1;
        if depth > DEPTH_MAX || self.objects > OBJECTS_MAX {
            return Err(UnsayableSchema);
        }
        if let Some(Value::String(reference)) = from.get("$ref") {
            return self.reference(reference, from, depth);
        }
        if from.get("not").is_some_and(is_anything) {
            return Ok(None);
        }
        let mut to = Object::new();
        for (key, value) in from {
            self.keyword(key, value, &mut to, depth)?;
        }
        keep_required(&mut to);
        if to.get("type") == Some(&json!("array")) && !to.contains_key("items") {
            to.insert("items".to_owned(), json!({}));
        }
        match from.get("allOf") {
            Some(Value::Array(parts)) => self.all_of(parts, to, depth),
            Some(_) => Err(UnsayableSchema),
            None => Ok(Some(to)),
        }
    }

    fn reference(
        &mut self,
        reference: &'a str,
        beside: &'a Object,
        depth: usize,
    ) -> Result<Option<Object>, UnsayableSchema> {
        if self.open.contains(&reference) {
            return Err(UnsayableSchema);
        }
        let pointer = reference.strip_prefix('#').ok_or(UnsayableSchema)?;
        let target = self.root.pointer(pointer).ok_or(UnsayableSchema)?;
        self.open.push(reference);
        let found = self.schema(target, depth + 1);
        self.open.pop();
        let Some(mut found) = found? else {
            return Ok(None);
        };
        for key in ["title", "description"] {
            if let Some(said) = beside.get(key) {
                found.insert(key.to_owned(), said.clone());
            }
        }
        Ok(Some(found))
    }

    fn keyword(
        &mut self,
        key: &str,
        value: &'a Value,
        to: &mut Object,
        depth: usize,
    ) -> Result<(), UnsayableSchema> {
        match key {
            "type" => types(value, to),
            "enum" | "const" => choices(value, to),
            "format" if value == "date-time" || value == "enum" => put(to, key, value),
            "title" | "description" | "nullable" | "minimum" | "maximum" | "minItems"
            | "maxItems" | "minLength" | "maxLength" | "pattern" | "minProperties"
            | "maxProperties" | "required" => put(to, key, value),
            "properties" => {
                let mut properties = Object::new();
                for (name, property) in value.as_object().ok_or(UnsayableSchema)? {
                    if let Some(compiled) = self.schema(property, depth + 1)? {
                        properties.insert(name.clone(), Value::Object(compiled));
                    }
                }
                to.insert(key.to_owned(), Value::Object(properties));
            }
            // A list of them is of an old draft, and says more than can be said here.
            "items" if !value.is_array() => {
                let items = self.schema(value, depth + 1)?.unwrap_or_default();
                to.insert(key.to_owned(), Value::Object(items));
            }
            "anyOf" | "oneOf" => {
                self.any_of(value.as_array().ok_or(UnsayableSchema)?, to, depth)?
            }
            // Annotations, and what only forbids.
            _ => {}
        }
        Ok(())
    }

    fn any_of(
        &mut self,
        branches: &'a [Value],
        to: &mut Object,
        depth: usize,
    ) -> Result<(), UnsayableSchema> {
        let mut compiled = Vec::new();
        for branch in branches {
            if branch.get("type") == Some(&json!("null")) {
                to.insert("nullable".to_owned(), json!(true));
            } else if let Some(one) = self.schema(branch, depth + 1)? {
                compiled.push(one);
            }
        }
        match compiled.len() {
            0 => {}
            1 => {
                for (key, value) in compiled.remove(0) {
                    to.entry(key).or_insert(value);
                }
            }
            _ if to.contains_key("anyOf") => {}
            _ => {
                let branches = compiled.into_iter().map(Value::Object).collect();
                to.insert("anyOf".to_owned(), Value::Array(branches));
            }
        }
        Ok(())
    }

    /// Several schemas that all hold, as one.
    fn all_of(
        &mut self,
        parts: &'a [Value],
        mut to: Object,
        depth: usize,
    ) -> Result<Option<Object>, UnsayableSchema> {
        for part in parts {
            let Some(part) = self.schema(part, depth + 1)? else {
                return Ok(None);
            };
            for (key, value) in part {
                if let Some(have) = to.get_mut(&key) {
                    join(&key, have, value)?;
                } else {
                    to.insert(key, value);
                }
            }
        }
        keep_required(&mut to);
        Ok(Some(to))
    }
}

/// Adds what a second schema says of the same keyword.
fn join(key: &str, have: &mut Value, more: Value) -> Result<(), UnsayableSchema> {
    match (key, have, more) {
        ("properties", Value::Object(have), Value::Object(more)) => have.extend(more),
        ("required", Value::Array(have), Value::Array(more)) => {
            for name in more {
                if !have.contains(&name) {
                    have.push(name);
                }
            }
        }
        ("type", have, more) if *have != more => return Err(UnsayableSchema),
        // What was said first describes it; of two bounds one alone allows more.
        _ => {}
    }
    Ok(())
}

fn put(to: &mut Object, key: &str, value: &Value) {
    to.insert(key.to_owned(), value.clone());
}

fn is_anything(schema: &Value) -> bool {
    *schema == json!({}) || *schema == json!(true)
}

fn types(value: &Value, to: &mut Object) {
    let all = match value {
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let (null, others): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|one| **one == "null");
    if !null.is_empty() {
        to.insert("nullable".to_owned(), json!(true));
    }
    match others.as_slice() {
        [] => {}
        [one] => put(to, "type", one),
        several => {
            let branches = several.iter().map(|one| json!({ "type": one })).collect();
            to.insert("anyOf".to_owned(), Value::Array(branches));
        }
    }
}

/// Lists the values that are allowed, if they are texts. Others cannot be listed, and are allowed by being left out.
fn choices(value: &Value, to: &mut Object) {
    let all = match value {
        Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    let (null, others): (Vec<Value>, Vec<Value>) = all.into_iter().partition(Value::is_null);
    if !null.is_empty() {
        to.insert("nullable".to_owned(), json!(true));
    }
    if !others.is_empty() && others.iter().all(Value::is_string) {
        to.entry("type").or_insert_with(|| json!("string"));
        to.insert("enum".to_owned(), Value::Array(others));
    }
}

/// Keeps only described properties in `required`: no other can be required.
fn keep_required(to: &mut Object) {
    let Some(Value::Array(required)) = to.get("required") else {
        return;
    };
    let described = to.get("properties").and_then(Value::as_object);
    let is_described = |name: &&Value| {
        let name = name.as_str();
        described.is_some_and(|all| name.is_some_and(|name| all.contains_key(name)))
    };
    let kept: Vec<Value> = required.iter().filter(is_described).cloned().collect();
    if kept.is_empty() {
        to.remove("required");
    } else {
        to.insert("required".to_owned(), Value::Array(kept));
    }
}

/// Whether a function with these parameters can be marked `strict`.
pub fn is_strict(schema: &Json) -> bool {
    let root = schema.to_value();
    let mut properties = 0;
    root.get("type") == Some(&json!("object"))
        && root.get("anyOf").is_none()
        && fits(&root, 1, &mut properties)
        && properties <= STRICT_PROPERTIES_MAX
}

fn fits(schema: &Value, depth: usize, properties: &mut usize) -> bool {
    let Some(schema) = schema.as_object() else {
        return false;
    };
    if depth > STRICT_DEPTH_MAX {
        return false;
    }
    let is_object = match schema.get("type") {
        Some(Value::Array(types)) => types.contains(&json!("object")),
        Some(one) => one == "object",
        None => false,
    };
    if is_object != schema.contains_key("properties") {
        return false;
    }
    if is_object && !is_closed(schema) {
        return false;
    }
    schema.iter().all(|(key, value)| match key.as_str() {
        "type"
        | "description"
        | "title"
        | "enum"
        | "const"
        | "required"
        | "additionalProperties"
        | "pattern"
        | "format"
        | "multipleOf"
        | "minimum"
        | "maximum"
        | "exclusiveMinimum"
        | "exclusiveMaximum"
        | "minItems"
        | "maxItems" => true,
        "$ref" => value.as_str().is_some_and(|to| to.starts_with('#')),
        "items" => fits(value, depth + 1, properties),
        "anyOf" => value
            .as_array()
            .is_some_and(|all| all.iter().all(|one| fits(one, depth, properties))),
        "properties" => value.as_object().is_some_and(|all| {
            *properties += all.len();
            all.values().all(|one| fits(one, depth + 1, properties))
        }),
        "$defs" | "definitions" => value
            .as_object()
            .is_some_and(|all| all.values().all(|one| fits(one, depth, properties))),
        _ => false,
    })
}

/// Whether an object requires all properties that it lists, and allows no others.
fn is_closed(schema: &Object) -> bool {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return false;
    };
    let required: Vec<&str> = match schema.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    };
    schema.get("additionalProperties") == Some(&json!(false))
        && properties
            .keys()
            .all(|name| required.contains(&name.as_str()))
}

#[cfg(test)]
mod tests;
