//! Values: static ones with their variables and secrets, and parameters with the model's
//! arguments.
//!
//! What the model wrote goes in as it is. It is never looked at for variables or secrets.

use super::{BuildError, Given};
use crate::json::tree::Tree;
use crate::parameters::{Parameter, Parameters, SecretRef, Source, Value, item_name};
use crate::template::Landing;

/// A static value with its variables and secrets put in.
pub(super) fn value(
    value: &Value,
    landing: Landing,
    given: &Given<'_>,
) -> Result<Tree, BuildError> {
    match value {
        Value::Literal(json) => Ok(Tree::Scalar(json.as_str().to_owned())),
        Value::Text(template) => Ok(Tree::Text(template.render(given.variables, landing)?)),
        Value::Secret(secret) => Ok(Tree::Text(secret_text(secret, given)?)),
        Value::Array(items) => items
            .iter()
            .map(|item| self::value(item, landing, given))
            .collect::<Result<_, _>>()
            .map(Tree::Array),
        Value::Object(members) => object(members, landing, given),
    }
}

pub(super) fn object(
    members: &[(String, Value)],
    landing: Landing,
    given: &Given<'_>,
) -> Result<Tree, BuildError> {
    members
        .iter()
        .map(|(name, member)| Ok((name.clone(), value(member, landing, given)?)))
        .collect::<Result<_, _>>()
        .map(Tree::Object)
}

fn secret_text(secret: &SecretRef, given: &Given<'_>) -> Result<String, BuildError> {
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
    mut args: Vec<(String, Tree)>,
    given: &Given<'_>,
) -> Result<Vec<(String, Tree)>, BuildError> {
    let mut filled = Vec::new();
    for (name, parameter) in parameters {
        let arg = take(&mut args, name);
        if let Some(tree) = fill(name, parameter, arg, given)? {
            filled.push((name.clone(), tree));
        }
    }
    Ok(filled)
}

fn take(args: &mut Vec<(String, Tree)>, name: &str) -> Option<Tree> {
    let at = args.iter().position(|(written, _)| written == name)?;
    Some(args.swap_remove(at).1)
}

fn fill(
    name: &str,
    parameter: &Parameter,
    arg: Option<Tree>,
    given: &Given<'_>,
) -> Result<Option<Tree>, BuildError> {
    match &parameter.source {
        Source::Ai(_) => Ok(arg),
        Source::Fixed(fixed) => {
            let landing = if fixed.is_uri {
                Landing::Url
            } else {
                Landing::Text
            };
            value(&fixed.value, landing, given).map(Some)
        }
        Source::ArrayExtendable { fixed, extension } => {
            let mut items = fixed
                .iter()
                .map(|item| value(item, Landing::Text, given))
                .collect::<Result<Vec<_>, _>>()?;
            match arg {
                Some(Tree::Array(more)) if extension.is_some() => items.extend(more),
                Some(_) if extension.is_some() => return Err(not_a(name, "an array")),
                // A member that the model was not offered is not read.
                Some(_) => {}
                None if items.is_empty() => return Ok(None),
                None => {}
            }
            Ok(Some(Tree::Array(items)))
        }
        Source::Object { properties, .. } => {
            let was_given = arg.is_some();
            let members = parameters(properties, members_of(name, arg)?, given)?;
            Ok((was_given || !members.is_empty()).then_some(Tree::Object(members)))
        }
        Source::Array { items, .. } => {
            let was_given = arg.is_some();
            let mut args = members_of(name, arg)?;
            let mut filled = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let item_name = item_name(index);
                let arg = take(&mut args, &item_name);
                filled.extend(fill(&item_name, item, arg, given)?);
            }
            Ok((was_given || !filled.is_empty()).then_some(Tree::Array(filled)))
        }
    }
}

fn members_of(name: &str, arg: Option<Tree>) -> Result<Vec<(String, Tree)>, BuildError> {
    match arg {
        None => Ok(Vec::new()),
        Some(Tree::Object(members)) => Ok(members),
        Some(Tree::Scalar(_) | Tree::Text(_) | Tree::Array(_)) => Err(not_a(name, "an object")),
    }
}

fn not_a(name: &str, kind: &str) -> BuildError {
    BuildError(format!("the argument {name:?} must be {kind}"))
}
