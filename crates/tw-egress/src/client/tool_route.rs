//! The way to the place of a tool: vetted addresses, a proxy perhaps, and TLS.
//!
//! What a proxy is asked for is `https` to public places and nothing else: what the operator's list
//! names is inside, and reached from here. Unless the operator says otherwise the proxy is given an
//! address that was judged here, so that it has no name to look up.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::connect::{ConnectedStream, secure};
use super::connect_error::ConnectError;
use super::guard::{AddressGuard, is_usual_port, not_allowed};
use super::proxy::{Proxy, WithoutProxy, place};
use super::route::tunnel;
use super::target::{Host, RequestTarget, Scheme};

/// The proxy of tools.
#[derive(Clone, Debug)]
pub struct ToolProxy {
    pub proxy: Proxy,
    /// Places that are reached from here.
    pub without: WithoutProxy,
    pub names: NamesLookedUp,
}

/// Party that looks up a name which is reached through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesLookedUp {
    /// This server looks it up, judges the address and asks the proxy for that.
    Here,
    /// The proxy looks it up, and has to keep tools from private addresses by itself.
    ByProxy,
}

/// Parts of which the connections of an organization's tools are made.
pub(super) struct ToolRoute<'a> {
    pub guard: &'a AddressGuard,
    pub proxy: Option<&'a ToolProxy>,
    pub tls: &'a TlsConnector,
    pub organization: &'a str,
}

/// Addresses of one name that are tried, in the order of the answer.
const ADDRESSES_TRIED_MAX: usize = 4;

impl ToolRoute<'_> {
    /// Looks the host up, judges its addresses and connects to one of them.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing takes longer than until `deadline`.
    pub async fn open(
        &self,
        target: &RequestTarget,
        deadline: Instant,
    ) -> Result<ConnectedStream, ConnectError> {
        let tcp = match self.proxy_for_name(target) {
            Some((proxy, name)) => {
                // What has no dot is completed by search domains, which are inside.
                if !name.contains('.') {
                    let place = place(&target.host, target.port);
                    return Err(ConnectError::PlaceNotAllowed { place });
                }
                let place = place(&target.host, target.port);
                tunnel(proxy, &place, &place, deadline).await?
            }
            None => self.to_vetted(target, deadline).await?,
        };
        match target.scheme {
            Scheme::Http => Ok(ConnectedStream::Plain(tcp)),
            Scheme::Https => secure(self.tls, tcp, target, deadline).await,
        }
    }

    /// The proxy that is to look up this name. A port that only a network of the operator's list
    /// opens is for names inside that, which a look-up here shows.
    fn proxy_for_name<'t>(&self, target: &'t RequestTarget) -> Option<(&Proxy, &'t str)> {
        let proxy = self.proxy_for(target)?;
        match (&target.host, proxy.names) {
            (Host::Name(name), NamesLookedUp::ByProxy)
                if is_usual_port(target.port)
                    && !self.guard.allows_name(name, target.port, self.organization) =>
            {
                Some((&proxy.proxy, name))
            }
            (Host::Name(_) | Host::Address(_), NamesLookedUp::ByProxy | NamesLookedUp::Here) => {
                None
            }
        }
    }

    fn proxy_for(&self, target: &RequestTarget) -> Option<&ToolProxy> {
        let proxy = self.proxy?;
        // Only places of the operator's list speak it.
        let is_secure = target.scheme == Scheme::Https;
        (is_secure && !proxy.without.holds(&target.host)).then_some(proxy)
    }

    async fn to_vetted(
        &self,
        target: &RequestTarget,
        deadline: Instant,
    ) -> Result<TcpStream, ConnectError> {
        let vetting = self.guard.addresses(target, self.organization);
        let vetted = timeout_at(deadline, vetting).await.unwrap_or_else(|_| {
            Err(ConnectError::LookUpTimedOut {
                host: target.host.to_string(),
            })
        })?;
        if let Some(proxy) = self.proxy_for(target)
            && !vetted.listed
        {
            return through(&proxy.proxy, target, &vetted.addresses, deadline).await;
        }
        let (tcp, local, peer) = connect(target, &vetted.addresses, deadline).await?;
        if !self.guard.may_use(local, peer) {
            return Err(not_allowed(target, peer.ip()));
        }
        Ok(tcp)
    }
}

/// Asks the proxy for one address after the other.
async fn through(
    proxy: &Proxy,
    target: &RequestTarget,
    addresses: &[SocketAddr],
    deadline: Instant,
) -> Result<TcpStream, ConnectError> {
    let mut failure = no_time(target);
    for (address, until) in tries(addresses, deadline) {
        let asked = address.to_string();
        let shown = match &target.host {
            Host::Name(name) => format!("{asked} ({name})"),
            Host::Address(_) => asked.clone(),
        };
        failure = match tunnel(proxy, &asked, &shown, until()).await {
            Ok(tcp) => return Ok(tcp),
            Err(error) => error,
        };
    }
    Err(failure)
}

/// Connects to one of the addresses, and says from where to where.
async fn connect(
    target: &RequestTarget,
    addresses: &[SocketAddr],
    deadline: Instant,
) -> Result<(TcpStream, SocketAddr, SocketAddr), ConnectError> {
    let mut failure = no_time(target);
    for (address, until) in tries(addresses, deadline) {
        let connected = timeout_at(until(), TcpStream::connect(address)).await;
        failure = match connected.map(|connected| connected.and_then(at_once)) {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(source)) => ConnectError::Refused {
                place: place(&target.host, target.port),
                source,
            },
            Err(_elapsed) => no_time(target),
        };
    }
    Err(failure)
}

/// The addresses that are tried, and until when each may be, by the time at which that begins: one
/// that swallows packets leaves time for the others.
fn tries(
    addresses: &[SocketAddr],
    deadline: Instant,
) -> impl Iterator<Item = (SocketAddr, impl FnOnce() -> Instant)> {
    let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
    let each = addresses.iter().take(tried).enumerate();
    each.map(move |(index, &address)| {
        let left = u32::try_from(tried - index).unwrap_or(u32::MAX);
        let until = move || {
            let now = Instant::now();
            now + deadline.saturating_duration_since(now) / left
        };
        (address, until)
    })
}

fn no_time(target: &RequestTarget) -> ConnectError {
    ConnectError::TimedOut {
        place: place(&target.host, target.port),
    }
}

fn at_once(tcp: TcpStream) -> io::Result<(TcpStream, SocketAddr, SocketAddr)> {
    // A request is written at once; waiting for more only delays it.
    tcp.set_nodelay(true)?;
    let (local, peer) = (tcp.local_addr()?, tcp.peer_addr()?);
    Ok((tcp, local, peer))
}
