//! Model providers: one request and its answer, decoded.

pub mod check;
mod content_encoding;
mod first_bytes;
pub mod listing;
mod masked_errors;
mod model_exchange;
pub mod relayed_exchange;
mod request_target;
mod scripted_body;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tw_core::accepts::Accepts;
use tw_core::model_names::ModelNames;
use tw_core::native::AnswerOrigin;
use tw_wire::format::WireFormat;

use crate::client::route::Route;
use crate::client::upstream_client::UpstreamClient;
use crate::client::web_roots;
use crate::scripted::Script;
use crate::secret::Secret;

pub use model_exchange::{ModelExchange, ModelProgress, SentModelRequest, Unanswered};

/// A model provider.
#[derive(Debug)]
pub struct Upstream {
    /// The name in the config and in records.
    pub name: String,
    pub kind: UpstreamKind,
    /// The format in which it is asked and answers.
    pub format: WireFormat,
    pub models: ModelNames,
    pub timeouts: UpstreamTimeouts,
    pub accepts: Accepts,
    /// Longest plain answer, and longest event of a stream, in bytes.
    pub answer_bytes_max: usize,
    pub access: UpstreamAccess,
}

/// The way to an upstream, and what its operator calls that.
#[derive(Clone, Debug)]
pub struct UpstreamAccess {
    pub route: Route,
    /// The setting or variable of the address, such as `OPENAI_BASE_URL`.
    pub base_url_setting: String,
    /// The variable that holds the key, or else the setting that would name one.
    pub api_key_setting: String,
}

impl UpstreamAccess {
    /// The access without a proxy, to servers that browsers trust.
    pub fn direct() -> Self {
        Self {
            route: Route::direct(web_roots()),
            base_url_setting: "base_url".to_owned(),
            api_key_setting: "api_key_env".to_owned(),
        }
    }
}

impl Upstream {
    /// The origin of its answers to requests for a model, which its clients know by `asked`.
    pub fn origin(&self, asked: &str) -> AnswerOrigin {
        AnswerOrigin {
            format: self.format.format_name(),
            upstream: self.name.as_str().into(),
            model: self.models.sent(asked).into(),
        }
    }

    /// The URL to which its requests go, for the operator's log; `None` inside this process.
    pub fn shown_url(&self) -> Option<String> {
        match &self.kind {
            UpstreamKind::Http { base_url, .. } => {
                Some(format!("{base_url}/{}", self.format.path()))
            }
            UpstreamKind::Azure { base_url, .. } => Some(format!("{base_url}/openai")),
            UpstreamKind::Scripted(_) => None,
        }
    }
}

#[derive(Debug)]
pub enum UpstreamKind {
    /// A server whose API begins at a base URL.
    Http {
        /// Base URL up to and with `/v1`, without a slash at the end.
        base_url: String,
        api_key: Option<Secret>,
    },
    /// An Azure resource; its deployments are the models.
    Azure {
        /// Base URL of the resource, without a slash at the end.
        base_url: String,
        api_key: Option<Secret>,
        /// Version of the API in the query; `None` for the newer form of the API, which has none.
        api_version: Option<String>,
    },
    /// A scripted model inside this process.
    Scripted(Arc<Script>),
}

/// Time limits of an exchange with an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    pub connect: Duration,
    /// Limit from the request until the first part of a streamed answer. A plain answer is waited
    /// for as long as its turn may take.
    pub first_byte: Duration,
    /// Limit between two reads of the answer.
    pub idle: Duration,
}

impl UpstreamTimeouts {
    /// The defaults of the design, section 12, but for the first byte: a local model sends its head
    /// when it has read the prompt, and the official clients wait ten minutes for it.
    pub fn defaults() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(60),
        }
    }
}

/// The connections to all upstreams.
#[derive(Clone)]
pub struct UpstreamConnections(pub(crate) UpstreamClient);

/// Idle connections kept, over all upstreams.
const IDLE_CONNECTIONS_MAX: usize = 1024;
/// Idle connections are closed after this; common servers close theirs after 60 s or more.
const IDLE_CONNECTION_KEPT: Duration = Duration::from_secs(50);

impl Default for UpstreamConnections {
    fn default() -> Self {
        Self(UpstreamClient::new(
            IDLE_CONNECTION_KEPT,
            IDLE_CONNECTIONS_MAX,
        ))
    }
}

impl fmt::Debug for UpstreamConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpstreamConnections")
    }
}
