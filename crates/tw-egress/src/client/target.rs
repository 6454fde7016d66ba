//! A tool's URL, parsed once: what is judged is what is connected to.

use std::fmt;
use std::net::IpAddr;

use tw_core::limits::URL_BYTES_MAX;
use url::Url;

use super::failure::FailureKind;
use super::host_port::name;

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestTarget {
    pub scheme: Scheme,
    pub host: Host,
    pub port: u16,
    /// Begins with a slash; percent-encoded, without a fragment.
    pub path_and_query: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scheme {
    Http,
    Https,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Host {
    /// Name in lower case, without a dot at the end.
    Name(String),
    Address(IpAddr),
}

/// Without the brackets of an address of IPv6.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl Scheme {
    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl RequestTarget {
    /// Reads a URL; says nothing about whether it may be reached.
    ///
    /// # Errors
    /// [`FailureKind::BadUrl`].
    pub fn parse(text: &str) -> Result<Self, FailureKind> {
        // The parser drops line breaks and tabs in silence, and spaces at both ends.
        let is_junk = |byte: u8| byte.is_ascii_control() || byte == b' ';
        if text.len() > URL_BYTES_MAX || text.bytes().any(is_junk) {
            return Err(FailureKind::BadUrl);
        }
        let url = Url::parse(text).map_err(|_| FailureKind::BadUrl)?;
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(FailureKind::BadUrl),
        };
        if url.as_str().len() > URL_BYTES_MAX || has_user_info(&url) {
            return Err(FailureKind::BadUrl);
        }
        let host = match url.host().ok_or(FailureKind::BadUrl)? {
            url::Host::Domain(domain) => {
                // Among others a template whose braces were not filled in.
                Host::Name(name(domain).ok_or(FailureKind::BadUrl)?)
            }
            url::Host::Ipv4(address) => Host::Address(address.into()),
            url::Host::Ipv6(address) => Host::Address(address.into()),
        };
        let port = url.port().unwrap_or_else(|| scheme.port());
        if port == 0 {
            return Err(FailureKind::BadUrl);
        }
        let mut path_and_query = url.path().to_owned();
        if let Some(query) = url.query() {
            path_and_query.push('?');
            path_and_query.push_str(query);
        }
        Ok(Self {
            scheme,
            host,
            port,
            path_and_query,
        })
    }

    /// The value of the `Host` header.
    pub fn authority(&self) -> String {
        let host = match &self.host {
            Host::Name(name) => name.clone(),
            Host::Address(IpAddr::V4(address)) => address.to_string(),
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
        };
        if self.port == self.scheme.port() {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

/// An empty user is dropped by the parser, so that `https://@host/` has none.
fn has_user_info(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

#[cfg(test)]
mod tests;
