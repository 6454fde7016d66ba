//! Traces of turns: which are recorded, what their spans are called, and the task that sends them away.
//!
//! The ids of a trace and of its spans follow from the turn's id, so that a turn that another driver takes over goes on
//! with the trace that it had, and upstreams and tools are told a span that is recorded later.
//! A driver gives its spans away without waiting; what finds no room in the queue is dropped and counted.

mod sampler;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tw_core::id::{CallRef, TurnId};
use tw_egress::otlp_sender::OtlpCollector;
use tw_wire::otlp::{TracedResource, TracedSpan, encode_spans};
use tw_wire::trace_context::{SpanId, TraceContext, TraceId, TraceParent};

pub use sampler::{SampledRoots, TraceSampler};

/// The settings of what is traced, and where it goes.
#[derive(Clone, Debug)]
pub struct TelemetryConfig {
    pub collector: OtlpCollector,
    pub resource: TracedResource,
    pub sampler: TraceSampler,
    /// Spans say what was said, too.
    pub contents: bool,
    /// Upstreams are told the trace.
    pub to_upstreams: bool,
    /// Tools are told the trace.
    pub to_tools: bool,
    /// Spans that wait to be sent; at least 1.
    pub queue_spans_max: usize,
    /// Spans that are sent at once; at least 1.
    pub batch_spans_max: usize,
    /// Time for which a span waits for others.
    pub batch_delay: Duration,
}

/// Tries of one batch.
const TRIES_MAX: u32 = 3;
/// Wait before the second try; doubles for the third.
const RETRY_WAIT: Duration = Duration::from_secs(1);
/// Longest wait that a collector may ask for.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(30);
/// Time that the last spans get when the process is to end.
const LAST_SPANS_MAX: Duration = Duration::from_secs(3);

/// Spans that were not recorded, by why.
#[derive(Clone, Debug, Default)]
pub struct SpanCounts {
    pub(crate) sent: Counter,
    pub(crate) dropped: Family<SpansDropped, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct SpansDropped {
    reason: &'static str,
}

impl SpanCounts {
    fn drop_some(&self, reason: &'static str, spans: usize) {
        let spans = u64::try_from(spans).unwrap_or(u64::MAX);
        let counter = self.dropped.get_or_create(&SpansDropped { reason });
        counter.inc_by(spans);
    }
}

/// A handle by which spans are given away.
#[derive(Debug)]
pub(crate) struct Telemetry {
    sampler: TraceSampler,
    contents: bool,
    to_upstreams: bool,
    to_tools: bool,
    queue: mpsc::Sender<TracedSpan>,
    counts: SpanCounts,
    ending: CancellationToken,
    task: TaskTracker,
}

impl Telemetry {
    pub(crate) fn start(config: TelemetryConfig, counts: SpanCounts) -> Self {
        let (queue, spans) = mpsc::channel(config.queue_spans_max);
        let ending = CancellationToken::new();
        let task = TaskTracker::new();
        let telemetry = Self {
            sampler: config.sampler,
            contents: config.contents,
            to_upstreams: config.to_upstreams,
            to_tools: config.to_tools,
            queue,
            counts: counts.clone(),
            ending: ending.clone(),
            task: task.clone(),
        };
        let exporter = SpanExporter {
            config,
            counts,
            ending,
            is_refused: false,
        };
        task.spawn(exporter.run(spans));
        task.close();
        telemetry
    }

    /// The trace of a turn whose client named this one.
    pub(crate) fn of_turn(
        &self,
        turn: TurnId,
        client: Option<TraceContext>,
        conversation: &str,
    ) -> TracedTurn {
        let parent = client.as_ref().map(|client| client.parent);
        let trace = parent.map_or_else(
            || TraceId(hashed(turn, "trace", &[])),
            |parent| parent.trace,
        );
        TracedTurn {
            turn,
            trace,
            parent,
            state: client.and_then(|client| client.state),
            is_sampled: self.sampler.samples(trace, parent),
            contents: self.contents,
            to_upstreams: self.to_upstreams,
            to_tools: self.to_tools,
            conversation: conversation.to_owned(),
        }
    }

    pub(crate) fn give(&self, span: TracedSpan) {
        if self.queue.try_send(span).is_err() {
            self.counts.drop_some("queue_full", 1);
        }
    }

    /// Sends what is still there, within a limit.
    pub(crate) async fn end(&self) {
        self.ending.cancel();
        let _ = tokio::time::timeout(LAST_SPANS_MAX, self.task.wait()).await;
    }
}

/// A part of a turn that is a span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SpanOf {
    Turn,
    Round(u32),
    ModelAttempt { round: u32, n: u32 },
    Call(CallRef),
    CallAttempt { call: CallRef, n: u32 },
}

