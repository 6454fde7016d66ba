//! Decides what a tool may reach: before the look-up, after it, and once connected.

use std::net::{IpAddr, SocketAddr};

use super::address::{AddressStanding, on_the_wire, standing};
use super::connect_error::ConnectError;
use super::failure::FailureKind;
use super::host_port::{AllowedDestination, HostPort};
use super::proxy::place;
use super::resolve::Resolver;
use super::target::{Host, RequestTarget, Scheme};

/// The operator's lists, and the way to addresses.
#[derive(Debug)]
pub(super) struct AddressGuard {
    pub allowed: Vec<AllowedDestination>,
    pub denied: Vec<HostPort>,
    pub resolver: Resolver,
}

/// Addresses that a tool may connect to.
#[derive(Debug)]
pub(super) struct VettedAddresses {
    pub addresses: Vec<SocketAddr>,
    /// The operator's list names the place or one of these; all of them are public otherwise.
    pub listed: bool,
}

/// Ports below this are reached only where allowed, except those of HTTP.
const PORT_MIN: u16 = 1024;

/// Ports from [`PORT_MIN`] on whose usual services obey whoever connects, or take a request's
/// text for commands.
const PORTS_REFUSED: [u16; 30] = [
    1433, 1521, 1719, 1720, 1723, 2049, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190,
    5060, 5061, 5432, 5672, 5900, 6000, 6379, 6566, 6667, 9042, 9092, 10250, 11211, 27017,
];

/// Names that give out credentials: never reached, whatever is allowed.
const METADATA_NAMES: [&str; 2] = ["metadata.google.internal", "metadata.amazonaws.com"];

/// Names that by convention mean a place inside.
const INSIDE_ENDS: [&str; 3] = ["localhost", "local", "internal"];

impl AddressGuard {
    /// The target of a URL, judged as far as that is possible without a look-up.
    ///
    /// # Errors
    /// [`FailureKind::BadUrl`], [`FailureKind::TargetNotAllowed`] or [`FailureKind::NotHttps`].
    pub fn target(&self, url: &str, organization: &str) -> Result<RequestTarget, FailureKind> {
        let target = RequestTarget::parse(url)?;
        let (listed, may, port_is_open) = match &target.host {
            Host::Name(name) => {
                let listed = self.allows_name(name, target.port, organization);
                let may = self.may_name(name, target.port, listed);
                // A network's entry opens its port to names inside it; which, the look-up shows.
                let port_is_open = self.allows_port(target.port, organization);
                (listed, may, port_is_open)
            }
            Host::Address(address) => {
                let listed = self.allows_address(*address, target.port, organization);
                let may = self.may_connect(*address, target.port, listed);
                (listed, may, false)
            }
        };
        if !may || !(listed || port_is_open || is_usual_port(target.port)) {
            return Err(FailureKind::TargetNotAllowed);
        }
        match target.scheme {
            Scheme::Http if !listed => Err(FailureKind::NotHttps),
            Scheme::Http | Scheme::Https => Ok(target),
        }
    }

    /// The addresses to connect to: those of this one look-up, every one of them judged.
    ///
    /// # Errors
    /// [`ConnectError::AddressNotAllowed`] if any address is refused, and those of the look-up.
    pub async fn addresses(
        &self,
        target: &RequestTarget,
        organization: &str,
    ) -> Result<VettedAddresses, ConnectError> {
        let (addresses, listed) = match &target.host {
            Host::Address(address) => (vec![*address], false),
            Host::Name(name) => (
                self.resolver.look_up(name).await?,
                self.allows_name(name, target.port, organization),
            ),
        };
        let mut any_listed = listed;
        for &address in &addresses {
            let in_network = self.allows_address(address, target.port, organization);
            let port_is_open = listed || in_network || is_usual_port(target.port);
            if !port_is_open || !self.may_connect(address, target.port, listed || in_network) {
                return Err(not_allowed(target, address));
            }
            any_listed |= in_network;
        }
        if let Some(theirs) = self.of_denied_name(target.port, &addresses).await {
            return Err(not_allowed(target, theirs));
        }
        let places = addresses
            .into_iter()
            .map(|address| SocketAddr::new(address.to_canonical(), target.port));
        Ok(VettedAddresses {
            addresses: places.collect(),
            listed: any_listed,
        })
    }

    /// Whether a new connection may be used: a listener of ours on every address is also reached
    /// by addresses of this host that nobody told us about.
    pub fn may_use(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let is_self = on_the_wire(local.ip()) == on_the_wire(peer.ip());
        !is_self || !self.denied.iter().any(|d| d.is_every_address(peer.port()))
    }

    /// One of the addresses that a denied name has: it may be written in another way, or be
    /// reached by its address.
    async fn of_denied_name(&self, port: u16, addresses: &[IpAddr]) -> Option<IpAddr> {
        for denied in self.denied.iter().filter(|denied| denied.port() == port) {
            let Some(name) = denied.name() else {
                continue;
            };
            // What cannot be compared is refused.
            let Ok(theirs) = self.resolver.look_up(name).await else {
                return addresses.first().copied();
            };
            let is_theirs = |address: &IpAddr| {
                theirs
                    .iter()
                    .any(|their| on_the_wire(*their) == on_the_wire(*address))
            };
            if let Some(found) = addresses.iter().copied().find(is_theirs) {
                return Some(found);
            }
        }
        None
    }

    fn may_name(&self, name: &str, port: u16, listed: bool) -> bool {
        let is_under = |end: &&str| {
            name.strip_suffix(*end)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        !METADATA_NAMES.contains(&name)
            && !self.denied.iter().any(|denied| denied.is_named(name, port))
            && (listed || !INSIDE_ENDS.iter().any(is_under))
    }

    fn may_connect(&self, address: IpAddr, port: u16, listed: bool) -> bool {
        let stands = match standing(address) {
            AddressStanding::Public => true,
            AddressStanding::Private => listed,
            AddressStanding::Never => false,
        };
        stands && !self.denied.iter().any(|d| d.listens_at(address, port))
    }

    pub fn allows_name(&self, name: &str, port: u16, organization: &str) -> bool {
        self.entries(organization)
            .any(|place| place.is_named(name, port))
    }

    fn allows_address(&self, address: IpAddr, port: u16, organization: &str) -> bool {
        self.entries(organization)
            .any(|place| place.holds(address, port))
    }

    /// Whether any network's entry has this port.
    fn allows_port(&self, port: u16, organization: &str) -> bool {
        self.entries(organization)
            .any(|place| place.name().is_none() && place.port() == port)
    }

    fn entries<'a>(&'a self, organization: &'a str) -> impl Iterator<Item = &'a HostPort> {
        self.allowed
            .iter()
            .filter(move |entry| entry.is_for(organization))
            .map(|entry| &entry.place)
    }
}

pub(super) fn not_allowed(target: &RequestTarget, address: IpAddr) -> ConnectError {
    ConnectError::AddressNotAllowed {
        place: place(&target.host, target.port),
        address,
    }
}

pub(super) fn is_usual_port(port: u16) -> bool {
    matches!(port, 80 | 443) || (port >= PORT_MIN && !PORTS_REFUSED.contains(&port))
}

#[cfg(test)]
mod tests;
