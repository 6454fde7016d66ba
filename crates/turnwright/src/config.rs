//! The configuration: defaults, then a file, then the environment, then flags.

mod upstream;

mod downloads;
mod egress;
mod environment;
mod files;
mod headers;
mod hooks;
mod money;
mod network;
mod numbers;
mod quota;
mod rate;
mod read;
mod secrets;
mod telemetry;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use rustls::ClientConfig;
use serde::Deserialize;
use tw_core::change::ToolRoom;
use tw_core::limits::{CALLBACK_WAIT_DEFAULT, DEFINITIONS_BYTES_MAX, RequestLimits, TurnLimits};
use tw_core::time::Timestamp;
use tw_core::tool::Tool;
use tw_egress::client::EgressClient;
use tw_egress::nats::{BadNatsUrl, NatsConfig, NatsServers};
use tw_egress::part_downloads::PartDownloader;
use tw_egress::scripted::Script;
use tw_egress::secrets::Secrets;
use tw_http::cors::CorsOrigins;
use tw_http::server::{SOCKET_LIFE_DEFAULT, SocketLimits, SurfaceOptions};
use tw_runtime::fail_point::{FailPoint, PanicPoint};
use tw_runtime::limiter::LimiterRules;
use tw_runtime::metrics::DroppedLogLines;
use tw_runtime::recovery_pace::RECOVERIES_BYTES_DEFAULT;
use tw_runtime::retention::KeepingRules;
use tw_runtime::runtime::{RECALLED_BYTES_DEFAULT, RuntimeConfig};
use tw_runtime::telemetry::TelemetryConfig;
use tw_runtime::tools::DefinitionVetting;
use tw_store::store::StoreOptions;

use crate::cli::ServeArgs;
use crate::database::DatabasePlace;
use crate::listen::ConnectionLimits;
use crate::organization::slug;
use crate::registry::{self, ProbeSettings};

use downloads::DownloadSettings;
use egress::EgressSettings;
use environment::Environment;
use files::FileSettings;
use hooks::HookSettings;
use money::{PriceSettings, SpendSettings};
use network::TlsSettings;
use quota::QuotaSettings;
use rate::RateSettings;
use telemetry::TelemetrySettings;
use upstream::UpstreamSettings;

