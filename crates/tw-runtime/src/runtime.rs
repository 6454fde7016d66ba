//! The runtime: what all turns share, its start and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tw_core::change::Change;
use tw_core::limits::{RequestLimits, TurnLimits};
use tw_core::price::PriceTable;
use tw_core::tool::Tool;
use tw_egress::api_request::ApiCaller;
use tw_egress::callbacks::Networks;
use tw_egress::client::resolve::{FixedAnswers, Resolver};
use tw_egress::client::{
    ClientOptions, EgressClient, PoolOptions, READ_BYTES_MAX_DEFAULT, web_roots,
};
use tw_egress::env::Env;
use tw_egress::nats::NatsConfig;
use tw_egress::part_downloads::{DownloadLimits, PartDownloader};
use tw_egress::probe::{BadProbe, Prober};
use tw_egress::secrets::Secrets;
use tw_egress::tools::ToolExecutors;
use tw_egress::upstream::{Upstream, UpstreamConnections};
use tw_store::apply::StoreApplyError;
use tw_store::store::Store;
use tw_wire::format::WireFormat;

use crate::answered_notes::AnsweredNotes;
use crate::auth::KnownKeys;
use crate::callbacks::RefusedCallbacks;
use crate::driver_panics::DriverPanics;
use crate::early_retries::EarlyRetries;
use crate::equal_requests::Turnstile;
use crate::fail_point::{FailPoint, PanicPoint};
use crate::files::FileKeeping;
use crate::jobs::poller::copying::COPIES_AT_ONCE;
use crate::limiter::{Limiter, LimiterRules};
use crate::live_turns::LiveTurns;
use crate::metrics::{DroppedLogLines, Format, Metrics};
use crate::models::KnownModels;
use crate::orphaned_turns::OrphanedTurns;
use crate::quotas::QuotaRules;
use crate::recovery_pace::{RECOVERIES_BYTES_DEFAULT, RecoveryPace};
use crate::replicas::Replicas;
use crate::results::ResultCache;
use crate::retention::KeepingRules;
use crate::sealing::Sealer;
use crate::slots::CallSlots;
use crate::spending::SpendRules;
use crate::telemetry::{Telemetry, TelemetryConfig};
use crate::tool_book::ToolBook;

