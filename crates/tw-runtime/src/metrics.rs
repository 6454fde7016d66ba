//! Metrics of the server, for `/metrics`.
//!
//! No label takes a value from a request, a model or a definition: label values are words of this
//! program, names of configured upstreams and templates of routes, so that nobody outside decides
//! how many series there are.

mod process;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tw_core::change::AttemptOutcome;
use tw_core::relayed_request::RelayOutcome;
use tw_core::time::Timestamp;
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_core::webhook::AttemptEnding;
use tw_egress::upstream::Upstream;
use tw_store::store::{Store, StoreSizes};

use crate::telemetry::SpanCounts;

/// Buckets from 5 ms to 30 min: the longest turn.
const TURN_SECONDS: [f64; 14] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0,
];
/// Buckets from 1 ms to a minute: the longest call.
const CALL_SECONDS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0,
];

/// Words in which attempts end, beside those of [`AttemptOutcome`] itself.
const ATTEMPT_WORDS: [&str; 7] = [
    "connect", "reset", "silent", "status", "nonsense", "cut", "reported",
];
/// Value of a label for all that is none of its known values.
const OTHER: &str = "other";
/// Value of a label that has nothing to say.
const NONE: &str = "none";

/// Handles to all that is counted; cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    upstreams: Arc<[Arc<str>]>,
    turns_started: Family<Streamed, Counter>,
    turns_taken_over: Counter,
    drivers_panicked: Counter,
    turns_ended: Family<TurnEnded, Counter>,
    turns_running: Gauge,
    turn_seconds: Family<Streamed, Histogram, fn() -> Histogram>,
    first_event_seconds: Family<Streamed, Histogram, fn() -> Histogram>,
    streams_open: Gauge,
    attempts: Family<AttemptEnded, Counter>,
    attempt_seconds: Family<AttemptOf, Histogram, fn() -> Histogram>,
    relayed: Family<RelayEnded, Counter>,
    calls: Family<CallEnded, Counter>,
    call_seconds: Family<CallOf, Histogram, fn() -> Histogram>,
    webhooks: Family<WebhookTried, Counter>,
    webhook_seconds: Histogram,
    spans: SpanCounts,
    answers: Family<Answered, Counter>,
    connections: ConnectionMetrics,
    queue: Gauge,
    database_bytes: Gauge,
    log_bytes: Gauge,
    nats_connected: Gauge,
}

/// Metrics of connections, counted where these are accepted.
#[derive(Clone, Debug, Default)]
pub struct ConnectionMetrics {
    pub open: Gauge,
    pub accepted: Counter,
    /// Connections beyond the limit.
    pub refused: Counter,
}

/// Log lines that found no room in the log's queue, or could not be written. Counted before there is a runtime.
#[derive(Clone, Debug, Default)]
pub struct DroppedLogLines(Counter);

impl DroppedLogLines {
    pub fn add(&self, lines: u64) {
        self.0.inc_by(lines);
    }

