//! The rows of `testdata/tools_bad.toml`, put together as texts.
//!
//! The tests of the tools API read this file, too.

use serde::Deserialize;
use serde_json::{Map, Value, json};

const ROWS: &str = include_str!("../../../../../../testdata/tools_bad.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    row: Vec<DefinitionRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefinitionRow {
    pub name: String,
    members: Option<String>,
    without: Option<String>,
    text: Option<String>,
    make: Option<String>,
    pub stage: Stage,
    pub field: String,
    pub says: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    Decode,
    Check,
}

pub fn rows() -> Vec<DefinitionRow> {
    toml::from_str::<Table>(ROWS).unwrap().row
}

/// The definition that the rows change.
pub fn good() -> Value {
    json!({
        "name": "t", "description": "d", "type": "api_request", "method": "POST",
        "url": "https://api.example.com/v1",
    })
}

/// Put together as text, since a value would lose what some rows are about.
pub fn definition(row: &DefinitionRow) -> String {
    if let Some(text) = &row.text {
        return text.clone();
    }
    let mut base = good();
    let members = match row.make.as_deref() {
        None => row.members.clone().unwrap_or_else(|| "{}".to_owned()),
        Some("deep") => format!(
            r#"{{"body": {{"a": {}1{}}}}}"#,
            "[".repeat(63),
            "]".repeat(63)
        ),
        Some("long") => format!(r#"{{"label": "{}"}}"#, "x".repeat(1024 * 1024)),
        Some("longer") => format!(r#"{{"label": "{}"}}"#, "x".repeat(256 * 1024)),
        Some("many_values") => format!(r#"{{"body": {{"a": [[]{}]}}}}"#, ",[]".repeat(10_000)),
        Some("many_paths") => {
            let paths = (0..17)
                .map(|n| format!(r#""n{n}": "$.a""#))
                .collect::<Vec<_>>();
            format!(r#"{{"response": {{"select": {{{}}}}}}}"#, paths.join(", "))
        }
        Some("many_variables") => {
            format!(r#"{{"body": {{"a": "{}"}}}}"#, "{{end_user}}".repeat(65))
        }
        Some("long_name") => format!(r#"{{"body": {{"a": {{"{}": 1}}}}}}"#, "x".repeat(257)),
        Some(other) => panic!("{other}"),
    };
    let written: Map<String, Value> = serde_json::from_str(&members).unwrap_or_default();
    let base = base.as_object_mut().unwrap();
    base.retain(|name, _| !written.contains_key(name) && row.without.as_ref() != Some(name));
    let rest = Value::from(base.clone()).to_string();
    let members = members.trim_end().strip_suffix('}').unwrap();
    let comma = if members.len() > 1 { "," } else { "" };
    format!("{members}{comma}{}", &rest[1..])
}
