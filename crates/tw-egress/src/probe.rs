//! Probes: tools that send their arguments to a listener on loopback, for tests of the loop.
//!
//! They exist in debug builds only; a release build refuses their calls. They leave through the
//! guarded client, which is told of their addresses and of nothing else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tw_core::limits;
use tw_core::tool::{EffectClass, LookUp, StatusProbe, Tool, ToolKind, ToolOutcome};

use crate::client::host_port::{AllowedDestination, BadHostPort};
use crate::client::resolve::{FixedAnswers, Resolver};
use crate::client::{
    ClientOptions, ConnectionReuse, EgressClient, OutgoingRequest, PoolOptions,
    READ_BYTES_MAX_DEFAULT, RequestTimeouts, web_roots,
};
use crate::exchange::{output, refused, reuse_for};
use crate::tools::{AttemptContext, AttemptReport, LookUpReport};

/// The client that all probes send with.
#[derive(Clone, Debug)]
pub struct Prober(EgressClient);

/// The only tenant that probes know.
const ORGANIZATION: &str = "default";
/// The tool's own timeout ends an attempt; these only keep the client's own from doing so.
const PROBE_TIMEOUT: Duration = Duration::from_secs(120);

/// A probe's address that cannot be allowed.
#[derive(Debug, thiserror::Error)]
#[error("the probe {name:?}: its url must be http://ADDRESS:PORT/…")]
pub struct BadProbe {
    name: String,
    #[source]
    place: Option<BadHostPort>,
}

impl Prober {
    /// A client that may reach the probes among `tools`.
    ///
    /// # Errors
    /// [`BadProbe`] for a url without a literal address and a port.
    pub fn new(tools: &[Arc<Tool>]) -> Result<Self, BadProbe> {
        let mut allowed = Vec::new();
        for tool in tools {
            let ToolKind::Probe(probe) = &tool.kind else {
                continue;
            };
            let bad = |place| BadProbe {
                name: tool.name.clone(),
                place,
            };
            let url: http::Uri = probe.url.parse().map_err(|_| bad(None))?;
            let authority = url.authority().ok_or_else(|| bad(None))?;
            let place =
                AllowedDestination::parse(authority.as_str(), Some(vec![ORGANIZATION.to_owned()]));
            allowed.push(place.map_err(|error| bad(Some(error)))?);
        }
        Ok(Self(EgressClient::new(ClientOptions {
            resolver: Resolver::Fixed(FixedAnswers::default()),
            allowed,
            denied: Vec::new(),
            trusted_roots: web_roots(),
            certificates: Vec::new(),
            proxy: None,
            pool: PoolOptions::defaults(),
            read_bytes_max: READ_BYTES_MAX_DEFAULT,
        })))
    }

    pub(crate) async fn send(
        &self,
        probe: &StatusProbe,
        effect: EffectClass,
        attempt: &AttemptContext,
    ) -> AttemptReport {
        if !cfg!(debug_assertions) {
            let message = "this tool exists in debug builds only".to_owned();
            return ToolOutcome::Refused { message }.into();
        }
        #[expect(
            clippy::panic,
            reason = "a probe that panics is what tests of panics call"
        )]
        if probe.panics {
            panic!("the probe panics, as its definition asks");
        }
        let body = Bytes::copy_from_slice(attempt.args.json().as_str().as_bytes());
        let mut request = outgoing(Method::POST, probe.url.clone(), body);
        request.headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            (
                "idempotency-key".to_owned(),
                attempt.idempotency_key.clone(),
            ),
        ];
        let sent = self.0.send(request, ORGANIZATION, reuse_for(effect)).await;
        let received = match sent {
            Ok(received) => received,
            Err(failure) => return AttemptReport::unanswered(failure),
        };
        let (status, headers) = (received.status, received.headers.clone());
        let output = output(received, is_text);
        let outcome = if (200..300).contains(&status) {
            ToolOutcome::Answered(output)
        } else {
            refused(status, &headers, effect, &output)
        };
        AttemptReport::answered(status, outcome)
    }

    pub(crate) async fn look_up(
        &self,
        probe: &StatusProbe,
        attempt: &AttemptContext,
    ) -> LookUpReport {
        let url = format!("{}?reference={}", probe.url, attempt.idempotency_key);
        let request = outgoing(Method::GET, url, Bytes::new());
        match self
            .0
            .send(request, ORGANIZATION, ConnectionReuse::Fresh)
            .await
        {
            Ok(received) if received.status == 404 => LookUp::Absent.into(),
            Ok(received) if (200..300).contains(&received.status) => {
                LookUp::Happened(output(received, is_text)).into()
            }
            Ok(_) => LookUp::Unknown.into(),
            Err(failure) => LookUpReport::unanswered(failure),
        }
    }
}

fn outgoing(method: Method, url: String, body: Bytes) -> OutgoingRequest {
    OutgoingRequest {
        method,
        url,
        headers: Vec::new(),
        body,
        timeouts: RequestTimeouts {
            connect: PROBE_TIMEOUT,
            first_byte: PROBE_TIMEOUT,
            idle: PROBE_TIMEOUT,
            total: PROBE_TIMEOUT,
        },
        response_bytes_max: limits::RESULT_KEPT_BYTES_DEFAULT,
    }
}

fn is_text(content_type: &str) -> bool {
    content_type.is_empty()
        || ["text/", "application/json", "application/xml"]
            .iter()
            .any(|kind| content_type.starts_with(kind))
}
