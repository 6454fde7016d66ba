use serde_json::{Value, json};

use super::sample;
use crate::limits::RequestLimits;

fn problem(schema: &Value) -> Option<String> {
    let tool = json!({"method": "POST", "parameters": {
        "o": {"mode": "object", "properties": {"x": {"mode": "ai", "schema": schema}}},
    }});
    sample::definition(&tool)
        .check(&RequestLimits::defaults())
        .err()
        .map(|error| error.to_string())
}

#[test]
fn schemas_that_can_be_used() {
    for schema in [
        json!({}),
        json!({"type": "string", "pattern": "^[a-z]+$"}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "string"}}, "$ref": "#/$defs/a"}),
        json!({"properties": {"$ref": {"type": "string"}, "$id": {}, "default": {}, "pattern": {}}}),
        json!({"default": {"$ref": "http://elsewhere/", "id": "7"}, "examples": [{"id": "7"}]}),
        json!({"enum": [{"$ref": "x"}, {"id": "y"}]}),
    ] {
        assert_eq!(problem(&schema), None, "{schema}");
    }
}

#[test]
fn schemas_that_lead_elsewhere_or_take_too_much() {
    let field = "parameters.o.properties.x.schema: ";
    let mut deep = json!({});
    for _ in 0..20 {
        deep = json!({"properties": {"x": deep}});
    }
    let mut doubling = serde_json::Map::new();
    for n in 0..40 {
        let next = format!("#/$defs/d{}", n + 1);
        doubling.insert(
            format!("d{n}"),
            json!({"allOf": [{"$ref": next}, {"$ref": next}]}),
        );
    }
    doubling.insert("d40".to_owned(), json!({}));
    let mut chain = serde_json::Map::new();
    for n in 0..20 {
        chain.insert(
            format!("c{n}"),
            json!({"$ref": format!("#/$defs/c{}", n + 1)}),
        );
    }
    chain.insert("c20".to_owned(), json!({}));
    let patterns: Vec<_> = (0..17)
        .map(|n| json!({"pattern": format!("a{n}")}))
        .collect();
    for (schema, says) in [
        (json!([]), "must be an object"),
        (json!("true"), "must be an object"),
        (json!({"type": "strin"}), "schema"),
        (json!({"pattern": "("}), "schema"),
        (json!({"pattern": "(?=a)b"}), "schema"),
        (json!({"pattern": "(a)\\1"}), "schema"),
        (json!({"pattern": "((\\w{100}){100}){100}"}), "schema"),
        (json!({"anyOf": patterns}), "16 patterns"),
        (
            json!({"$ref": "http://169.254.169.254/schema"}),
            "a place in this schema",
        ),
        (
            json!({"$ref": "file:///etc/passwd"}),
            "a place in this schema",
        ),
        (
            json!({"items": {"$ref": "other.json#/a"}}),
            "a place in this schema",
        ),
        (
            json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}),
            "a place in this schema",
        ),
        (json!({"$ref": "#"}), "a place in this schema"),
        (json!({"$ref": "#anchor"}), "a place in this schema"),
        (
            json!({"$ref": "#/%24defs/a", "$defs": {"a": {}}}),
            "a place in this schema",
        ),
        (json!({"$ref": "#/$defs/absent"}), "leads nowhere"),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
            "back to itself",
        ),
        (
            json!({"$defs": {"a": {"properties": {"n": {"$ref": "#/$defs/a"}}}}}),
            "back to itself",
        ),
        (
            json!({"properties": {"default": {"$ref": "http://elsewhere/"}}}),
            "a place in this schema",
        ),
        (
            json!({"$ref": "#/default", "default": {"$ref": "http://elsewhere/"}}),
            "a place in this schema",
        ),
        (json!({"$dynamicRef": "#a"}), "not supported"),
        (json!({"$id": "http://elsewhere/"}), "not supported"),
        (json!({"$ref": "#/$defs/d0", "$defs": doubling}), ""),
        (
            json!({"$ref": "#/$defs/c0", "$defs": chain}),
            "lead further",
        ),
        (deep, "nest deeper"),
        (json!({"description": "x".repeat(70_000)}), "bytes"),
    ] {
        let shown = schema.to_string();
        let found = problem(&schema).unwrap_or_else(|| panic!("accepted: {shown:.100}"));
        assert!(found.contains(says), "{shown:.100}: {found}");
        assert!(
            found.starts_with(field) || found.starts_with("parameters.o: "),
            "{shown:.100}: {found}"
        );
    }
}

#[test]
fn references_that_double_are_counted() {
    // Under the limit on how far references lead, 2^16 places.
    let mut definitions = serde_json::Map::new();
    for n in 0..15 {
        let next = format!("#/$defs/d{}", n + 1);
        definitions.insert(
            format!("d{n}"),
            json!({"allOf": [{"$ref": next}, {"$ref": next}]}),
        );
    }
    definitions.insert("d15".to_owned(), json!({}));
    let found = problem(&json!({"$ref": "#/$defs/d0", "$defs": definitions})).unwrap();
    assert!(found.contains("10000"), "{found}");
}

#[test]
fn the_whole_function_schema_has_limits() {
    let many = |count: usize, schema: &Value| -> Value {
        (0..count)
            .map(|n| (format!("p{n}"), json!({"mode": "ai", "schema": schema})))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let three = json!({"properties": {"a": {}, "b": {}, "c": {}}});
    let long = json!({"description": "x".repeat(2_000)});
    for (parameters, says) in [
        (many(200, &three), "500 properties"),
        (many(40, &long), "65536 bytes"),
    ] {
        let tool = json!({"method": "POST", "parameters": parameters});
        let error = sample::definition(&tool)
            .check(&RequestLimits::defaults())
            .unwrap_err();
        assert_eq!(error.field, "parameters");
        assert!(error.problem.contains(says), "{error}");
    }
}
