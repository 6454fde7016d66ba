//! Look-ups: from a name to its addresses.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;
use hickory_resolver::net::NetError;

use super::connect_error::ConnectError;

/// Sources of addresses.
pub enum Resolver {
    /// The name servers and hosts file of this machine, without search domains.
    System(Box<TokioResolver>),
    /// A table, for tests.
    Fixed(FixedAnswers),
}

/// Answers by name; each look-up takes the next one, and the last is repeated.
#[derive(Debug, Default)]
pub struct FixedAnswers {
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
}

/// The machine's settings for name look-ups cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("reading how this machine looks up names")]
pub struct ResolverUnavailable {
    #[source]
    source: NetError,
}

impl Resolver {
    /// Uses the machine's own settings.
    ///
    /// # Errors
    /// The settings are missing or cannot be read.
    pub fn system() -> Result<Self, ResolverUnavailable> {
        let unavailable = |source| ResolverUnavailable { source };
        let mut builder = TokioResolver::builder_tokio().map_err(unavailable)?;
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        let resolver = builder.build().map_err(unavailable)?;
        Ok(Self::System(Box::new(resolver)))
    }

    /// Addresses of the name, all of them, at least one.
    ///
    /// # Errors
    /// [`ConnectError::LookUp`] when the name has none, [`ConnectError::NoNameServer`] when
    /// nobody could say.
    pub(super) async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, ConnectError> {
        let host = || name.to_owned();
        let addresses: Vec<IpAddr> = match self {
            Self::System(resolver) => {
                // The dot at the end keeps search domains out.
                let found = resolver.lookup_ip(format!("{name}.")).await;
                let found = found.map_err(|error| {
                    let has_none = error.is_nx_domain() || error.is_no_records_found();
                    let (host, source) = (host(), io::Error::other(error));
                    if has_none {
                        ConnectError::LookUp { host, source }
                    } else {
                        ConnectError::NoNameServer { host, source }
                    }
                })?;
                found.iter().collect()
            }
            Self::Fixed(table) => table.next(name),
        };
        if addresses.is_empty() {
            let source = io::ErrorKind::NotFound.into();
            return Err(ConnectError::LookUp {
                host: host(),
                source,
            });
        }
        Ok(addresses)
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::System(_) => "Resolver::System",
            Self::Fixed(_) => "Resolver::Fixed",
        })
    }
}

impl FixedAnswers {
    /// Adds what a further look-up of the name answers.
    #[must_use]
    pub fn then(self, name: &str, addresses: &[IpAddr]) -> Self {
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(name.to_owned())
            .or_default()
            .push_back(addresses.to_vec());
        self
    }

    fn next(&self, name: &str) -> Vec<IpAddr> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = answers.get_mut(name) else {
            return Vec::new();
        };
        if left.len() > 1 {
            left.pop_front().unwrap_or_default()
        } else {
            left.front().cloned().unwrap_or_default()
        }
    }
}
