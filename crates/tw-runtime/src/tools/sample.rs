//! Arguments made up from a function schema, for looking at a tool without a model.

use serde_json::{Map, Value, json};
use tw_core::json::Json;

/// Depth of a schema below which values are empty.
const DEPTH_MAX: usize = 32;

/// An object that the schema is likely to accept; whether it does is for the caller to check.
pub(super) fn arguments(parameters: &Json) -> Json {
    Json::from_value(&sample(&parameters.to_value(), "value", DEPTH_MAX))
}

fn sample(schema: &Value, name: &str, depth: usize) -> Value {
    for given in ["const", "default"] {
        if let Some(value) = schema.get(given) {
            return value.clone();
        }
    }
    for several in ["examples", "enum"] {
        if let Some(value) = schema.get(several).and_then(|values| values.get(0)) {
            return value.clone();
        }
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(first) = schema.get(choice).and_then(|schemas| schemas.get(0)) {
            return match depth.checked_sub(1) {
                Some(depth) => sample(first, name, depth),
                None => Value::Null,
            };
        }
    }
    match type_of(schema) {
        "object" => object(schema, depth),
        "array" => array(schema, name, depth),
        "integer" | "number" => ["minimum", "maximum"]
            .iter()
            .find_map(|bound| schema.get(*bound).cloned())
            .unwrap_or_else(|| json!(1)),
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => text(schema, name),
    }
}

fn type_of(schema: &Value) -> &str {
    let written = schema.get("type");
    let first = written.and_then(|types| types.get(0)).or(written);
    let known = first.and_then(Value::as_str);
    known.unwrap_or(if schema.get("properties").is_some() {
        "object"
    } else {
        "string"
    })
}

fn object(schema: &Value, depth: usize) -> Value {
    let mut members = Map::new();
    let Some(depth) = depth.checked_sub(1) else {
        return Value::Object(members);
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        members.insert(name.clone(), sample(property, name, depth));
    }
    Value::Object(members)
}

fn array(schema: &Value, name: &str, depth: usize) -> Value {
    let Some((items, depth)) = schema.get("items").zip(depth.checked_sub(1)) else {
        return json!([]);
    };
    json!([sample(items, name, depth)])
}

fn text(schema: &Value, name: &str) -> Value {
    let text = match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-01-31T12:00:00Z",
        Some("date") => "2026-01-31",
        Some("time") => "12:00:00Z",
        Some("email") => "name@example.com",
        Some("uri" | "url") => "https://example.com/",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some("ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("hostname") => "example.com",
        Some(_) | None => name,
    };
    json!(text)
}
