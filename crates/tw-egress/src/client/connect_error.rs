//! Failures to connect to an upstream.

use std::io;

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
    #[error("looking up the name {host} took too long")]
    LookUpTimedOut { host: String },
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
    /// The text for clients: the class of the failure, behind "the upstream".
    pub fn told(&self) -> String {
        match self {
            Self::LookUp { .. } | Self::LookUpTimedOut { .. } => {
                "cannot be reached: its name could not be looked up".to_owned()
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

    /// Advice to the operator: a setting to change.
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
            | Self::LookUpTimedOut { .. }
            | Self::Refused { .. }
            | Self::TimedOut { .. }
            | Self::TlsTimedOut { .. } => None,
        }
    }
}
