//! Static values: what may stand where.

use super::{Checked, Scope, check_used, refuse};
use crate::definition::Definition;
use crate::json::Json;
use crate::parameters::{SecretRef, Value};

const SECRET_NAME_BYTES_MAX: usize = 64;
const PREFIX_BYTES_MAX: usize = 256;

/// Where a static value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// In the URL: one value, no secret.
    Url,
    /// One value.
    Header,
    /// One value, or an array of such.
    Query,
    /// Anything, written as JSON.
    Json,
    /// Anything, written as a form.
    Form,
}

pub(super) fn check(
    definition: &Definition,
    scope: Scope,
    spot: Spot,
    field: &str,
    value: &Value,
) -> Checked {
    match value {
        Value::Literal(json) => check_literal(spot, field, json),
        Value::Text(template) => {
            check_used(definition, scope, field, template.variables())?;
            let is_header = spot == Spot::Header;
            if is_header && template.written().contains(char::is_control) {
                return refuse(field, "must not hold control characters");
            }
            if spot == Spot::Url && template.written().is_empty() {
                return refuse(field, "must not be empty");
            }
            Ok(())
        }
        Value::Secret(secret) => check_secret(spot, field, secret),
        Value::Array(items) => {
            let inner = match spot {
                Spot::Url | Spot::Header => return refuse(field, "must be a single value"),
                // Arrays in arrays have no place in a query.
                Spot::Query => Spot::Header,
                Spot::Json | Spot::Form => spot,
            };
            for (index, item) in items.iter().enumerate() {
                check(definition, scope, inner, &format!("{field}[{index}]"), item)?;
            }
            Ok(())
        }
        Value::Object(members) => {
            match spot {
                Spot::Url | Spot::Header => return refuse(field, "must be a single value"),
                Spot::Query => return refuse(field, "must be a single value or an array"),
                Spot::Json | Spot::Form => {}
            }
            for (name, member) in members {
                let field = format!("{field}.{name}");
                if spot == Spot::Form && (name.is_empty() || name.contains(['[', ']', '\0'])) {
                    return refuse(&field, "names in a form must not hold brackets");
                }
                check(definition, scope, spot, &field, member)?;
            }
            Ok(())
        }
    }
}

fn check_literal(spot: Spot, field: &str, json: &Json) -> Checked {
    match spot {
        Spot::Url | Spot::Header | Spot::Query if json.is_null() => {
            refuse(field, "must be a string, a number or a boolean")
        }
        Spot::Url | Spot::Header | Spot::Query | Spot::Json | Spot::Form => Ok(()),
    }
}

fn check_secret(spot: Spot, field: &str, secret: &SecretRef) -> Checked {
    if spot == Spot::Url {
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
