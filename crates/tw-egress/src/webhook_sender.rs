//! Sends webhooks, through the guarded client: what an organization writes as a webhook's URL is as little trusted as
//! what it writes as a tool's.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tw_core::time::Timestamp;
use tw_core::webhook::DeliveryFault;

use crate::client::failure::{FailureKind, SendFailure};
use crate::client::{
    ConnectionReuse, EgressClient, OutgoingRequest, ReceivedAnswer, RequestTimeouts,
};
use crate::exchange::retry_after;
use crate::webhook_signature::{
    ID_HEADER, SIGNATURE_HEADER, SigningSecret, TIMESTAMP_HEADER, sign,
};

/// Limit of the look-up, TCP and TLS of a delivery.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Limit of a whole attempt; longer work belongs behind the answer.
pub const ATTEMPT_MAX: Duration = Duration::from_secs(15);
/// Bytes of an answer that are kept: only its status counts.
const ANSWER_BYTES_MAX: usize = 1_024;

/// A message to a webhook.
#[derive(Clone, Debug)]
pub struct WebhookMessage {
    pub url: String,
    /// Slug of the organization whose webhook it is.
    pub organization: String,
    pub id: String,
    pub body: Bytes,
    /// Secrets that it is signed with.
    pub secrets: Vec<SigningSecret>,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookReply {
    pub http_status: Option<u16>,
    /// `None` when it was taken.
    pub fault: Option<DeliveryFault>,
    /// Time for which the webhook wants to be left alone.
    pub retry_after: Option<Duration>,
    /// Text for the operator's log alone: it names hosts and addresses.
    pub cause: Option<String>,
}

/// Sends a message once, signed as of `now`.
pub async fn send(client: &EgressClient, message: &WebhookMessage, now: Timestamp) -> WebhookReply {
    let first = client
        .send(
            request(message, now),
            &message.organization,
            ConnectionReuse::Pooled,
        )
        .await;
    let sent = match first {
        // The other side may have closed a connection that waited; a message may come twice.
        Err(failure) if failure.kind == FailureKind::Reset => {
            let request = request(message, now);
            let organization = &message.organization;
            client
                .send(request, organization, ConnectionReuse::Fresh)
                .await
        }
        sent => sent,
    };
    match sent {
        Ok(answer) => answered(&answer),
        Err(failure) => failed(failure),
    }
}

fn request(message: &WebhookMessage, now: Timestamp) -> OutgoingRequest {
    let at_s = now.seconds();
    let signature = sign(&message.secrets, &message.id, at_s, &message.body);
    let header = |name: &str, value: String| (name.to_owned(), value);
    OutgoingRequest {
        method: Method::POST,
        url: message.url.clone(),
        headers: vec![
            header("content-type", "application/json".to_owned()),
            header(ID_HEADER, message.id.clone()),
            header(TIMESTAMP_HEADER, at_s.to_string()),
            header(SIGNATURE_HEADER, signature),
        ],
        body: message.body.clone(),
        timeouts: RequestTimeouts {
            connect: CONNECT_MAX,
            first_byte: ATTEMPT_MAX,
            idle: ATTEMPT_MAX,
            total: ATTEMPT_MAX,
        },
        response_bytes_max: ANSWER_BYTES_MAX,
    }
}

fn answered(answer: &ReceivedAnswer) -> WebhookReply {
    let fault = match answer.status {
        200..300 => None,
        300..400 => Some(DeliveryFault::Redirect),
        410 => Some(DeliveryFault::Gone),
        _ => Some(DeliveryFault::Status),
    };
    WebhookReply {
        http_status: Some(answer.status),
        fault,
        retry_after: retry_after(&answer.headers),
        cause: None,
    }
}

fn failed(failure: SendFailure) -> WebhookReply {
    let fault = match failure.kind {
        FailureKind::BadUrl
        | FailureKind::BadRequest
        | FailureKind::NotHttps
        | FailureKind::TargetNotAllowed => DeliveryFault::NotAllowed,
        FailureKind::Unresolved
        | FailureKind::LookUpFailed
        | FailureKind::Connect
        | FailureKind::Proxy
        | FailureKind::Tls(_) => DeliveryFault::Connect,
        FailureKind::Reset | FailureKind::NotHttp | FailureKind::HeadersTooLarge => {
            DeliveryFault::Reset
        }
        FailureKind::TimedOut(_) => DeliveryFault::Timeout,
    };
    WebhookReply {
        http_status: None,
        fault: Some(fault),
        retry_after: None,
        cause: Some(failure.cause),
    }
}
