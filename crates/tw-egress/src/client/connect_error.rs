//! Failures to connect to an upstream or to the place of a tool.

use std::error::Error;
use std::io;
use std::net::IpAddr;

use super::failure::{FailureKind, WaitPhase};
use super::tls_fault::TlsFault;

/// A failure to connect, for the operator: it names hosts and addresses. [`ConnectError::told`] does not.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the name {host} has no address here")]
    LookUp {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("no name server says where {host} is")]
    NoNameServer {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("looking up the name {host} took too long")]
    LookUpTimedOut { host: String },
    /// Only of tools.
    #[error("{place} is no place where tools may go")]
    PlaceNotAllowed { place: String },
    /// Only of tools.
    #[error("{place} is at {address}, where tools may not go")]
    AddressNotAllowed { place: String, address: IpAddr },
    #[error("{place} takes no connection")]
    Refused {
        place: String,
        #[source]
        source: io::Error,
    },
    #[error("{place} does not answer")]
    TimedOut { place: String },
    #[error("no secure connection to {place}: {}", fault.words())]
    Tls {
        place: String,
        fault: TlsFault,
        #[source]
        source: io::Error,
    },
    #[error("no secure connection to {place} came in time")]
    TlsTimedOut { place: String },
    /// A failure on the way to the proxy, as the source says.
    #[error("the proxy")]
    Proxy(#[source] Box<ConnectError>),
    #[error("the proxy {proxy} answered {status} to CONNECT {place}")]
    ProxyStatus {
        proxy: String,
        place: String,
        status: u16,
    },
    #[error("the proxy {proxy} did not answer CONNECT {place} as a proxy does")]
    ProxyNoAnswer { proxy: String, place: String },
}

impl ConnectError {
    /// The error of a connection on which the other side took TLS back behind the handshake.
    pub(super) fn broken_off(place: String, fault: TlsFault) -> Self {
        Self::Tls {
            place,
            fault,
            source: io::ErrorKind::ConnectionAborted.into(),
        }
    }

    /// The text for clients: the class of the failure, behind "the upstream".
    pub fn told(&self) -> String {
        match self {
            Self::LookUp { .. } | Self::NoNameServer { .. } | Self::LookUpTimedOut { .. } => {
                "cannot be reached: its name could not be looked up".to_owned()
            }
            Self::PlaceNotAllowed { .. } | Self::AddressNotAllowed { .. } => {
                "may not be reached from here".to_owned()
            }
            Self::Refused { .. } => "cannot be reached: it takes no connection".to_owned(),
            Self::TimedOut { .. } | Self::TlsTimedOut { .. } => {
                "cannot be reached: no connection came in time".to_owned()
            }
            Self::Tls { fault, .. } => {
                format!("cannot be reached securely: {}", fault.words())
            }
            Self::Proxy(_) | Self::ProxyStatus { .. } | Self::ProxyNoAnswer { .. } => {
                "cannot be reached: the proxy before it failed".to_owned()
            }
        }
    }

    /// The class of the failure, for a tool.
    pub(super) fn kind(&self) -> FailureKind {
        match self {
            Self::LookUp { .. } => FailureKind::Unresolved,
            Self::NoNameServer { .. } => FailureKind::LookUpFailed,
            Self::PlaceNotAllowed { .. } | Self::AddressNotAllowed { .. } => {
                FailureKind::TargetNotAllowed
            }
            Self::LookUpTimedOut { .. } | Self::TimedOut { .. } | Self::TlsTimedOut { .. } => {
                FailureKind::TimedOut(WaitPhase::Connect)
            }
            Self::Refused { .. } => FailureKind::Connect,
            Self::Tls { fault, .. } => FailureKind::Tls(*fault),
            Self::Proxy(_) | Self::ProxyStatus { .. } | Self::ProxyNoAnswer { .. } => {
                FailureKind::Proxy
            }
        }
    }

    /// The error and what led to it, in a line.
    pub(crate) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut source = self.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }

    /// Advice to the operator, for an upstream: a setting to change.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Tls { fault, .. } => fault.advice(),
            Self::ProxyStatus { status: 407, .. } => {
                Some("the proxy wants a user and a password: write http://USER:PASSWORD@PROXY:PORT")
            }
            Self::ProxyStatus { .. } | Self::Proxy(_) | Self::ProxyNoAnswer { .. } => Some(
                "look at the proxy's setting; hosts in NO_PROXY, and upstreams with proxy = \"\", go without it",
            ),
            Self::LookUp { .. }
            | Self::NoNameServer { .. }
            | Self::LookUpTimedOut { .. }
            | Self::PlaceNotAllowed { .. }
            | Self::AddressNotAllowed { .. }
            | Self::Refused { .. }
            | Self::TimedOut { .. }
            | Self::TlsTimedOut { .. } => None,
        }
    }

    /// Advice to the operator, for a tool: a setting to change.
    pub(super) fn advice_for_tools(&self) -> Option<&'static str> {
        match self {
            Self::Tls { fault, .. } => fault.advice_for_tools(),
            Self::PlaceNotAllowed { .. } | Self::AddressNotAllowed { .. } => {
                Some("[[egress.allow]] opens a private place, but none of this server's own")
            }
            Self::ProxyStatus { status: 407, .. } => {
                Some("the proxy wants a user and a password: write http://USER:PASSWORD@PROXY:PORT")
            }
            Self::ProxyStatus { .. } | Self::Proxy(_) | Self::ProxyNoAnswer { .. } => {
                Some("look at 'proxy' in [egress]; hosts in its 'no_proxy' are reached without it")
            }
            Self::LookUp { .. }
            | Self::NoNameServer { .. }
            | Self::LookUpTimedOut { .. }
            | Self::Refused { .. }
            | Self::TimedOut { .. }
            | Self::TlsTimedOut { .. } => None,
        }
    }
}
