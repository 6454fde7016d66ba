//! Probes: tools that send their arguments to a listener on loopback, for tests of the loop.
//!
//! They exist in debug builds only; a release build refuses their calls.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sha2::{Digest, Sha256};
use tw_core::limits;
use tw_core::tool::{LookUp, Probe, ToolOutcome, ToolOutput};

use crate::tools::Attempt;

/// Sends for all probes.
#[derive(Clone, Debug)]
pub struct Prober(Client<HttpConnector, Full<Bytes>>);

/// A listener may close an idle connection at any time, and a request that meets the close is
/// one whose outcome is unknown; so idle connections live shortly (design, section 3).
const IDLE_CONNECTION_KEPT: Duration = Duration::from_secs(2);
/// Answers longer than this are not read on, even to be counted.
const READ_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longest message of a tool's refusal that is given to the model, in bytes.
const REFUSAL_BYTES_MAX: usize = 2048;

impl Prober {
    pub fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        Self(
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_CONNECTION_KEPT)
                .retry_canceled_requests(false)
                .build(tcp),
        )
    }

    pub(crate) async fn send(&self, probe: &Probe, attempt: &Attempt) -> ToolOutcome {
        if !cfg!(debug_assertions) {
            return ToolOutcome::Refused {
                message: "this tool exists in debug builds only".to_owned(),
            };
        }
        #[expect(
            clippy::panic,
            reason = "a probe that panics is what tests of panics call"
        )]
        if probe.panics {
            panic!("the probe panics, as its definition asks");
        }
        let request = Request::builder()
            .method(Method::POST)
            .uri(&probe.url)
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", &attempt.idempotency_key)
            .body(Full::new(Bytes::copy_from_slice(
                attempt.args.json().as_str().as_bytes(),
            )));
        let Ok(request) = request else {
            return ToolOutcome::NotSent {
                message: "the tool's address is no address".to_owned(),
            };
        };
        match self.0.request(request).await {
            Ok(response) => read(response).await,
            Err(error) if error.is_connect() => ToolOutcome::NotSent {
                message: "the tool cannot be reached".to_owned(),
            },
            Err(_) => ToolOutcome::Reset {
                message: "the tool closed the connection without an answer".to_owned(),
            },
        }
    }

    pub(crate) async fn look_up(&self, probe: &Probe, attempt: &Attempt) -> LookUp {
        let uri = format!("{}?reference={}", probe.url, attempt.idempotency_key);
        let Ok(request) = Request::get(uri).body(Full::default()) else {
            return LookUp::Unknown;
        };
        match self.0.request(request).await {
            Ok(response) if response.status().as_u16() == 404 => LookUp::Absent,
            Ok(response) if response.status().is_success() => match read(response).await {
                ToolOutcome::Answered(output) => LookUp::Happened(output),
                ToolOutcome::Refused { .. }
                | ToolOutcome::NotSent { .. }
                | ToolOutcome::Reset { .. }
                | ToolOutcome::TimedOut
                | ToolOutcome::Panicked
                | ToolOutcome::Aborted => LookUp::Unknown,
            },
            Ok(_) | Err(_) => LookUp::Unknown,
        }
    }
}

impl Default for Prober {
    fn default() -> Self {
        Self::new()
    }
}

async fn read(response: Response<Incoming>) -> ToolOutcome {
    let (parts, mut body) = response.into_parts();
    let header = |name| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let content_type = header(CONTENT_TYPE).to_ascii_lowercase();
    let is_text = ["", "text/", "application/json", "application/xml"]
        .iter()
        .any(|kind| {
            if kind.is_empty() {
                content_type.is_empty()
            } else {
                content_type.starts_with(kind)
            }
        });
    let encoded = !matches!(header(CONTENT_ENCODING), "" | "identity");
    let (mut kept, mut length, mut digest) = (Vec::new(), 0u64, Sha256::new());
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return ToolOutcome::Reset {
                message: "the tool's answer broke off".to_owned(),
            };
        };
        let Ok(bytes) = frame.into_data() else {
            continue;
        };
        length += bytes.len() as u64;
        digest.update(&bytes);
        let room = limits::RESULT_KEPT_BYTES_DEFAULT.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if length > READ_BYTES_MAX {
            break;
        }
    }
    let cut = length > kept.len() as u64;
    let output = match text_of(kept, cut) {
        Some(text) if is_text && !encoded => ToolOutput::Text { text, cut },
        Some(_) | None => ToolOutput::Opaque {
            content_type,
            bytes: length,
            sha256: digest
                .finalize()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        },
    };
    if parts.status.is_success() {
        return ToolOutcome::Answered(output);
    }
    let said = output.shown(REFUSAL_BYTES_MAX);
    ToolOutcome::Refused {
        message: format!(
            "the tool answered with status {}: {said}",
            parts.status.as_u16()
        ),
    }
}

/// The bytes as text; a cut may have fallen into a character.
fn text_of(mut bytes: Vec<u8>, cut: bool) -> Option<String> {
    if cut
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).ok()
}