/// Settings with their defaults, all of them, and the reference for people.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// `turnwright config`
pub fn print() -> anyhow::Result<()> {
    std::io::stdout()
        .write_all(DEFAULTS.as_bytes())
        .context("printing")
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub server: ServerSettings,
    limits: LimitSettings,
    rate: RateSettings,
    spend: SpendSettings,
    record: RecordSettings,
    tools: ToolSettings,
    cache: CacheSettings,
    files: FileSettings,
    hooks: HookSettings,
    downloads: DownloadSettings,
    telemetry: TelemetrySettings,
    log: LogSettings,
    #[serde(default)]
    tls: TlsSettings,
    #[serde(default)]
    egress: EgressSettings,
    /// Secrets, which are read apart, so that no error shows a value.
    #[serde(skip)]
    secrets: Arc<Secrets>,
    #[serde(default)]
    price: Vec<PriceSettings>,
    #[serde(default)]
    quota: Vec<QuotaSettings>,
    #[serde(default)]
    upstream: Vec<UpstreamSettings>,
    /// Probes, in debug builds only.
    #[serde(default)]
    probe: Vec<ProbeSettings>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub store: Option<ServerUrl>,
    nats_url: Option<ServerUrl>,
    pub metrics_listen: Option<SocketAddr>,
    keep_alive_s: u64,
    body_timeout_s: u64,
    drain_s: u64,
    unready_s: u64,
    lease_s: u64,
    turns_max: usize,
    streams_max: usize,
    client_stall_s: u64,
    write_stall_s: u64,
    connections_max: usize,
    websockets_max: usize,
    websockets_per_key_max: usize,
    head_timeout_s: u64,
    bodies_bytes_max: usize,
    cors_origins: Vec<String>,
    end_user_headers: Vec<String>,
    pub check_upstreams: bool,
    running_bodies_bytes_max: u64,
    disk_free_bytes_min: u64,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct LimitSettings {
    body_bytes_max: usize,
    json_depth_max: usize,
    messages_max: usize,
    client_result_bytes_max: usize,
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
    tools_stored_max: usize,
    memory_bytes_max: usize,
    streamed_s: u64,
    plain_s: u64,
    approval_s: u64,
    model_attempts_max: u32,
    model_backoff_ms: u64,
    retry_after_max_s: u64,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct RecordSettings {
    contents_kept_h: u64,
    tool_versions_max: u32,
    tool_versions_kept_h: u64,
    #[serde(default)]
    organizations: BTreeMap<String, OrganizationRecordSettings>,
    events_kept_h: u64,
    request_keys_kept_h: u64,
    relayed_requests_kept_h: u64,
    deliveries_kept_h: u64,
    repeat_window_s: u64,
    flush_interval_ms: u64,
    content_bytes_min: usize,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct OrganizationRecordSettings {
    contents_kept_h: u64,
}

impl RecordSettings {
    fn keeping(&self) -> anyhow::Result<KeepingRules> {
        // 0 is for ever.
        let contents = |kept_h: u64| (kept_h > 0).then(|| hours(kept_h));
        let own = |(name, own): (&String, &OrganizationRecordSettings)| {
            let slug = slug(name).with_context(|| format!("record.organizations.{name:?}"))?;
            Ok((slug, contents(own.contents_kept_h)))
        };
        Ok(KeepingRules {
            contents: contents(self.contents_kept_h),
            contents_of: self
                .organizations
                .iter()
                .map(own)
                .collect::<anyhow::Result<_>>()?,
            tool_versions: self.tool_versions_max,
            tool_versions_for: hours(self.tool_versions_kept_h),
        })
    }
}

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours.saturating_mul(3600))
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct ToolSettings {
    enabled: bool,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct CacheSettings {
    bytes_max: u64,
    models_s: u64,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct LogSettings {
    turns: bool,
}

/// The URL of a server, which may hold a password.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct ServerUrl(pub String);

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl ServerSettings {
    pub fn connections_max(&self) -> usize {
        self.connections_max
    }

    pub fn unready(&self) -> Duration {
        Duration::from_secs(self.unready_s)
    }

    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_s)
    }
}

impl Settings {
    /// Reads the settings: defaults, the file if there is one, the environment and the flags.
    pub fn load(args: &ServeArgs) -> anyhow::Result<Self> {
        let mut settings = Self::of_file(args.config.as_deref())?;
        let environment = Environment::of_process();
        if let Some(enabled) = environment.get("ENABLE_TOOLS")? {
            settings.tools.enabled = match enabled.to_ascii_lowercase().as_str() {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => bail!("the variable ENABLE_TOOLS may be true or false"),
            };
        }
        if let Ok(check) = std::env::var("TURNWRIGHT_CHECK_UPSTREAMS") {
            settings.server.check_upstreams = match check.to_ascii_lowercase().as_str() {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => bail!("TURNWRIGHT_CHECK_UPSTREAMS may be true or false"),
            };
        }
        if let Some(listen) = args.listen {
            settings.server.listen = listen;
        }
        if let Some(data) = &args.data {
            settings.server.data.clone_from(data);
        }
        if let Some(listen) = args.metrics_listen {
            settings.server.metrics_listen = Some(listen);
        }
        Ok(settings)
    }

    /// Reads the settings without flags: defaults, the file if there is one, and the secrets of the environment.
    pub fn of_file(file: Option<&Path>) -> anyhow::Result<Self> {
        let environment = &Environment::of_process();
        let Some(file) = file else {
            return Self::of_text("", environment);
        };
        let reading = || format!("reading {}", file.display());
        let text = std::fs::read_to_string(file).with_context(reading)?;
        Self::of_text(&text, environment).with_context(reading)
    }

    fn of_text(text: &str, environment: &Environment) -> anyhow::Result<Self> {
        let mut table: toml::Table = DEFAULTS.parse()?;
        merge(&mut table, parse(text)?);
        numbers::check(&table)?;
        let secrets = secrets::read(table.remove("secrets"), environment)?;
        let mut settings: Self = read::settings(table)?;
        settings.egress.allowed()?;
        settings.downloads.allowed()?;
        settings.rate.organizations()?;
        settings.spend.rules()?;
        quota::rules(&settings.quota)?;
        settings.record.keeping()?;
        money::prices(&settings.price)?;
        if let Some(url) = &settings.server.nats_url {
            NatsServers::parse(&url.0).context("server.nats_url")?;
        }
        settings.secrets = Arc::new(Secrets::new(secrets)?);
        Ok(settings)
    }

    /// The settings of the runtime.
    pub fn runtime(&self) -> anyhow::Result<RuntimeConfig> {
        let environment = Environment::of_process();
        let upstreams = upstream::upstreams(
            &self.upstream,
            &environment,
            &self.tls.network(&environment)?,
            self.limits.answer_bytes_max,
        )?;
        if upstreams.is_empty() {
            bail!(
                "no upstream: set OPENAI_API_KEY (and OPENAI_BASE_URL for another server) or ANTHROPIC_API_KEY, or write [[upstream]] into a config file"
            );
        }
        Ok(RuntimeConfig {
            upstreams: upstreams.into_iter().map(Arc::new).collect(),
            tools: self.built_in_tools()?,
            tool_client: self.tool_client(&self.listeners())?,
            downloader: self.downloader(&self.listeners())?,
            secrets: Arc::clone(&self.secrets),
            callback_base: self.hooks.base()?,
            files: self.files.keeping(),
            trusted_proxies: self.hooks.trusted_proxies()?,
            tools_stored_max: self.limits.tools_stored_max,
            results_bytes_max: self.cache.bytes_max,
            memory_bytes_max: self.limits.memory_bytes_max,
            recalled_bytes_max: RECALLED_BYTES_DEFAULT,
            tools_enabled: self.tools.enabled,
            prices: Arc::new(money::prices(&self.price)?),
            spend: self.spend.rules()?,
            quotas: quota::rules(&self.quota)?,
            turn: TurnLimits {
                callback_wait_max: self.hooks.wait(),
                ..self.limits.turn()
            },
            request: self.limits.request(),
            rules: LimiterRules {
                turns_max: self.server.turns_max,
                streams_max: self.server.streams_max,
                running_bodies_bytes_max: self.server.running_bodies_bytes_max,
                key: self.rate.key(),
                organization: self.rate.organization(),
                organizations: self.rate.organizations()?,
            },
            flush_interval: Duration::from_millis(self.record.flush_interval_ms),
            client_stall_max: Duration::from_secs(self.server.client_stall_s),
            events_kept: hours(self.record.events_kept_h),
            request_keys_kept: hours(self.record.request_keys_kept_h),
            keeping: self.record.keeping()?,
            relayed_requests_kept: hours(self.record.relayed_requests_kept_h),
            deliveries_kept: hours(self.record.deliveries_kept_h),
            repeat_window: Duration::from_secs(self.record.repeat_window_s),
            recoveries_bytes_max: RECOVERIES_BYTES_DEFAULT,
            drain_max: Duration::from_secs(self.server.drain_s),
            models_kept: Duration::from_secs(self.cache.models_s),
            disk_free_bytes_min: self.server.disk_free_bytes_min,
            log_turns: self.log.turns,
            // It depends on where the record is; see [`Self::nats`].
            nats: None,
            telemetry: self.telemetry(&environment)?,
            log_lines_dropped: DroppedLogLines::default(),
            fail_point: fail_point()?,
            panic_point: panic_point()?,
        })
    }

    /// The options with which the server opens its store.
    pub fn store(&self, now: Timestamp) -> StoreOptions {
        StoreOptions {
            content_bytes_min: self.record.content_bytes_min,
            ..StoreOptions::defaults(now)
        }
    }

    /// The settings that definitions of tools are vetted by.
    pub fn vetting(&self) -> anyhow::Result<DefinitionVetting> {
        let built_in = self.built_in_tools()?;
        Ok(DefinitionVetting {
            secrets: Arc::clone(&self.secrets),
            takes_callbacks: self.hooks.base()?.is_some(),
            client: self.tool_client(&self.listeners())?,
            limits: self.limits.request(),
            taken: built_in.iter().map(|tool| tool.name.clone()).collect(),
            room: ToolRoom {
                tools_max: self.limits.tools_stored_max,
                bytes_max: DEFINITIONS_BYTES_MAX,
            },
        })
    }

    /// The tools that no definition makes.
    pub fn built_in_tools(&self) -> anyhow::Result<Vec<Arc<Tool>>> {
        registry::tools(&self.probe)
    }

    /// The client through which requests of tools leave; our own listeners are out of their reach.
    pub fn tool_client(&self, listeners: &[SocketAddr]) -> anyhow::Result<EgressClient> {
        let trusted_roots = self.tls.trusted_roots(&Environment::of_process())?;
        self.egress.client(listeners, trusted_roots)
    }

    /// What downloads contents by their addresses; our own listeners are out of its reach.
    fn downloader(&self, listeners: &[SocketAddr]) -> anyhow::Result<PartDownloader> {
        let trusted_roots = self.tls.trusted_roots(&Environment::of_process())?;
        let allowed = self.downloads.allowed()?;
        let client = self
            .egress
            .client_without_tools(listeners, trusted_roots, allowed)?;
        Ok(PartDownloader::new(client, self.downloads.limits()))
    }

    /// What is traced; the client that sends it reaches the collector wherever that is.
    fn telemetry(&self, environment: &Environment) -> anyhow::Result<Option<TelemetryConfig>> {
        let Some(written) = self.telemetry.read(environment)? else {
            return Ok(None);
        };
        let trusted_roots = self.tls.trusted_roots(environment)?;
        let allowed = vec![written.place.clone()];
        let client = self
            .egress
            .client_without_tools(&[], trusted_roots, allowed)?;
        Ok(Some(written.config(client)))
    }

    /// The NATS over which the servers on one database tell each other.
    pub fn nats(&self, place: &DatabasePlace) -> anyhow::Result<Option<NatsConfig>> {
        let Some(servers) = self.nats_servers(place, &Environment::of_process())? else {
            return Ok(None);
        };
        let tls = self.database_tls()?;
        Ok(Some(NatsConfig { servers, tls }))
    }

    /// The servers that the variable names, or the settings.
    fn nats_servers(
        &self,
        place: &DatabasePlace,
        environment: &Environment,
    ) -> anyhow::Result<Option<NatsServers>> {
        // Other programs read the variable, too: it says nothing of a record that nobody shares.
        if let DatabasePlace::Server(_) = place
            && let Some(written) = environment.get("NATS_URL")?
        {
            match NatsServers::parse(&written) {
                // They may go another way to it, as with WebSockets.
                Err(cause @ BadNatsUrl::Scheme) => {
                    tracing::warn!(%cause, "the variable NATS_URL is not used");
                }
                read => return read.map(Some).context("the variable NATS_URL"),
            }
        }
        let written = self.server.nats_url.as_ref();
        let read = written.map(|url| NatsServers::parse(&url.0)).transpose();
        read.context("server.nats_url")
    }

    /// TLS to the server of the database, and to NATS.
    pub fn database_tls(&self) -> anyhow::Result<ClientConfig> {
        let trusted_roots = self.tls.trusted_roots(&Environment::of_process())?;
        let config = ClientConfig::builder().with_root_certificates(trusted_roots);
        Ok(config.with_no_client_auth())
    }

    fn listeners(&self) -> Vec<SocketAddr> {
        let metrics = self.server.metrics_listen;
        std::iter::once(self.server.listen).chain(metrics).collect()
    }

    /// Limits of connections.
    pub fn connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            connections_max: self.server.connections_max,
            head_timeout: Duration::from_secs(self.server.head_timeout_s),
            write_stall_max: Duration::from_secs(self.server.write_stall_s),
        }
    }

    /// The settings of the surfaces.
    ///
    /// # Errors
    /// When an origin is none, or a header.
    pub fn surfaces(&self) -> anyhow::Result<SurfaceOptions> {
        let origins = CorsOrigins::parse(&self.server.cors_origins);
        Ok(SurfaceOptions {
            keep_alive: Duration::from_secs(self.server.keep_alive_s),
            body_timeout: Duration::from_secs(self.server.body_timeout_s),
            bodies_bytes_max: self.server.bodies_bytes_max,
            end_user_headers: headers::end_user(&self.server.end_user_headers)?,
            cors_origins: origins.context("server.cors_origins")?,
            socket_life: SOCKET_LIFE_DEFAULT,
            sockets: SocketLimits {
                all: self.server.websockets_max,
                of_key: self.server.websockets_per_key_max,
            },
        })
    }
}

