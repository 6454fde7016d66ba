use serde_json::{Value, json};

use super::{called, variables};

fn identity(tool: &Value, args: &str) -> String {
    let (definition, args) = called(tool, args);
    definition.identity(&args, &variables()).unwrap()
}

fn lookup(extra: &Value) -> Value {
    let mut tool = json!({
        "method": "POST", "policy": {"effect": "read"}, "url": "https://h/p",
        "parameters": {"a": {"mode": "ai", "schema": {}, "required": false}, "b": {"mode": "ai", "schema": {}, "required": false}},
    });
    for (name, value) in extra.as_object().unwrap() {
        tool[name] = value.clone();
    }
    tool
}

#[test]
fn equal_requests_have_one_identity() {
    let plain = lookup(&json!({"headers": {"X-A": "1", "x-b": "2"}}));
    let first = identity(&plain, r#"{"a":{"x":1,"y":[2]},"b":"t"}"#);
    let again = identity(&plain, r#" {"b":"\u0074", "a":{"y":[2],"x":1}} "#);
    assert_eq!(first, again);
    let other_order = lookup(
        &json!({"headers": {"X-B": "2", "x-a": "1"}, "name": "other", "description": "Other."}),
    );
    assert_eq!(
        first,
        identity(&other_order, r#"{"a":{"x":1,"y":[2]},"b":"t"}"#)
    );
}

#[test]
fn whatever_decides_the_answer_is_part_of_the_identity() {
    let args = r#"{"a":"KEY"}"#;
    let tools = [
        json!({}),
        json!({"method": "PUT"}),
        json!({"url": "https://h/q"}),
        json!({"url": "http://h/p"}),
        json!({"url": "https://h/{{organization}}"}),
        json!({"headers": {"x-a": "1"}}),
        json!({"headers": {"x-a": "KEY"}}),
        json!({"headers": {"x-a": {"secret": "KEY"}}}),
        json!({"headers": {"x-a": {"secret": "KEY", "prefix": "p"}}}),
        json!({"query": {"x-a": "1"}}),
        json!({"body": {"b": "KEY"}}),
        json!({"body": {"b": {"secret": "KEY"}}}),
        json!({"body": {"a": {"secret": "KEY"}}}),
        json!({"body_format": "form"}),
        json!({"response": {"select": "$.a"}}),
        json!({"response": {"select": {"a": "$.a"}}}),
        json!({"response": {"statuses": [404]}}),
        json!({"response": {"content_types": ["text/plain"]}}),
        json!({"response": {"kept_bytes_max": 5}}),
        json!({"response": {"shown_bytes_max": 5}}),
    ];
    let all: Vec<_> = tools
        .iter()
        .map(|extra| identity(&lookup(extra), args))
        .collect();
    for (index, one) in all.iter().enumerate() {
        for (other_index, other) in all.iter().enumerate().skip(index + 1) {
            assert_ne!(one, other, "{} {}", tools[index], tools[other_index]);
        }
    }
    assert_ne!(
        identity(&lookup(&json!({})), r#"{"a":1}"#),
        identity(&lookup(&json!({})), r#"{"a":"1"}"#)
    );
}
