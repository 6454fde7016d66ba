//! Model providers: one request and its answer, decoded.

mod asking;
mod scripted_body;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::scripted::Script;
use crate::secret::Secret;

pub use asking::{Asking, Progress};

/// A model provider.
#[derive(Debug)]
pub struct Upstream {
    /// The name in the config and in records.
    pub name: String,
    pub kind: UpstreamKind,
    pub timeouts: Timeouts,
    /// Ask for usage in streams; off for servers that refuse `stream_options`.
    pub ask_usage: bool,
    /// Longest plain answer, and longest event of a stream, in bytes.
    pub answer_bytes_max: usize,
}

#[derive(Debug)]
pub enum UpstreamKind {
    /// Speaks OpenAI's chat completions over HTTP.
    OpenAi {
        /// Up to and with `/v1`, without a slash at the end.
        base_url: String,
        api_key: Option<Secret>,
    },
    /// A scripted model inside this process.
    Scripted(Arc<Script>),
}

/// How long an upstream may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// From the request until the answer's head.
    pub first_byte: Duration,
    /// Between two reads of the answer.
    pub idle: Duration,
}

impl Timeouts {
    /// The defaults of the design, section 12.
    pub fn defaults() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
        }
    }
}

pub(crate) type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The connections to all upstreams.
#[derive(Clone, Debug)]
pub struct Connections(HttpClient);

/// Idle connections kept to each upstream.
const IDLE_CONNECTIONS_MAX: usize = 256;
/// Idle connections are closed after this; common servers close theirs after 60 s or more.
const IDLE_CONNECTION_KEPT: Duration = Duration::from_secs(50);

impl Connections {
    pub fn new(connect_timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_timeout));
        let tls = HttpsConnectorBuilder::new()
            .with_webpki_roots()
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_CONNECTION_KEPT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            // A request that may have been sent is repeated by the turn or by nobody.
            .retry_canceled_requests(false)
            .build(tls);
        Self(client)
    }
}
