//! Contents of images and files that clients name by their addresses, for upstreams that get the contents themselves.
//!
//! Whoever writes a request chooses the addresses, so they are reached through a guarded client of their own: what
//! tools of the organization may reach beyond the public network is not allowed here, and no certificate is shown.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use http::header::CONTENT_TYPE;
use tokio::time::{Instant, timeout_at};
use tw_core::model::ReportedError;
use tw_core::turn::{ModelFailure, ModelFailureKind};
use tw_wire::format::WireFormat;
use tw_wire::part_addresses::{AddressedKind, AddressedRequest, PartAddress, PartContent};

use crate::client::failure::{FailureKind, SendFailure};
use crate::client::{
    ConnectionReuse, EgressClient, OutgoingRequest, ReceivedAnswer, RequestTimeouts,
};
use crate::off_thread::aside;

/// Limits of what is downloaded for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadLimits {
    /// Most bytes of one content.
    pub bytes_max: usize,
    /// Most bytes of all contents of a turn.
    pub turn_bytes_max: usize,
    /// Most addresses of a turn.
    pub addresses_max: usize,
    /// Longest time for all that one request names.
    pub timeout: Duration,
}

impl DownloadLimits {
    pub fn defaults() -> Self {
        Self {
            bytes_max: 20 * 1024 * 1024,
            turn_bytes_max: 32 * 1024 * 1024,
            addresses_max: 20,
            timeout: Duration::from_secs(20),
        }
    }
}

/// Longest time for a look-up, TCP and TLS together (the design, section 12).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A request from which this many bytes on are taken apart aside.
const ASIDE_BYTES_MIN: usize = 256 * 1024;

/// Downloads contents by their addresses. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PartDownloader {
    client: EgressClient,
    limits: DownloadLimits,
}

/// The contents that a turn has downloaded, so that each of its rounds sends the same ones.
#[derive(Clone, Default)]
pub struct DownloadedParts(Arc<Mutex<BTreeMap<PartAddress, Arc<PartContent>>>>);

impl std::fmt::Debug for DownloadedParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DownloadedParts")
    }
}

/// Downloads for the requests of one turn.
#[derive(Clone, Debug)]
pub struct TurnDownloads {
    pub downloader: PartDownloader,
    /// The slug of the turn's organization.
    pub organization: Arc<str>,
    pub parts: DownloadedParts,
}

/// The reason for which a content cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error("a turn may name at most {max} images and files by their addresses")]
    TooMany { max: usize },
    #[error("the images and files that are named by their addresses have more than {max} bytes")]
    TooLarge { max: usize },
    #[error("{} {}: {}", kind.as_str(), url_place, reason)]
    Part {
        kind: AddressedKind,
        /// The host of the address; the rest of it may be a secret.
        url_place: String,
        reason: PartFault,
    },
}

/// The fault of one content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartFault {
    #[error("its address does not exist or may not be reached from here")]
    NotReached,
    #[error("its address is no usable https URL")]
    BadAddress,
    #[error("its server did not answer")]
    Unanswered,
    #[error("its server took too long")]
    TooSlow,
    #[error("its server answered with status {0}")]
    Status(u16),
    #[error("it has more than {0} bytes")]
    TooLarge(usize),
    #[error("it is no PNG, JPEG, GIF or WebP")]
    NoImage,
    #[error("it is neither a PDF nor text in UTF-8")]
    NoFile,
}

impl DownloadError {
    /// The error's word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooMany { .. } => "too_many_addresses",
            Self::TooLarge { .. } => "download_too_large",
            Self::Part { .. } => "download_failed",
        }
    }

    /// The failure of the model request, which is its client's.
    pub(crate) fn failure(&self) -> ModelFailure {
        ModelFailure {
            kind: ModelFailureKind::Status(400),
            error: ReportedError {
                message: self.to_string(),
                kind: Some("invalid_request_error".to_owned()),
                code: Some(self.code().to_owned()),
                ..ReportedError::default()
            },
            retry_after: None,
            should_retry: None,
        }
    }
}

impl TurnDownloads {
    /// The request with the contents of all addresses that it names.
    ///
    /// # Errors
    /// [`DownloadError`], of the first content that is not to be had.
    ///
    /// # Cancel safety
    /// What was downloaded before stays with the turn.
    pub async fn put_into(
        &self,
        body: Vec<u8>,
        format: WireFormat,
    ) -> Result<Vec<u8>, DownloadError> {
        let is_large = body.len() >= ASIDE_BYTES_MIN;
        let Some(request) = aside(is_large, || AddressedRequest::read(&body, format)) else {
            return Ok(body);
        };
        let limits = &self.downloader.limits;
        let deadline = Instant::now() + limits.timeout;
        let addresses = request.addresses();
        if addresses.len() > limits.addresses_max {
            return Err(DownloadError::TooMany {
                max: limits.addresses_max,
            });
        }
        let mut contents: BTreeMap<PartAddress, Arc<PartContent>> = BTreeMap::new();
        let mut left = limits.turn_bytes_max;
        for address in addresses {
            let content = match self.parts.get(&address) {
                Some(known) => known,
                None => {
                    let content = self.download(&address, deadline).await?;
                    self.parts.put(address.clone(), content)
                }
            };
            let bytes = content.base64.len() / 4 * 3;
            left = left.checked_sub(bytes).ok_or(DownloadError::TooLarge {
                max: limits.turn_bytes_max,
            })?;
            contents.insert(address, content);
        }
        let is_large = is_large || left + ASIDE_BYTES_MIN < limits.turn_bytes_max;
        Ok(aside(is_large, || {
            request.with_contents(|address| contents.get(address).map(|content| &**content))
        }))
    }

