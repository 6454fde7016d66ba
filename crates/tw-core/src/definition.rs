//! A tool as data: everything that its owner wrote, and what follows from it.
//!
//! [`ToolDefinition::check`] says whether it can be used; what else is here, and the requests in
//! [`crate::api_request`], hold for definitions that passed it.

mod check;
mod offered;
mod response;
mod secrets;
mod select;
mod walk;

use crate::api_request::ApiRequest;
use crate::parameters::Parameters;
use crate::template::TextTemplate;
use crate::tool::CallPolicy;

pub use secrets::SecretUse;

/// A tool as its owner defined it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    pub name: String,
    pub label: String,
    pub description: TextTemplate,
    pub parameters: Parameters,
    pub variables: Vec<DeclaredVariable>,
    pub request: ApiRequest,
    pub response: ResponseRules,
    pub policy: CallPolicy,
}

/// A variable whose value comes from the request's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredVariable {
    pub name: String,
    pub description: String,
    /// `None`: a call that needs it fails when the request does not give it.
    pub default: Option<String>,
}

/// What of a response is an answer, and what of an answer the model is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseRules {
    pub select: Option<ResponseSelect>,
    /// Media types given as text: `type/subtype`, `type/*` or `type/*+suffix`, lower case.
    pub content_types: Vec<String>,
    pub statuses: Vec<StatusRule>,
    pub kept_bytes_max: usize,
}

/// JSONPath (RFC 9535) into the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseSelect {
    One(serde_json_path::JsonPath),
    /// An object of what each finds.
    Named(Vec<(String, serde_json_path::JsonPath)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusRule {
    /// All of a hundred, such as 2 for `2xx`.
    Hundred(u16),
    Exactly(u16),
}

/// What is wrong with a definition, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct DefinitionError {
    /// A path such as `parameters.contact.properties.email.schema`.
    pub field: String,
    pub problem: String,
}

impl DefinitionError {
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
