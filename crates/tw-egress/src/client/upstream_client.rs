//! Requests to the operator's own addresses: upstreams. Nothing is vetted here.
//!
//! The connection is driven by whoever reads the answer, as for tools, so that a part of a
//! stream costs no change of tasks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, Response, Uri};
use tokio::time::Instant;

use super::connect_error::ConnectError;
use super::http_connection::{ExchangeFailure, HttpConnection};
use super::pool::{ConnectionPool, PoolKey};
use super::proxy::place;
use super::route::Route;
use super::target::RequestTarget;
use super::tls_fault::TlsFault;
use super::{ConnectionReuse, PoolOptions};

/// Sends requests to upstreams, over connections that are kept for the next.
#[derive(Clone)]
pub(crate) struct UpstreamClient {
    pool: Arc<ConnectionPool>,
    /// Addresses by upstream and URL: some for each upstream.
    addresses: Arc<Mutex<HashMap<String, AddressesByUrl>>>,
}

type AddressesByUrl = HashMap<String, Arc<Address>>;

/// The address of requests to an upstream, read once.
pub(crate) struct Address {
    target: RequestTarget,
    key: PoolKey,
    host: HeaderValue,
    path: Uri,
    /// URI with scheme and authority, as a proxy is told of it.
    whole: Uri,
}

/// An answer whose body is being read.
pub(crate) struct UpstreamExchange {
    live: HttpConnection,
    pool: Arc<ConnectionPool>,
    address: Arc<Address>,
}

/// Reasons for which there is no answer.
#[derive(Debug)]
pub(crate) enum DirectFailure {
    /// No address, no connection, or no TLS.
    Connect(Box<ConnectError>),
    /// The connection ended before the answer's head.
    Reset,
    /// The other side sent something that is not HTTP, or its head is too large.
    NotHttp,
}

impl UpstreamClient {
    pub fn new(idle_kept: Duration, connections_max: usize) -> Self {
        Self {
            pool: Arc::new(ConnectionPool::new(PoolOptions {
                idle_kept,
                connections_max,
                ..PoolOptions::defaults()
            })),
            addresses: Arc::default(),
        }
    }

    /// Reads a URL of an upstream, the first time that it is asked for; `None` if it is none.
    pub fn address(&self, upstream: &str, url: &str) -> Option<Arc<Address>> {
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = addresses.get(upstream).and_then(|known| known.get(url));
        if let Some(address) = known {
            return Some(Arc::clone(address));
        }
        let address = Arc::new(Address::parse(upstream, url)?);
        let of_upstream = addresses.entry(upstream.to_owned()).or_default();
        of_upstream.insert(url.to_owned(), Arc::clone(&address));
        Some(address)
    }

    /// Sends a request and waits for the answer's head. Its URI and its host are those of `address`.
    ///
    /// # Errors
    /// [`DirectFailure`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn send(
        &self,
        route: &Route,
        address: Arc<Address>,
        mut request: Request<Bytes>,
        connect_timeout: Duration,
    ) -> Result<(Response<()>, UpstreamExchange), DirectFailure> {
        request.headers_mut().insert(HOST, address.host.clone());
        *request.uri_mut() = address.path.clone();
        if let Some(proxy) = route.asks_proxy(&address.target) {
            *request.uri_mut() = address.whole.clone();
            if let Some(value) = proxy.authorization() {
                let headers = request.headers_mut();
                headers.insert(PROXY_AUTHORIZATION, value.clone());
            }
        }
        let mut live = match self.pool.take(&address.key, ConnectionReuse::Pooled).await {
            Some(live) => live,
            None => {
                let deadline = Instant::now() + connect_timeout;
                let opened = route.open(&address.target, deadline).await;
                HttpConnection::new(
                    opened.map_err(|error| DirectFailure::Connect(Box::new(error)))?,
                )
            }
        };
        let head = match live.ask(request).await {
            Ok(head) => head,
            Err(failed) => return Err(failure(failed, live.tls_fault(), &address)),
        };
        let pool = Arc::clone(&self.pool);
        Ok((
            head,
            UpstreamExchange {
                live,
                pool,
                address,
            },
        ))
    }
}

fn failure(failed: ExchangeFailure, tls: Option<TlsFault>, address: &Address) -> DirectFailure {
    match (failed, tls) {
        (ExchangeFailure::Broken, Some(fault)) => {
            let place = place(&address.target.host, address.target.port);
            DirectFailure::Connect(Box::new(ConnectError::broken_off(place, fault)))
        }
        (ExchangeFailure::Broken, None) => DirectFailure::Reset,
        (ExchangeFailure::HeadTooLarge | ExchangeFailure::NotHttp, _) => DirectFailure::NotHttp,
    }
}

impl Address {
    /// Reads a URL of an upstream. Connections to it are of this upstream alone: another may have another way there.
    pub fn parse(upstream: &str, url: &str) -> Option<Self> {
        let target = RequestTarget::parse(url).ok()?;
        let authority = target.authority();
        let whole = format!("http://{authority}{}", target.path_and_query);
        Some(Self {
            key: PoolKey::new(upstream, &target),
            host: HeaderValue::from_str(&authority).ok()?,
            path: Uri::try_from(target.path_and_query.as_str()).ok()?,
            whole: Uri::try_from(whole).ok()?,
            target,
        })
    }
}

impl UpstreamExchange {
    /// The next bytes of the body; `None` at its end, `Err` when the connection broke.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn read(&mut self) -> Option<Result<Bytes, ()>> {
        let part = self.live.read().await?;
        Some(part.map_err(|_| ()))
    }

    /// Keeps the connection for the next request, if the body's end has arrived.
    pub fn give_back(mut self) {
        // What follows the format's end mark directly is there already.
        while let Some(read) = self.read().now_or_never() {
            match read {
                Some(Ok(_)) => {}
                Some(Err(())) => return,
                None => {
                    let Self {
                        live,
                        pool,
                        address,
                        ..
                    } = self;
                    let key = address.key.clone();
                    // Whether a connection is free is known at once.
                    let _ = pool.put(key, live, ConnectionReuse::Pooled).now_or_never();
                    return;
                }
            }
        }
    }
}
