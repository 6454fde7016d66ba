//! Requests to the operator's own addresses: upstreams. Nothing is vetted here.
//!
//! The connection is driven by whoever reads the answer, as for tools, so that a part of a
//! stream costs no change of tasks.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::connect::{Stream, server_name};
use super::live::{Failed, Live};
use super::pool::{Key, Pool};
use super::target::{Host, Scheme, Target};
use super::{PoolOptions, Reuse, web_roots};

/// Sends requests to upstreams, over connections that are kept for the next.
#[derive(Clone)]
pub(crate) struct Direct {
    tls: TlsConnector,
    pool: Arc<Pool>,
    /// As many as there are upstreams.
    addresses: Arc<Mutex<HashMap<String, Arc<Address>>>>,
}

/// Where requests go, read once.
pub(crate) struct Address {
    target: Target,
    key: Key,
    host: HeaderValue,
    path: Uri,
}

/// An answer whose body is being read.
pub(crate) struct Exchange {
    live: Live,
    pool: Arc<Pool>,
    address: Arc<Address>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectFailure {
    /// No address, no connection, or no TLS.
    Connect,
    /// The connection ended before the answer's head.
    Reset,
    /// What came is not HTTP, or its head is too large.
    NotHttp,
}

impl Direct {
    pub fn new(idle_kept: Duration, connections_max: usize) -> Self {
        let mut tls = ClientConfig::builder()
            .with_root_certificates(web_roots())
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self {
            tls: TlsConnector::from(Arc::new(tls)),
            pool: Arc::new(Pool::new(PoolOptions {
                idle_kept,
                connections_max,
                ..PoolOptions::defaults()
            })),
            addresses: Arc::default(),
        }
    }

    /// Reads a URL, the first time that it is asked for; `None` if it is none.
    pub fn address(&self, url: &str) -> Option<Arc<Address>> {
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = addresses.get(url) {
            return Some(Arc::clone(address));
        }
        let address = Arc::new(Address::parse(url)?);
        addresses.insert(url.to_owned(), Arc::clone(&address));
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
        address: Arc<Address>,
        mut request: Request<Bytes>,
        connect_timeout: Duration,
    ) -> Result<(Response<()>, Exchange), DirectFailure> {
        request.headers_mut().insert(HOST, address.host.clone());
        *request.uri_mut() = address.path.clone();
        let mut live = match self.pool.take(&address.key, Reuse::Pooled).await {
            Some(live) => live,
            None => self.connect(&address.target, connect_timeout).await?,
        };
        let head = live.ask(request).await.map_err(|failed| match failed {
            Failed::Broken => DirectFailure::Reset,
            Failed::HeadTooLarge | Failed::NotHttp => DirectFailure::NotHttp,
        })?;
        let pool = Arc::clone(&self.pool);
        Ok((
            head,
            Exchange {
                live,
                pool,
                address,
            },
        ))
    }

    async fn connect(&self, target: &Target, within: Duration) -> Result<Live, DirectFailure> {
        let opened = timeout(within, self.open(target)).await;
        let stream = opened
            .ok()
            .and_then(Result::ok)
            .ok_or(DirectFailure::Connect)?;
        Ok(Live::new(stream))
    }

    async fn open(&self, target: &Target) -> io::Result<Stream> {
        let tcp = match &target.host {
            Host::Name(name) => TcpStream::connect((name.as_str(), target.port)).await?,
            Host::Address(address) => TcpStream::connect((*address, target.port)).await?,
        };
        tcp.set_nodelay(true)?;
        Ok(match target.scheme {
            Scheme::Http => Stream::Plain(tcp),
            Scheme::Https => {
                let name = server_name(&target.host).map_err(|_| io::ErrorKind::InvalidInput)?;
                Stream::Tls(Box::new(self.tls.connect(name, tcp).await?))
            }
        })
    }
}

impl Address {
    pub fn parse(url: &str) -> Option<Self> {
        let target = Target::parse(url).ok()?;
        Some(Self {
            key: Key::new("", &target),
            host: HeaderValue::from_str(&target.authority()).ok()?,
            path: Uri::try_from(target.path_and_query.as_str()).ok()?,
            target,
        })
    }
}

impl Exchange {
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
                    let _ = pool.put(key, live, Reuse::Pooled).now_or_never();
                    return;
                }
            }
        }
    }
}
