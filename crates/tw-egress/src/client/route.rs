//! The way to an upstream: its address, a proxy perhaps, and TLS.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use rustls::RootCertStore;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::connect::{ConnectedStream, secure};
use super::connect_error::ConnectError;
use super::proxy::{BadProxy, Proxy, WithoutProxy, place};
use super::target::{Host, RequestTarget, Scheme};
use super::tls::{ClientIdentity, connector};

/// Way in which connections to an upstream are made.
#[derive(Clone)]
pub struct Route {
    tls: TlsConnector,
    proxy: Option<Proxy>,
}

impl Route {
    pub fn new(
        trusted_roots: RootCertStore,
        identity: Option<ClientIdentity>,
        proxy: Option<Proxy>,
    ) -> Self {
        Self {
            tls: connector(trusted_roots, identity),
            proxy,
        }
    }

    /// The route without a proxy and without a certificate of our own.
    pub fn direct(trusted_roots: RootCertStore) -> Self {
        Self::new(trusted_roots, None, None)
    }

    /// `HOST:PORT` of the proxy, if there is one.
    pub fn proxy_place(&self) -> Option<String> {
        self.proxy.as_ref().map(Proxy::place)
    }

    /// The proxy that requests to `target` are written to, rather than to what they are for:
    /// those in clear.
    pub(super) fn asks_proxy(&self, target: &RequestTarget) -> Option<&Proxy> {
        self.proxy
            .as_ref()
            .filter(|_| target.scheme == Scheme::Http)
    }

    /// Connects, with TLS where the target says so.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing takes longer than until `deadline`.
    pub(super) async fn open(
        &self,
        target: &RequestTarget,
        deadline: Instant,
    ) -> Result<ConnectedStream, ConnectError> {
        let tcp = match &self.proxy {
            None => tcp(&target.host, target.port, deadline).await?,
            Some(proxy) => through(proxy, target, deadline).await?,
        };
        match target.scheme {
            Scheme::Http => Ok(ConnectedStream::Plain(tcp)),
            Scheme::Https => secure(&self.tls, tcp, target, deadline).await,
        }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

/// Proxies that the environment has for URLs: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and
/// `NO_PROXY`, also in small letters, as curl reads them.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentProxies {
    pub http: Option<Result<Proxy, BadProxy>>,
    pub https: Option<Result<Proxy, BadProxy>>,
    pub without: WithoutProxy,
}

impl EnvironmentProxies {
    /// The proxy for a URL; `None` if it is reached without one. This machine itself always is: a
    /// proxy elsewhere would look for the place there.
    ///
    /// # Errors
    /// [`BadProxy`] of the one that is to be used.
    pub fn proxy_for(&self, url: &str) -> Result<Option<Proxy>, BadProxy> {
        let Ok(target) = RequestTarget::parse(url) else {
            return Ok(None);
        };
        let is_here = match &target.host {
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Address(address) => address.is_loopback(),
        };
        if is_here || self.without.holds(&target.host) {
            return Ok(None);
        }
        match target.scheme {
            Scheme::Http => self.http.clone().transpose(),
            Scheme::Https => self.https.clone().transpose(),
        }
    }
}

async fn through(
    proxy: &Proxy,
    target: &RequestTarget,
    deadline: Instant,
) -> Result<TcpStream, ConnectError> {
    match target.scheme {
        Scheme::Http => to_proxy(proxy, deadline).await,
        Scheme::Https => {
            let place = place(&target.host, target.port);
            tunnel(proxy, &place, &place, deadline).await
        }
    }
}

/// Has the proxy connect to `asked`, which errors call `shown`.
///
/// # Errors
/// Those of the proxy.
pub(super) async fn tunnel(
    proxy: &Proxy,
    asked: &str,
    shown: &str,
    deadline: Instant,
) -> Result<TcpStream, ConnectError> {
    let mut tcp = to_proxy(proxy, deadline).await?;
    let (proxy_place, place) = (proxy.place(), shown.to_owned());
    match timeout_at(deadline, proxy.connect_through(&mut tcp, asked)).await {
        Ok(Ok(())) => Ok(tcp),
        Ok(Err(None)) => Err(ConnectError::ProxyNoAnswer {
            proxy: proxy_place,
            place,
        }),
        Ok(Err(Some(status))) => Err(ConnectError::ProxyStatus {
            proxy: proxy_place,
            place,
            status,
        }),
        Err(_elapsed) => Err(of_proxy(ConnectError::TimedOut { place: proxy_place })),
    }
}

/// Connects to the proxy itself.
///
/// # Errors
/// [`ConnectError::Proxy`].
pub(super) async fn to_proxy(proxy: &Proxy, deadline: Instant) -> Result<TcpStream, ConnectError> {
    let reached = tcp(&proxy.host, proxy.port, deadline).await;
    reached.map_err(of_proxy)
}

fn of_proxy(error: ConnectError) -> ConnectError {
    ConnectError::Proxy(Box::new(error))
}

/// Connects to the first address that takes it.
async fn tcp(host: &Host, port: u16, deadline: Instant) -> Result<TcpStream, ConnectError> {
    let addresses = addresses(host, port, deadline).await?;
    let mut last = None;
    for address in addresses {
        let place = || place(host, port);
        let connected = timeout_at(deadline, TcpStream::connect(address)).await;
        let failed = match connected.map(|connected| connected.and_then(at_once)) {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(source)) => ConnectError::Refused {
                place: place(),
                source,
            },
            Err(_elapsed) => return Err(ConnectError::TimedOut { place: place() }),
        };
        last = Some(failed);
    }
    Err(last.unwrap_or_else(|| no_address(host, io::ErrorKind::NotFound.into())))
}

/// Lets requests be written at once; waiting for more only delays them.
fn at_once(tcp: TcpStream) -> io::Result<TcpStream> {
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

async fn addresses(
    host: &Host,
    port: u16,
    deadline: Instant,
) -> Result<Vec<SocketAddr>, ConnectError> {
    let name = match host {
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, port)]),
        Host::Name(name) => name,
    };
    match timeout_at(deadline, lookup_host((name.as_str(), port))).await {
        Ok(Ok(found)) => Ok(found.collect()),
        Ok(Err(source)) => Err(no_address(host, source)),
        Err(_elapsed) => Err(ConnectError::LookUpTimedOut { host: name.clone() }),
    }
}

fn no_address(host: &Host, source: io::Error) -> ConnectError {
    ConnectError::LookUp {
        host: host.to_string(),
        source,
    }
}