/// Reads and checks a script.
pub fn read_script(file: &Path) -> anyhow::Result<Script> {
    let text = std::fs::read_to_string(file)?;
    Ok(Script::parse(&text)?)
}

impl LimitSettings {
    fn turn(&self) -> TurnLimits {
        TurnLimits {
            rounds_max: self.rounds_max,
            calls_per_round_max: self.calls_per_round_max,
            calls_per_turn_max: self.calls_per_turn_max,
            calls_parallel_max: self.calls_parallel_max,
            argument_bytes_max: self.argument_bytes_max,
            answer_bytes_max: self.answer_bytes_max,
            result_kept_bytes_max: self.result_kept_bytes_max,
            model_attempts_max: self.model_attempts_max,
            model_backoff: Duration::from_millis(self.model_backoff_ms),
            retry_after_max: Duration::from_secs(self.retry_after_max_s),
            streamed_max: Duration::from_secs(self.streamed_s),
            plain_max: Duration::from_secs(self.plain_s),
            approval_max: Duration::from_secs(self.approval_s),
            // It stands with the other settings of callbacks.
            callback_wait_max: CALLBACK_WAIT_DEFAULT,
        }
    }

    fn request(&self) -> RequestLimits {
        RequestLimits {
            body_bytes_max: self.body_bytes_max,
            json_depth_max: self.json_depth_max,
            messages_max: self.messages_max,
            client_result_bytes_max: self.client_result_bytes_max,
            tools_max: self.tools_max,
            schema_bytes_max: self.schema_bytes_max,
            schema_depth_max: self.schema_depth_max,
        }
    }
}

/// Reads a file; the error shows no line of it, since that line may hold a secret.
fn parse(text: &str) -> anyhow::Result<toml::Table> {
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        anyhow!("line {line}: {}", error.message())
    })
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
            None => bail!("TURNWRIGHT_FAIL_POINT names no fail point"),
        },
        Ok(_) => bail!("fail points exist in debug builds only"),
        Err(_) => Ok(None),
    }
}

fn panic_point() -> anyhow::Result<Option<PanicPoint>> {
    match std::env::var("TURNWRIGHT_PANIC_POINT") {
        Ok(name) if cfg!(debug_assertions) => match PanicPoint::parse(&name) {
            Some(point) => Ok(Some(point)),
            None => bail!("TURNWRIGHT_PANIC_POINT names no fail point"),
        },
        Ok(_) => bail!("panic points exist in debug builds only"),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