/// Parts and settings of the runtime.
#[derive(Debug)]
pub struct RuntimeConfig {
    /// Upstreams in the order in which they are asked; their names are unique.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Tools that come with the program.
    pub tools: Vec<Arc<Tool>>,
    /// Client through which the requests of organizations' tools leave.
    pub tool_client: EgressClient,
    /// Downloads images and files by their addresses, for upstreams that get the contents.
    pub downloader: PartDownloader,
    pub secrets: Arc<Secrets>,
    /// Beginning of the URLs at which callbacks reach this server, without a slash at its end; `None` if they do not.
    pub callback_base: Option<String>,
    /// Proxies that are trusted to tell whom they speak for.
    pub trusted_proxies: Networks,
    /// Most tools that an organization may keep.
    pub tools_stored_max: usize,
    /// Bytes of results that are kept to be given again.
    pub results_bytes_max: u64,
    /// Most bytes of hidden calls and results of a stateless client's earlier turns that go to the model again.
    pub memory_bytes_max: usize,
    /// Most bytes of arguments and results that are read of turns whose calls a request answers,
    /// the newest turns first. Of the others the model is told what was called.
    pub recalled_bytes_max: usize,
    /// `ENABLE_TOOLS=false`: requests are offered none of our tools.
    pub tools_enabled: bool,
    /// The prices by which turns are charged.
    pub prices: Arc<PriceTable>,
    /// What may be spent in a month; whoever has spent it begins no further turn.
    pub spend: SpendRules,
    /// Calls that may be started in an hour, and tokens that may be used in a minute.
    pub quotas: QuotaRules,
    pub turn: TurnLimits,
    pub request: RequestLimits,
    /// Limits of what runs at once and of requests; what is beyond is refused.
    pub rules: LimiterRules,
    /// Longest time that an event of a log waits for the disk under light load.
    pub flush_interval: Duration,
    /// Time for which a client may take nothing before it counts as gone.
    pub client_stall_max: Duration,
    pub events_kept: Duration,
    pub request_keys_kept: Duration,
    pub keeping: KeepingRules,
    /// How the files that jobs make are kept.
    pub files: FileKeeping,
    /// Time for which records of requests without a turn are kept.
    pub relayed_requests_kept: Duration,
    /// Time for which webhooks' deliveries are kept once they were delivered or given up.
    pub deliveries_kept: Duration,
    /// Time for which a request can be found by one that is marked as its retry.
    pub repeat_window: Duration,
    /// Bytes of turns of an earlier process that are taken over at once.
    pub recoveries_bytes_max: u64,
    /// Time after which, at a shutdown, running turns are ended or left for the next start.
    pub drain_max: Duration,
    /// Time for which the upstreams' lists of models count as new.
    pub models_kept: Duration,
    /// Least bytes free on the database's disk with which the server is ready.
    pub disk_free_bytes_min: u64,
    /// Whether the log gets a line for each turn and each relayed request that ends.
    pub log_turns: bool,
    /// NATS over which the servers on one PostgreSQL database tell each other at once; `None` leaves it to the database.
    pub nats: Option<NatsConfig>,
    /// What is traced, and where it goes; `None` traces nothing.
    pub telemetry: Option<TelemetryConfig>,
    /// Count of lines that the log could not take.
    pub log_lines_dropped: DroppedLogLines,
    /// Debug builds only: where to die.
    pub fail_point: Option<FailPoint>,
    /// Debug builds only: where a turn's driver panics.
    pub panic_point: Option<PanicPoint>,
}

/// Room that a turn may need before anything else is made free: for its body, some rounds, and the
/// log's pages around them. With 16 to 200 KiB left, a row of a few bytes still found room and no
/// request did.
pub const DISK_FREE_BYTES_DEFAULT: u64 = 4 * 1024 * 1024;

/// Most tools that an organization may keep.
pub const TOOLS_STORED_DEFAULT: usize = 1_000;
/// Bytes of results that are kept to be given again.
pub const RESULTS_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;
/// Room of about 32,000 tokens, a quarter of what models of today read.
pub const MEMORY_BYTES_DEFAULT: usize = 128 * 1024;
/// Room for as much as any model reads.
pub const RECALLED_BYTES_DEFAULT: usize = 4 * 1024 * 1024;
pub const FLUSH_INTERVAL_DEFAULT: Duration = Duration::from_millis(250);
pub const MODELS_KEPT_DEFAULT: Duration = Duration::from_secs(300);
/// Design, section 2, number 12.
pub const CLIENT_STALL_DEFAULT: Duration = Duration::from_secs(30);
pub const EVENTS_KEPT_DEFAULT: Duration = Duration::from_secs(24 * 3600);
pub const REQUEST_KEYS_KEPT_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// A month, so that usage can be summed by it: a service that indexes makes millions of them.
pub const RELAYED_REQUESTS_KEPT_DEFAULT: Duration = Duration::from_secs(31 * 24 * 3600);
/// Two weeks, so that there is time to find and mend what an endpoint did not take.
pub const DELIVERIES_KEPT_DEFAULT: Duration = Duration::from_secs(14 * 24 * 3600);
/// Design, section 6, "Requests that are repeated".
pub const REPEAT_WINDOW_DEFAULT: Duration = Duration::from_secs(600);
/// Design, section 7.
pub const DRAIN_DEFAULT: Duration = Duration::from_secs(30);

