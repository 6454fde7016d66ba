use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tw_core::definition::DefinitionError;
use tw_core::limits::RequestLimits;

use crate::own::tool::decode;

const ROWS: &str = include_str!("../../../../../../testdata/tools_bad.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    row: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    members: Option<String>,
    without: Option<String>,
    text: Option<String>,
    make: Option<String>,
    stage: Stage,
    field: String,
    says: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Stage {
    Decode,
    Check,
}

/// Put together as text, since a value would lose what some rows are about.
fn definition(row: &Row) -> String {
    if let Some(text) = &row.text {
        return text.clone();
    }
    let mut base = json!({
        "name": "t", "description": "d", "type": "api_request", "method": "POST",
        "url": "https://api.example.com/v1",
    });
    let members = match row.make.as_deref() {
        None => row.members.clone().unwrap_or_else(|| "{}".to_owned()),
        Some("deep") => format!(
            r#"{{"body": {{"a": {}1{}}}}}"#,
            "[".repeat(63),
            "]".repeat(63)
        ),
        Some("long") => format!(r#"{{"label": "{}"}}"#, "x".repeat(1024 * 1024)),
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

fn refused(text: &str) -> Option<(Stage, DefinitionError)> {
    match decode(text) {
        Err(error) => Some((Stage::Decode, error)),
        Ok(definition) => definition
            .check(&RequestLimits::defaults())
            .err()
            .map(|error| (Stage::Check, error)),
    }
}

#[test]
fn the_definition_that_the_rows_change_is_good() {
    let row = Row {
        name: String::new(),
        members: None,
        without: None,
        text: None,
        make: None,
        stage: Stage::Decode,
        field: String::new(),
        says: String::new(),
    };
    assert_eq!(refused(&definition(&row)), None);
}

#[test]
fn each_bad_definition_names_its_field() {
    let table: Table = toml::from_str(ROWS).unwrap();
    let mut names = HashSet::new();
    let mut wrong = Vec::new();
    for row in &table.row {
        assert!(names.insert(&row.name), "{} stands there twice", row.name);
        assert!(!row.says.is_empty(), "{} would take any problem", row.name);
        let found = refused(&definition(row));
        let is_as_said = found.as_ref().is_some_and(|(stage, error)| {
            *stage == row.stage && error.field == row.field && error.problem.contains(&row.says)
        });
        if !is_as_said {
            wrong.push(format!("{}: {found:?}", row.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
