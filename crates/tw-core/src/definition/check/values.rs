//! Static values: what may stand where.

use super::{CheckedDefinition, Scope, check_used, refuse};
use crate::definition::ToolDefinition;
use crate::json::Json;
use crate::parameters::{ParameterValue, SecretRef};

const SECRET_NAME_BYTES_MAX: usize = 64;
const PREFIX_BYTES_MAX: usize = 256;

/// The place of a static value in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StaticValuePlace {
    /// In the URL: a single value, no secret.
    Url,
    /// In a header: a single value.
    Header,
    /// In the query: a single value, or an array of such.
    Query,
    /// In a JSON body: any value.
    Json,
    /// In a form body: any value, written as a form.
    Form,
}

pub(super) fn check(
    definition: &ToolDefinition,
    scope: Scope,
    spot: StaticValuePlace,
    field: &str,
    value: &ParameterValue,
) -> CheckedDefinition {
    match value {
        ParameterValue::Literal(json) => check_literal(spot, field, json),
        ParameterValue::Text(template) => {
            check_used(definition, scope, field, template.variables())?;
            let is_header = spot == StaticValuePlace::Header;
            if is_header && template.written().contains(char::is_control) {
                return refuse(field, "must not hold control characters");
            }
            if spot == StaticValuePlace::Url && template.written().is_empty() {
                return refuse(field, "must not be empty");
            }
            Ok(())
        }
        ParameterValue::Secret(secret) => check_secret(spot, field, secret),
        ParameterValue::Array(items) => {
            let inner = match spot {
                StaticValuePlace::Url | StaticValuePlace::Header => {
                    return refuse(field, "must be a single value");
                }
                // Arrays in arrays have no place in a query.
                StaticValuePlace::Query => StaticValuePlace::Header,
                StaticValuePlace::Json | StaticValuePlace::Form => spot,
            };
            for (index, item) in items.iter().enumerate() {
                check(definition, scope, inner, &format!("{field}[{index}]"), item)?;
            }
            Ok(())
        }
        ParameterValue::Object(members) => {
            match spot {
                StaticValuePlace::Url | StaticValuePlace::Header => {
                    return refuse(field, "must be a single value");
                }
                StaticValuePlace::Query => {
                    return refuse(field, "must be a single value or an array");
                }
                StaticValuePlace::Json | StaticValuePlace::Form => {}
            }
            for (name, member) in members {
                let field = format!("{field}.{name}");
                if spot == StaticValuePlace::Form
                    && (name.is_empty() || name.contains(['[', ']', '\0']))
                {
                    return refuse(&field, "names in a form must not hold brackets");
                }
                check(definition, scope, spot, &field, member)?;
            }
            Ok(())
        }
    }
}

fn check_literal(spot: StaticValuePlace, field: &str, json: &Json) -> CheckedDefinition {
    match spot {
        StaticValuePlace::Url | StaticValuePlace::Header | StaticValuePlace::Query
            if json.is_null() =>
        {
            refuse(field, "must be a string, a number or a boolean")
        }
        StaticValuePlace::Url
        | StaticValuePlace::Header
        | StaticValuePlace::Query
        | StaticValuePlace::Json
        | StaticValuePlace::Form => Ok(()),
    }
}

fn check_secret(spot: StaticValuePlace, field: &str, secret: &SecretRef) -> CheckedDefinition {
    if spot == StaticValuePlace::Url {
        return refuse(
            field,
            "a secret may stand in headers, query and body, never in the URL",
        );
    }
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let name = &secret.name;
    if !(1..=SECRET_NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_fit) {
        return refuse(
            &format!("{field}.secret"),
            format!("must have 1 to {SECRET_NAME_BYTES_MAX} letters, digits and _"),
        );
    }
    let prefix = &secret.prefix;
    if prefix.len() > PREFIX_BYTES_MAX || prefix.contains(char::is_control) {
        return refuse(
            &format!("{field}.prefix"),
            format!("must have at most {PREFIX_BYTES_MAX} bytes and no control characters"),
        );
    }
    Ok(())
}
