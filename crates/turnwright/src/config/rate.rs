//! `[rate]`: limits of keys and organizations.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;
use tw_core::rate::RateLimits;

use crate::organization::slug;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct RateSettings {
    key: AskerSettings,
    organization: AskerSettings,
    #[serde(default)]
    organizations: BTreeMap<String, AskerSettings>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct AskerSettings {
    requests_per_minute: Option<u32>,
    concurrency_max: Option<u32>,
    streams_max: Option<u32>,
}

impl RateSettings {
    pub fn key(&self) -> RateLimits {
        self.key.limits()
    }

    pub fn organization(&self) -> RateLimits {
        self.organization.limits()
    }

    /// Limits of organizations, by slug.
    ///
    /// # Errors
    /// For a name that is no slug.
    pub fn organizations(&self) -> anyhow::Result<BTreeMap<String, RateLimits>> {
        let limits = self.organizations.iter().map(|(name, settings)| {
            let name = slug(name).with_context(|| format!("rate.organizations.{name:?}"))?;
            Ok((name, settings.limits()))
        });
        limits.collect()
    }
}

impl AskerSettings {
    fn limits(&self) -> RateLimits {
        RateLimits {
            requests_per_minute: self.requests_per_minute,
            concurrency_max: self.concurrency_max,
            streams_max: self.streams_max,
        }
    }
}