/// A turn's place in its trace.
#[derive(Clone, Debug)]
pub(crate) struct TracedTurn {
    turn: TurnId,
    pub(crate) trace: TraceId,
    /// The client's span.
    pub(crate) parent: Option<TraceParent>,
    pub(crate) state: Option<Arc<str>>,
    /// Its spans are recorded; others are told of the trace all the same.
    pub(crate) is_sampled: bool,
    pub(crate) contents: bool,
    to_upstreams: bool,
    to_tools: bool,
    /// The public id.
    pub(crate) conversation: String,
}

impl TracedTurn {
    pub(crate) fn span(&self, of: SpanOf) -> SpanId {
        let id = match of {
            SpanOf::Turn => hashed(self.turn, "turn", &[]),
            SpanOf::Round(round) => hashed(self.turn, "round", &[round]),
            SpanOf::ModelAttempt { round, n } => hashed(self.turn, "model attempt", &[round, n]),
            SpanOf::Call(call) => hashed(self.turn, "call", &[call.round, call.position]),
            SpanOf::CallAttempt { call, n } => {
                hashed(self.turn, "call attempt", &[call.round, call.position, n])
            }
        };
        SpanId(id)
    }

    /// What an upstream is told, which makes its own spans under this one.
    pub(crate) fn for_upstream(&self, of: SpanOf) -> Option<TraceContext> {
        self.to_upstreams.then(|| self.context(of))
    }

    pub(crate) fn for_tool(&self, of: SpanOf) -> Option<TraceContext> {
        self.to_tools.then(|| self.context(of))
    }

    fn context(&self, of: SpanOf) -> TraceContext {
        TraceContext {
            parent: TraceParent {
                trace: self.trace,
                span: self.span(of),
                is_sampled: self.is_sampled,
            },
            state: self.state.clone(),
        }
    }
}

/// The first bytes of a hash, which are zeros with no probability that counts.
fn hashed<const N: usize>(turn: TurnId, of: &str, numbers: &[u32]) -> [u8; N] {
    let mut hasher = Sha256::new();
    hasher.update(of);
    hasher.update(turn.0.as_bytes());
    for number in numbers {
        hasher.update(number.to_be_bytes());
    }
    let mut bytes = [0; N];
    bytes.copy_from_slice(&hasher.finalize()[..N]);
    bytes
}

/// The task that sends spans.
struct SpanExporter {
    config: TelemetryConfig,
    counts: SpanCounts,
    ending: CancellationToken,
    /// The last batch was not taken; that it began is logged, and that it is over.
    is_refused: bool,
}

impl SpanExporter {
    async fn run(mut self, mut queue: mpsc::Receiver<TracedSpan>) {
        loop {
            let batch = self.next(&mut queue).await;
            if batch.is_empty() {
                // The process ends, and so do the spans.
                return;
            }
            self.export(batch).await;
        }
    }

    /// The next spans; none once the process ends and nothing is left.
    async fn next(&self, queue: &mut mpsc::Receiver<TracedSpan>) -> Vec<TracedSpan> {
        let mut batch = Vec::new();
        let spans_max = self.config.batch_spans_max;
        tokio::select! {
            biased;
            _ = queue.recv_many(&mut batch, spans_max) => {}
            () = self.ending.cancelled() => return batch,
        }
        let until = Instant::now() + self.config.batch_delay;
        while batch.len() < spans_max {
            let room = spans_max - batch.len();
            tokio::select! {
                biased;
                more = timeout_at(until, queue.recv_many(&mut batch, room)) => match more {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => break,
                },
                () = self.ending.cancelled() => break,
            }
        }
        batch
    }

    async fn export(&mut self, batch: Vec<TracedSpan>) {
        let spans = batch.len();
        let body = Bytes::from(encode_spans(&self.config.resource, batch));
        let mut wait = RETRY_WAIT;
        for tried in 1..=TRIES_MAX {
            let refused = match self.config.collector.send(body.clone()).await {
                Ok(rejected) => {
                    let rejected = usize::try_from(rejected).unwrap_or(spans).min(spans);
                    if rejected > 0 {
                        self.counts.drop_some("rejected", rejected);
                    }
                    self.counts.sent.inc_by((spans - rejected) as u64);
                    if std::mem::take(&mut self.is_refused) {
                        tracing::info!("the collector takes spans again");
                    }
                    return;
                }
                Err(refused) => refused,
            };
            if !std::mem::replace(&mut self.is_refused, true) {
                tracing::warn!(
                    cause = refused.cause,
                    "spans could not be sent to the collector"
                );
            }
            if !refused.may_be_repeated || tried == TRIES_MAX {
                break;
            }
            let pause = refused.retry_after.unwrap_or(wait).min(RETRY_WAIT_MAX);
            wait = wait.saturating_mul(2);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.ending.cancelled() => break,
            }
        }
        self.counts.drop_some("not_sent", spans);
    }
}

#[cfg(test)]
mod tests;
