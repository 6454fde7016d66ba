//! What an owner sees of a stored tool.

use serde_json::{Value, json};
use tw_core::id::ToolId;
use tw_core::time::Timestamp;

use super::{EVERYTHING, read, with};
use crate::stored::tool::{SavedTool, masked, shown, told};

#[test]
fn without_sensitive_values_the_text_is_shown_byte_for_byte() {
    assert_eq!(masked(EVERYTHING).unwrap().as_str(), EVERYTHING);
    assert_eq!(read(masked(EVERYTHING).unwrap().as_str()), read(EVERYTHING));
    let value: Value = serde_json::from_str(EVERYTHING).unwrap();
    assert_eq!(shown(EVERYTHING).unwrap(), value);
}

/// The text of `parameters`, and what is shown of it.
const SENSITIVE: [(&str, &str); 9] = [
    (
        r#"{"a":{"mode":"fixed","value":"CANARY","sensitive":true}}"#,
        r#"{"a":{"mode":"fixed","value":"***","sensitive":true}}"#,
    ),
    (
        r#"{ "a": {"sensitive": true, "value": ["CANARY", 1.50] , "mode": "fixed"} }"#,
        r#"{ "a": {"sensitive": true, "value": "***" , "mode": "fixed"} }"#,
    ),
    (
        r#"{"a":{"mode":"fixed","value":{"x":"CANARY","secret_of":null},"sensitive":true}}"#,
        r#"{"a":{"mode":"fixed","value":"***","sensitive":true}}"#,
    ),
    // Null and booleans say as much as a text.
    (
        r#"{"a":{"mode":"fixed","value":null,"sensitive":true},"b":{"mode":"fixed","value":false,"sensitive":true}}"#,
        r#"{"a":{"mode":"fixed","value":"***","sensitive":true},"b":{"mode":"fixed","value":"***","sensitive":true}}"#,
    ),
    (
        r#"{"a":{"mode":"array_extendable","fixedValues":["CANARY",{"x":"CANARY"}],"aiExtension":{"prompt":"p"},"sensitive":true}}"#,
        r#"{"a":{"mode":"array_extendable","fixedValues":["***","***"],"aiExtension":{"prompt":"p"},"sensitive":true}}"#,
    ),
    (
        r#"{"a":{"mode":"object","properties":{"b":{"mode":"fixed","value":"CANARY","sensitive":true},"c":{"mode":"fixed","value":"c"}}}}"#,
        r#"{"a":{"mode":"object","properties":{"b":{"mode":"fixed","value":"***","sensitive":true},"c":{"mode":"fixed","value":"c"}}}}"#,
    ),
    (
        r#"{"a":{"mode":"object","sensitive":true,"properties":{"b":{"mode":"array","items":[{"mode":"fixed","value":"CANARY"},{"mode":"ai"}]}}}}"#,
        r#"{"a":{"mode":"object","sensitive":true,"properties":{"b":{"mode":"array","items":[{"mode":"fixed","value":"***"},{"mode":"ai"}]}}}}"#,
    ),
    // A secret is a name.
    (
        r#"{"a":{"mode":"fixed","value":{"secret":"NAME","prefix":"x "},"sensitive":true}}"#,
        r#"{"a":{"mode":"fixed","value":{"secret":"NAME","prefix":"x "},"sensitive":true}}"#,
    ),
    // What is not sensitive may look like the mask.
    (
        r#"{"a":{"mode":"fixed","value":"***"},"b":{"mode":"fixed","value":"CANARY","sensitive":true}}"#,
        r#"{"a":{"mode":"fixed","value":"***"},"b":{"mode":"fixed","value":"***","sensitive":true}}"#,
    ),
];

#[test]
fn sensitive_values_are_masked_wherever_they_stand() {
    for (written, expected) in SENSITIVE {
        let text = with(&format!(r#""parameters":{written},"#));
        let seen = masked(&text).unwrap();
        let expected = with(&format!(r#""parameters":{expected},"#));
        assert_eq!(seen.as_str(), expected);
        assert!(!shown(&text).unwrap().to_string().contains("CANARY"));
        let answer = told(&saved(), &read(&text), &text).unwrap();
        assert!(!answer.contains("CANARY"), "{answer}");
    }
}

#[test]
fn a_text_that_is_no_definition_is_damaged_and_not_shown() {
    for text in [
        "",
        "{}",
        r#"{"name":"CANARY"}"#,
        &with(r#""new":"CANARY","#),
    ] {
        let error = shown(text).unwrap_err();
        assert_eq!(error.what, "tool");
        assert!(!error.to_string().contains("CANARY"), "{error}");
    }
}

fn saved() -> SavedTool {
    SavedTool {
        id: ToolId::parse("0194f2a0-0000-7000-8000-00000000abcd").unwrap(),
        version: 3,
        created: Timestamp(1_700_000_000_999_999),
        updated: Timestamp(1_700_000_100_000_000),
    }
}

#[test]
fn the_answer_of_the_api_holds_all_in_one_object() {
    let text = r#" {"name":"t","description":"For {{caller}}.","type":"apiRequest","url":"https://api.example.com/v1",
        "query":{"n":1.50},"parameters":{"b":{"mode":"ai","prompt":"Of {{caller}}"},
        "a":{"mode":"fixed","value":"CANARY","sensitive":true}},"variables":{"caller":{"default":"unknown"}}} "#;
    let answer = told(&saved(), &read(text), text).unwrap();
    assert!(answer.contains(r#""query":{"n":1.50}"#), "{answer}");
    let value: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        value,
        json!({
            "id": "0194f2a0-0000-7000-8000-00000000abcd",
            "object": "tool",
            "version": 3,
            "created_at": 1_700_000_000,
            "updated_at": 1_700_000_100,
            "name": "t",
            "description": "For {{caller}}.",
            "type": "apiRequest",
            "url": "https://api.example.com/v1",
            "query": {"n": 1.5},
            "parameters": {
                "b": {"mode": "ai", "prompt": "Of {{caller}}"},
                "a": {"mode": "fixed", "value": "***", "sensitive": true},
            },
            "variables": {"caller": {"default": "unknown"}},
            "function_schema": {
                "name": "t",
                "description": "For .",
                "parameters": {
                    "type": "object",
                    "properties": {"b": {"type": "string", "description": "Of "}},
                    "required": ["b"],
                    "additionalProperties": false,
                },
            },
        })
    );
    let names: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(
        names[..6],
        [
            "id",
            "object",
            "version",
            "created_at",
            "updated_at",
            "name"
        ]
    );
    assert_eq!(names.last().unwrap().as_str(), "function_schema");
}
