//! `[[upstream]]`: where models are.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use tw_egress::secret::Secret;
use tw_egress::upstream::{Timeouts, Upstream, UpstreamKind};

use super::environment::Environment;
use super::read_script;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct UpstreamSettings {
    name: String,
    kind: String,
    base_url: Option<String>,
    api_key_env: Option<String>,
    script: Option<PathBuf>,
    ask_usage: Option<bool>,
    connect_s: Option<u64>,
    first_byte_s: Option<u64>,
    idle_s: Option<u64>,
}

const OPENAI_URL: &str = "https://api.openai.com/v1";

/// Those of the config, or else the one that the environment names.
pub fn upstreams(
    written: &[UpstreamSettings],
    environment: &Environment,
    answer_bytes_max: usize,
) -> anyhow::Result<Vec<Upstream>> {
    if !written.is_empty() {
        return written
            .iter()
            .map(|settings| {
                settings
                    .upstream(environment, answer_bytes_max)
                    .with_context(|| format!("upstream {:?}", settings.name))
            })
            .collect();
    }
    let key = environment.get("OPENAI_API_KEY")?;
    let url = environment.get("OPENAI_BASE_URL")?;
    if key.is_none() && url.is_none() {
        return Ok(Vec::new());
    }
    Ok(vec![Upstream {
        name: "openai".to_owned(),
        kind: UpstreamKind::OpenAi {
            base_url: base_url(url.as_deref().unwrap_or(OPENAI_URL))?,
            api_key: key.map(Secret::new),
        },
        timeouts: Timeouts::defaults(),
        ask_usage: true,
        answer_bytes_max,
    }])
}

impl UpstreamSettings {
    fn upstream(
        &self,
        environment: &Environment,
        answer_bytes_max: usize,
    ) -> anyhow::Result<Upstream> {
        let kind = match self.kind.as_str() {
            "openai" => UpstreamKind::OpenAi {
                base_url: base_url(self.base_url.as_deref().unwrap_or(OPENAI_URL))?,
                api_key: match &self.api_key_env {
                    Some(variable) => Some(Secret::new(environment.need(variable)?)),
                    None => None,
                },
            },
            "scripted" => {
                let Some(file) = &self.script else {
                    bail!("a scripted model needs 'script'");
                };
                UpstreamKind::Scripted(Arc::new(read_script(file)?))
            }
            other => bail!("kind {other:?} is not known; it may be \"openai\" or \"scripted\""),
        };
        let defaults = Timeouts::defaults();
        let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
        Ok(Upstream {
            name: self.name.clone(),
            kind,
            timeouts: Timeouts {
                connect: seconds(self.connect_s, defaults.connect),
                first_byte: seconds(self.first_byte_s, defaults.first_byte),
                idle: seconds(self.idle_s, defaults.idle),
            },
            ask_usage: self.ask_usage.unwrap_or(true),
            answer_bytes_max,
        })
    }
}

fn base_url(text: &str) -> anyhow::Result<String> {
    let trimmed = text.trim_end_matches('/');
    let uri: http::Uri = trimmed
        .parse()
        .with_context(|| format!("the upstream's address {text:?}"))?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => {
            Ok(trimmed.to_owned())
        }
        _ => bail!(
            "the upstream's address {text:?} must begin with http:// or https:// and name a host"
        ),
    }
}
