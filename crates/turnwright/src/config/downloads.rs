//! `[downloads]`: images and files that are fetched by their addresses.

use std::time::Duration;

use serde::Deserialize;
use tw_egress::client::host_port::AllowedDestination;
use tw_egress::part_downloads::DownloadLimits;

use super::egress::{AllowSettings, allowed};

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct DownloadSettings {
    bytes_max: usize,
    turn_bytes_max: usize,
    addresses_max: usize,
    timeout_s: u64,
    #[serde(default)]
    allow: Vec<AllowSettings>,
}

impl DownloadSettings {
    pub fn limits(&self) -> DownloadLimits {
        DownloadLimits {
            bytes_max: self.bytes_max,
            turn_bytes_max: self.turn_bytes_max,
            addresses_max: self.addresses_max,
            timeout: Duration::from_secs(self.timeout_s),
        }
    }

    /// The entries, checked.
    pub fn allowed(&self) -> anyhow::Result<Vec<AllowedDestination>> {
        allowed(&self.allow, "downloads.allow")
    }
}
