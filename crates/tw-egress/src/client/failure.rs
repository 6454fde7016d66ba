//! Failures of a tool's request.

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
    /// The certificate or the handshake was refused, by either side.
    Tls,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct SendFailure {
    pub kind: FailureKind,
    /// Whether anything of this request was written; if not, repeating it is safe whatever it does.
    pub sent: bool,
}

impl SendFailure {
    pub(super) fn unsent(kind: FailureKind) -> Self {
        Self { kind, sent: false }
    }

    /// The text for the model and for records: names no host and no address, and does not tell one
    /// refused target from another.
    pub fn message(&self) -> &'static str {
        match self.kind {
            FailureKind::BadUrl => "the tool's address is no usable URL",
            FailureKind::BadRequest => "the tool's method or headers cannot be sent",
            FailureKind::NotHttps => "the tool's address must begin with https",
            // Which names there are inside is nobody's business who may write a tool.
            FailureKind::TargetNotAllowed | FailureKind::Unresolved => {
                "the tool's address does not exist or may not be reached from here"
            }
            FailureKind::LookUpFailed => "the tool's host could not be looked up",
            FailureKind::Connect => "the tool cannot be reached",
            FailureKind::Tls => "no secure connection to the tool could be made",
            FailureKind::Reset => "the tool closed the connection before its answer was complete",
            FailureKind::NotHttp => "the tool's answer is not HTTP",
            FailureKind::HeadersTooLarge => "the tool's answer has too large headers",
            FailureKind::TimedOut(WaitPhase::Connect) => "no connection to the tool came in time",
            FailureKind::TimedOut(WaitPhase::FirstByte) => "the tool did not answer in time",
            FailureKind::TimedOut(WaitPhase::Idle) => "the tool's answer stopped coming",
            FailureKind::TimedOut(WaitPhase::Total) => "the tool did not finish in time",
        }
    }
}
