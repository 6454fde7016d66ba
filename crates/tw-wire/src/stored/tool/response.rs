//! Rules by which a response is an answer, and by which the model is shown a part of it.

use serde_json_path::JsonPath;
use tw_core::definition::{DefinitionError, ResponseRules, ResponseSelect, StatusRule};
use tw_core::limits::{RESULT_KEPT_BYTES_DEFAULT, RESULT_SHOWN_BYTES_DEFAULT};

use super::value_at_path::{ValueAtPath, word};

const OF_A_RESPONSE: &[&str] = &[
    "select",
    "content_types",
    "statuses",
    "kept_bytes_max",
    "shown_bytes_max",
];

/// Content types that are given to the model as text unless the definition says otherwise.
const CONTENT_TYPES_DEFAULT: [&str; 5] = [
    "text/*",
    "application/json",
    "application/xml",
    "*/*+json",
    "*/*+xml",
];

/// Words for all statuses of a hundred.
const HUNDREDS: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Longest JSONPath, in bytes.
const PATH_BYTES_MAX: usize = 512;
/// The parser of paths calls itself for each parenthesis: 250 overflow a thread's stack of 2 MiB.
const PARENTHESES_MAX: usize = 16;
/// The parser takes twice as long for each filter inside a filter: 16 take seconds.
const QUESTION_MARKS_MAX: usize = 4;

pub fn read(place: Option<&ValueAtPath<'_>>) -> Result<ResponseRules, DefinitionError> {
    let mut rules = ResponseRules {
        select: None,
        content_types: CONTENT_TYPES_DEFAULT.map(str::to_owned).to_vec(),
        statuses: vec![StatusRule::Hundred(2)],
        kept_bytes_max: RESULT_KEPT_BYTES_DEFAULT,
    };
    let Some(place) = place else {
        return Ok(rules);
    };
    let written = place.object(OF_A_RESPONSE)?;
    if let Some(select) = written.optional("select") {
        rules.select = Some(read_select(select)?);
    }
    if let Some(types) = written.optional("content_types") {
        let lower_case = |place: &ValueAtPath<'_>| Ok(place.text()?.to_ascii_lowercase());
        rules.content_types = types
            .elements()?
            .iter()
            .map(lower_case)
            .collect::<Result<_, _>>()?;
    }
    if let Some(statuses) = written.optional("statuses") {
        rules.statuses = statuses
            .elements()?
            .iter()
            .map(status_rule)
            .collect::<Result<_, _>>()?;
    }
    if let Some(bytes) = written.optional("kept_bytes_max") {
        rules.kept_bytes_max = bytes.whole::<u32>()? as usize;
    }
    Ok(rules)
}

/// Most bytes of an answer that the model is shown. The number stands among the rules of the
/// response and belongs to the policy.
pub fn shown_bytes_max(place: Option<&ValueAtPath<'_>>) -> Result<usize, DefinitionError> {
    let Some(place) = place else {
        return Ok(RESULT_SHOWN_BYTES_DEFAULT);
    };
    match place.object(OF_A_RESPONSE)?.optional("shown_bytes_max") {
        Some(bytes) => Ok(bytes.whole::<u32>()? as usize),
        None => Ok(RESULT_SHOWN_BYTES_DEFAULT),
    }
}

pub fn read_select(place: &ValueAtPath<'_>) -> Result<ResponseSelect, DefinitionError> {
    if place.is_string() {
        return Ok(ResponseSelect::One(path(place)?));
    }
    if !place.is_object() {
        return Err(place.wrong_type("a JSONPath or an object of them"));
    }
    let members = place.members()?;
    if members.is_empty() {
        return Err(place.error("must hold at least one JSONPath"));
    }
    let paths = members
        .into_iter()
        .map(|(name, place)| Ok((name, path(&place)?)));
    Ok(ResponseSelect::Named(paths.collect::<Result<_, _>>()?))
}

pub fn path(place: &ValueAtPath<'_>) -> Result<JsonPath, DefinitionError> {
    let text = place.text()?;
    // Before it is parsed; what a path may ask for is checked with the rest of the definition.
    for (count, max, what) in [
        (text.len(), PATH_BYTES_MAX, "bytes"),
        (text.matches('(').count(), PARENTHESES_MAX, "parentheses"),
        (
            text.matches('?').count(),
            QUESTION_MARKS_MAX,
            "question marks",
        ),
    ] {
        if count > max {
            return Err(place.error(format_args!("must have at most {max} {what}")));
        }
    }
    JsonPath::parse(&text)
        .map_err(|bad| place.error(format_args!("is no JSONPath of RFC 9535: {bad}")))
}

/// Reads a rule for statuses: `2xx` or a number.
fn status_rule(place: &ValueAtPath<'_>) -> Result<StatusRule, DefinitionError> {
    if !place.is_string() {
        return Ok(StatusRule::Exactly(status(place)?));
    }
    let text = place.text()?;
    let hundred = HUNDREDS.iter().zip(1..).find(|(word, _)| **word == text);
    match hundred {
        Some((_, hundred)) => Ok(StatusRule::Hundred(hundred)),
        None => Err(place.error(format_args!(
            "must be a number or one of {}, is {}",
            HUNDREDS.join(", "),
            word(&text)
        ))),
    }
}

/// An HTTP status.
pub fn status(place: &ValueAtPath<'_>) -> Result<u16, DefinitionError> {
    let status = place.whole()?;
    if !(100..=599).contains(&status) {
        return Err(place.error(format_args!("must be from 100 to 599, is {status}")));
    }
    Ok(status)
}
