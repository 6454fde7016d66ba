//! A tool as data: everything that its owner wrote, and what follows from it.
//!
//! [`ToolDefinition::check`] says whether it can be used; what else is here, and the requests in
//! [`crate::api_request`], hold for definitions that passed it.

mod check;
mod job;
mod masking;
mod offered;
mod response;
mod secrets;
mod select;
mod walk;

use crate::api_request::{ApiRequest, PollRequest};
use crate::hmac_rule::HmacRule;
use crate::parameters::Parameters;
use crate::template::TextTemplate;
use crate::tool::CallPolicy;

pub use job::{JobAnswer, JobReading};
pub use masking::{MASK, MaskedCall, SensitiveCall};
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
    /// Set for a tool whose answer says that a job has started.
    pub job: Option<JobRules>,
}

/// The rules of a tool whose calls end later than the answers to their requests.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRules {
    /// `None` where every answer that the definition accepts has started a job.
    pub start: Option<JobStart>,
    /// Places of the job's id in the answer to the request, of which the first that holds one counts; an answer
    /// without one there has started no job. Empty where the jobs have no ids.
    pub external_id: Vec<serde_json_path::JsonPath>,
    /// Places of texts that are JSON themselves, which is read in their place, in answers to polls and in callbacks.
    pub json_in: Vec<serde_json_path::JsonPath>,
    /// `None` where nobody calls back.
    pub callback: Option<CallbackRules>,
    /// `None` where nobody can be asked.
    pub poll: Option<PollRules>,
    /// Files that the result names and that are copied.
    pub files: Option<FileRules>,
}

/// The files of a job's result that are copied into our own storage.
#[derive(Clone, Debug, PartialEq)]
pub struct FileRules {
    /// The places of their URLs.
    pub urls: serde_json_path::JsonPath,
    /// Media types, as those of a response.
    pub content_types: Vec<String>,
    pub bytes_max: usize,
    /// Others stay where they are.
    pub files_max: usize,
}

/// Whether the answer to a request has started a job, where its HTTP status does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStart {
    pub path: serde_json_path::JsonPath,
    /// Values that say so; any other one says that the job was refused.
    pub accepted: Vec<serde_json::Value>,
    /// Values of an answer that has started nothing, and that another request may follow.
    pub again: Vec<serde_json::Value>,
    /// Values of an answer that leaves it open.
    pub unknown: Vec<serde_json::Value>,
    /// The place of what went wrong.
    pub error: Option<serde_json_path::JsonPath>,
}

/// The rules by which a tool's callbacks are taken.
#[derive(Clone, Debug, PartialEq)]
pub struct CallbackRules {
    /// Places of the job's id; a callback with another one than the call's is not of it.
    pub external_id: Vec<serde_json_path::JsonPath>,
    pub verification: CallbackVerification,
    /// Networks, such as `203.0.113.0/24`, from which callbacks come; empty for any.
    pub addresses: Vec<String>,
    pub says: JobMapping,
}

/// The rules by which a job is asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct PollRules {
    pub request: PollRequest,
    /// Waits before the first poll and between the next ones; the last of them goes on.
    pub every: Vec<std::time::Duration>,
    /// A callback only has the job asked about, and its own words change nothing.
    pub confirms: bool,
    pub says: JobMapping,
}

/// What a callback, or the answer to a poll, says of its job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobMapping {
    /// `None` where every one is the end of its call.
    pub status: Option<JobStatus>,
    /// The part of it that the model is shown; `None` for all of it.
    pub result: Option<ResponseSelect>,
    /// The place of what went wrong.
    pub error: Option<serde_json_path::JsonPath>,
}

/// Whether a job has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatus {
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
