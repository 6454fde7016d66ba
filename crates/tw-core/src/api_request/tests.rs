mod bodies;
mod hostile;
mod identity;
mod properties;
mod urls;

use std::sync::Arc;

use serde_json::Value;

use super::{BuiltRequest, RequestInputs};
use crate::arguments::{self, ArgumentsEnd, ValidArgs};
use crate::definition::ToolDefinition;
use crate::definition::tests::sample;
use crate::json::Literal;
use crate::limits::RequestLimits;
use crate::variables::Variables;

const REFERENCE: &str = "call-1";

/// A definition that passes the check, and arguments that its function schema accepts.
fn called(tool: &Value, args: &str) -> (Arc<ToolDefinition>, ValidArgs) {
    let definition = Arc::new(sample::definition(tool));
    definition.check(&RequestLimits::defaults()).unwrap();
    let offered = definition.tool(None, &Variables::default()).unwrap();
    let args = arguments::read(
        &Literal::from_text(args),
        ArgumentsEnd::InFull,
        &offered.schema,
        &offered.parameters,
    )
    .unwrap();
    (definition, args)
}

fn variables() -> Variables {
    let mut variables = Variables::default();
    for (name, value) in [
        ("organization", "acme"),
        ("end_user", "a/b?c=d&e#f%41\\ \"g\"{{organization}}"),
        ("conversation", "..\\%2e%2e"),
        ("turn", "a\r\nX-Evil: 1"),
        ("tool_call", ""),
    ] {
        variables.set(name, value.to_owned());
    }
    variables
}

fn given(variables: &Variables) -> RequestInputs<'_> {
    RequestInputs {
        variables,
        secret: &|secret| match secret.name.as_str() {
            "KEY" => Some("s3cr3t".to_owned()),
            "LINES" => Some("s3cr3t\n".to_owned()),
            _ => None,
        },
        reference: REFERENCE,
    }
}

fn request(tool: &Value, args: &str) -> Result<BuiltRequest, String> {
    let (definition, args) = called(tool, args);
    definition
        .request(&args, &given(&variables()))
        .map_err(|error| error.0)
}

/// The request as text, one line for each part.
fn built(tool: &Value, args: &str) -> Result<String, String> {
    request(tool, args).map(|request| as_text(&request))
}

fn as_text(request: &BuiltRequest) -> String {
    let mut text = format!("{} {}", request.method.as_str(), request.url);
    for (name, value) in &request.headers {
        text.push_str(&format!("\n{name}: {value}"));
    }
    if let Some(body) = &request.body {
        text.push_str(&format!("\n\n{body}"));
    }
    text
}
