//! The kind `api_request`: an HTTP request made from a definition, arguments and variables.
//!
//! Start reading at `build.rs`.

pub(crate) use build::ParameterLanding;

mod build;
mod encode;
mod fill;
mod url;

use std::fmt;

use crate::parameters::{ParameterValue, SecretRef};
use crate::template::{BadTemplate, RenderError};
use crate::variables::{EXTERNAL_ID, REFERENCE, Variables};

/// The request of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiRequest {
    pub method: Method,
    pub url: UrlTemplate,
    pub headers: Vec<(String, ParameterValue)>,
    pub query: Vec<(String, ParameterValue)>,
    /// Static members of the body; they win over parameters.
    pub body: Vec<(String, ParameterValue)>,
    pub body_format: BodyFormat,
    /// Member of a JSON body that holds the parameters that go there; `None` where they are its members.
    pub body_under: Option<String>,
    pub look_up: Option<LookUpRequest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const ALL: [Self; 6] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Patch,
        Self::Delete,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Reads the name of a method, in upper case only, as in HTTP.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }

    pub fn may_have_body(self) -> bool {
        match self {
            Self::Get | Self::Head => false,
            Self::Post | Self::Put | Self::Patch | Self::Delete => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    Json,
    Form,
}

impl BodyFormat {
    pub const ALL: [Self; 2] = [Self::Json, Self::Form];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Form => "form",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == text)
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Form => "application/x-www-form-urlencoded",
        }
    }
}

/// The request, always a GET, that asks the provider whether an earlier request of ours arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct LookUpRequest {
    pub url: UrlTemplate,
    pub headers: Vec<(String, ParameterValue)>,
    pub query: Vec<(String, ParameterValue)>,
    /// Statuses that say that the request did not arrive.
    pub absent: Vec<u16>,
}

/// The request that asks how a job does.
#[derive(Clone, Debug, PartialEq)]
pub struct PollRequest {
    pub method: Method,
    pub url: UrlTemplate,
    pub headers: Vec<(String, ParameterValue)>,
    pub query: Vec<(String, ParameterValue)>,
    /// Members of a JSON body; empty for none.
    pub body: Vec<(String, ParameterValue)>,
}

impl PollRequest {
    /// Whether it asks by the id that the tool has given the job.
    pub fn names_external_id(&self) -> bool {
        self.names(EXTERNAL_ID)
    }

    /// Whether it asks by the call's own idempotency key.
    pub fn names_reference(&self) -> bool {
        self.names(REFERENCE)
    }

    fn names(&self, variable: &str) -> bool {
        let mut members = self.headers.iter().chain(&self.query).chain(&self.body);
        self.url.variables().any(|name| name == variable)
            || members.any(|(_, value)| value.names(variable))
    }
}

/// A URL whose scheme, host and port are literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlTemplate {
    /// Scheme, host and port, as a browser would write them, such as `https://api.example.com`.
    origin: String,
    /// Host without port.
    host: String,
    /// Begins with `/`.
    path: Vec<UrlPiece>,
    /// The parts of the query between `&`s, each as `name=…`.
    query: Vec<Vec<UrlPiece>>,
    /// The whole URL as it was written.
    written: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum UrlPiece {
    /// Path and query text, already valid in a URL.
    Text(String),
    /// `{{name}}`.
    Variable(String),
    /// `{name}`.
    Parameter(String),
}

/// A request, ready to be sent or shown.
///
/// Values of headers hold no control characters, but may hold characters beyond ASCII, which go
/// out as UTF-8.
#[derive(Clone, PartialEq, Eq)]
pub struct BuiltRequest {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
}

/// The values that a request is made from, beside the definition and the model's arguments.
pub struct RequestInputs<'a> {
    pub variables: &'a Variables,
    /// The value of a secret, without its prefix.
    pub secret: &'a dyn Fn(&SecretRef) -> Option<String>,
    /// The call's idempotency key.
    pub reference: &'a str,
}

/// The reason for which a request could not be made; the text is for the model and for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BuildError(pub String);

impl From<RenderError> for BuildError {
    fn from(error: RenderError) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Debug for BuiltRequest {
    /// Leaves out all that may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("BuiltRequest")
            .field("method", &self.method)
            .field("url", &self.url.split('?').next().unwrap_or_default())
            .field("headers", &names)
            .field("body_bytes", &self.body.as_ref().map(String::len))
            .finish()
    }
}

impl UrlTemplate {
    /// Reads a URL whose path and query may hold `{parameter}`s and `{{variable}}`s.
    ///
    /// # Errors
    /// [`BadTemplate`] for anything but `http` and `https`, for braces or user info in front of
    /// the path, for a fragment, and for characters that two parsers might read differently.
    pub fn parse(text: &str) -> Result<Self, BadTemplate> {
        url::parse(text)
    }

    /// The host, without port; an IPv6 address stands in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Scheme, host, and the port if it is not the scheme's default.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The host, with the port if that is not the scheme's default.
    pub fn host_and_port(&self) -> &str {
        self.origin
            .split_once("://")
            .map_or(self.origin.as_str(), |(_, place)| place)
    }

    pub fn written(&self) -> &str {
        &self.written
    }
}

#[cfg(test)]
mod tests;