    pub fn count(&self) -> u64 {
        self.0.get()
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Streamed {
    streamed: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TurnEnded {
    status: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AttemptEnded {
    upstream: Arc<str>,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RelayEnded {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AttemptOf {
    upstream: Arc<str>,
}

/// A tool's class: its name would be a label that organizations choose.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct CallOf {
    pub(crate) kind: &'static str,
    pub(crate) effect: &'static str,
}

impl CallOf {
    /// A call of a tool that was not offered.
    pub(crate) const UNKNOWN: Self = Self {
        kind: NONE,
        effect: NONE,
    };
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallEnded {
    kind: &'static str,
    effect: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WebhookTried {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    route: String,
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

/// The two text formats that scrapers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Prometheus,
    OpenMetrics,
}

fn turn_seconds() -> Histogram {
    Histogram::new(TURN_SECONDS)
}

fn call_seconds() -> Histogram {
    Histogram::new(CALL_SECONDS)
}

impl Metrics {
    /// Makes the metrics; `started` is when the process did.
    pub(crate) fn new(
        upstreams: &[Arc<Upstream>],
        store: &Store,
        started: Timestamp,
        log_lines_dropped: &DroppedLogLines,
    ) -> Self {
        let names = upstreams.iter().map(|upstream| Arc::from(&*upstream.name));
        let mut metrics = Self {
            registry: Arc::default(),
            upstreams: names.collect(),
            turns_started: Family::default(),
            turns_taken_over: Counter::default(),
            drivers_panicked: Counter::default(),
            turns_ended: Family::default(),
            turns_running: Gauge::default(),
            turn_seconds: Family::new_with_constructor(turn_seconds),
            first_event_seconds: Family::new_with_constructor(turn_seconds),
            streams_open: Gauge::default(),
            attempts: Family::default(),
            attempt_seconds: Family::new_with_constructor(turn_seconds),
            relayed: Family::default(),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(call_seconds),
            webhooks: Family::default(),
            webhook_seconds: call_seconds(),
            spans: SpanCounts::default(),
            answers: Family::default(),
            connections: ConnectionMetrics::default(),
            queue: Gauge::default(),
            database_bytes: Gauge::default(),
            log_bytes: Gauge::default(),
            nats_connected: Gauge::default(),
        };
        let mut root = Registry::default();
        root.register_collector(Box::new(process::ProcessMetrics { started }));
        let registry = root.sub_registry_with_prefix("turnwright");
        metrics.register_turns(registry);
        metrics.register_spans(registry);
        metrics.register_surroundings(registry, store);
        registry.register(
            "nats_connected",
            "1 while there is a connection to NATS, 0 also where none is set",
            metrics.nats_connected.clone(),
        );
        registry.register(
            "log_lines_dropped",
            "Log lines that could not be written, or found no room while nobody read the log",
            log_lines_dropped.0.clone(),
        );
        metrics.registry = Arc::new(root);
        metrics
    }

    fn register_turns(&self, registry: &mut Registry) {
        registry.register(
            "turns_started",
            "Turns that were accepted",
            self.turns_started.clone(),
        );
        registry.register(
            "turns_taken_over",
            "Turns of an earlier process that were driven on",
            self.turns_taken_over.clone(),
        );
        registry.register(
            "turn_drivers_panicked",
            "Drivers of turns that panicked; their turns were taken over by another driver",
            self.drivers_panicked.clone(),
        );
        registry.register(
            "turns_ended",
            "Turns that ended, by status and reason",
            self.turns_ended.clone(),
        );
        registry.register(
            "turns_running",
            "Turns that run now",
            self.turns_running.clone(),
        );
        registry.register_with_unit(
            "turn_duration",
            "From accepting a turn to its end",
            Unit::Seconds,
            self.turn_seconds.clone(),
        );
        registry.register_with_unit(
            "turn_first_event",
            "From accepting a turn to the first thing that its client sees",
            Unit::Seconds,
            self.first_event_seconds.clone(),
        );
        registry.register(
            "model_attempts",
            "Model requests that ended, by configured upstream and outcome",
            self.attempts.clone(),
        );
        registry.register_with_unit(
            "model_attempt_duration",
            "From asking a model to the end of its answer",
            Unit::Seconds,
            self.attempt_seconds.clone(),
        );
        registry.register(
            "relayed_requests",
            "Requests that were answered by an upstream without a turn, by outcome",
            self.relayed.clone(),
        );
        registry.register(
            "tool_calls",
            "Tool calls that ended, by the tool's kind and effect and the call's outcome",
            self.calls.clone(),
        );
        registry.register_with_unit(
            "tool_call_duration",
            "From starting a tool call to its end, further attempts included",
            Unit::Seconds,
            self.call_seconds.clone(),
        );
        registry.register(
            "webhook_attempts",
            "Webhooks that were sent: delivered, failed (and sent again later), or dead",
            self.webhooks.clone(),
        );
        registry.register_with_unit(
            "webhook_attempt_duration",
            "From beginning to send a webhook to its answer",
            Unit::Seconds,
            self.webhook_seconds.clone(),
        );
    }

    fn register_spans(&self, registry: &mut Registry) {
        registry.register(
            "spans_sent",
            "Spans of traces that the collector took",
            self.spans.sent.clone(),
        );
        registry.register(
            "spans_dropped",
            "Spans of traces that were lost: queue_full, not_sent, or rejected by the collector",
            self.spans.dropped.clone(),
        );
    }

    fn register_surroundings(&self, registry: &mut Registry, store: &Store) {
        registry.register(
            "http_answers",
            "Answers, by template of the route and class of the status",
            self.answers.clone(),
        );
        registry.register(
            "streams_open",
            "Answers that are being streamed now",
            self.streams_open.clone(),
        );
        registry.register(
            "connections_open",
            "Connections that are open now",
            self.connections.open.clone(),
        );
        registry.register(
            "connections_accepted",
            "Connections that were accepted",
            self.connections.accepted.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections beyond server.connections_max, closed at once",
            self.connections.refused.clone(),
        );
        registry.register(
            "store_queue_jobs",
            "Writes that wait for the store's writer",
            self.queue.clone(),
        );
        registry.register_with_unit(
            "store_database",
            "Size of the database file; 0 where a server keeps the database",
            Unit::Bytes,
            self.database_bytes.clone(),
        );
        registry.register_with_unit(
            "store_wal",
            "Size of the database's write-ahead log; 0 where a server keeps it",
            Unit::Bytes,
            self.log_bytes.clone(),
        );
        if let Some(writer) = store.writer_figures() {
            registry.register(
                "store_group_jobs",
                "Writes that one transaction held",
                writer.group_jobs,
            );
            registry.register_with_unit(
                "store_commit_duration",
                "From beginning a transaction to its being on disk",
                Unit::Seconds,
                writer.commit_seconds,
            );
            registry.register(
                "store_writes_failed",
                "Writes that the database refused or may have lost; refusals by a rule of ours are not among them",
                writer.failed,
            );
        }
        let build = Build {
            version: env!("CARGO_PKG_VERSION"),
        };
        registry.register("build", "This program", Info::new(build));
    }

    /// The metrics as text; so many turns run and streams are open now.
    pub(crate) fn text(
        &self,
        format: Format,
        (turns, streams): (usize, usize),
        sizes: Option<StoreSizes>,
        has_nats: bool,
    ) -> String {
        self.turns_running.set(gauge(turns as u64));
        self.streams_open.set(gauge(streams as u64));
        self.nats_connected.set(i64::from(has_nats));
        if let Some(sizes) = sizes {
            self.queue.set(gauge(sizes.queue_jobs as u64));
            self.database_bytes
                .set(gauge(sizes.database_bytes.unwrap_or(0)));
            self.log_bytes.set(gauge(sizes.log_bytes.unwrap_or(0)));
        }
        let mut out = String::new();
        let encoded = match format {
            Format::Prometheus => prometheus_text::encode(&mut out, &self.registry),
            Format::OpenMetrics => text::encode(&mut out, &self.registry),
        };
        // Writing to a string does not fail.
        debug_assert!(encoded.is_ok());
        out
    }

    /// The metrics of traces.
    pub(crate) fn spans(&self) -> SpanCounts {
        self.spans.clone()
    }

    /// The metrics that the listener counts on.
    pub fn connections(&self) -> ConnectionMetrics {
        self.connections.clone()
    }

    /// Counts an answer. `route` is a template, not the path that was asked for.
    pub fn answered(&self, route: Option<&str>, status: u16) {
        let labels = Answered {
            route: route.unwrap_or(NONE).to_owned(),
            status: match status / 100 {
                1 => "1xx",
                2 => "2xx",
                3 => "3xx",
                4 => "4xx",
                5 => "5xx",
                _ => OTHER,
            },
        };
        self.answers.get_or_create(&labels).inc();
    }

    pub(crate) fn turn_started(&self, streamed: bool) {
        self.turns_started
            .get_or_create(&Streamed { streamed })
            .inc();
    }

    pub(crate) fn driver_panicked(&self) {
        self.drivers_panicked.inc();
    }

    pub(crate) fn turn_taken_over(&self) {
        self.turns_taken_over.inc();
    }

    pub(crate) fn turn_ended(&self, status: TurnStatus, reason: Option<TurnReason>) {
        let labels = TurnEnded {
            status: status.as_str(),
            reason: reason.map_or(NONE, TurnReason::as_str),
        };
        self.turns_ended.get_or_create(&labels).inc();
    }

    pub(crate) fn turn_took(&self, streamed: bool, took: Duration) {
        let labels = Streamed { streamed };
        let seconds = self.turn_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn first_event(&self, streamed: bool, after: Duration) {
        let labels = Streamed { streamed };
        let seconds = self.first_event_seconds.get_or_create(&labels);
        seconds.observe(after.as_secs_f64());
    }

    /// Counts the end of a model request; `took` is not known of one that an earlier process made.
    pub(crate) fn attempt_ended(
        &self,
        upstream: Option<&str>,
        outcome: &AttemptOutcome,
        took: Option<Duration>,
    ) {
        let upstream = self.upstream(upstream);
        if let Some(took) = took {
            let labels = AttemptOf {
                upstream: Arc::clone(&upstream),
            };
            let seconds = self.attempt_seconds.get_or_create(&labels);
            seconds.observe(took.as_secs_f64());
        }
        let outcome = match outcome {
            AttemptOutcome::Ok => "ok",
            AttemptOutcome::Cancelled => "cancelled",
            AttemptOutcome::Interrupted => "interrupted",
            AttemptOutcome::Failed(word) => {
                let known = ATTEMPT_WORDS.iter().find(|known| *known == word);
                known.copied().unwrap_or(OTHER)
            }
        };
        let labels = AttemptEnded { upstream, outcome };
        self.attempts.get_or_create(&labels).inc();
    }

    /// Counts the end of a request without a turn.
    pub(crate) fn relayed(&self, outcome: RelayOutcome) {
        let outcome = outcome.as_str();
        self.relayed.get_or_create(&RelayEnded { outcome }).inc();
    }

    /// Counts the end of a call; `took` is `None` for one that never started.
    pub(crate) fn call_ended(&self, of: CallOf, outcome: &'static str, took: Option<Duration>) {
        if let Some(took) = took {
            let seconds = self.call_seconds.get_or_create(&of);
            seconds.observe(took.as_secs_f64());
        }
        let CallOf { kind, effect } = of;
        let labels = CallEnded {
            kind,
            effect,
            outcome,
        };
        self.calls.get_or_create(&labels).inc();
    }

    /// Counts an attempt of a webhook's delivery.
    pub(crate) fn webhook_attempt(&self, end: AttemptEnding, took: Duration) {
        let outcome = match end {
            AttemptEnding::Taken => "delivered",
            AttemptEnding::Failed { again: Some(_), .. } => "failed",
            AttemptEnding::Failed { again: None, .. } => "dead",
        };
        self.webhooks.get_or_create(&WebhookTried { outcome }).inc();
        self.webhook_seconds.observe(took.as_secs_f64());
    }

    fn upstream(&self, name: Option<&str>) -> Arc<str> {
        let known = name.and_then(|name| self.upstreams.iter().find(|known| &***known == name));
        known.cloned().unwrap_or_else(|| Arc::from(OTHER))
    }
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