impl RuntimeConfig {
    /// Defaults around one upstream; tools of organizations and downloads reach nothing.
    pub fn with_upstream(upstream: Upstream, tools: Vec<Arc<Tool>>) -> Self {
        Self {
            upstreams: vec![Arc::new(upstream)],
            tools,
            tool_client: reaching_nothing(),
            downloader: PartDownloader::new(reaching_nothing(), DownloadLimits::defaults()),
            secrets: Arc::new(Secrets::default()),
            callback_base: None,
            trusted_proxies: Networks::default(),
            tools_stored_max: TOOLS_STORED_DEFAULT,
            results_bytes_max: RESULTS_BYTES_DEFAULT,
            memory_bytes_max: MEMORY_BYTES_DEFAULT,
            recalled_bytes_max: RECALLED_BYTES_DEFAULT,
            tools_enabled: true,
            prices: Arc::default(),
            spend: SpendRules::default(),
            quotas: QuotaRules::default(),
            turn: TurnLimits::defaults(),
            request: RequestLimits::defaults(),
            rules: LimiterRules::defaults(),
            flush_interval: FLUSH_INTERVAL_DEFAULT,
            client_stall_max: CLIENT_STALL_DEFAULT,
            events_kept: EVENTS_KEPT_DEFAULT,
            request_keys_kept: REQUEST_KEYS_KEPT_DEFAULT,
            keeping: KeepingRules::defaults(),
            files: FileKeeping::defaults(),
            relayed_requests_kept: RELAYED_REQUESTS_KEPT_DEFAULT,
            deliveries_kept: DELIVERIES_KEPT_DEFAULT,
            repeat_window: REPEAT_WINDOW_DEFAULT,
            recoveries_bytes_max: RECOVERIES_BYTES_DEFAULT,
            drain_max: DRAIN_DEFAULT,
            models_kept: MODELS_KEPT_DEFAULT,
            disk_free_bytes_min: DISK_FREE_BYTES_DEFAULT,
            log_turns: true,
            nats: None,
            telemetry: None,
            log_lines_dropped: DroppedLogLines::default(),
            fail_point: None,
            panic_point: None,
        }
    }
}

/// A client that knows no names and reaches nothing private.
fn reaching_nothing() -> EgressClient {
    EgressClient::new(ClientOptions {
        resolver: Resolver::Fixed(FixedAnswers::default()),
        allowed: Vec::new(),
        denied: Vec::new(),
        trusted_roots: web_roots(),
        certificates: Vec::new(),
        proxy: None,
        pool: PoolOptions::defaults(),
        read_bytes_max: READ_BYTES_MAX_DEFAULT,
    })
}

/// A handle to everything that runs turns.
#[derive(Clone, Debug)]
pub struct Runtime(pub(crate) Arc<RuntimeInner>);

#[derive(Debug)]
pub(crate) struct RuntimeInner {
    pub(crate) config: RuntimeConfig,
    pub(crate) store: Store,
    pub(crate) env: Env,
    pub(crate) connections: UpstreamConnections,
    pub(crate) executors: ToolExecutors,
    pub(crate) book: ToolBook,
    pub(crate) results: ResultCache,
    pub(crate) slots: CallSlots,
    pub(crate) models: KnownModels,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) recovery_pace: RecoveryPace,
    pub(crate) keys: KnownKeys,
    pub(crate) sealer: OnceCell<Arc<Sealer>>,
    pub(crate) turnstile: Turnstile,
    pub(crate) early_retries: EarlyRetries,
    pub(crate) live: LiveTurns,
    pub(crate) driver_panics: DriverPanics,
    pub(crate) orphaned: OrphanedTurns,
    pub(crate) marks: AnsweredNotes,
    pub(crate) replicas: Replicas,
    pub(crate) refused_callbacks: RefusedCallbacks,
    /// A job is due now that was not.
    pub(crate) jobs_due: Notify,
    /// Room for the jobs whose files are held in memory while they are copied.
    pub(crate) file_copies: Arc<Semaphore>,
    pub(crate) metrics: Metrics,
    /// `None` while nothing is traced.
    pub(crate) telemetry: Option<Telemetry>,
    pub(crate) tasks: TaskTracker,
    /// Token that is cancelled when no new turns are accepted.
    pub(crate) refusing: CancellationToken,
    /// Set once the process is to end, while it serves on.
    pub(crate) leaving: AtomicBool,
    /// Name of this process in the turns that it drives.
    pub(crate) boot: String,
    pub(crate) serial: AtomicU64,
}

