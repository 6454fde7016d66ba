//! Values: static ones with their variables and secrets, and parameters with the model's
//! arguments.
//!
//! What the model wrote goes in as it is. It is never looked at for variables or secrets.

use super::{BuildError, RequestInputs};
use crate::json::tree::JsonTree;
use crate::parameters::{
    Parameter, ParameterSource, ParameterValue, Parameters, SecretRef, item_name,
};
use crate::template::ValueLanding;

/// A static value with its variables and secrets put in.
pub(super) fn value(
    value: &ParameterValue,
    landing: ValueLanding,
    given: &RequestInputs<'_>,
) -> Result<JsonTree, BuildError> {
    match value {
        ParameterValue::Literal(json) => Ok(JsonTree::Scalar(json.as_str().to_owned())),
        ParameterValue::Text(template) => {
            Ok(JsonTree::Text(template.render(given.variables, landing)?))
        }
        ParameterValue::Secret(secret) => Ok(JsonTree::Text(secret_text(secret, given)?)),
        ParameterValue::Array(items) => items
            .iter()
            .map(|item| self::value(item, landing, given))
            .collect::<Result<_, _>>()
            .map(JsonTree::Array),
        ParameterValue::Object(members) => object(members, landing, given),
    }
}

pub(super) fn object(
    members: &[(String, ParameterValue)],
    landing: ValueLanding,
    given: &RequestInputs<'_>,
) -> Result<JsonTree, BuildError> {
    members
        .iter()
        .map(|(name, member)| Ok((name.clone(), value(member, landing, given)?)))
        .collect::<Result<_, _>>()
        .map(JsonTree::Object)
}

fn secret_text(secret: &SecretRef, given: &RequestInputs<'_>) -> Result<String, BuildError> {
    let value = (given.secret)(secret)
        .ok_or_else(|| BuildError(format!("the secret {:?} is not available", secret.name)))?;
    Ok(format!("{}{value}", secret.prefix))
}

/// The values of `parameters`, in their order; a parameter without a value is absent.
///
/// `args` are the members of the object that the model wrote, in which only names of parameters
/// are looked for.
pub(super) fn parameters(
    parameters: &Parameters,
    mut args: Vec<(String, JsonTree)>,
    given: &RequestInputs<'_>,
) -> Result<Vec<(String, JsonTree)>, BuildError> {
    let mut filled = Vec::new();
    for (name, parameter) in parameters {
        let arg = take(&mut args, name);
        if let Some(tree) = fill(name, parameter, arg, given)? {
            filled.push((name.clone(), tree));
        }
    }
    Ok(filled)
}

fn take(args: &mut Vec<(String, JsonTree)>, name: &str) -> Option<JsonTree> {
    let at = args.iter().position(|(written, _)| written == name)?;
    Some(args.swap_remove(at).1)
}

fn fill(
    name: &str,
    parameter: &Parameter,
    arg: Option<JsonTree>,
    given: &RequestInputs<'_>,
) -> Result<Option<JsonTree>, BuildError> {
    match &parameter.source {
        ParameterSource::Ai(_) => Ok(arg),
        ParameterSource::Fixed(fixed) => {
            let landing = if fixed.is_uri {
                ValueLanding::Url
            } else {
                ValueLanding::Text
            };
            value(&fixed.value, landing, given).map(Some)
        }
        ParameterSource::ArrayExtendable { fixed, extension } => {
            let mut items = fixed
                .iter()
                .map(|item| value(item, ValueLanding::Text, given))
                .collect::<Result<Vec<_>, _>>()?;
            match arg {
                Some(JsonTree::Array(more)) if extension.is_some() => items.extend(more),
                Some(_) if extension.is_some() => return Err(not_a(name, "an array")),
                // A member that the model was not offered is not read.
                Some(_) => {}
                None if items.is_empty() => return Ok(None),
                None => {}
            }
            Ok(Some(JsonTree::Array(items)))
        }
        ParameterSource::Object { properties, .. } => {
            let was_given = arg.is_some();
            let members = parameters(properties, members_of(name, arg)?, given)?;
            Ok((was_given || !members.is_empty()).then_some(JsonTree::Object(members)))
        }
        ParameterSource::Array { items, .. } => {
            let was_given = arg.is_some();
            let mut args = members_of(name, arg)?;
            let mut filled = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let item_name = item_name(index);
                let arg = take(&mut args, &item_name);
                filled.extend(fill(&item_name, item, arg, given)?);
            }
            Ok((was_given || !filled.is_empty()).then_some(JsonTree::Array(filled)))
        }
    }
}

fn members_of(name: &str, arg: Option<JsonTree>) -> Result<Vec<(String, JsonTree)>, BuildError> {
    match arg {
        None => Ok(Vec::new()),
        Some(JsonTree::Object(members)) => Ok(members),
        Some(JsonTree::Scalar(_) | JsonTree::Text(_) | JsonTree::Array(_)) => {
            Err(not_a(name, "an object"))
        }
    }
}

fn not_a(name: &str, kind: &str) -> BuildError {
    BuildError(format!("the argument {name:?} must be {kind}"))
}
