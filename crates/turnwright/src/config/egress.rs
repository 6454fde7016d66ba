//! `[egress]`: destinations that tools may reach besides public ones, and the way there.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use rustls::RootCertStore;
use serde::Deserialize;
use tw_egress::client::host_port::{AllowedDestination, HostPort};
use tw_egress::client::proxy::WithoutProxy;
use tw_egress::client::resolve::{FixedAnswers, Resolver};
use tw_egress::client::tls::ClientIdentity;
use tw_egress::client::tool_certificate::ToolCertificate;
use tw_egress::client::tool_route::{NamesLookedUp, ToolProxy};
use tw_egress::client::{ClientOptions, EgressClient, PoolOptions, READ_BYTES_MAX_DEFAULT};

use super::network::WrittenProxy;
use crate::organization::slug;

#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
pub struct EgressSettings {
    #[serde(default)]
    allow: Vec<AllowSettings>,
    #[serde(default)]
    certificate: Vec<CertificateSettings>,
    proxy: Option<WrittenProxy>,
    #[serde(default)]
    no_proxy: Vec<String>,
    #[serde(default)]
    proxy_looks_up: bool,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct AllowSettings {
    place: String,
    organizations: Option<Vec<String>>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct CertificateSettings {
    place: String,
    organizations: Option<Vec<String>>,
    client_cert_file: PathBuf,
    client_key_file: PathBuf,
}

impl EgressSettings {
    /// The client through which requests of tools leave. `listeners` are where we listen ourselves:
    /// no tool gets there, whatever is allowed. The database is a file.
    pub fn client(
        &self,
        listeners: &[SocketAddr],
        trusted_roots: RootCertStore,
    ) -> anyhow::Result<EgressClient> {
        Ok(EgressClient::new(ClientOptions {
            resolver: resolver(),
            allowed: self.allowed()?,
            denied: listeners.iter().filter_map(|own| place_of(*own)).collect(),
            trusted_roots,
            certificates: self.certificates()?,
            proxy: self.proxy()?,
            pool: PoolOptions::defaults(),
            read_bytes_max: READ_BYTES_MAX_DEFAULT,
        }))
    }

    /// A client for what is no tool's: it goes by the same proxy, and reaches only public places and `allowed`, where it
    /// shows no certificate.
    pub fn client_without_tools(
        &self,
        listeners: &[SocketAddr],
        trusted_roots: RootCertStore,
        allowed: Vec<AllowedDestination>,
    ) -> anyhow::Result<EgressClient> {
        Ok(EgressClient::new(ClientOptions {
            resolver: resolver(),
            allowed,
            denied: listeners.iter().filter_map(|own| place_of(*own)).collect(),
            trusted_roots,
            certificates: Vec::new(),
            proxy: self.proxy()?,
            pool: PoolOptions::defaults(),
            read_bytes_max: READ_BYTES_MAX_DEFAULT,
        }))
    }

    /// The entries, checked.
    pub fn allowed(&self) -> anyhow::Result<Vec<AllowedDestination>> {
        allowed(&self.allow, "egress.allow")
    }

    fn proxy(&self) -> anyhow::Result<Option<ToolProxy>> {
        // By place: whatever stands there may stand there by mistake.
        let without = WithoutProxy::of(&self.no_proxy).map_err(|place| {
            anyhow!("egress.no_proxy[{place}] is no name, address or network, and not \"*\"")
        })?;
        let proxy = self.proxy.as_ref().map(WrittenProxy::read).transpose();
        let Some(proxy) = proxy.context("egress")?.flatten() else {
            return Ok(None);
        };
        let names = if self.proxy_looks_up {
            NamesLookedUp::ByProxy
        } else {
            NamesLookedUp::Here
        };
        Ok(Some(ToolProxy {
            proxy,
            without,
            names,
        }))
    }

    fn certificates(&self) -> anyhow::Result<Vec<ToolCertificate>> {
        let named = |(index, entry): (usize, &CertificateSettings)| {
            entry
                .certificate()
                .with_context(|| format!("egress.certificate[{index}]"))
        };
        self.certificate.iter().enumerate().map(named).collect()
    }
}

/// The destinations of these entries of the list that is called `list`, checked.
pub fn allowed(
    entries: &[AllowSettings],
    list: &'static str,
) -> anyhow::Result<Vec<AllowedDestination>> {
    let named = |(index, entry): (usize, &AllowSettings)| {
        let place = || format!("{list}[{index}]");
        entry.allowed().with_context(place)
    };
    entries.iter().enumerate().map(named).collect()
}

/// The resolver of names. A machine without settings for looking them up still serves tools that
/// name addresses, and turns that use no tools.
fn resolver() -> Resolver {
    Resolver::system().unwrap_or_else(|error| {
        tracing::warn!(error = %error, "names cannot be looked up, so tools reach only addresses");
        Resolver::Fixed(FixedAnswers::default())
    })
}

/// The host and port of a listener of ours; `None` while the port is still to be chosen.
fn place_of(listener: SocketAddr) -> Option<HostPort> {
    // Without the scope of an IPv6 address, which a place has not.
    let plain = SocketAddr::new(listener.ip(), listener.port());
    HostPort::parse(&plain.to_string()).ok()
}

impl AllowSettings {
    fn allowed(&self) -> anyhow::Result<AllowedDestination> {
        Ok(AllowedDestination::parse(
            &self.place,
            checked(self.organizations.as_deref())?,
        )?)
    }
}

impl CertificateSettings {
    fn certificate(&self) -> anyhow::Result<ToolCertificate> {
        let identity = ClientIdentity::read(&self.client_cert_file, &self.client_key_file)
            .context("'client_cert_file' and 'client_key_file'")?;
        let organizations = checked(self.organizations.as_deref())?;
        Ok(ToolCertificate::new(&self.place, organizations, identity)?)
    }
}

/// The slugs of an entry.
fn checked(organizations: Option<&[String]>) -> anyhow::Result<Option<Vec<String>>> {
    let Some(organizations) = organizations else {
        return Ok(None);
    };
    if organizations.is_empty() {
        bail!("'organizations' is empty, so it is for nobody");
    }
    for organization in organizations {
        slug(organization).context("'organizations'")?;
    }
    Ok(Some(organizations.to_vec()))
}

#[cfg(test)]
mod tests;
