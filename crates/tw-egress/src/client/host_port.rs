//! Places as the operator writes them: `HOST:PORT`.

use std::net::IpAddr;

use ipnet::IpNet;

use super::address::on_the_wire;
use super::target::Host;

/// A host or a network, with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    host: PlaceHost,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PlaceHost {
    /// Name in lower case, without a dot at the end.
    Name(String),
    Net(IpNet),
}

/// A place that organizations may reach although it is private, or speaks `http`.
#[derive(Clone, Debug)]
pub struct AllowedDestination {
    pub place: HostPort,
    /// Slugs.
    pub organizations: Vec<String>,
}

/// The only organization of an entry that names none.
pub const ORGANIZATION_DEFAULT: &str = "default";

/// Reasons for which a text is no [`HostPort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHostPort {
    #[error("a place is written HOST:PORT")]
    NoPort,
    #[error("the port of a place is a number from 1 to 65535")]
    BadPort,
    #[error("the host of a place is a name, an address or a network (an IPv6 one in brackets)")]
    BadHost,
    #[error("the host of this place is one name or one address, no network")]
    Network,
}

impl HostPort {
    /// Reads `name:443`, `10.0.0.7:80`, `10.0.0.0/8:80`, `[::1]:80` or `[fd00::/8]:443`.
    ///
    /// # Errors
    /// Says which part is wrong.
    pub fn parse(text: &str) -> Result<Self, BadHostPort> {
        let (host, port) = text.trim().rsplit_once(':').ok_or(BadHostPort::NoPort)?;
        let port = port.parse().ok().filter(|port| *port != 0);
        let port = port.ok_or(BadHostPort::BadPort)?;
        let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let net = bracketed.unwrap_or(host);
        let net = match net.parse::<IpAddr>() {
            Ok(address) => Some(IpNet::from(address)),
            Err(_) => net.parse::<IpNet>().ok(),
        };
        let host = match (net, bracketed) {
            (Some(IpNet::V6(_)), None) | (Some(IpNet::V4(_)) | None, Some(_)) => {
                return Err(BadHostPort::BadHost);
            }
            (Some(net), _) => PlaceHost::Net(net),
            (None, None) => PlaceHost::Name(name(host).ok_or(BadHostPort::BadHost)?),
        };
        Ok(Self { host, port })
    }

    /// Whether this is no network of several addresses.
    pub(super) fn is_one_host(&self) -> bool {
        match &self.host {
            PlaceHost::Name(_) => true,
            PlaceHost::Net(net) => net.prefix_len() == net.max_prefix_len(),
        }
    }

    /// Whether a URL names this very place: not another name or address of the same host.
    pub(super) fn is_exactly(&self, host: &Host, port: u16) -> bool {
        let is_host = match (&self.host, host) {
            (PlaceHost::Name(ours), Host::Name(theirs)) => ours == theirs,
            (PlaceHost::Net(ours), Host::Address(theirs)) => {
                self.is_one_host() && ours.addr() == *theirs
            }
            (PlaceHost::Name(_), Host::Address(_)) | (PlaceHost::Net(_), Host::Name(_)) => false,
        };
        is_host && self.port == port
    }

    /// The name, if it is one.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.host {
            PlaceHost::Name(name) => Some(name),
            PlaceHost::Net(_) => None,
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn is_named(&self, name: &str, port: u16) -> bool {
        self.port == port && self.name() == Some(name)
    }

    pub(super) fn holds(&self, address: IpAddr, port: u16) -> bool {
        match &self.host {
            PlaceHost::Net(net) => {
                self.port == port && (net.contains(&address) || net.contains(&on_the_wire(address)))
            }
            PlaceHost::Name(_) => false,
        }
    }

    /// Whether a listener here is reached by connecting to `address`.
    pub(super) fn listens_at(&self, address: IpAddr, port: u16) -> bool {
        self.holds(address, port)
            || (self.is_every_address(port) && on_the_wire(address).is_loopback())
    }

    /// A listener on `0.0.0.0` or `[::]` with this port.
    pub(super) fn is_every_address(&self, port: u16) -> bool {
        match &self.host {
            PlaceHost::Net(net) => self.port == port && net.addr().is_unspecified(),
            PlaceHost::Name(_) => false,
        }
    }
}

impl AllowedDestination {
    /// Reads an entry of the operator's list; without organizations it is for [`ORGANIZATION_DEFAULT`] only.
    ///
    /// # Errors
    /// As [`HostPort::parse`].
    pub fn parse(place: &str, organizations: Option<Vec<String>>) -> Result<Self, BadHostPort> {
        Ok(Self {
            place: HostPort::parse(place)?,
            organizations: organizations.unwrap_or_else(|| vec![ORGANIZATION_DEFAULT.to_owned()]),
        })
    }

    pub(super) fn is_for(&self, organization: &str) -> bool {
        self.organizations.iter().any(|slug| slug == organization)
    }
}

/// Longest name and label of the DNS, in bytes (RFC 1035).
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// The name in lower case without a dot at the end; `None` if it is no name of a host.
pub(crate) fn name(host: &str) -> Option<String> {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= LABEL_BYTES_MAX
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    // Parsers of URLs take a number at the end for an address.
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = host.len() <= NAME_BYTES_MAX
        && host.split('.').all(is_label)
        && !host.rsplit('.').next().is_some_and(is_number);
    is_name.then_some(host)
}

#[cfg(test)]
mod tests;
