//! The request and the look-up: URL, headers, query and body.

use super::values::{self, StaticValuePlace};
use super::{CheckedDefinition, Scope, check_used, refuse};
use crate::api_request::{BodyFormat, LookUpRequest};
use crate::definition::ToolDefinition;
use crate::limits::RequestLimits;
use crate::parameters::ParameterValue;
use crate::tool::EffectClass;
use crate::variables::REFERENCE;

const HEADERS_MAX: usize = 64;
const QUERY_MAX: usize = 128;
const NAME_BYTES_MAX: usize = 256;

/// Headers that the client sets itself, or that speak to a hop between us and the server.
const HEADERS_REFUSED: [&str; 12] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "accept-encoding",
    "http2-settings",
];

pub(super) fn check(definition: &ToolDefinition, limits: &RequestLimits) -> CheckedDefinition {
    let request = &definition.request;
    check_used(definition, Scope::Request, "url", request.url.variables())?;
    check_headers(definition, Scope::Request, "headers", &request.headers)?;
    let taken: Vec<_> = request.url.query_names().collect();
    check_query(definition, Scope::Request, "query", &request.query, &taken)?;
    check_body(definition, limits)?;
    match (&request.look_up, definition.policy.effect) {
        (Some(look_up), EffectClass::Queryable) => check_look_up(definition, look_up),
        (None, EffectClass::Queryable) => {
            refuse("look_up", "is required with the effect \"queryable\"")
        }
        (Some(_), EffectClass::Read | EffectClass::Idempotent | EffectClass::Once) => {
            refuse("look_up", "may stand with the effect \"queryable\" only")
        }
        (None, EffectClass::Read | EffectClass::Idempotent | EffectClass::Once) => Ok(()),
    }
}

/// The problem of a header's name that a tool may not set; `None` for one that it may.
pub(super) fn header_problem(name: &str) -> Option<&'static str> {
    // RFC 9110, section 5.6.2.
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_token) {
        return Some("is not the name of a header");
    }
    let lower = name.to_ascii_lowercase();
    if HEADERS_REFUSED.contains(&lower.as_str()) || lower.starts_with("proxy-") {
        return Some("is a header that a tool cannot set");
    }
    None
}

pub(super) fn check_headers(
    definition: &ToolDefinition,
    scope: Scope,
    field: &str,
    headers: &[(String, ParameterValue)],
) -> CheckedDefinition {
    if headers.len() > HEADERS_MAX {
        return refuse(field, format!("must be at most {HEADERS_MAX}"));
    }
    for (index, (name, value)) in headers.iter().enumerate() {
        let field = format!("{field}.{name}");
        if let Some(problem) = header_problem(name) {
            return refuse(&field, problem);
        }
        let is_same = |(other, _): &(String, ParameterValue)| other.eq_ignore_ascii_case(name);
        if headers[..index].iter().any(is_same) {
            return refuse(&field, "is given twice");
        }
        values::check(definition, scope, StaticValuePlace::Header, &field, value)?;
    }
    Ok(())
}

pub(super) fn check_query(
    definition: &ToolDefinition,
    scope: Scope,
    field: &str,
    query: &[(String, ParameterValue)],
    taken: &[String],
) -> CheckedDefinition {
    if query.len() > QUERY_MAX {
        return refuse(field, format!("must be at most {QUERY_MAX}"));
    }
    for (index, (name, value)) in query.iter().enumerate() {
        let field = format!("{field}.{name}");
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
            return refuse(
                &field,
                format!("names must have 1 to {NAME_BYTES_MAX} bytes and no control characters"),
            );
        }
        if taken.contains(name) {
            return refuse(&field, "the URL's query has this name already");
        }
        if query[..index].iter().any(|(other, _)| other == name) {
            return refuse(&field, "is given twice");
        }
        values::check(definition, scope, StaticValuePlace::Query, &field, value)?;
    }
    Ok(())
}

fn check_body(definition: &ToolDefinition, limits: &RequestLimits) -> CheckedDefinition {
    let request = &definition.request;
    if !request.body.is_empty() && !request.method.may_have_body() {
        return refuse(
            "body",
            format!("a {} request has no body", request.method.as_str()),
        );
    }
    if let Some(name) = &request.body_under {
        if request.body_format != BodyFormat::Json || !request.method.may_have_body() {
            return refuse("body_under", "may stand with a JSON body only");
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return refuse(
                "body_under",
                format!("must have 1 to {NAME_BYTES_MAX} bytes"),
            );
        }
    }
    let spot = match request.body_format {
        BodyFormat::Json => StaticValuePlace::Json,
        BodyFormat::Form => StaticValuePlace::Form,
    };
    for (index, (name, value)) in request.body.iter().enumerate() {
        let field = format!("body.{name}");
        if depth(value) > limits.schema_depth_max {
            return refuse(&field, nests_deeper(limits));
        }
        if request.body[..index].iter().any(|(other, _)| other == name) {
            return refuse(&field, "is given twice");
        }
        values::check(definition, Scope::Request, spot, &field, value)?;
    }
    Ok(())
}

pub(super) fn nests_deeper(limits: &RequestLimits) -> String {
    format!(
        "must not nest deeper than {} levels",
        limits.schema_depth_max
    )
}

pub(super) fn depth(value: &ParameterValue) -> usize {
    match value {
        ParameterValue::Literal(_) | ParameterValue::Text(_) | ParameterValue::Secret(_) => 0,
        ParameterValue::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        ParameterValue::Object(members) => {
            1 + members.iter().map(|(_, v)| depth(v)).max().unwrap_or(0)
        }
    }
}

fn check_look_up(definition: &ToolDefinition, look_up: &LookUpRequest) -> CheckedDefinition {
    let url = &look_up.url;
    if url
        .path_parameters()
        .chain(url.query_parameters())
        .next()
        .is_some()
    {
        return refuse(
            "look_up.url",
            "a look-up has no arguments; only {{variables}} may stand in its URL",
        );
    }
    check_used(definition, Scope::LookUp, "look_up.url", url.variables())?;
    check_headers(
        definition,
        Scope::LookUp,
        "look_up.headers",
        &look_up.headers,
    )?;
    let taken: Vec<_> = url.query_names().collect();
    check_query(
        definition,
        Scope::LookUp,
        "look_up.query",
        &look_up.query,
        &taken,
    )?;
    let members = look_up.headers.iter().chain(&look_up.query);
    let asks = url.variables().any(|name| name == REFERENCE)
        || members.clone().any(|(_, value)| value.names(REFERENCE));
    if !asks {
        return refuse(
            "look_up",
            "must name the variable {{reference}}, or it would ask for no call in particular",
        );
    }
    for status in &look_up.absent {
        if !(400..600).contains(status) {
            return refuse("look_up.absent", "must be statuses from 400 to 599");
        }
    }
    Ok(())
}
