//! The network around the server: certificate authorities that are trusted, and proxies.

use std::fmt;
use std::path::PathBuf;

use anyhow::Context;
use rustls::RootCertStore;
use serde::Deserialize;
use tw_egress::client::proxy::{Proxy, WithoutProxy};
use tw_egress::client::route::EnvironmentProxies;
use tw_egress::client::tls::{roots_of_environment, trust};

use super::environment::Environment;

/// A proxy as it was written: `http://USER:PASSWORD@HOST:PORT`.
#[derive(Deserialize, Clone)]
#[serde(transparent)]
pub struct WrittenProxy(String);

impl WrittenProxy {
    /// The proxy; `None` if nothing is written.
    pub fn read(&self) -> anyhow::Result<Option<Proxy>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        Proxy::parse(&self.0).map(Some).context("'proxy'")
    }
}

/// Without the password.
impl fmt::Debug for WrittenProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// `[tls]`, for upstreams and tools.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    ca_file: Option<PathBuf>,
}

/// Settings of every upstream that has none of its own.
pub struct Network {
    pub trusted_roots: RootCertStore,
    pub proxies: EnvironmentProxies,
}

impl TlsSettings {
    /// Reads the files that are named here and by the environment.
    pub fn network(&self, environment: &Environment) -> anyhow::Result<Network> {
        Ok(Network {
            trusted_roots: self.trusted_roots(environment)?,
            proxies: EnvironmentProxies {
                http: proxy(environment, ["http_proxy", "HTTP_PROXY"])?,
                https: proxy(environment, ["https_proxy", "HTTPS_PROXY"])?,
                without: WithoutProxy::parse(
                    &either(environment, ["no_proxy", "NO_PROXY"])?.unwrap_or_default(),
                ),
            },
        })
    }

    /// Certificate authorities that may vouch for a server: what `SSL_CERT_FILE` and `SSL_CERT_DIR`
    /// name, else the built-in list, and what the config adds to either.
    pub fn trusted_roots(&self, environment: &Environment) -> anyhow::Result<RootCertStore> {
        let file = environment.get("SSL_CERT_FILE")?.map(PathBuf::from);
        let folders = environment.get("SSL_CERT_DIR")?.unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&folders)
            .filter(|folder| !folder.as_os_str().is_empty())
            .collect();
        let roots = roots_of_environment(file.as_deref(), &folders);
        let mut roots = roots.context("SSL_CERT_FILE or SSL_CERT_DIR")?;
        if let Some(file) = &self.ca_file {
            trust(&mut roots, file).context("tls.ca_file")?;
        }
        Ok(roots)
    }
}

/// The proxy of the first variable that is set. A wrong one is told where it is to be used: what an
/// upstream on this machine does not need keeps nobody from starting.
fn proxy(
    environment: &Environment,
    names: [&str; 2],
) -> anyhow::Result<Option<Result<Proxy, tw_egress::client::proxy::BadProxy>>> {
    let written = match either(environment, names)? {
        Some(written) => Some(written),
        None => either(environment, ["all_proxy", "ALL_PROXY"])?,
    };
    Ok(written.map(|written| Proxy::parse(&written)))
}

/// The first of two variables that is set, as curl has them: small letters go first.
fn either(environment: &Environment, names: [&str; 2]) -> anyhow::Result<Option<String>> {
    match environment.get(names[0])? {
        Some(value) => Ok(Some(value)),
        None => environment.get(names[1]),
    }
}
