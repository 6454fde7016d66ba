//! The address of a request to an upstream, and the header by which it says who asks.
//!
//! Follows OpenAI's API reference, and for Azure its page "Azure OpenAI in Foundry Models REST API
//! reference" (2025): the deployment stands in the path and the version in the query; the newer
//! form, `/openai/v1`, has the deployment in the body's `model` and needs no version. Both take
//! the key in `api-key`.
//!
//! Known differences: no Entra ID tokens, only keys.

use std::sync::Arc;

use http::header::{AUTHORIZATION, USER_AGENT};
use http::request::Builder;
use http::{HeaderName, HeaderValue, Method, Request};
use tw_core::turn::{ModelFailure, ModelFailureKind};
use tw_wire::passed_headers::PassedHeaders;

use super::model_exchange::failure;
use super::{Upstream, UpstreamConnections, UpstreamKind};
use crate::client::upstream_client::Address;
use crate::secret::Secret;

const API_KEY: HeaderName = HeaderName::from_static("api-key");
/// Longest name of an Azure deployment, in bytes: Azure's own limit.
const DEPLOYMENT_BYTES_MAX: usize = 64;

impl UpstreamKind {
    pub(super) fn api_key(&self) -> Option<&Secret> {
        match self {
            Self::Http { api_key, .. } | Self::Azure { api_key, .. } => api_key.as_ref(),
            Self::Scripted(_) => None,
        }
    }
}

/// The address of a path of the API for a model. There are only so many paths, all words of this program.
pub(super) fn of(
    connections: &UpstreamConnections,
    upstream: &Upstream,
    path: &'static str,
    model: &str,
) -> Result<Arc<Address>, ModelFailure> {
    let at = |url: &str| connections.0.address(&upstream.name, url);
    let address = match &upstream.kind {
        UpstreamKind::Http { base_url, .. } => at(&format!("{base_url}/{path}")),
        UpstreamKind::Azure {
            base_url,
            api_version: None,
            ..
        } => at(&format!("{base_url}/openai/v1/{path}")),
        UpstreamKind::Azure {
            base_url,
            api_version: Some(version),
            ..
        } => {
            if !is_deployment(model) {
                let message = "the upstream has no deployment of this name";
                return Err(failure(ModelFailureKind::Status(404), message));
            }
            // Clients choose the name, so that there may be any number of these.
            let url = format!("{base_url}/openai/deployments/{model}/{path}?api-version={version}");
            Address::parse(&upstream.name, &url).map(Arc::new)
        }
        UpstreamKind::Scripted(_) => None,
    };
    address.ok_or_else(no_address)
}

/// Whether the name can stand in a path as it is, and can be that of a deployment.
fn is_deployment(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=DEPLOYMENT_BYTES_MAX).contains(&name.len())
        && name.bytes().all(allowed)
        && name.bytes().any(|byte| byte != b'.')
}

/// A request without its body, with the headers of a client's that the upstream's format has.
pub(super) fn request(
    method: Method,
    upstream: &Upstream,
    passed: &PassedHeaders,
) -> Result<Builder, ModelFailure> {
    let request = Request::builder().method(method).header(
        USER_AGENT,
        concat!("turnwright/", env!("CARGO_PKG_VERSION")),
    );
    let headers = passed.for_upstream(upstream.format).into_iter();
    let request = headers.fold(request, |request, (name, value)| {
        request.header(name, value)
    });
    let Some(key) = upstream.kind.api_key() else {
        return Ok(request);
    };
    let own_header = match &upstream.kind {
        UpstreamKind::Azure { .. } => Some(API_KEY),
        UpstreamKind::Http { .. } | UpstreamKind::Scripted(_) => {
            upstream.format.key_header().map(HeaderName::from_static)
        }
    };
    let (name, value) = match own_header {
        Some(name) => (name, HeaderValue::from_str(key.reveal())),
        None => (
            AUTHORIZATION,
            HeaderValue::from_str(&format!("Bearer {}", key.reveal())),
        ),
    };
    let mut value = value.map_err(|_| {
        failure(
            ModelFailureKind::Connect,
            "the upstream's key cannot stand in a header",
        )
    })?;
    value.set_sensitive(true);
    Ok(request.header(name, value))
}

pub(super) fn no_address() -> ModelFailure {
    failure(
        ModelFailureKind::Connect,
        "the upstream's address is no address",
    )
}

#[cfg(test)]
mod tests;
