//! Values that try to be more than values.

use serde_json::json;

use super::{built, given, request, variables};
use crate::arguments;
use crate::definition::tests::sample;

#[test]
fn headers_hold_no_control_characters_and_errors_no_values() {
    let model = json!({"parameters": {"x-a": {"mode": "ai", "schema": {}, "in": "header"}}});
    // The check refuses such a schema in a header, so the definition is used without it.
    let definition = sample::definition(&model);
    let variables = variables();
    for value in [
        r#""a\r\nX-Evil: 1""#,
        r#""a\nb""#,
        r#""\u0000""#,
        r#""\u007f""#,
        r#""\u0085""#,
        r#"["a"]"#,
        r#"{"a":1}"#,
    ] {
        let args = arguments::read_stored(&format!(r#"{{"x-a":{value}}}"#)).unwrap();
        let problem = definition
            .request(&args, &given(&variables))
            .expect_err(value);
        assert!(problem.0.contains("x-a"), "{problem}");
        assert!(!problem.0.contains("Evil"), "{problem}");
    }
    for header in [json!("{{turn}}"), json!({"secret": "LINES"})] {
        let problem = built(&json!({"headers": {"x-b": header}}), "{}").unwrap_err();
        assert!(
            problem.contains("x-b") || problem.contains("turn"),
            "{problem}"
        );
        assert!(
            !problem.contains("s3cr3t") && !problem.contains("Evil"),
            "{problem}"
        );
    }
    let fixed =
        json!({"parameters": {"x-c": {"mode": "fixed", "value": "{{turn}}", "in": "header"}}});
    assert!(built(&fixed, "{}").unwrap_err().contains("x-c"));
    let long = json!({"parameters": {"x-d": {"mode": "ai", "in": "header"}}});
    let args = format!(r#"{{"x-d":"{}"}}"#, "x".repeat(9000));
    assert!(built(&long, &args).unwrap_err().contains("8192"));
}

#[test]
fn a_form_takes_no_names_that_servers_would_read_as_others() {
    let tool = json!({
        "method": "POST", "body_format": "form", "body": {"meta": {"role": "user"}},
        "parameters": {"meta": {"mode": "ai", "schema": {"type": "object"}}},
    });
    for name in ["role]", "x][role", "[role", "", "a\\u0000"] {
        let args = format!(r#"{{"meta":{{"{name}":"admin"}}}}"#);
        let problem = built(&tool, &args).expect_err(name);
        assert!(problem.contains("cannot be written"), "{name}: {problem}");
    }
}

#[test]
fn missing_values_are_named() {
    for (tool, says) in [
        (json!({"headers": {"x": "{{now}}"}}), "\"now\""),
        (json!({"query": {"x": ["{{now}}"]}}), "\"now\""),
        (
            json!({"method": "POST", "body": {"x": {"y": "{{now}}"}}}),
            "\"now\"",
        ),
        (
            json!({"parameters": {"x": {"mode": "fixed", "value": "{{now}}"}}}),
            "\"now\"",
        ),
        (
            json!({"variables": {"mine": {}}, "query": {"x": "{{mine}}"}}),
            "\"mine\"",
        ),
        (
            json!({"headers": {"x": {"secret": "ABSENT"}}}),
            "\"ABSENT\"",
        ),
    ] {
        let problem = built(&tool, "{}").expect_err(says);
        assert!(problem.contains(says), "{tool}: {problem}");
    }
}

#[test]
fn arguments_of_another_shape_are_refused_and_extra_ones_not_read() {
    let tool = json!({
        "method": "POST",
        "parameters": {
            "fixed": {"mode": "fixed", "value": 1},
            "list": {"mode": "array_extendable", "fixedValues": [1], "aiExtension": {"enabled": true, "items": {}}},
            "closed": {"mode": "array_extendable", "fixedValues": [1], "aiExtension": {"enabled": false}},
            "object": {"mode": "object", "properties": {"x": {"mode": "fixed", "value": 1}}},
            "array": {"mode": "array", "items": [{"mode": "fixed", "value": 1}]},
        },
    });
    let definition = sample::definition(&tool);
    let variables = variables();
    let build = |text: &str| {
        let args = arguments::read_stored(text).unwrap();
        definition.request(&args, &given(&variables))
    };
    for text in [r#"{"list":{}}"#, r#"{"object":[]}"#, r#"{"array":"x"}"#] {
        assert!(build(text).unwrap_err().0.contains("must be an"), "{text}");
    }
    let body = build(r#"{"fixed":2,"closed":[2],"object":{"x":2,"y":2},"array":{"item_1":2,"item_2":2},"other":2}"#)
        .unwrap()
        .body
        .unwrap();
    assert_eq!(
        body,
        r#"{"fixed":1,"list":[1],"closed":[1],"object":{"x":1},"array":[1]}"#
    );
}

#[test]
fn debug_output_holds_no_secret() {
    let tool = json!({
        "method": "POST", "headers": {"a": {"secret": "KEY"}}, "query": {"b": {"secret": "KEY"}}, "body": {"c": {"secret": "KEY"}},
    });
    let request = request(&tool, "{}").unwrap();
    assert!(request.url.contains("s3cr3t"));
    let shown = format!("{request:?}");
    assert!(!shown.contains("s3cr3t"), "{shown}");
    assert!(shown.contains("https://api.example.com/v1"), "{shown}");
}
