//! A request that goes to an upstream as it is, and its answer as it comes.
//!
//! Of the answer's headers only those that say what its body is are passed on: the others tell of
//! the operator's account there, of the upstream's own connections, or set cookies for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING,
    CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use tw_core::turn::{ModelFailure, ModelFailureKind};
use tw_wire::format::WireFormat;
use tw_wire::passed_headers::PassedHeaders;

use super::masked_errors::mask_error;
use super::model_exchange::{
    ERROR_BYTES_MAX, exchange, explain_refused_key, failure, first_byte_max, nonsense, should_retry,
};
use super::{Unanswered, Upstream, UpstreamConnections, UpstreamKind, request_target};
use crate::client::upstream_client::{Address, UpstreamExchange};
use crate::exchange::retry_after;
use crate::idle_timer::IdleTimer;

/// The relayed request as it is sent to an upstream.
#[derive(Clone, Debug)]
pub struct RelayedSent {
    /// Path of the API behind the version, such as `embeddings`.
    pub path: &'static str,
    /// The upstream's own name of the model, as in the body.
    pub model: String,
    pub content_type: HeaderValue,
    pub accept: Option<HeaderValue>,
    /// Headers of the client's for upstreams of some formats.
    pub passed: PassedHeaders,
    pub body: Bytes,
    /// A stream is asked for. The head of any other answer comes with its end.
    pub streamed: bool,
}

/// An answer with a status of success, whose body is being read.
pub struct RelayedAnswer {
    pub status: u16,
    pub format: WireFormat,
    /// Headers that are passed on.
    pub headers: HeaderMap,
    exchange: UpstreamExchange,
    idle: IdleTimer,
    idle_max: Duration,
}

const HEADERS_PASSED_ON: [HeaderName; 6] = [
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LENGTH,
    CONTENT_TYPE,
];

/// Sends a request and waits for the answer's head.
///
/// # Errors
/// As a model request fails; what the upstream says of it shows no key.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub async fn relay(
    connections: &UpstreamConnections,
    upstream: &Upstream,
    sent: RelayedSent,
) -> Result<RelayedAnswer, Unanswered> {
    if let UpstreamKind::Scripted(_) = &upstream.kind {
        let message = "the scripted model answers chat completions alone";
        return Err(failure(ModelFailureKind::Status(404), message).into());
    }
    let patience = first_byte_max(sent.streamed, upstream.timeouts.first_byte);
    let (address, request) = request_of(connections, upstream, sent)?;
    let (head, exchange) = exchange(connections, upstream, address, request, patience).await?;
    let (parts, ()) = head.into_parts();
    let idle_max = upstream.timeouts.idle;
    let mut answer = RelayedAnswer {
        status: parts.status.as_u16(),
        format: upstream.format,
        headers: parts.headers,
        exchange,
        idle: IdleTimer::new(patience.max(idle_max)),
        idle_max,
    };
    if !parts.status.is_success() {
        let aside = explain_refused_key(upstream, answer.status);
        let mut failure = answer.into_failure().await;
        if let Some(key) = upstream.kind.api_key() {
            mask_error(key, &mut failure.error);
        }
        return Err(Unanswered { failure, aside });
    }
    if answer.content_type().starts_with("text/html") {
        return Err(nonsense("the upstream answered with a web page").into());
    }
    answer.headers = passed_on(&answer.headers);
    Ok(answer)
}

fn request_of(
    connections: &UpstreamConnections,
    upstream: &Upstream,
    sent: RelayedSent,
) -> Result<(Arc<Address>, Request<Bytes>), ModelFailure> {
    let address = request_target::of(connections, upstream, sent.path, &sent.model)?;
    let mut request = request_target::request(Method::POST, upstream, &sent.passed)?
        .header(CONTENT_TYPE, sent.content_type)
        // The usage is read as the answer passes.
        .header(ACCEPT_ENCODING, "identity");
    if let Some(accept) = sent.accept {
        request = request.header(ACCEPT, accept);
    }
    if sent.body.is_empty() {
        request = request.header(CONTENT_LENGTH, "0");
    }
    let request = request.body(sent.body);
    Ok((address, request.map_err(|_| request_target::no_address())?))
}

/// The headers that are passed on, as they came and in their order; those between neighbours are not among them.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let kept = headers.iter();
    let mut kept: HeaderMap = kept
        .filter(|(name, _)| HEADERS_PASSED_ON.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if headers.contains_key(TRANSFER_ENCODING) {
        // Then it is not what the body's end is found by (RFC 9112, 6.3).
        kept.remove(CONTENT_LENGTH);
    }
    kept
}

impl RelayedAnswer {
    /// The content type in small letters; empty if the upstream does not say.
    pub fn content_type(&self) -> String {
        let written = self.headers.get(CONTENT_TYPE);
        let text = written.and_then(|value| value.to_str().ok());
        text.map(str::to_ascii_lowercase).unwrap_or_default()
    }

    /// The next bytes of the body; `None` at its end.
    ///
    /// # Errors
    /// When the connection breaks, or nothing comes for the time that the upstream may be silent.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Bytes, ModelFailure>> {
        let read = tokio::select! {
            biased;
            read = self.exchange.read() => read,
            () = self.idle.passed() => {
                let message = "the upstream fell silent";
                return Some(Err(failure(ModelFailureKind::Silent, message)));
            }
        };
        self.idle.begin_anew(self.idle_max);
        Some(read?.map_err(|()| {
            let message = "the upstream's answer broke off";
            failure(ModelFailureKind::Cut, message)
        }))
    }

    /// Keeps the connection for the next request, if the body's end has come.
    pub fn give_back(self) {
        self.exchange.give_back();
    }

    /// Reads what an answer with another status than success says.
    async fn into_failure(mut self) -> ModelFailure {
        let mut read = Vec::new();
        // A broken connection is judged by what came before it.
        while let Some(Ok(bytes)) = self.next().await {
            let room = ERROR_BYTES_MAX - read.len();
            read.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if room <= bytes.len() {
                break;
            }
        }
        let content_type = self.content_type();
        let content_type = (!content_type.is_empty()).then_some(&*content_type);
        let failure = ModelFailure {
            kind: ModelFailureKind::Status(self.status),
            error: self.format.decode_error(self.status, content_type, &read),
            retry_after: retry_after(&self.headers),
            should_retry: should_retry(&self.headers),
        };
        self.give_back();
        failure
    }
}
