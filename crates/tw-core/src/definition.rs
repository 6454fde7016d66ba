//! A tool as data: everything that its owner wrote, and what follows from it.
//!
//! [`ToolDefinition::check`] says whether it can be used; what else is here, and the requests in
//! [`crate::api_request`], hold for definitions that passed it.

mod check;
mod masking;
mod offered;
mod response;
mod secrets;
mod select;
mod walk;

use crate::api_request::ApiRequest;
use crate::parameters::Parameters;
use crate::template::TextTemplate;
use crate::tool::CallPolicy;

pub use masking::MaskedCall;
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
    /// Value where the request gives none; a call that needs the variable fails when this is
    /// `None`, too.
    pub default: Option<String>,
}

/// The rules by which a response is an answer, and by which the model is shown a part of it.
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
    /// The statuses of a hundred, such as 2 for `2xx`.
    Hundred(u16),
    Exactly(u16),
}

/// The first problem of a definition, with the field that has it.
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
