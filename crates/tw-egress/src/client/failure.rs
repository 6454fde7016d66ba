//! Failures of a tool's request.

use super::connect_error::ConnectError;
use super::tls_fault::TlsFault;

/// A kind of failure of a tool's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No absolute `http` or `https` URL, too long, or with user information.
    BadUrl,
    /// A method or header that this client does not send.
    BadRequest,
    /// `http` to a place that is not allowed to speak it.
    NotHttps,
    /// The guard refuses the host, its port, or one of its addresses.
    TargetNotAllowed,
    /// The name has no address; asking again does not help.
    Unresolved,
    /// No name server could say; asking again may help.
    LookUpFailed,
    /// No address took a connection.
    Connect,
    /// The proxy on the way failed, or refused.
    Proxy,
    /// The certificate or the handshake was refused, by either side.
    Tls(TlsFault),
    /// The connection ended before the answer did.
    Reset,
    /// The other side sent something that is not HTTP/1.
    NotHttp,
    /// The head has more than 100 headers or 64 KiB; or there are more than 8 interim answers, or
    /// such with more than 64 KiB of headers.
    HeadersTooLarge,
    TimedOut(WaitPhase),
}

/// The phase of a request that was waited for when the time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPhase {
    /// Look-up, TCP and TLS.
    Connect,
    /// The answer's head.
    FirstByte,
    /// The next part of the answer's body.
    Idle,
    /// The whole request was given no more time.
    Total,
}

/// A request without a whole answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", kind.message())]
pub struct SendFailure {
    pub kind: FailureKind,
    /// Whether anything of this request was written; if not, repeating it is safe whatever it does.
    pub sent: bool,
    /// The text for the operator's log alone: it names the host, and its address where that was refused.
    pub cause: String,
}

/// Longest [`SendFailure::cause`], in bytes: a certificate may name thousands of hosts.
const CAUSE_BYTES_MAX: usize = 1024;

impl SendFailure {
    /// The failure of a request that was not sent; `place` is where it was to go.
    pub(super) fn unsent(kind: FailureKind, place: Option<&str>) -> Self {
        let message = kind.message();
        Self {
            kind,
            sent: false,
            cause: match place {
                Some(place) => format!("{place}: {message}"),
                None => message,
            },
        }
    }

    /// The failure of a request for which there was no connection.
    pub(super) fn unconnected(error: &ConnectError, kind: FailureKind) -> Self {
        let mut cause = error.with_causes();
        cause.truncate(cause.floor_char_boundary(CAUSE_BYTES_MAX));
        if let Some(advice) = error.advice_for_tools() {
            cause.push_str("; ");
            cause.push_str(advice);
        }
        Self {
            kind,
            sent: false,
            cause,
        }
    }
}

impl FailureKind {
    /// The text for the model and for records: names no host and no address, and does not tell one
    /// refused target from another.
    pub fn message(self) -> String {
        let said = match self {
            Self::BadUrl => "the tool's address is no usable URL",
            Self::BadRequest => "the tool's method or headers cannot be sent",
            Self::NotHttps => "the tool's address must begin with https",
            // Which names there are inside is nobody's business who may write a tool.
            Self::TargetNotAllowed | Self::Unresolved => {
                "the tool's address does not exist or may not be reached from here"
            }
            Self::LookUpFailed => "the tool's host could not be looked up",
            Self::Connect => "the tool cannot be reached: it takes no connection",
            // Whatever it says: it may know which names there are inside.
            Self::Proxy => "the tool cannot be reached: the proxy before it failed",
            Self::Tls(fault) => {
                let words = fault.words();
                return format!("no secure connection to the tool could be made: {words}");
            }
            Self::Reset => "the tool closed the connection before its answer was complete",
            Self::NotHttp => "the tool's answer is not HTTP",
            Self::HeadersTooLarge => "the tool's answer has too large headers",
            Self::TimedOut(WaitPhase::Connect) => "no connection to the tool came in time",
            Self::TimedOut(WaitPhase::FirstByte) => "the tool did not answer in time",
            Self::TimedOut(WaitPhase::Idle) => "the tool's answer stopped coming",
            Self::TimedOut(WaitPhase::Total) => "the tool did not finish in time",
        };
        said.to_owned()
    }
}
