//! A proxy on the way to a place, and which places are reached without it.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, Uri};
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::host_port::name;
use super::target::Host;

/// An HTTP proxy, asked in clear; what goes through it to `https` places is encrypted all the
/// same.
#[derive(Clone)]
pub struct Proxy {
    pub(super) host: Host,
    pub(super) port: u16,
    authorization: Option<HeaderValue>,
}

/// Reasons for which a text names no usable proxy. The text is not repeated: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadProxy {
    #[error("a proxy is written http://HOST:PORT or http://USER:PASSWORD@HOST:PORT")]
    NotProxy,
    #[error("only proxies that are asked over http:// are known, no https:// and no socks")]
    Scheme,
}

/// Usual port of an address that begins with `http://`.
const PORT_DEFAULT: u16 = 80;
/// Longest head of a proxy's answer, in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

impl Proxy {
    /// Reads `http://HOST:PORT`, with a user and a password or without; `http://` may be missing.
    ///
    /// # Errors
    /// [`BadProxy`].
    pub fn parse(text: &str) -> Result<Self, BadProxy> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(BadProxy::Scheme);
        }
        let rest = rest.trim_end_matches('/');
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        // The standard parser knows the brackets of IPv6.
        let uri: Uri = format!("http://{place}")
            .parse()
            .map_err(|_| BadProxy::NotProxy)?;
        let is_bare = uri.path() == "/" && uri.query().is_none();
        let text_of_host = uri.host().filter(|_| is_bare).ok_or(BadProxy::NotProxy)?;
        let bare = text_of_host.trim_start_matches('[').trim_end_matches(']');
        let host = match bare.parse::<IpAddr>() {
            Ok(address) => Host::Address(address),
            Err(_) => Host::Name(name(text_of_host).ok_or(BadProxy::NotProxy)?),
        };
        // One that is no number is none to the parser, and is not the default for that.
        let names_none = uri
            .authority()
            .is_some_and(|all| all.as_str() == text_of_host);
        let port = if names_none {
            Some(PORT_DEFAULT)
        } else {
            uri.port_u16().filter(|port| *port != 0)
        };
        Ok(Self {
            host,
            port: port.ok_or(BadProxy::NotProxy)?,
            authorization: user.map(basic).transpose()?,
        })
    }

    /// `HOST:PORT`, for people.
    pub(super) fn place(&self) -> String {
        place(&self.host, self.port)
    }

    /// The `Proxy-Authorization` of a request that is sent in clear through the proxy.
    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// Asks the proxy, which `tcp` leads to, for a connection to `place`.
    ///
    /// # Errors
    /// The status of a refusal; `None` if the answer was none.
    pub(super) async fn connect_through(
        &self,
        tcp: &mut TcpStream,
        place: &str,
    ) -> Result<(), Option<u16>> {
        let mut head = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n").into_bytes();
        if let Some(value) = &self.authorization {
            head.extend_from_slice(b"Proxy-Authorization: ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        tcp.write_all(&head).await.map_err(|_| None)?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            // Nothing follows the head until this side has spoken, so whatever comes is of it;
            // one that refuses may send a page behind it, which nobody reads.
            let mut part = [0; 1024];
            let read = tcp.read(&mut part).await.map_err(|_| None)?;
            answer.extend_from_slice(&part[..read]);
            let status = status(&answer);
            if status.is_some_and(|status| !(200..300).contains(&status)) {
                return Err(status);
            }
            if read == 0 || answer.len() > ANSWER_BYTES_MAX {
                return Err(None);
            }
        }
        status(&answer).map(|_| ()).ok_or(None)
    }
}

/// The status of an answer whose first line has come.
fn status(answer: &[u8]) -> Option<u16> {
    let end = memchr::memchr(b'\n', answer)?;
    let line = std::str::from_utf8(&answer[..end]).ok()?;
    let rest = line.strip_prefix("HTTP/1.")?;
    rest.split(' ').nth(1)?.trim_end().parse().ok()
}

fn basic(user: &str) -> Result<HeaderValue, BadProxy> {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let mut plain: Vec<u8> = percent_decode_str(name).collect();
    plain.push(b':');
    plain.extend(percent_decode_str(password));
    let value = format!("Basic {}", BASE64_STANDARD.encode(plain));
    let mut value = HeaderValue::try_from(value).map_err(|_| BadProxy::NotProxy)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Leaves out the password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Proxy").field(&self.place()).finish()
    }
}

/// `HOST:PORT`, as people and proxies write it.
pub(super) fn place(host: &Host, port: u16) -> String {
    match host {
        Host::Name(name) => format!("{name}:{port}"),
        Host::Address(IpAddr::V4(address)) => format!("{address}:{port}"),
        Host::Address(IpAddr::V6(address)) => format!("[{address}]:{port}"),
    }
}

/// Places that are reached without a proxy, by the rules that curl has for `NO_PROXY`: names and
/// what is below them, addresses, networks, and `*` for everything.
#[derive(Clone, Debug, Default)]
pub struct WithoutProxy {
    all: bool,
    names: Vec<String>,
    networks: Vec<IpNet>,
}

impl WithoutProxy {
    /// Reads a list with commas or spaces between; what is no name, address or network is passed
    /// over.
    pub fn parse(list: &str) -> Self {
        let mut without = Self::default();
        for entry in list.split([',', ' ']) {
            without.add(entry);
        }
        without
    }

    /// Reads a list of which every entry is to be one.
    ///
    /// # Errors
    /// The place of the first that is none, from 0.
    pub fn of(entries: &[String]) -> Result<Self, usize> {
        let mut without = Self::default();
        match entries.iter().position(|entry| !without.add(entry)) {
            None => Ok(without),
            Some(place) => Err(place),
        }
    }

    /// Whether it was an entry.
    fn add(&mut self, entry: &str) -> bool {
        let entry = entry.trim();
        let bare = entry.trim_start_matches('[').trim_end_matches(']');
        if entry == "*" {
            self.all = true;
        } else if let Ok(address) = bare.parse::<IpAddr>() {
            self.networks.push(IpNet::from(address));
        } else if let Ok(network) = bare.parse::<IpNet>() {
            self.networks.push(network);
        } else if let Some(name) = name(entry.trim_start_matches('.')) {
            self.names.push(name);
        } else {
            return false;
        }
        true
    }

    pub(super) fn holds(&self, host: &Host) -> bool {
        if self.all {
            return true;
        }
        match host {
            Host::Address(address) => self.networks.iter().any(|net| net.contains(address)),
            Host::Name(host) => self.names.iter().any(|name| {
                host.strip_suffix(name.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }),
        }
    }
}

#[cfg(test)]
mod tests;
