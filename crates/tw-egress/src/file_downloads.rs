//! Copies of files that tools name: one request through the guarded client for each.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::CONTENT_TYPE;
use sha2::{Digest, Sha256};
use tw_core::call_file::{FileContent, FileFault};
use tw_core::definition::ToolDefinition;

use crate::client::failure::FailureKind;
use crate::client::{ConnectionReuse, EgressClient, OutgoingRequest, RequestTimeouts};
use crate::off_thread::aside;

/// Longest time for a look-up, TCP and TLS together (the design, section 12).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for a file, whatever its tool's own timeout is: large ones take longer than answers.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(60);
/// A file that is larger than this may take milliseconds to hash, in bytes.
const ASIDE_BYTES_MIN: usize = 256 * 1024;

/// Downloads a file that a tool's answer names. No secrets of the tool go along: whoever has the answer has the link.
///
/// # Cancel safety
/// That of [`EgressClient::send`].
pub async fn download(
    client: &EgressClient,
    definition: &ToolDefinition,
    organization: &str,
    url: &str,
) -> FileContent {
    let job = definition.job.as_ref();
    let Some(rules) = job.and_then(|job| job.files.as_ref()) else {
        return FileContent::Missing(FileFault::NotAllowed);
    };
    let request = OutgoingRequest {
        method: Method::GET,
        url: url.to_owned(),
        headers: Vec::new(),
        body: Bytes::new(),
        timeouts: RequestTimeouts {
            connect: CONNECT_TIMEOUT,
            first_byte: TOTAL_TIMEOUT,
            idle: TOTAL_TIMEOUT,
            total: TOTAL_TIMEOUT,
        },
        response_bytes_max: rules.bytes_max,
    };
    let received = match client
        .send(request, organization, ConnectionReuse::Pooled)
        .await
    {
        Ok(received) => received,
        Err(failure) => {
            return FileContent::Missing(match failure.kind {
                FailureKind::TargetNotAllowed
                | FailureKind::Unresolved
                | FailureKind::NotHttps
                | FailureKind::BadUrl
                | FailureKind::BadRequest => FileFault::NotAllowed,
                FailureKind::TimedOut(_)
                | FailureKind::LookUpFailed
                | FailureKind::Connect
                | FailureKind::Proxy
                | FailureKind::Tls(_)
                | FailureKind::Reset
                | FailureKind::NotHttp
                | FailureKind::HeadersTooLarge => FileFault::Unanswered,
            });
        }
    };
    match received.status {
        200 => {}
        408 | 425 | 429 | 500.. => return FileContent::Missing(FileFault::Unanswered),
        _ => return FileContent::Missing(FileFault::Gone),
    }
    if received.cut {
        return FileContent::Missing(FileFault::TooLarge);
    }
    let named = received.headers.get(CONTENT_TYPE);
    let named = named.and_then(|value| value.to_str().ok());
    let content_type = media_type(named.unwrap_or_default());
    let is_what_it_says = fits_content(&content_type, &received.body);
    if !definition.takes_file(&content_type) || !is_what_it_says {
        return FileContent::Missing(FileFault::WrongType);
    }
    let bytes: Arc<[u8]> = received.body.into();
    let hash = aside(bytes.len() > ASIDE_BYTES_MIN, || {
        Sha256::digest(&bytes).into()
    });
    FileContent::Kept {
        bytes,
        hash,
        content_type,
    }
}

/// The media type of a header's value without its parameters; empty for what is none.
fn media_type(named: &str) -> String {
    let essence = named.split(';').next().unwrap_or_default().trim();
    let is_token = |text: &str| {
        let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !text.is_empty() && text.bytes().all(is_of_token)
    };
    match essence.split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) => {
            essence.to_ascii_lowercase()
        }
        Some(_) | None => String::new(),
    }
}

/// Whether an image of a common type begins as one does: a page that says "not here any more" is no image.
fn fits_content(content_type: &str, body: &[u8]) -> bool {
    match content_type {
        "image/png" => body.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => body.starts_with(b"\xff\xd8\xff"),
        "image/gif" => body.starts_with(b"GIF8"),
        "image/webp" => body.starts_with(b"RIFF") && body.get(8..12) == Some(b"WEBP"),
        _ => !body.is_empty(),
    }
}
