//! Sends spans to the operator's collector, as OTLP over HTTP in protobuf.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tw_wire::otlp::spans_rejected;

use crate::client::{ConnectionReuse, EgressClient, OutgoingRequest, RequestTimeouts};
use crate::exchange::retry_after;

/// The organization in whose name spans leave: the client that sends them knows no other.
pub const COLLECTOR_ORGANIZATION: &str = "default";
/// Bytes of an answer that are kept: it counts what was not taken.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The collector that spans are sent to.
#[derive(Clone)]
pub struct OtlpCollector {
    /// A client that reaches the collector wherever that is, and nothing else that is private.
    pub client: EgressClient,
    /// The whole URL, up to and with `/v1/traces`.
    pub url: String,
    /// Further headers, which may hold a key.
    pub headers: Vec<(String, String)>,
    /// Limit of one request.
    pub timeout: Duration,
}

/// Leaves out the headers.
impl fmt::Debug for OtlpCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpCollector")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Spans that were not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpansRefused {
    /// The same may be taken later.
    pub may_be_repeated: bool,
    pub retry_after: Option<Duration>,
    /// Text for the operator's log.
    pub cause: String,
}

impl OtlpCollector {
    /// Sends a body once, and says how many of its spans the collector took and dropped all the same.
    ///
    /// # Errors
    /// When it took none.
    pub async fn send(&self, body: Bytes) -> Result<u64, SpansRefused> {
        let content_type = (
            "content-type".to_owned(),
            "application/x-protobuf".to_owned(),
        );
        let mut headers = vec![content_type];
        headers.extend(self.headers.iter().cloned());
        let request = OutgoingRequest {
            method: Method::POST,
            url: self.url.clone(),
            headers,
            body,
            timeouts: RequestTimeouts {
                connect: self.timeout,
                first_byte: self.timeout,
                idle: self.timeout,
                total: self.timeout,
            },
            response_bytes_max: ANSWER_BYTES_MAX,
        };
        let sent = self
            .client
            .send(request, COLLECTOR_ORGANIZATION, ConnectionReuse::Pooled)
            .await;
        let answer = sent.map_err(|failure| SpansRefused {
            may_be_repeated: true,
            retry_after: None,
            cause: failure.cause,
        })?;
        match answer.status {
            200..300 => Ok(spans_rejected(&answer.body)),
            // As the protocol says; another status stays what it is.
            status => Err(SpansRefused {
                may_be_repeated: matches!(status, 429 | 502 | 503 | 504),
                retry_after: retry_after(&answer.headers),
                cause: format!("the collector answered {status}"),
            }),
        }
    }
}
