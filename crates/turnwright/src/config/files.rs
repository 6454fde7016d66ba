//! `[files]`: files that jobs of tools make.

use std::time::Duration;

use serde::Deserialize;
use tw_runtime::files::FileKeeping;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct FileSettings {
    organization_bytes_max: u64,
    link_s: u64,
}

impl FileSettings {
    pub fn keeping(&self) -> FileKeeping {
        FileKeeping {
            organization_bytes_max: self.organization_bytes_max,
            link: Duration::from_secs(self.link_s),
        }
    }
}
