use std::collections::HashSet;

use tw_core::definition::DefinitionError;
use tw_core::limits::RequestLimits;

use super::rows::{Stage, definition, good, rows};
use crate::stored::tool::decode;

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
    assert_eq!(refused(&good().to_string()), None);
}

#[test]
fn each_bad_definition_names_its_field() {
    let mut names = HashSet::new();
    let mut wrong = Vec::new();
    for row in &rows() {
        assert!(
            names.insert(row.name.clone()),
            "{} stands there twice",
            row.name
        );
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
