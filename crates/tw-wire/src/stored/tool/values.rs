//! Static values: JSON whose strings are templates, and secrets by name.

use tw_core::definition::DefinitionError;
use tw_core::parameters::{ParameterValue, SecretRef};

use super::value_at_path::ValueAtPath;

const SECRET: &str = "secret";
const OF_A_SECRET: &[&str] = &[SECRET, "prefix"];

/// Reads a value, which may be any JSON.
pub fn read(place: &ValueAtPath<'_>) -> Result<ParameterValue, DefinitionError> {
    if place.is_string() {
        return Ok(ParameterValue::Text(place.template()?));
    }
    if place.is_array() {
        let elements = place.elements()?;
        return Ok(ParameterValue::Array(
            elements.iter().map(read).collect::<Result<_, _>>()?,
        ));
    }
    if !place.is_object() {
        return Ok(ParameterValue::Literal(place.json()));
    }
    if names_secret(place)? {
        return secret(place);
    }
    Ok(ParameterValue::Object(object(place)?))
}

/// The members of an object, of which each may be any JSON.
pub fn object(place: &ValueAtPath<'_>) -> Result<Vec<(String, ParameterValue)>, DefinitionError> {
    named(place, read)
}

/// Values of headers: strings and secrets.
pub fn headers(place: &ValueAtPath<'_>) -> Result<Vec<(String, ParameterValue)>, DefinitionError> {
    named(place, |place| {
        if place.is_string() || place.is_object() {
            text_or_secret(place)
        } else {
            Err(place.wrong_type("a string or a secret"))
        }
    })
}

/// Values of a query: strings, numbers, booleans, secrets, and arrays of those.
pub fn query(place: &ValueAtPath<'_>) -> Result<Vec<(String, ParameterValue)>, DefinitionError> {
    named(place, |place| {
        if !place.is_array() {
            return of_query(place);
        }
        let elements = place.elements()?;
        let values = elements.iter().map(of_query).collect::<Result<_, _>>()?;
        Ok(ParameterValue::Array(values))
    })
}

fn named(
    place: &ValueAtPath<'_>,
    read: fn(&ValueAtPath<'_>) -> Result<ParameterValue, DefinitionError>,
) -> Result<Vec<(String, ParameterValue)>, DefinitionError> {
    let members = place.members()?;
    members
        .into_iter()
        .map(|(name, place)| Ok((name, read(&place)?)))
        .collect()
}

fn of_query(place: &ValueAtPath<'_>) -> Result<ParameterValue, DefinitionError> {
    if place.is_array() || place.is_null() {
        return Err(place.wrong_type("a string, a number, a boolean or a secret"));
    }
    if place.is_object() {
        return text_or_secret(place);
    }
    read(place)
}

fn text_or_secret(place: &ValueAtPath<'_>) -> Result<ParameterValue, DefinitionError> {
    if place.is_string() {
        return Ok(ParameterValue::Text(place.template()?));
    }
    secret(place)
}

/// Whether an object has a member `secret`, by which it is a secret's name. One that has other
/// members as well may be a mistyped one, and is refused when it is read.
pub fn names_secret(place: &ValueAtPath<'_>) -> Result<bool, DefinitionError> {
    let members = place.members()?;
    Ok(members.iter().any(|(name, _)| name == SECRET))
}

fn secret(place: &ValueAtPath<'_>) -> Result<ParameterValue, DefinitionError> {
    let object = place.object(OF_A_SECRET)?;
    let prefix = match object.optional("prefix") {
        Some(prefix) => prefix.text()?.into_owned(),
        None => String::new(),
    };
    let name = object.required(SECRET)?.text()?.into_owned();
    Ok(ParameterValue::Secret(SecretRef { name, prefix }))
}
