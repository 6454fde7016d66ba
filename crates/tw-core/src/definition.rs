//! A tool as data: everything that its owner wrote, and what follows from it.
//!
//! [`ToolDefinition::check`] says whether it can be used; what else is here, and the requests in
//! [`crate::api_request`], hold for definitions that passed it.

mod callback;
mod check;
mod masking;
mod offered;
mod response;
mod secrets;
mod select;
mod walk;

use crate::api_request::ApiRequest;
use crate::hmac_rule::HmacRule;
use crate::parameters::Parameters;
use crate::template::TextTemplate;
use crate::tool::CallPolicy;

pub use callback::NoJobNamed;
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
    /// Set for a tool that completes by webhook.
    pub callback: Option<CallbackRules>,
}

/// The rules by which a tool's callbacks are taken.
#[derive(Clone, Debug, PartialEq)]
pub struct CallbackRules {
    /// The place of the job's id in the answer to the request; an answer without one there has started no job.
    pub external_id: Option<serde_json_path::JsonPath>,
    pub verification: CallbackVerification,
    /// Networks, such as `203.0.113.0/24`, from which callbacks come; empty for any.
    pub addresses: Vec<String>,
    /// `None` where every callback is the end of its call.
    pub status: Option<CallbackStatus>,
    /// The part of a callback that the model is shown; `None` for all of it.
    pub result: Option<ResponseSelect>,
    /// The place of what went wrong.
    pub error: Option<serde_json_path::JsonPath>,
}

/// Whether a callback has told the end of its job.
#[derive(Clone, Debug, PartialEq)]
pub struct CallbackStatus {
    pub path: serde_json_path::JsonPath,
    /// Values that say so; any other one says that the job goes on.
    pub completed: Vec<serde_json::Value>,
    pub failed: Vec<serde_json::Value>,
}

/// The way in which a callback shows that it is genuine, beside the token in its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackVerification {
    TokenAlone,
    /// Standard Webhooks, signed with one of these secrets.
    StandardWebhooks {
        secrets: Vec<String>,
    },
    Hmac {
        secrets: Vec<String>,
        rule: HmacRule,
    },
    /// One of these secrets is sent along.
    SharedSecret {
        secrets: Vec<String>,
        header: String,
    },
}

impl CallbackVerification {
    /// Names of secrets, of which one has to fit.
    pub fn secrets(&self) -> &[String] {
        match self {
            Self::TokenAlone => &[],
            Self::StandardWebhooks { secrets }
            | Self::Hmac { secrets, .. }
            | Self::SharedSecret { secrets, .. } => secrets,
        }
    }
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
