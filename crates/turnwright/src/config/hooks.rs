//! `[hooks]`: callbacks of tools.

use std::time::Duration;

use anyhow::{Context, bail};
use http::Uri;
use serde::Deserialize;
use tw_egress::callbacks::Networks;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct HookSettings {
    public_url: String,
    wait_s: u64,
    trusted_proxies: Vec<String>,
}

impl HookSettings {
    /// The beginning of the URLs at which callbacks come in; `None` if none do.
    pub fn base(&self) -> anyhow::Result<Option<String>> {
        if self.public_url.is_empty() {
            return Ok(None);
        }
        let url: Uri = self.public_url.parse().context("'hooks.public_url'")?;
        let is_plain = matches!(url.scheme_str(), Some("http" | "https"))
            && url
                .authority()
                .is_some_and(|host| !host.as_str().contains('@'))
            && url.query().is_none();
        if !is_plain || self.public_url.contains('#') {
            bail!("'hooks.public_url' must be http:// or https:// with a host and maybe a path");
        }
        Ok(Some(self.public_url.trim_end_matches('/').to_owned()))
    }

    /// Proxies that are trusted to tell whom they speak for.
    pub fn trusted_proxies(&self) -> anyhow::Result<Networks> {
        Networks::parse(&self.trusted_proxies).context("'hooks.trusted_proxies'")
    }

    pub fn wait(&self) -> Duration {
        Duration::from_secs(self.wait_s)
    }
}
