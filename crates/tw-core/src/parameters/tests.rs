use proptest::prelude::*;
use serde_json::json;

use super::function_parameters;
use crate::definition::tests::sample;
use crate::variables::Variables;

fn seen(parameters: &serde_json::Value) -> String {
    let mut variables = Variables::default();
    variables.set("who", "Ada \"A\"".to_owned());
    function_parameters(&sample::parameters(parameters), &variables)
        .as_str()
        .to_owned()
}

#[test]
fn the_function_schema_holds_what_the_model_fills_in_and_nothing_else() {
    for (parameters, expected) in [
        (
            json!({}),
            r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#,
        ),
        (
            json!({
                "zeta": {"mode": "ai", "schema": r#"{ "maximum":1.50, "type":"number" }"#},
                "hidden": {"mode": "fixed", "value": "CANARY"},
                "alpha": {"mode": "ai", "prompt": "For {{who}}{{absent}}", "required": false, "schema": "{}"},
                "own": {"mode": "ai", "prompt": "unused", "schema": r#"{"description":"own"}"#},
                "spaced": {"mode": "ai", "prompt": "p", "schema": "{\"type\":\"string\" \n}"},
            }),
            r#"{"type":"object","properties":{"zeta":{ "maximum":1.50, "type":"number" },"alpha":{"description":"For Ada \"A\""},"own":{"description":"own"},"spaced":{"type":"string","description":"p"}},"required":["zeta","own","spaced"],"additionalProperties":false}"#,
        ),
        (
            json!({
                "cc": {"mode": "array_extendable", "fixedValues": ["CANARY"], "aiExtension":
                    {"enabled": true, "prompt": "More", "items": {"type": "string"}}},
                "must": {"mode": "array_extendable", "aiExtension":
                    {"enabled": true, "required": true, "items": {"type": "string"}}},
                "closed": {"mode": "array_extendable", "fixedValues": ["CANARY"], "aiExtension":
                    {"enabled": false, "prompt": "CANARY"}},
            }),
            r#"{"type":"object","properties":{"cc":{"type":"array","description":"More","items":{"type":"string"}},"must":{"type":"array","items":{"type":"string"}}},"required":["must"],"additionalProperties":false}"#,
        ),
        (
            json!({
                "contact": {"mode": "object", "description": "Whom", "properties": {
                    "kind": {"mode": "fixed", "value": "CANARY"},
                    "email": {"mode": "ai", "required": false}}},
                "all_fixed": {"mode": "object", "description": "CANARY", "properties": {
                    "kind": {"mode": "fixed", "value": "CANARY"}}},
                "steps": {"mode": "array", "items": [
                    {"mode": "fixed", "value": "CANARY"},
                    {"mode": "ai"},
                    {"mode": "object", "properties": {"x": {"mode": "ai"}}}]},
            }),
            r#"{"type":"object","properties":{"contact":{"type":"object","description":"Whom","properties":{"email":{"type":"string"}},"required":[],"additionalProperties":false},"steps":{"type":"object","properties":{"item_2":{"type":"string"},"item_3":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}},"required":["item_2","item_3"],"additionalProperties":false}},"required":["steps"],"additionalProperties":false}"#,
        ),
    ] {
        assert_eq!(seen(&parameters), expected);
    }
}

#[test]
fn references_lead_to_the_same_place_wherever_the_schema_is_put() {
    let schema = json!({"$defs": {"id": {"type": "integer"}}, "$ref": "#/$defs/id"});
    let parameters = json!({
        "top": {"mode": "ai", "schema": schema},
        "deep": {"mode": "object", "properties": {"in.ner": {"mode": "ai", "schema": schema}}},
        "more": {"mode": "array_extendable", "aiExtension": {"enabled": true, "items": schema}},
        "list": {"mode": "array", "items": [{"mode": "fixed", "value": 1}, {"mode": "ai", "schema": schema}]},
    });
    let seen: serde_json::Value = serde_json::from_str(&seen(&parameters)).unwrap();
    for (at, expected) in [
        ("/properties/top", "#/properties/top/$defs/id"),
        (
            "/properties/deep/properties/in.ner",
            "#/properties/deep/properties/in.ner/$defs/id",
        ),
        ("/properties/more/items", "#/properties/more/items/$defs/id"),
        (
            "/properties/list/properties/item_2",
            "#/properties/list/properties/item_2/$defs/id",
        ),
    ] {
        let target = seen.pointer(at).unwrap()["$ref"].as_str().unwrap();
        assert_eq!(target, expected);
        assert_eq!(
            seen.pointer(&target[1..]),
            Some(&json!({"type": "integer"}))
        );
    }
}

#[test]
fn values_and_names_that_look_like_references_stay() {
    let schema = json!({"$defs": {"id": {"type": "integer"}}, "type": "object",
        "const": {"$ref": "#/a"}, "enum": [{"$ref": "#/a"}], "default": {"$ref": "#/a"}, "examples": [{"$ref": "#/a"}],
        "properties": {"$ref": {"$ref": "#/$defs/id"}, "const": {"$ref": "#/$defs/id"}}});
    let parameters = json!({"p": {"mode": "ai", "schema": schema}});
    let seen: serde_json::Value = serde_json::from_str(&seen(&parameters)).unwrap();
    let seen = &seen["properties"]["p"];
    for value in ["const", "default"] {
        assert_eq!(seen[value], json!({"$ref": "#/a"}), "{value}");
    }
    for values in ["enum", "examples"] {
        assert_eq!(seen[values], json!([{"$ref": "#/a"}]), "{values}");
    }
    for name in ["$ref", "const"] {
        let placed = json!({"$ref": "#/properties/p/$defs/id"});
        assert_eq!(seen["properties"][name], placed, "{name}");
    }
}

/// Parameters in which everything that is hidden from the model is a canary.
pub(crate) fn any_parameters() -> impl Strategy<Value = serde_json::Value> {
    let fixed = prop_oneof![
        Just(json!({"mode": "fixed", "value": "CANARY"})),
        Just(json!({"mode": "fixed", "value": {"secret": "CANARY"}, "sensitive": true})),
        Just(json!({"mode": "fixed", "value": {"CANARY": ["CANARY", {"CANARY": 1}]}})),
        Just(json!({"mode": "fixed", "value": "CANARY/{{who}}", "format": "uri"})),
    ];
    let leaf = prop_oneof![
        fixed,
        any::<bool>().prop_map(|required| json!({
            "mode": "ai", "schema": {}, "prompt": "p", "required": required})),
        any::<bool>().prop_map(|enabled| json!({
            "mode": "array_extendable", "fixedValues": ["CANARY", 7, {"secret": "CANARY"}],
            "aiExtension": {"enabled": enabled, "items": {}}})),
    ];
    let nested = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| json!({"mode": "array", "items": items})),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..4)
                .prop_map(|properties| json!({"mode": "object", "properties": properties})),
        ]
    });
    prop::collection::btree_map("[a-z]{1,3}", nested, 0..5).prop_map(|all| json!(all))
}

proptest! {
    #[test]
    fn nothing_fixed_reaches_the_function_schema(parameters in any_parameters()) {
        let seen = seen(&parameters);
        prop_assert!(!seen.contains("CANARY"), "{}", seen);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&seen).is_ok());
    }
}