/// Time that ended drivers get to write their last step after the drain limit.
const LAST_WRITES_MAX: Duration = Duration::from_secs(5);

impl Runtime {
    /// Starts the runtime; turns of an earlier process are taken over with [`Runtime::recover`].
    ///
    /// # Errors
    /// For a probe that cannot be reached as it is described; there are none in release builds.
    pub fn new(config: RuntimeConfig, store: Store, env: Env) -> Result<Self, BadProbe> {
        let executors = ToolExecutors {
            prober: Prober::new(&config.tools)?,
            api: ApiCaller::new(config.tool_client.clone(), Arc::clone(&config.secrets)),
        };
        let metrics = Metrics::new(
            &config.upstreams,
            &store,
            env.now(),
            &config.log_lines_dropped,
        );
        let traced = config.telemetry.clone();
        let telemetry = traced.map(|config| Telemetry::start(config, metrics.spans()));
        let replicas = Replicas::default();
        let runtime = Self(Arc::new(RuntimeInner {
            connections: UpstreamConnections::default(),
            slots: CallSlots::new(replicas.share()),
            limiter: Limiter::new(config.rules.clone(), replicas.share(), env.clone()),
            recovery_pace: RecoveryPace::new(config.recoveries_bytes_max),
            book: ToolBook::new(config.tools.clone()),
            results: ResultCache::new(config.results_bytes_max),
            models: KnownModels::new(config.upstreams.len()),
            keys: KnownKeys::default(),
            sealer: OnceCell::new(),
            turnstile: Turnstile::default(),
            early_retries: EarlyRetries::default(),
            config,
            store,
            executors,
            live: LiveTurns::new(),
            driver_panics: DriverPanics::default(),
            orphaned: OrphanedTurns::default(),
            marks: AnsweredNotes::default(),
            refused_callbacks: RefusedCallbacks::default(),
            jobs_due: Notify::new(),
            file_copies: Arc::new(Semaphore::new(COPIES_AT_ONCE)),
            telemetry,
            replicas,
            metrics,
            tasks: TaskTracker::new(),
            refusing: CancellationToken::new(),
            leaving: AtomicBool::new(false),
            boot: env.random_id().simple().to_string(),
            serial: AtomicU64::new(1),
            env,
        }));
        let tasks = &runtime.0.tasks;
        tasks.spawn(crate::retention::run(Arc::clone(&runtime.0)));
        tasks.spawn(crate::recover::adopt(Arc::clone(&runtime.0)));
        tasks.spawn(crate::webhooks::deliverer::run(Arc::clone(&runtime.0)));
        tasks.spawn(crate::jobs::poller::run(Arc::clone(&runtime.0)));
        tasks.spawn(crate::queued_rows::run(Arc::clone(&runtime.0)));
        Ok(runtime)
    }

    pub fn store(&self) -> &Store {
        &self.0.store
    }

    pub fn env(&self) -> &Env {
        &self.0.env
    }

    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The metrics as text.
    pub fn metrics_text(&self, format: Format) -> String {
        let sizes = self.0.store.sizes();
        let now = (self.turns_running(), self.0.limiter.streams());
        let has_nats = self.0.replicas.has_nats();
        self.0.metrics.text(format, now, sizes, has_nats)
    }

    pub fn request_limits(&self) -> &RequestLimits {
        &self.0.config.request
    }

