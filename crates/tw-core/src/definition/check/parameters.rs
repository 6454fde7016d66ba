//! Parameters: names, places, static values and schemas.

use super::request::{depth, header_problem, nests_deeper};
use super::schema::{self, Budget};
use super::values::{self, StaticValuePlace};
use super::{CheckedDefinition, Scope, refuse};
use crate::api_request::{BodyFormat, ParameterLanding};
use crate::arguments::ArgumentsSchema;
use crate::definition::ToolDefinition;
use crate::json::Json;
use crate::limits::RequestLimits;
use crate::parameters::{
    FixedParameter, Parameter, ParameterPlace, ParameterSource, ParameterValue, Parameters,
    function_parameters, is_name,
};
use crate::variables::Variables;

/// Parameters of a definition at all depths, and properties of its function schema.
const PROPERTIES_MAX: usize = 500;

/// Refuses what nests too deep to be walked.
pub(super) fn check_nesting(
    definition: &ToolDefinition,
    limits: &RequestLimits,
) -> CheckedDefinition {
    for (name, parameter) in &definition.parameters {
        if !nests_within(&parameter.source, limits.schema_depth_max) {
            return refuse(&format!("parameters.{name}"), nests_deeper(limits));
        }
    }
    let count: usize = definition
        .parameters
        .iter()
        .map(|(_, parameter)| count_of(&parameter.source))
        .sum();
    if count > PROPERTIES_MAX {
        return refuse("parameters", format!("must be at most {PROPERTIES_MAX}"));
    }
    Ok(())
}

fn nests_within(source: &ParameterSource, levels: usize) -> bool {
    let Some(rest) = levels.checked_sub(1) else {
        return false;
    };
    match source {
        ParameterSource::Ai(ai) => ai.schema.depth() <= levels,
        ParameterSource::Fixed(fixed) => depth(&fixed.value) <= levels,
        ParameterSource::ArrayExtendable { fixed, extension } => {
            fixed.iter().all(|value| depth(value) <= rest)
                && extension
                    .iter()
                    .all(|extension| extension.items.depth() <= rest)
        }
        ParameterSource::Object { properties, .. } => properties
            .iter()
            .all(|(_, parameter)| nests_within(&parameter.source, rest)),
        ParameterSource::Array { items, .. } => items
            .iter()
            .all(|parameter| nests_within(&parameter.source, rest)),
    }
}

fn count_of(source: &ParameterSource) -> usize {
    match source {
        ParameterSource::Ai(_)
        | ParameterSource::Fixed(_)
        | ParameterSource::ArrayExtendable { .. } => 1,
        ParameterSource::Object { properties, .. } => {
            1 + properties
                .iter()
                .map(|(_, parameter)| count_of(&parameter.source))
                .sum::<usize>()
        }
        ParameterSource::Array { items, .. } => {
            1 + items
                .iter()
                .map(|parameter| count_of(&parameter.source))
                .sum::<usize>()
        }
    }
}

pub(super) fn check(definition: &ToolDefinition, limits: &RequestLimits) -> CheckedDefinition {
    check_url_names(definition)?;
    check_names("parameters", &definition.parameters)?;
    let mut walk = Walk {
        definition,
        limits,
        budget: Budget::new(),
    };
    for (name, parameter) in &definition.parameters {
        let field = format!("parameters.{name}");
        let spot = check_place(definition, &field, name, parameter)?;
        walk.parameter(&field, spot, parameter)?;
    }
    check_function_schema(definition, limits)
}

/// Every `{name}` of the URL is a parameter.
fn check_url_names(definition: &ToolDefinition) -> CheckedDefinition {
    let url = &definition.request.url;
    for name in url.path_parameters().chain(url.query_parameters()) {
        let is_known = definition.parameters.iter().any(|(other, _)| other == name);
        if !is_known {
            return refuse("url", format!("there is no parameter {name:?}"));
        }
    }
    Ok(())
}

fn check_names(field: &str, parameters: &Parameters) -> CheckedDefinition {
    for (index, (name, _)) in parameters.iter().enumerate() {
        let field = format!("{field}.{name}");
        if !is_name(name) {
            return refuse(
                &field,
                "names of parameters have 1 to 64 letters, digits, _, - and .",
            );
        }
        if parameters[..index].iter().any(|(other, _)| other == name) {
            return refuse(&field, "is given twice");
        }
    }
    Ok(())
}

