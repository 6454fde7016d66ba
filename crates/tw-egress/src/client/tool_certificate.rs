//! Client certificates of tools: where each is shown, and for whom.

use rustls::RootCertStore;
use tokio_rustls::TlsConnector;

use super::host_port::{BadHostPort, HostPort, ORGANIZATION_DEFAULT};
use super::target::RequestTarget;
use super::tls::{ClientIdentity, connector};

/// A certificate of the operator's that tools show at one place, and nowhere else.
#[derive(Clone, Debug)]
pub struct ToolCertificate {
    place: HostPort,
    /// Slugs.
    organizations: Vec<String>,
    identity: ClientIdentity,
}

impl ToolCertificate {
    /// Without organizations it is for [`ORGANIZATION_DEFAULT`] only.
    ///
    /// # Errors
    /// As [`HostPort::parse`], and [`BadHostPort::Network`].
    pub fn new(
        place: &str,
        organizations: Option<Vec<String>>,
        identity: ClientIdentity,
    ) -> Result<Self, BadHostPort> {
        let place = HostPort::parse(place)?;
        if !place.is_one_host() {
            return Err(BadHostPort::Network);
        }
        Ok(Self {
            place,
            organizations: organizations.unwrap_or_else(|| vec![ORGANIZATION_DEFAULT.to_owned()]),
            identity,
        })
    }
}

/// Connectors of the secure connections of tools.
pub(super) struct ToolConnectors {
    anonymous: TlsConnector,
    /// The first that fits is used.
    showing: Vec<(ToolCertificate, TlsConnector)>,
}

impl ToolConnectors {
    pub fn new(roots: &RootCertStore, certificates: Vec<ToolCertificate>) -> Self {
        let showing = |certificate: ToolCertificate| {
            let identity = certificate.identity.clone();
            (certificate, connector(roots.clone(), Some(identity)))
        };
        Self {
            anonymous: connector(roots.clone(), None),
            showing: certificates.into_iter().map(showing).collect(),
        }
    }

    /// The connector for a place and an organization, each with tickets of its own: a connection that
    /// is taken up again is as good as the certificate that it began with.
    pub fn of(&self, target: &RequestTarget, organization: &str) -> &TlsConnector {
        let fits = |(certificate, _): &&(ToolCertificate, TlsConnector)| {
            let mut slugs = certificate.organizations.iter();
            certificate.place.is_exactly(&target.host, target.port)
                && slugs.any(|slug| slug == organization)
        };
        let showing = self.showing.iter().find(fits);
        showing.map_or(&self.anonymous, |(_, connector)| connector)
    }
}
