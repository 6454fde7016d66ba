//! The models that an upstream says it has.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::ACCEPT;
use tokio::time::timeout;
use tw_wire::model_list::{self, ListedModel};
use tw_wire::passed_headers::PassedHeaders;

use super::request_target::{no_address, request};
use super::{Upstream, UpstreamConnections, UpstreamKind};
use crate::client::connect_error::ConnectError;
use crate::client::upstream_client::DirectFailure;

/// Longest time for the whole list.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest list that is read, in bytes; the longest known one has 1 MiB.
const LIST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Reasons for which there is no list, for the operator; they hold nothing secret.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("{0}")]
    NotAsked(String),
    #[error("no connection")]
    Connect(#[source] Box<ConnectError>),
    #[error("the upstream closed the connection")]
    Broken,
    #[error("the upstream did not answer in time")]
    Silent,
    #[error("the upstream answered with status {0}")]
    Status(u16),
    #[error("the upstream's list is longer than {LIST_BYTES_MAX} bytes")]
    TooLong,
    #[error("the upstream's answer is no list of models")]
    NoList,
}

impl ListError {
    /// The text for clients, behind the upstream's name: names no address.
    pub fn told(&self) -> String {
        match self {
            Self::NotAsked(_) => "could not be asked".to_owned(),
            Self::Connect(error) => error.told(),
            Self::Broken => "closed the connection".to_owned(),
            Self::Silent => "did not answer in time".to_owned(),
            Self::Status(401 | 403) => "refused this server's credentials".to_owned(),
            Self::Status(404 | 405) => {
                "has no list of models at its address; its base URL may lack /v1".to_owned()
            }
            Self::Status(status) => format!("answered with status {status}"),
            Self::TooLong => "gave a list that is too long".to_owned(),
            Self::NoList => {
                "answered with something else than a list; its base URL may be a wrong one"
                    .to_owned()
            }
        }
    }
}

/// Asks for the list; `None` for an upstream that has none.
///
/// An Azure resource lists the models that could be deployed, not its deployments.
///
/// # Errors
/// [`ListError`].
pub async fn list(
    connections: &UpstreamConnections,
    upstream: &Upstream,
) -> Result<Option<Vec<ListedModel>>, ListError> {
    match &upstream.kind {
        UpstreamKind::Http { base_url, .. } => {
            let url = format!("{base_url}/models");
            list_at(connections, upstream, &url).await.map(Some)
        }
        UpstreamKind::Azure { .. } => Ok(None),
        UpstreamKind::Scripted(script) => {
            let names = script.models();
            let own = names.map(|name| ListedModel::new(name, &upstream.name));
            Ok(Some(own.collect()))
        }
    }
}

/// Asks for the list like [`list`], at another URL of the same server.
pub(super) async fn list_at(
    connections: &UpstreamConnections,
    upstream: &Upstream,
    url: &str,
) -> Result<Vec<ListedModel>, ListError> {
    let read = get(connections, upstream, url).await?;
    model_list::decode(&read).ok_or(ListError::NoList)
}

/// Reads what is at the URL, with the upstream's key.
pub(super) async fn get(
    connections: &UpstreamConnections,
    upstream: &Upstream,
    url: &str,
) -> Result<Vec<u8>, ListError> {
    timeout(LIST_TIMEOUT, read(connections, upstream, url))
        .await
        .unwrap_or(Err(ListError::Silent))
}

async fn read(
    connections: &UpstreamConnections,
    upstream: &Upstream,
    url: &str,
) -> Result<Vec<u8>, ListError> {
    let not_asked = |message| ListError::NotAsked(message);
    let address = connections
        .0
        .address(&upstream.name, url)
        .ok_or_else(|| not_asked(no_address().error.message))?;
    let request = request(Method::GET, upstream, &PassedHeaders::default())
        .map_err(|failure| not_asked(failure.error.message))?
        .header(ACCEPT, "application/json")
        .body(Bytes::new())
        .map_err(|_| not_asked(no_address().error.message))?;
    let sent = connections
        .0
        .send(
            &upstream.access.route,
            address,
            request,
            upstream.timeouts.connect,
        )
        .await;
    let (head, mut exchange) = sent.map_err(|failure| match failure {
        DirectFailure::Connect(error) => ListError::Connect(error),
        DirectFailure::Reset | DirectFailure::NotHttp => ListError::Broken,
    })?;
    if !head.status().is_success() {
        return Err(ListError::Status(head.status().as_u16()));
    }
    let mut read = Vec::new();
    while let Some(bytes) = exchange.read().await {
        let bytes = bytes.map_err(|()| ListError::Broken)?;
        if read.len() + bytes.len() > LIST_BYTES_MAX {
            return Err(ListError::TooLong);
        }
        read.extend_from_slice(&bytes);
    }
    exchange.give_back();
    Ok(read)
}