/// Checks the place that a parameter goes to, and returns that of its static values, which says
/// what they may be.
fn check_place(
    definition: &ToolDefinition,
    field: &str,
    name: &str,
    parameter: &Parameter,
) -> Result<StaticValuePlace, super::DefinitionError> {
    let request = &definition.request;
    let place_field = format!("{field}.in");
    let in_path = request.url.path_parameters().any(|other| other == name);
    let in_query = request.url.query_parameters().any(|other| other == name);
    let fits_url = match parameter.place {
        None => true,
        Some(ParameterPlace::Path) => in_path,
        Some(ParameterPlace::Query) => !in_path,
        Some(ParameterPlace::Header | ParameterPlace::Body) => !in_path && !in_query,
    };
    if !fits_url {
        let problem = if in_path || in_query {
            format!("the URL holds {{{name}}}, so that is where it goes")
        } else {
            format!("the URL's path does not hold {{{name}}}")
        };
        return refuse(&place_field, problem);
    }
    match definition.place_of(name) {
        ParameterLanding::Url => {
            if !is_single(&parameter.source) {
                return refuse(
                    field,
                    "must be a single value, because it goes into the URL",
                );
            }
            let is_optional = matches!(&parameter.source, ParameterSource::Ai(ai) if !ai.required);
            if in_path && is_optional {
                return refuse(
                    &format!("{field}.required"),
                    "must be true, because it goes into the URL's path",
                );
            }
            Ok(StaticValuePlace::Url)
        }
        ParameterLanding::In(ParameterPlace::Path | ParameterPlace::Query) => {
            if request.url.query_names().any(|taken| taken == name) {
                return refuse(field, "the URL's query has this name already");
            }
            Ok(StaticValuePlace::Form)
        }
        ParameterLanding::In(ParameterPlace::Header) => {
            if let Some(problem) = header_problem(name) {
                return refuse(field, problem);
            }
            if !is_single(&parameter.source) {
                return refuse(
                    field,
                    "must be a single value, because it goes into a header",
                );
            }
            Ok(StaticValuePlace::Header)
        }
        ParameterLanding::In(ParameterPlace::Body) => {
            if !request.method.may_have_body() {
                let method = request.method.as_str();
                return refuse(&place_field, format!("a {method} request has no body"));
            }
            Ok(match request.body_format {
                BodyFormat::Json => StaticValuePlace::Json,
                BodyFormat::Form => StaticValuePlace::Form,
            })
        }
    }
}

/// Whether the value is one string, number or boolean.
fn is_single(source: &ParameterSource) -> bool {
    match source {
        ParameterSource::Ai(ai) => schema::is_single(&ai.schema.to_value()),
        ParameterSource::Fixed(fixed) => match &fixed.value {
            ParameterValue::Literal(_) | ParameterValue::Text(_) | ParameterValue::Secret(_) => {
                true
            }
            ParameterValue::Array(_) | ParameterValue::Object(_) => false,
        },
        ParameterSource::ArrayExtendable { .. }
        | ParameterSource::Object { .. }
        | ParameterSource::Array { .. } => false,
    }
}

struct Walk<'a> {
    definition: &'a ToolDefinition,
    limits: &'a RequestLimits,
    budget: Budget,
}

impl Walk<'_> {
    fn parameter(
        &mut self,
        field: &str,
        spot: StaticValuePlace,
        parameter: &Parameter,
    ) -> CheckedDefinition {
        match &parameter.source {
            ParameterSource::Ai(ai) => self.schema(&format!("{field}.schema"), &ai.schema),
            ParameterSource::Fixed(fixed) => self.fixed(&format!("{field}.value"), spot, fixed),
            ParameterSource::ArrayExtendable { fixed, extension } => {
                for (index, value) in fixed.iter().enumerate() {
                    let field = format!("{field}.fixedValues[{index}]");
                    self.value(&field, spot, value)?;
                }
                match extension {
                    Some(more) => self.schema(&format!("{field}.aiExtension.items"), &more.items),
                    None => Ok(()),
                }
            }
            ParameterSource::Object { properties, .. } => {
                let field = format!("{field}.properties");
                check_names(&field, properties)?;
                for (name, property) in properties {
                    self.nested(&format!("{field}.{name}"), spot, property)?;
                }
                Ok(())
            }
            ParameterSource::Array { items, .. } => {
                for (index, item) in items.iter().enumerate() {
                    self.nested(&format!("{field}.items[{index}]"), spot, item)?;
                }
                Ok(())
            }
        }
    }

    fn nested(
        &mut self,
        field: &str,
        spot: StaticValuePlace,
        parameter: &Parameter,
    ) -> CheckedDefinition {
        if parameter.place.is_some() {
            return refuse(
                &format!("{field}.in"),
                "a parameter inside another goes where that goes",
            );
        }
        self.parameter(field, spot, parameter)
    }

    fn fixed(
        &mut self,
        field: &str,
        spot: StaticValuePlace,
        fixed: &FixedParameter,
    ) -> CheckedDefinition {
        if fixed.is_uri && !matches!(fixed.value, ParameterValue::Text(_)) {
            return refuse(field, "must be a string with the format \"uri\"");
        }
        self.value(field, spot, &fixed.value)
    }

    fn value(
        &mut self,
        field: &str,
        spot: StaticValuePlace,
        value: &ParameterValue,
    ) -> CheckedDefinition {
        values::check(self.definition, Scope::Request, spot, field, value)
    }

    fn schema(&mut self, field: &str, json: &Json) -> CheckedDefinition {
        schema::check(field, json, self.limits, &mut self.budget)
    }
}

/// Checks the function schema that the model would see: each schema has been looked at alone, so
/// this is about their sum.
fn check_function_schema(definition: &ToolDefinition, limits: &RequestLimits) -> CheckedDefinition {
    let field = "parameters";
    let seen = function_parameters(&definition.parameters, &Variables::default());
    if seen.as_str().len() > limits.schema_bytes_max {
        return refuse(
            field,
            format!(
                "the function schema must have at most {} bytes",
                limits.schema_bytes_max
            ),
        );
    }
    if seen.depth() > limits.schema_depth_max {
        return refuse(
            field,
            format!(
                "the function schema must not nest deeper than {} levels",
                limits.schema_depth_max
            ),
        );
    }
    if schema::properties_of(&seen.to_value()) > PROPERTIES_MAX {
        return refuse(
            field,
            format!("the function schema must have at most {PROPERTIES_MAX} properties"),
        );
    }
    match ArgumentsSchema::compile(&seen) {
        Ok(_) => Ok(()),
        Err(error) => refuse(field, error.to_string()),
    }
}