    /// Whether the store takes a write.
    ///
    /// # Errors
    /// When it does not.
    pub async fn check_store(&self) -> Result<(), StoreApplyError> {
        let at = self.0.env.now();
        self.0
            .store
            .apply(vec![Change::CheckWritable { at }])
            .await
            .map(|_| ())
    }

    /// Whether what a turn writes would find no room on the disk, so that no request can succeed.
    pub fn is_disk_full(&self) -> bool {
        let free = self.0.store.disk_free_bytes();
        free.is_some_and(|free| free < self.0.config.disk_free_bytes_min)
    }

    /// Whether an upstream serves the model.
    pub fn serves(&self, model: &str) -> bool {
        !self.0.upstreams_of(model).is_empty()
    }

    /// Whether an upstream that serves the model speaks this format.
    pub fn serves_in(&self, model: &str, format: WireFormat) -> bool {
        let serving = self.0.upstreams_of(model);
        serving.iter().any(|upstream| upstream.format == format)
    }

    /// Turns that run now.
    pub fn turns_running(&self) -> usize {
        self.0.live.count()
    }

    pub fn is_refusing(&self) -> bool {
        self.0.refusing.is_cancelled()
    }

    /// Whether nobody should be sent here any more, although whoever comes is served.
    pub fn is_leaving(&self) -> bool {
        self.0.leaving.load(Ordering::Acquire)
    }

    /// Says that the process is to end soon, so that whoever asks sends others elsewhere.
    pub fn set_leaving(&self) {
        self.0.leaving.store(true, Ordering::Release);
    }

    /// Refuses new turns, lets running ones end within the drain limit, and then ends them or
    /// leaves them for the next start.
    pub async fn shut_down(&self) {
        self.shut_down_within(self.drain_max()).await;
    }

    /// Time that running turns get to end when the process is to end.
    pub fn drain_max(&self) -> Duration {
        self.0.config.drain_max
    }

    /// [`Runtime::shut_down`] with a drain limit of its own.
    pub async fn shut_down_within(&self, drain_max: Duration) {
        self.drain(drain_max).await;
        self.0.replicas.leave().await;
        if let Some(telemetry) = &self.0.telemetry {
            telemetry.end().await;
        }
    }

    async fn drain(&self, drain_max: Duration) {
        self.0.refusing.cancel();
        self.0.tasks.close();
        let all_ended = self.0.tasks.wait();
        if tokio::time::timeout(drain_max, all_ended).await.is_ok() {
            return;
        }
        self.0.live.drain();
        if tokio::time::timeout(LAST_WRITES_MAX, self.0.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                turns = self.0.live.count(),
                "turns are left for the next start"
            );
        }
    }

    /// Whether turns are parts of traces.
    pub fn traces(&self) -> bool {
        self.0.telemetry.is_some()
    }

    /// Waits until nothing runs, without refusing anything.
    pub async fn idle(&self) {
        let mut changed = self.0.live.changed.subscribe();
        while self.0.live.count() > 0 {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }
}

impl RuntimeInner {
    /// The upstreams that serve a model: the first, and those that are asked when it fails.
    pub(crate) fn upstreams_of(&self, model: &str) -> Vec<Arc<Upstream>> {
        let all = self.config.upstreams.iter();
        all.filter(|upstream| upstream.models.serves(model))
            .cloned()
            .collect()
    }

    pub(crate) fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.config
            .upstreams
            .iter()
            .find(|upstream| upstream.name == name)
    }

    /// Longest time that an event waits for the disk: with many turns, flushes are rarer.
    pub(crate) fn flush_interval(&self) -> Duration {
        let stretched = Duration::from_micros(
            FLUSH_STRETCH_PER_TURN_US.saturating_mul(self.live.count() as u64),
        );
        self.config.flush_interval.max(stretched)
    }
}

/// Microseconds that each running turn adds to the flush interval of all: 20,000 rows a second is
/// what a small disk takes with group commit (measured: durability notes, section 4).
const FLUSH_STRETCH_PER_TURN_US: u64 = 50;
