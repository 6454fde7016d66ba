//! Secrets of the operator: who may send which of them, and where to.
//!
//! A tool's definition names a secret; its value comes from a [`SecretGrant`] and from nowhere else.
//! Nothing here reads the environment or a file.

use std::fmt;

use url::Host;

use crate::client::host_port;
use crate::secret::Secret;

mod escapes;
pub(crate) mod secret_needle;
mod sent_secrets;

use secret_needle::SecretNeedle;
pub(crate) use sent_secrets::SentSecrets;

/// A secret that the operator lets tools send.
#[derive(Clone, Debug)]
pub struct SecretGrant {
    /// Name of the secret in definitions.
    pub name: String,
    pub value: Secret,
    /// Slugs of the organizations whose tools may send the secret; no others may.
    pub organizations: Vec<String>,
    /// Hosts to which the secret may be sent: `HOST` for the default port of the URL's scheme, or
    /// `HOST:PORT`. An empty list means all, as long as there is only one organization.
    pub hosts: Vec<String>,
}

/// Whether more than one organization lives here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    Single,
    Several,
}

/// The operator's grants of secrets.
#[derive(Default)]
pub struct Secrets(Vec<Granted>);

struct Granted {
    name: String,
    value: Secret,
    organizations: Vec<String>,
    places: Vec<Place>,
    hidden: SecretNeedle,
}

/// A host to which a secret may be sent, with a port unless it is the scheme's own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    host: Host<String>,
    port: Option<u16>,
}

/// A grant that cannot mean what it says. Only names are told: a secret may stand in any other part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGrant {
    #[error("the secret {name:?} is empty")]
    Empty { name: String },
    #[error("the secret {name:?} is granted to no organization")]
    Nobody { name: String },
    #[error("the secret {name:?}: hosts[{place}] is no HOST and no HOST:PORT")]
    BadHost { name: String, place: usize },
    /// `HOST:443` would say nothing about `https://HOST/`, whose port is not written.
    #[error(
        "the secret {name:?}: hosts[{place}] has the port of a scheme; write the host alone for https"
    )]
    DefaultPort { name: String, place: usize },
}

impl Secrets {
    /// Checks the grants. Of two with one name, the first that is for an organization decides for it alone.
    ///
    /// # Errors
    /// [`BadGrant`] for the first that cannot be used.
    pub fn new(grants: Vec<SecretGrant>) -> Result<Self, BadGrant> {
        let granted = grants.into_iter().map(Granted::new);
        granted.collect::<Result<_, _>>().map(Self)
    }

    /// The value, if this organization may send it there.
    ///
    /// `host` is that of the URL, with the port only if that is not the scheme's default. `None`
    /// does not tell whether there is such a secret.
    pub fn resolve(
        &self,
        name: &str,
        organization: &str,
        host: &str,
        tenancy: Tenancy,
    ) -> Option<&Secret> {
        let granted = self.granted(name, organization, host, tenancy);
        granted.map(|granted| &granted.value)
    }

    /// The value, if it is the organization's, to check what others have signed with it: it is sent nowhere.
    pub fn to_verify(&self, name: &str, organization: &str) -> Option<&Secret> {
        let granted = self.of(organization).find(|granted| granted.name == name);
        granted.map(|granted| &granted.value)
    }

    /// Finds the value like [`Self::resolve`], and notes that it is sent.
    pub(crate) fn send<'a>(
        &'a self,
        name: &str,
        organization: &str,
        host: &str,
        tenancy: Tenancy,
        sent: &mut SentSecrets<'a>,
    ) -> Option<&'a Secret> {
        let granted = self.granted(name, organization, host, tenancy)?;
        sent.add(&granted.hidden);
        Some(&granted.value)
    }

    fn granted(
        &self,
        name: &str,
        organization: &str,
        host: &str,
        tenancy: Tenancy,
    ) -> Option<&Granted> {
        let granted = self.of(organization).find(|granted| granted.name == name)?;
        let may_go = if granted.places.is_empty() {
            tenancy == Tenancy::Single
        } else {
            Place::parse(host).is_some_and(|place| granted.places.contains(&place))
        };
        may_go.then_some(granted)
    }

    fn of<'a>(&'a self, organization: &str) -> impl Iterator<Item = &'a Granted> {
        let is_for = move |granted: &&Granted| {
            let mut slugs = granted.organizations.iter();
            slugs.any(|slug| slug == organization)
        };
        self.0.iter().filter(is_for)
    }
}

/// Shows names only: the values are nobody's business, and neither is their length.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|granted| &granted.name))
            .finish()
    }
}

impl Granted {
    fn new(grant: SecretGrant) -> Result<Self, BadGrant> {
        let SecretGrant {
            name,
            value,
            organizations,
            hosts,
        } = grant;
        if value.reveal().is_empty() {
            return Err(BadGrant::Empty { name });
        }
        if organizations.is_empty() {
            return Err(BadGrant::Nobody { name });
        }
        let mut places = Vec::with_capacity(hosts.len());
        for (place, entry) in hosts.iter().enumerate() {
            let Some(read) = Place::parse(entry) else {
                return Err(BadGrant::BadHost { name, place });
            };
            if matches!(read.port, Some(80 | 443)) {
                return Err(BadGrant::DefaultPort { name, place });
            }
            places.push(read);
        }
        Ok(Self {
            hidden: SecretNeedle::new(&value),
            name,
            value,
            organizations,
            places,
        })
    }
}

impl Place {
    /// Reads the host as URLs are read, so that two spellings of one host are equal.
    fn parse(text: &str) -> Option<Self> {
        let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        let (host, port) = match text.rsplit_once(':') {
            // The last colon of an address in brackets.
            Some((_, rest)) if rest.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(Some(port).filter(is_port)?.parse().ok()?)),
            None => (text, None),
        };
        if port == Some(0) {
            return None;
        }
        let host = match Host::parse(host).ok()? {
            // Without the dot at the end; and a star is part of no name.
            Host::Domain(domain) => Host::Domain(host_port::name(&domain)?),
            address @ (Host::Ipv4(_) | Host::Ipv6(_)) => address,
        };
        Some(Self { host, port })
    }
}

#[cfg(test)]
mod tests;
