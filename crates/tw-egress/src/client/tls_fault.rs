//! Faults for which no secure connection comes.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// A reason for which TLS fails, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// The other side's certificate was signed by nobody who is trusted here.
    UnknownAuthority,
    Expired,
    NotYetValid,
    /// The certificate is for other names.
    WrongName,
    /// The certificate has another fault.
    BadCertificate,
    /// The other side wants to see a certificate of ours, and there is none.
    ClientCertificateWanted,
    /// The other side does not accept the certificate that it was shown.
    ClientCertificateRefused,
    /// The other side sent something that is not TLS.
    NoTls,
    /// The connection ended in the middle of the handshake.
    Ended,
    /// The two sides have nothing in common, or one refused the other without a reason.
    Refused,
}

impl TlsFault {
    /// Reads what TLS reports through a connection; `None` if the error is of another kind.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        let inner = error.get_ref()?.downcast_ref::<Error>()?;
        Some(match inner {
            Error::InvalidCertificate(fault) => Self::of_certificate(fault),
            Error::AlertReceived(alert) => Self::of_alert(*alert),
            Error::InvalidMessage(_) => Self::NoTls,
            _ => Self::Refused,
        })
    }

    /// Reads the fault of a handshake, in which every error is one of TLS.
    pub(crate) fn of_handshake(error: &io::Error) -> Self {
        Self::of(error).unwrap_or(Self::Ended)
    }

    fn of_certificate(fault: &CertificateError) -> Self {
        match fault {
            CertificateError::UnknownIssuer => Self::UnknownAuthority,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::WrongName
            }
            _ => Self::BadCertificate,
        }
    }

    fn of_alert(alert: AlertDescription) -> Self {
        match alert {
            AlertDescription::CertificateRequired => Self::ClientCertificateWanted,
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied => Self::ClientCertificateRefused,
            _ => Self::Refused,
        }
    }

    /// Whether the other side broke off over the certificate that it was shown, or over none. It
    /// says so in the handshake only (RFC 8446, 6.2), before it reads what was sent behind it;
    /// asking for one later is nothing that this side offers.
    pub(super) fn is_of_our_certificate(self) -> bool {
        match self {
            Self::ClientCertificateWanted | Self::ClientCertificateRefused => true,
            Self::UnknownAuthority
            | Self::Expired
            | Self::NotYetValid
            | Self::WrongName
            | Self::BadCertificate
            | Self::NoTls
            | Self::Ended
            | Self::Refused => false,
        }
    }

    /// Words for the fault, without the name of a host.
    pub fn words(self) -> &'static str {
        match self {
            Self::UnknownAuthority => "its certificate is of an authority that is not trusted here",
            Self::Expired => "its certificate has expired",
            Self::NotYetValid => "its certificate is not valid yet",
            Self::WrongName => "its certificate is for another name",
            Self::BadCertificate => "its certificate cannot be used",
            Self::ClientCertificateWanted => "it wants a client certificate",
            Self::ClientCertificateRefused => "it refuses the client certificate",
            Self::NoTls => "it does not speak TLS on this port",
            Self::Ended => "it ended the connection during the TLS handshake",
            Self::Refused => "the TLS handshake failed",
        }
    }

    /// Advice to an operator: what may be changed, for an upstream.
    pub fn advice(self) -> Option<&'static str> {
        match self {
            Self::UnknownAuthority => Some(
                "name the file of its certificate authority in 'ca_file', in [tls] or at the upstream, or in SSL_CERT_FILE",
            ),
            Self::NotYetValid => Some("look at the clock of this machine"),
            Self::WrongName => Some("write the name that stands in the certificate"),
            Self::ClientCertificateWanted => {
                Some("set 'client_cert_file' and 'client_key_file' at the upstream")
            }
            Self::ClientCertificateRefused => {
                Some("look at 'client_cert_file' and 'client_key_file' of the upstream")
            }
            Self::NoTls => Some("if it speaks plain HTTP, write http:// instead of https://"),
            Self::Expired | Self::BadCertificate | Self::Ended | Self::Refused => None,
        }
    }

    /// Advice to the operator, for a tool: a setting to change.
    pub(super) fn advice_for_tools(self) -> Option<&'static str> {
        match self {
            Self::UnknownAuthority => Some(
                "name the file of its certificate authority in 'ca_file' in [tls], or in SSL_CERT_FILE",
            ),
            Self::ClientCertificateWanted => {
                Some("[[egress.certificate]] shows one to a place of a tool")
            }
            Self::ClientCertificateRefused => Some("look at [[egress.certificate]] of this place"),
            Self::NotYetValid
            | Self::WrongName
            | Self::NoTls
            | Self::Expired
            | Self::BadCertificate
            | Self::Ended
            | Self::Refused => None,
        }
    }
}
