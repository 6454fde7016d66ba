use std::sync::Arc;

use serde_json::{Value, json};

use super::sample;
use crate::variables::Variables;

fn variables(pairs: &[(&str, &str)]) -> Variables {
    let mut variables = Variables::default();
    for (name, value) in pairs {
        variables.set(name, (*value).to_owned());
    }
    variables
}

#[test]
fn the_tool_is_rendered_and_compiled() {
    let definition = Arc::new(sample::definition(&json!({
        "name": "create", "description": "For {{phone}} of {{organization}}.",
        "variables": {"phone": {}},
        "parameters": {"x": {"mode": "ai", "prompt": "By {{phone}}"}},
    })));
    let tool = definition
        .tool(
            None,
            &variables(&[("phone", "+1"), ("organization", "acme")]),
        )
        .unwrap();
    assert_eq!(tool.description, "For +1 of acme.");
    assert_eq!(
        tool.parameters.as_str(),
        r#"{"type":"object","properties":{"x":{"type":"string","description":"By +1"}},"required":["x"],"additionalProperties":false}"#
    );
    assert_eq!((tool.name.as_str(), tool.version), ("create", None));
}

#[test]
fn prompts_are_known_to_use_variables() {
    let ai = |prompt: &str| json!({"mode": "ai", "prompt": prompt});
    for (tool, uses) in [
        (json!({}), false),
        (
            json!({"query": {"q": "{{turn}}"}, "parameters": {"f": {"mode": "fixed", "value": "{{turn}}"}}}),
            false,
        ),
        (json!({"description": "{{today}}"}), true),
        (json!({"parameters": {"x": ai("{{today}}")}}), true),
        (
            json!({"parameters": {"o": {"mode": "object", "properties": {"x": ai("{{today}}")}}}}),
            true,
        ),
        (
            json!({"parameters": {"o": {"mode": "object", "description": "{{today}}", "properties": {}}}}),
            true,
        ),
        (
            json!({"parameters": {"o": {"mode": "array", "items": [ai("{{today}}")]}}}),
            true,
        ),
        (
            json!({"parameters": {"o": {"mode": "array_extendable", "aiExtension": {"enabled": true, "prompt": "{{today}}"}}}}),
            true,
        ),
    ] {
        assert_eq!(
            sample::definition(&tool).prompts_use_variables(),
            uses,
            "{tool}"
        );
    }
}

#[test]
fn only_declared_variables_come_from_metadata() {
    let definition = sample::definition(&json!({"variables": {
        "phone": {"default": "unknown"}, "plan": {}, "city": {"default": "Rome"},
        // The check refuses this one; it must not matter here either.
        "organization": {"default": "x"},
    }}));
    let always = variables(&[("organization", "acme")]);
    let metadata = variables(&[("phone", "+1"), ("organization", "evil"), ("other", "x")]);
    let given = definition.variables(&always, &metadata);
    let expected = variables(&[("organization", "acme"), ("phone", "+1"), ("city", "Rome")]);
    assert_eq!(given, expected);
}

#[test]
fn secrets_are_listed_with_where_they_go() {
    let secret = |name: &str| json!({"secret": name});
    let definition = sample::definition(&json!({
        "method": "POST", "url": "https://a.example:8443/x",
        "headers": {"authorization": secret("A")},
        "query": {"q": [1, secret("B")]},
        "body": {"auth": {"list": [secret("C")]}},
        "parameters": {
            "p": {"mode": "fixed", "value": secret("D")},
            "o": {"mode": "object", "properties": {"x": {"mode": "fixed", "value": {"y": secret("E")}}}},
            "l": {"mode": "array", "items": [{"mode": "ai"}, {"mode": "fixed", "value": secret("F")}]},
            "e": {"mode": "array_extendable", "fixedValues": [secret("G")]},
        },
        "look_up": {"url": "https://b.example:443/", "headers": {"h": secret("H")}, "query": {"q": secret("I")}},
    }));
    let found: Vec<_> = definition
        .secrets()
        .into_iter()
        .map(|used| format!("{} {} {}", used.field, used.name, used.host))
        .collect();
    assert_eq!(
        found,
        [
            "headers.authorization A a.example:8443",
            "query.q[1] B a.example:8443",
            "body.auth.list[0] C a.example:8443",
            "parameters.p.value D a.example:8443",
            "parameters.o.properties.x.value.y E a.example:8443",
            "parameters.l.items[1].value F a.example:8443",
            "parameters.e.fixedValues[0] G a.example:8443",
            "look_up.headers.h H b.example",
            "look_up.query.q I b.example",
        ]
    );
    assert!(sample::definition(&Value::Null).secrets().is_empty());
}

#[test]
fn what_variables_add_to_the_prompts_of_a_tool_is_bounded_in_all() {
    let long = "é".repeat(100_000);
    let prompt = || json!({"mode": "ai", "prompt": "p{{v}}"});
    let definition = Arc::new(sample::definition(&json!({
        "description": "{{v}}{{v}}.", "variables": {"v": {}},
        "parameters": {"a": prompt(), "b": {"mode": "object", "properties": {"c": prompt(), "d": prompt()}}},
    })));
    let given = definition.variables(&Variables::default(), &variables(&[("v", &long)]));
    let tool = definition.tool(None, &given).unwrap();
    assert_eq!(tool.description, format!("{}.", "é".repeat(4096)));
    // Two more have room; the last has none left.
    let parameters = tool.parameters.to_value();
    let length = |pointer: &str| parameters.pointer(pointer).unwrap().as_str().unwrap().len();
    assert_eq!(length("/properties/a/description"), 4097);
    assert_eq!(length("/properties/b/properties/c/description"), 4097);
    assert_eq!(length("/properties/b/properties/d/description"), 1);
}

#[test]
fn of_a_value_that_is_too_long_no_more_is_kept_than_shows_it() {
    let definition = sample::definition(&json!({"variables": {"v": {}}}));
    for (value, kept_bytes) in [
        ("x".repeat(4096), 4096),
        ("x".repeat(4097), 4097),
        ("x".repeat(1 << 20), 4100),
        ("😀".repeat(1 << 20), 4100),
        (format!("x{}", "😀".repeat(1 << 20)), 4097),
    ] {
        let metadata = variables(&[("v", &value)]);
        let given = definition.variables(&Variables::default(), &metadata);
        assert_eq!(given.get("v").map(str::len), Some(kept_bytes));
    }
}

#[test]
fn a_tool_told_anew_differs_in_its_texts_alone() {
    let tool = json!({
        "description": "For {{end_user}}.",
        "parameters": {"x": {"mode": "ai", "schema": {"type": "integer"}, "prompt": "Of {{end_user}}"}},
    });
    let definition = Arc::new(sample::definition(&tool));
    let bare = definition.tool(None, &Variables::default()).unwrap();
    let mut variables = Variables::default();
    variables.set("end_user", "Ann".to_owned());
    let told = definition.told(&bare, &variables);
    let made = definition.tool(None, &variables).unwrap();
    assert_ne!(bare.description, made.description);
    assert_eq!(
        (told.description, told.parameters.as_str()),
        (made.description, made.parameters.as_str())
    );
}
