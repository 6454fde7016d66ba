//! The configuration: defaults, then a file, then the environment, then flags.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use tw_core::limits::{RequestLimits, TurnLimits};
use tw_egress::scripted::Script;
use tw_egress::secret::Secret;
use tw_egress::upstream::{Timeouts, Upstream, UpstreamKind};
use tw_http::server::Options;
use tw_runtime::fail_point::FailPoint;
use tw_runtime::runtime::Config;

use crate::cli::ServeArgs;
use crate::listen::Limits;
use crate::registry::{self, ProbeSettings};

/// Every setting with its default, and the reference for people.
pub const DEFAULTS: &str = include_str!("defaults.toml");

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub server: ServerSettings,
    limits: LimitSettings,
    record: RecordSettings,
    tools: ToolSettings,
    #[serde(default)]
    upstream: Vec<UpstreamSettings>,
    /// Debug builds only.
    #[serde(default)]
    probe: Vec<ProbeSettings>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    pub listen: SocketAddr,
    pub data: PathBuf,
    keep_alive_s: u64,
    body_timeout_s: u64,
    drain_s: u64,
    turns_max: usize,
    client_stall_s: u64,
    connections_max: usize,
    head_timeout_s: u64,
    bodies_bytes_max: usize,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct LimitSettings {
    body_bytes_max: usize,
    json_depth_max: usize,
    messages_max: usize,
    tools_max: usize,
    schema_bytes_max: usize,
    schema_depth_max: usize,
    rounds_max: u32,
    calls_per_round_max: u32,
    calls_per_turn_max: u32,
    calls_parallel_max: u32,
    argument_bytes_max: usize,
    answer_bytes_max: usize,
    result_kept_bytes_max: usize,
    streamed_s: u64,
    plain_s: u64,
    model_attempts_max: u32,
    model_backoff_ms: u64,
    retry_after_max_s: u64,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct RecordSettings {
    events_kept_h: u64,
    request_keys_kept_h: u64,
    repeat_window_s: u64,
    flush_interval_ms: u64,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct ToolSettings {
    enabled: bool,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct UpstreamSettings {
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

impl Settings {
    /// Defaults, the file if there is one, the environment and the flags.
    pub fn load(args: &ServeArgs) -> anyhow::Result<Self> {
        let mut settings = Self::of_file(args.config.as_deref())?;
        if let Ok(enabled) = std::env::var("ENABLE_TOOLS") {
            settings.tools.enabled = match enabled.to_ascii_lowercase().as_str() {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => bail!("ENABLE_TOOLS is {enabled:?}; it may be true or false"),
            };
        }
        if let Some(listen) = args.listen {
            settings.server.listen = listen;
        }
        if let Some(data) = &args.data {
            settings.server.data.clone_from(data);
        }
        Ok(settings)
    }

    fn of_file(file: Option<&Path>) -> anyhow::Result<Self> {
        let mut table: toml::Table = DEFAULTS.parse().context("the built-in defaults")?;
        if let Some(file) = file {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("reading {}", file.display()))?;
            let over: toml::Table = text
                .parse()
                .with_context(|| format!("reading {}", file.display()))?;
            merge(&mut table, over);
        }
        let settings = table.try_into();
        match file {
            Some(file) => settings.with_context(|| format!("reading {}", file.display())),
            None => settings.context("the built-in defaults"),
        }
    }

    /// What the runtime needs.
    pub fn runtime(&self) -> anyhow::Result<Config> {
        let upstreams = self.upstreams()?;
        let Some(first) = upstreams.first() else {
            bail!(
                "no upstream: set OPENAI_API_KEY (and OPENAI_BASE_URL for another server), or write [[upstream]] into a config file"
            );
        };
        let connect_timeout = first.timeouts.connect;
        let hours = |hours: u64| Duration::from_secs(hours.saturating_mul(3600));
        Ok(Config {
            upstreams: upstreams.into_iter().map(Arc::new).collect(),
            tools: registry::tools(&self.probe)?,
            tools_enabled: self.tools.enabled,
            turn: self.limits.turn(),
            request: self.limits.request(),
            turns_max: self.server.turns_max,
            flush_interval: Duration::from_millis(self.record.flush_interval_ms),
            client_stall_max: Duration::from_secs(self.server.client_stall_s),
            events_kept: hours(self.record.events_kept_h),
            request_keys_kept: hours(self.record.request_keys_kept_h),
            repeat_window: Duration::from_secs(self.record.repeat_window_s),
            drain_max: Duration::from_secs(self.server.drain_s),
            connect_timeout,
            fail_point: fail_point()?,
        })
    }

    /// How connections are treated.
    pub fn connections(&self) -> Limits {
        Limits {
            connections_max: self.server.connections_max,
            head_timeout: Duration::from_secs(self.server.head_timeout_s.max(1)),
        }
    }

    /// What the surfaces need.
    pub fn surfaces(&self) -> Options {
        Options {
            keep_alive: Duration::from_secs(self.server.keep_alive_s.max(1)),
            body_timeout: Duration::from_secs(self.server.body_timeout_s),
            bodies_bytes_max: self.server.bodies_bytes_max,
        }
    }

    fn upstreams(&self) -> anyhow::Result<Vec<Upstream>> {
        if !self.upstream.is_empty() {
            return self
                .upstream
                .iter()
                .map(|settings| settings.upstream(&self.limits))
                .collect();
        }
        let key = std::env::var("OPENAI_API_KEY")
            .ok()
            .filter(|key| !key.is_empty());
        let url = std::env::var("OPENAI_BASE_URL")
            .ok()
            .filter(|url| !url.is_empty());
        if key.is_none() && url.is_none() {
            return Ok(Vec::new());
        }
        let base_url = base_url(url.as_deref().unwrap_or(OPENAI_URL))?;
        Ok(vec![Upstream {
            name: "openai".to_owned(),
            kind: UpstreamKind::OpenAi {
                base_url,
                api_key: key.map(Secret::new),
            },
            timeouts: Timeouts::defaults(),
            ask_usage: true,
            answer_bytes_max: self.limits.answer_bytes_max,
        }])
    }
}

impl UpstreamSettings {
    fn upstream(&self, limits: &LimitSettings) -> anyhow::Result<Upstream> {
        let name = &self.name;
        let kind = match self.kind.as_str() {
            "openai" => {
                let api_key = match &self.api_key_env {
                    Some(variable) => {
                        let key = std::env::var(variable);
                        let key = key.with_context(|| {
                            format!("upstream {name:?}: the variable {variable} is not set")
                        })?;
                        Some(Secret::new(key))
                    }
                    None => None,
                };
                UpstreamKind::OpenAi {
                    base_url: base_url(self.base_url.as_deref().unwrap_or(OPENAI_URL))?,
                    api_key,
                }
            }
            "scripted" => {
                let Some(file) = &self.script else {
                    bail!("upstream {name:?}: a scripted model needs 'script'");
                };
                UpstreamKind::Scripted(Arc::new(read_script(file)?))
            }
            other => bail!(
                "upstream {name:?}: kind {other:?} is not known; it may be \"openai\" or \"scripted\""
            ),
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
            answer_bytes_max: limits.answer_bytes_max,
        })
    }
}

/// Reads and checks a script.
pub fn read_script(file: &Path) -> anyhow::Result<Script> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    Script::parse(&text).with_context(|| format!("reading {}", file.display()))
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

impl LimitSettings {
    fn turn(&self) -> TurnLimits {
        TurnLimits {
            rounds_max: self.rounds_max.max(1),
            calls_per_round_max: self.calls_per_round_max,
            calls_per_turn_max: self.calls_per_turn_max,
            calls_parallel_max: self.calls_parallel_max.max(1),
            argument_bytes_max: self.argument_bytes_max,
            answer_bytes_max: self.answer_bytes_max,
            result_kept_bytes_max: self.result_kept_bytes_max,
            model_attempts_max: self.model_attempts_max.max(1),
            model_backoff: Duration::from_millis(self.model_backoff_ms),
            retry_after_max: Duration::from_secs(self.retry_after_max_s),
            streamed_max: Duration::from_secs(self.streamed_s),
            plain_max: Duration::from_secs(self.plain_s),
        }
    }

    fn request(&self) -> RequestLimits {
        RequestLimits {
            body_bytes_max: self.body_bytes_max,
            json_depth_max: self.json_depth_max,
            messages_max: self.messages_max,
            tools_max: self.tools_max,
            schema_bytes_max: self.schema_bytes_max,
            schema_depth_max: self.schema_depth_max,
        }
    }
}

fn merge(table: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => merge(below, above),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

fn fail_point() -> anyhow::Result<Option<FailPoint>> {
    match std::env::var("TURNWRIGHT_FAIL_POINT") {
        Ok(name) if cfg!(debug_assertions) => match FailPoint::parse(&name) {
            Some(point) => Ok(Some(point)),
            None => bail!("TURNWRIGHT_FAIL_POINT is {name:?}, which is no fail point"),
        },
        Ok(_) => bail!("fail points exist in debug builds only"),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
