//! Values within the schema of what a model fills in, such as defaults and examples. The model sees all of them.

use serde_json::value::RawValue;

use super::secret_texts::looks_like_secret;
use super::{Inside, NUMBER, Read, fields_of, is_blank, is_number, text_of, unfit};
use crate::openai_chat::raw;

/// Words that say what values are like. All words that are not known are taken to hold values.
const WORDS: [&str; 31] = [
    "type",
    "format",
    "pattern",
    "title",
    "description",
    "required",
    "nullable",
    "deprecated",
    "readOnly",
    "writeOnly",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "contentEncoding",
    "contentMediaType",
    "$ref",
    "$schema",
    "$id",
    "$comment",
];
/// Words that hold schemas by name.
const BY_NAME: [&str; 5] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "$defs",
    "definitions",
];
/// Words that hold a schema or a list of them.
const SCHEMAS: [&str; 15] = [
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
];

/// Whether no value in a schema may be a secret, and none is a constant, which a model must not fill in.
///
/// # Errors
/// With the place of one that is.
pub fn check(place: &str, schema: &RawValue, inside: Inside, depth: usize) -> Read<()> {
    let deeper = deeper(place, depth)?;
    if let Some(schemas) = raw::array(schema) {
        for schema in schemas {
            check(place, schema, inside, deeper)?;
        }
        return Ok(());
    }
    if !raw::is_object(schema) {
        return check_value(place, schema, inside, deeper);
    }
    for (word, raw) in fields_of(place, schema.get())?.0 {
        let word = &*word;
        let place = format!("{place}.{word}");
        if WORDS.contains(&word) {
            continue;
        }
        if word == "value" && !is_blank(raw) {
            return unfit(format!("{place}: is fixed within what the model fills in"));
        }
        if SCHEMAS.contains(&word) {
            check(&place, raw, inside, deeper)?;
        } else if BY_NAME.contains(&word) && raw::is_object(raw) {
            for (name, raw) in fields_of(&place, raw.get())?.0 {
                check(&format!("{place}.{name}"), raw, inside.of(&name), deeper)?;
            }
        } else {
            check_value(&place, raw, inside, deeper)?;
        }
    }
    Ok(())
}

/// As it is written: nothing is filled in here.
fn check_value(place: &str, raw: &RawValue, inside: Inside, depth: usize) -> Read<()> {
    let deeper = deeper(place, depth)?;
    if let Some(text) = text_of(raw) {
        let may_be_secret = inside == Inside::Secret && !text.trim().is_empty();
        return match may_be_secret || looks_like_secret(&text) {
            true => unfit(format!("{place}: may be a secret, which a model would see")),
            false => Ok(()),
        };
    }
    if let Some(items) = raw::array(raw) {
        for item in items {
            check_value(place, item, inside, deeper)?;
        }
        return Ok(());
    }
    if !raw::is_object(raw) {
        return match inside == Inside::Secret && is_number(raw) {
            true => unfit(format!("{place}: {NUMBER}")),
            false => Ok(()),
        };
    }
    for (name, raw) in fields_of(place, raw.get())?.0 {
        check_value(&format!("{place}.{name}"), raw, inside.of(&name), deeper)?;
    }
    Ok(())
}

/// One level less than there may be.
pub fn deeper(place: &str, depth: usize) -> Read<usize> {
    match depth.checked_sub(1) {
        Some(depth) => Ok(depth),
        None => unfit(format!("{place}: is nested too deeply")),
    }
}
