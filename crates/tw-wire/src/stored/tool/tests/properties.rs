//! Round trips of generated definitions.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::stored::tool::file::{self, FileFormat};
use crate::stored::tool::{decode, masked, merge_patch, shown};

/// Texts that are no templates, with what a writer could get wrong.
fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-z\"\\\\\u{e9}\u{1f600}\n\u{1} ./{}\\[\\]*]{0,8}")
        .unwrap()
        .prop_filter("no variable", |text| !text.contains("{{"))
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        text().prop_map(Value::from),
    ]
}

fn object(value: impl Strategy<Value = Value> + Clone + 'static) -> BoxedStrategy<Value> {
    proptest::collection::vec((text(), value), 0..3)
        .prop_map(|members| {
            members
                .into_iter()
                .filter(|(name, _)| name != "secret")
                .collect()
        })
        .boxed()
}

fn value() -> impl Strategy<Value = Value> + Clone {
    scalar().boxed().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            object(inner),
        ]
    })
}

#[derive(Clone, Copy, Debug)]
enum Hidden {
    Nothing,
    Some,
}

/// A parameter of any mode.
fn parameter(hidden: Hidden) -> impl Strategy<Value = Value> + Clone {
    let sensitive = match hidden {
        Hidden::Nothing => Just(false).boxed(),
        Hidden::Some => any::<bool>().boxed(),
    };
    let leaf = prop_oneof![
        (value(), sensitive.clone()).prop_map(
            |(value, sensitive)| json!({"mode": "fixed", "value": value, "sensitive": sensitive})
        ),
        (object(scalar().boxed()), any::<bool>()).prop_map(
            |(schema, required)| json!({"mode": "ai", "schema": schema, "required": required})
        ),
        (proptest::collection::vec(value(), 0..3), sensitive.clone()).prop_map(
            |(fixed, sensitive)| {
                json!({"mode": "array_extendable", "fixedValues": fixed, "sensitive": sensitive})
            }
        ),
    ];
    leaf.boxed().prop_recursive(3, 8, 3, move |inner| {
        prop_oneof![
            (object(inner.clone()), sensitive.clone()).prop_map(|(properties, sensitive)| {
                json!({"mode": "object", "properties": properties, "sensitive": sensitive})
            }),
            (proptest::collection::vec(inner, 0..3), sensitive.clone()).prop_map(
                |(items, sensitive)| json!({"mode": "array", "items": items, "sensitive": sensitive})
            ),
        ]
    })
}

fn tool(hidden: Hidden) -> impl Strategy<Value = Value> {
    let parts = (
        object(parameter(hidden)),
        object(value()),
        object(text().prop_map(Value::from).boxed()),
    );
    parts.prop_map(|(parameters, body, headers)| {
        json!({
            "name": "t", "description": "d", "type": "api_request", "method": "POST",
            "url": "https://api.example.com/", "headers": headers, "body": body,
            "parameters": parameters,
        })
    })
}

/// The fixed values that are sensitive, by the rule as it is documented.
fn sensitive_values(parameter: &Value, around: bool, found: &mut Vec<Value>) {
    let sensitive = around || parameter["sensitive"] == json!(true);
    if sensitive && parameter["mode"] == "fixed" {
        found.push(parameter["value"].clone());
    }
    if sensitive && let Some(fixed) = parameter["fixedValues"].as_array() {
        found.extend(fixed.iter().cloned());
    }
    if let Some(properties) = parameter["properties"].as_object() {
        for property in properties.values() {
            sensitive_values(property, sensitive, found);
        }
    }
    if let Some(items) = parameter["items"].as_array() {
        for item in items {
            sensitive_values(item, sensitive, found);
        }
    }
}

/// With the sensitive values replaced, the same.
fn with_masks(parameter: &mut Value, around: bool) {
    let sensitive = around || parameter["sensitive"] == json!(true);
    if sensitive && parameter["mode"] == "fixed" {
        parameter["value"] = json!("***");
    }
    if sensitive && let Some(fixed) = parameter.get_mut("fixedValues") {
        let count = fixed.as_array().map_or(0, Vec::len);
        *fixed = vec![json!("***"); count].into();
    }
    if let Some(properties) = parameter
        .get_mut("properties")
        .and_then(Value::as_object_mut)
    {
        for property in properties.values_mut() {
            with_masks(property, sensitive);
        }
    }
    if let Some(items) = parameter.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            with_masks(item, sensitive);
        }
    }
}

proptest! {
    #[test]
    fn what_is_shown_reads_as_what_is_stored(tool in tool(Hidden::Nothing)) {
        for text in [tool.to_string(), format!("{tool:#}")] {
            let seen = masked(&text).unwrap();
            prop_assert_eq!(seen.as_str(), text.as_str());
            let stored = decode(&text).unwrap();
            prop_assert_eq!(&decode(seen.as_str()).unwrap(), &stored);
            prop_assert_eq!(&shown(&text).unwrap(), &tool);
        }
        let compact = tool.to_string();
        prop_assert_eq!(decode(&shown(&compact).unwrap().to_string()), decode(&compact));
    }

    #[test]
    fn exactly_the_sensitive_values_are_masked(tool in tool(Hidden::Some)) {
        let mut values = Vec::new();
        let mut expected = tool.clone();
        for parameter in expected["parameters"].as_object_mut().unwrap().values_mut() {
            sensitive_values(parameter, false, &mut values);
            with_masks(parameter, false);
        }
        let text = tool.to_string();
        if values.contains(&json!("***")) {
            prop_assert!(decode(&text).is_err());
        } else {
            prop_assert_eq!(shown(&text).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_shown_keeps_what_is_hidden(tool in tool(Hidden::Some)) {
        let text = tool.to_string();
        prop_assume!(decode(&text).is_ok() && !text.contains("null"));
        let merged = merge_patch(&text, masked(&text).unwrap().as_str()).unwrap();
        prop_assert_eq!(merged, text);
    }

    #[test]
    fn a_file_gives_back_its_tools(tool in tool(Hidden::Some)) {
        let text = tool.to_string();
        prop_assume!(decode(&text).is_ok());
        let read = file::decode(&format!("[\n{tool:#}\n]"), FileFormat::Json).unwrap();
        prop_assert_eq!(&read[0].0, &text);
    }

    #[test]
    fn any_text_is_refused_or_read_and_never_panics(text in "[\\[\\]{}:,\"a-z0-9.\\\\ -]{0,40}") {
        let _ = decode(&text);
        let _ = shown(&text);
        let _ = file::decode(&text, FileFormat::Json);
        let _ = file::decode(&text, FileFormat::Toml);
    }
}
