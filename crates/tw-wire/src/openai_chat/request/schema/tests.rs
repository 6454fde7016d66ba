use serde_json::{Value, json};
use tw_core::json::Json;

use super::{UnsayableSchema, is_strict, open_api};

fn compiled(schema: &Value) -> Result<Value, UnsayableSchema> {
    let written = Json::from_value(schema);
    open_api(&written).map(|changed| changed.map_or_else(|| schema.clone(), |new| new.to_value()))
}

/// Quirk 39: one odd schema fails the whole request.
#[test]
fn quirk_39_what_open_api_cannot_say_is_said_otherwise() {
    let of = |property: Value| json!({ "type": "object", "properties": { "p": property } });
    for (written, expected) in [
        (
            json!({ "type": ["string", "null"] }),
            json!({ "nullable": true, "type": "string" }),
        ),
        (
            json!({ "type": ["string", "integer"] }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
        ),
        (
            json!({ "const": "a" }),
            json!({ "type": "string", "enum": ["a"] }),
        ),
        (
            json!({ "enum": ["a", null] }),
            json!({ "nullable": true, "type": "string", "enum": ["a"] }),
        ),
        (
            json!({ "type": "integer", "enum": [1, 2] }),
            json!({ "type": "integer" }),
        ),
        (
            json!({ "type": "string", "format": "uuid", "default": "x", "examples": [], "not": { "const": "b" } }),
            json!({ "type": "string" }),
        ),
        (
            json!({ "type": "string", "format": "date-time" }),
            json!({ "type": "string", "format": "date-time" }),
        ),
        (
            json!({ "oneOf": [{ "type": "null" }, { "type": "string", "minLength": 1 }] }),
            json!({ "nullable": true, "type": "string", "minLength": 1 }),
        ),
        (
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }, false] }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
        ),
        (
            json!({ "type": "array" }),
            json!({ "type": "array", "items": {} }),
        ),
        (
            json!({ "type": "array", "items": [{ "type": "string" }] }),
            json!({ "type": "array", "items": {} }),
        ),
        (json!(true), json!({})),
        (
            json!({
                "allOf": [
                    { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] },
                    { "type": "object", "properties": { "b": {} }, "required": ["a", "b"] },
                ],
            }),
            json!({
                "type": "object", "properties": { "a": { "type": "string" }, "b": {} },
                "required": ["a", "b"],
            }),
        ),
    ] {
        assert_eq!(
            compiled(&of(written.clone())),
            Ok(of(expected)),
            "{written}"
        );
    }
}

#[test]
fn references_are_put_in_their_places_with_what_stands_beside_them() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "from": { "$ref": "#/$defs/place", "description": "Where from." },
            "to": { "$ref": "#/properties/from" },
        },
        "required": ["from"],
        "additionalProperties": false,
        "$defs": { "place": { "type": "object", "properties": { "city": { "type": "string" } } } },
    });
    let place = json!({
        "type": "object", "properties": { "city": { "type": "string" } },
        "description": "Where from.",
    });
    let expected = json!({
        "type": "object", "properties": { "from": place, "to": place }, "required": ["from"],
    });
    assert_eq!(compiled(&schema), Ok(expected));
}

#[test]
fn what_nothing_fits_is_not_described_nor_required() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "not": {} }, "b": false, "c": {} },
        "required": ["a", "b", "c", "d"],
    });
    let expected = json!({ "type": "object", "properties": { "c": {} }, "required": ["c"] });
    assert_eq!(compiled(&schema), Ok(expected));
}

#[test]
fn what_cannot_be_said_is_no_schema() {
    let mut bomb =
        json!({ "type": "object", "properties": { "p": { "$ref": "#/$defs/d0" } }, "$defs": {} });
    for at in 0..20 {
        let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
        bomb["$defs"][format!("d{at}")] =
            json!({ "type": "object", "properties": { "a": next, "b": next } });
    }
    bomb["$defs"]["d20"] = json!({});
    let mut deep = json!({ "type": "string" });
    for _ in 0..40 {
        deep = json!({ "type": "array", "items": deep });
    }
    for schema in [
        json!({ "type": "object", "properties": { "p": { "$ref": "#" } } }),
        json!({ "type": "object", "properties": { "p": { "$ref": "#/$defs/none" } } }),
        json!({ "type": "object", "properties": { "p": { "$ref": "https://example.com/x" } } }),
        json!({ "type": "object", "properties": { "p": 7 } }),
        json!({ "type": "object", "properties": { "p": { "allOf": [{ "type": "string" }, { "type": "integer" }] } } }),
        json!({ "type": "object", "properties": { "p": deep } }),
        json!({ "type": "string" }),
        json!({}),
        bomb,
    ] {
        assert_eq!(compiled(&schema), Err(UnsayableSchema), "{schema}");
    }
}

#[test]
fn what_is_in_its_words_already_keeps_its_bytes() {
    let schema = Json::parse(r#"{"type":"object", "properties":{"a":{"type":"string"}}}"#).unwrap();
    assert_eq!(open_api(&schema), Ok(None));
}

/// Quirk 40: strict mode wants every object closed and every key required.
#[test]
fn quirk_40_only_a_schema_that_qualifies_is_strict() {
    let closed = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    let a = json!({ "a": { "type": ["string", "null"], "description": "x" } });
    for schema in [
        closed(json!({}), json!([])),
        closed(a.clone(), json!(["a"])),
        closed(
            json!({ "o": closed(a.clone(), json!(["a"])) }),
            json!(["o"]),
        ),
        closed(
            json!({ "l": { "type": "array", "items": { "anyOf": [{ "type": "string" }] } } }),
            json!(["l"]),
        ),
    ] {
        assert!(is_strict(&Json::from_value(&schema)), "{schema}");
    }
    let mut nested = closed(a.clone(), json!(["a"]));
    for _ in 0..5 {
        nested = closed(json!({ "o": nested }), json!(["o"]));
    }
    let many: serde_json::Map<String, Value> = (0..101)
        .map(|at| (format!("p{at}"), json!({ "type": "string" })))
        .collect();
    let names: Vec<&String> = many.keys().collect();
    for schema in [
        json!({}),
        json!({ "type": "object" }),
        json!({ "type": "object", "properties": {} }),
        json!({ "type": "object", "properties": a, "required": ["a"] }),
        closed(a.clone(), json!([])),
        closed(json!({ "o": { "type": "object" } }), json!(["o"])),
        closed(
            json!({ "o": { "type": "object", "properties": {} } }),
            json!(["o"]),
        ),
        closed(
            json!({ "p": { "type": "string", "default": "x" } }),
            json!(["p"]),
        ),
        closed(json!({ "p": { "allOf": [] } }), json!(["p"])),
        closed(json!({ "p": true }), json!(["p"])),
        json!({ "type": "object", "properties": {}, "additionalProperties": true }),
        nested,
        closed(json!(many), json!(names)),
    ] {
        assert!(!is_strict(&Json::from_value(&schema)), "{schema}");
    }
}