    async fn download(
        &self,
        address: &PartAddress,
        deadline: Instant,
    ) -> Result<PartContent, DownloadError> {
        let failed = |reason| DownloadError::Part {
            kind: address.kind,
            url_place: place_of(&address.url),
            reason,
        };
        let bytes_max = self.downloader.limits.bytes_max;
        let total = deadline.saturating_duration_since(Instant::now());
        let request = OutgoingRequest {
            method: Method::GET,
            url: address.url.clone(),
            headers: vec![("accept".to_owned(), accepted(address.kind).to_owned())],
            body: Bytes::new(),
            timeouts: RequestTimeouts {
                connect: CONNECT_TIMEOUT.min(total),
                first_byte: total,
                idle: total,
                total,
            },
            response_bytes_max: bytes_max,
        };
        let client = &self.downloader.client;
        let sent = client.send(request, &self.organization, ConnectionReuse::Pooled);
        let received = match timeout_at(deadline, sent).await {
            Err(_elapsed) => return Err(failed(PartFault::TooSlow)),
            Ok(Err(failure)) => return Err(failed(fault_of(&failure))),
            Ok(Ok(received)) => received,
        };
        if !(200..300).contains(&received.status) {
            return Err(failed(PartFault::Status(received.status)));
        }
        if received.cut {
            return Err(failed(PartFault::TooLarge(bytes_max)));
        }
        aside(received.body.len() >= ASIDE_BYTES_MIN, || {
            content_of(address.kind, received)
        })
        .map_err(failed)
    }
}

impl DownloadedParts {
    fn get(&self, address: &PartAddress) -> Option<Arc<PartContent>> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.get(address).map(Arc::clone)
    }

    fn put(&self, address: PartAddress, content: PartContent) -> Arc<PartContent> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(parts.entry(address).or_insert_with(|| Arc::new(content)))
    }
}

impl PartDownloader {
    pub fn new(client: EgressClient, limits: DownloadLimits) -> Self {
        Self { client, limits }
    }
}

fn accepted(kind: AddressedKind) -> &'static str {
    match kind {
        AddressedKind::Image => "image/png, image/jpeg, image/gif, image/webp",
        AddressedKind::File => "application/pdf, text/*, */*;q=0.5",
    }
}

/// The host of an address, which is all of it that errors name.
fn place_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    host.chars().take(PLACE_CHARS_MAX).collect()
}

/// Longest host that an error names, in characters: that of a name.
const PLACE_CHARS_MAX: usize = 253;

/// Which names there are inside is nobody's business who may send a request, so failures before a connection are told
/// apart no further.
fn fault_of(failure: &SendFailure) -> PartFault {
    match failure.kind {
        FailureKind::BadUrl | FailureKind::BadRequest | FailureKind::NotHttps => {
            PartFault::BadAddress
        }
        FailureKind::TargetNotAllowed | FailureKind::Unresolved => PartFault::NotReached,
        FailureKind::TimedOut(_) => PartFault::TooSlow,
        FailureKind::LookUpFailed
        | FailureKind::Connect
        | FailureKind::Proxy
        | FailureKind::Tls(_)
        | FailureKind::Reset
        | FailureKind::NotHttp
        | FailureKind::HeadersTooLarge => PartFault::Unanswered,
    }
}

/// The content of an answer. Its first bytes say what it is, whatever its header says: providers look at them, too.
fn content_of(kind: AddressedKind, received: ReceivedAnswer) -> Result<PartContent, PartFault> {
    let header = received.headers.get(CONTENT_TYPE);
    let header = header.and_then(|value| value.to_str().ok());
    let header = header.unwrap_or_default().split(';').next();
    let header = header.unwrap_or_default().trim().to_ascii_lowercase();
    let found = signature(&received.body);
    let content = |media_type: &str, text: Option<String>| PartContent {
        media_type: media_type.to_owned(),
        base64: STANDARD.encode(&received.body),
        text,
    };
    match (kind, found) {
        (AddressedKind::Image, Some(found)) if found != PDF => Ok(content(found, None)),
        (AddressedKind::Image, Some(_) | None) => Err(PartFault::NoImage),
        (AddressedKind::File, Some(found)) if found == PDF => Ok(content(found, None)),
        (AddressedKind::File, Some(_)) => Err(PartFault::NoFile),
        (AddressedKind::File, None) => {
            let text = std::str::from_utf8(&received.body).map_err(|_| PartFault::NoFile)?;
            if !is_text(&header) || text.contains('\0') {
                return Err(PartFault::NoFile);
            }
            Ok(content(&header, Some(text.to_owned())))
        }
    }
}

const PDF: &str = "application/pdf";

/// The type that the first bytes of a content tell.
fn signature(body: &[u8]) -> Option<&'static str> {
    let signatures: [(&[u8], &str); 5] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"%PDF-", PDF),
    ];
    if body.starts_with(b"RIFF") && body.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    let found = signatures.iter().find(|(bytes, _)| body.starts_with(bytes));
    found.map(|(_, media_type)| *media_type)
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || matches!(media_type, "application/json" | "application/xml")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
}

#[cfg(test)]
mod tests;
