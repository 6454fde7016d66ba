//! A walk over every static value of a definition, with its field.

use super::ToolDefinition;
use crate::api_request::{LookUpRequest, PollRequest};
use crate::parameters::{ParameterSource, ParameterValue, Parameters};

/// Visits the values of the request that hold no others, in the order of the fields.
pub(super) fn request<'a>(
    definition: &'a ToolDefinition,
    visit: &mut impl FnMut(&str, &'a ParameterValue),
) {
    let request = &definition.request;
    in_members("headers", &request.headers, visit);
    in_members("query", &request.query, visit);
    in_members("body", &request.body, visit);
    in_parameters("parameters", &definition.parameters, visit);
}

/// Visits the values of a look-up in the same way.
pub(super) fn look_up<'a>(
    look_up: &'a LookUpRequest,
    visit: &mut impl FnMut(&str, &'a ParameterValue),
) {
    in_members("look_up.headers", &look_up.headers, visit);
    in_members("look_up.query", &look_up.query, visit);
}

/// Visits the values of a poll in the same way.
pub(super) fn poll<'a>(poll: &'a PollRequest, visit: &mut impl FnMut(&str, &'a ParameterValue)) {
    in_members("completion.poll.headers", &poll.headers, visit);
    in_members("completion.poll.query", &poll.query, visit);
    in_members("completion.poll.body", &poll.body, visit);
}

fn in_members<'a>(
    field: &str,
    members: &'a [(String, ParameterValue)],
    visit: &mut impl FnMut(&str, &'a ParameterValue),
) {
    for (name, value) in members {
        in_value(&format!("{field}.{name}"), value, visit);
    }
}

fn in_value<'a>(
    field: &str,
    value: &'a ParameterValue,
    visit: &mut impl FnMut(&str, &'a ParameterValue),
) {
    match value {
        ParameterValue::Literal(_) | ParameterValue::Text(_) | ParameterValue::Secret(_) => {
            visit(field, value)
        }
        ParameterValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                in_value(&format!("{field}[{index}]"), item, visit);
            }
        }
        ParameterValue::Object(members) => in_members(field, members, visit),
    }
}

fn in_parameters<'a>(
    field: &str,
    parameters: &'a Parameters,
    visit: &mut impl FnMut(&str, &'a ParameterValue),
) {
    for (name, parameter) in parameters {
        in_source(&format!("{field}.{name}"), &parameter.source, visit);
    }
}

fn in_source<'a>(
    field: &str,
    source: &'a ParameterSource,
    visit: &mut impl FnMut(&str, &'a ParameterValue),
) {
    match source {
        ParameterSource::Ai(_) => {}
        ParameterSource::Fixed(fixed) => in_value(&format!("{field}.value"), &fixed.value, visit),
        ParameterSource::ArrayExtendable { fixed, .. } => {
            for (index, item) in fixed.iter().enumerate() {
                in_value(&format!("{field}.fixedValues[{index}]"), item, visit);
            }
        }
        ParameterSource::Object { properties, .. } => {
            in_parameters(&format!("{field}.properties"), properties, visit);
        }
        ParameterSource::Array { items, .. } => {
            for (index, item) in items.iter().enumerate() {
                in_source(&format!("{field}.items[{index}]"), &item.source, visit);
            }
        }
    }
}
