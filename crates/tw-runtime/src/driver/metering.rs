//! Metrics of a step's writes, counted once they are on disk.

use std::time::Duration;

use tw_core::call::CallEnd;
use tw_core::change::{AttemptOutcome, CloseAttempt, EndTurn, OpenAttempt};
use tw_core::event::LogEvent;
use tw_core::id::CallRef;
use tw_core::time::Timestamp;
use tw_core::tool::{Tool, ToolKind};
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_wire::otlp::TracedSpan;

use super::TurnDriver;
use crate::metrics::CallOf;

/// State for the metrics of a turn: the model request that is open, and whether anything was shown yet.
#[derive(Debug, Default)]
pub(super) struct Metering {
    asked: Option<(Option<String>, Timestamp)>,
    /// The last upstream that was asked.
    upstream: Option<String>,
    /// Model requests so far.
    attempts: u32,
    /// Time from accepting the turn to the first thing that the client sees.
    first_shown: Option<Duration>,
    /// Cause of the failure of the request that is open, beyond what the client is told.
    pub(super) aside: Option<String>,
}

/// An event for the metrics.
#[derive(Debug)]
pub(super) enum MeteredEvent {
    Attempt {
        upstream: Option<String>,
        outcome: AttemptOutcome,
        took: Option<Duration>,
    },
    Call {
        of: CallOf,
        outcome: &'static str,
        took: Option<Duration>,
    },
    TurnEnded {
        status: TurnStatus,
        reason: Option<TurnReason>,
        calls: u32,
        took: Duration,
    },
    Span(TracedSpan),
}

impl TurnDriver {
    pub(super) fn note_asked(&mut self, open: &OpenAttempt) {
        if open.position.is_none() {
            self.metering.upstream.clone_from(&open.upstream);
            self.metering.attempts += 1;
            self.metering.asked = Some((open.upstream.clone(), open.at));
        }
    }

    /// Counts the end of a model request; `None` for an attempt of a call: calls are counted whole.
    pub(super) fn attempt_noted(&mut self, close: &CloseAttempt) -> Option<MeteredEvent> {
        if close.position.is_some() {
            return None;
        }
        let (upstream, began) = self.metering.asked.take().unzip();
        let upstream = upstream.flatten();
        let aside = self.metering.aside.take();
        self.log_failed(close, upstream.as_deref(), aside.as_deref());
        Some(MeteredEvent::Attempt {
            upstream,
            outcome: close.outcome.clone(),
            took: began.map(|began| close.at.since(began)),
        })
    }

    /// Logs a failed model request. What the upstream said of it is in the record and may repeat
    /// what it was sent, so it is not in the log.
    fn log_failed(&self, close: &CloseAttempt, upstream: Option<&str>, cause: Option<&str>) {
        let AttemptOutcome::Failed(outcome) = &close.outcome else {
            return;
        };
        // What is wrong with a request is the client's to know.
        let is_the_clients =
            cause.is_none() && matches!(close.http_status, Some(400 | 404 | 413 | 422));
        let known = self.work.upstreams.iter();
        let url = known
            .filter(|known| Some(known.name.as_str()) == upstream)
            .find_map(|known| known.shown_url());
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    turn.id = %self.fence.turn,
                    upstream,
                    round = close.round,
                    attempt = close.n,
                    outcome,
                    http_status = close.http_status,
                    url,
                    cause,
                    "a model request failed"
                )
            };
        }
        if is_the_clients {
            log!(info);
        } else {
            log!(warn);
        }
    }

    pub(super) fn end_noted(&self, end: &EndTurn) -> MeteredEvent {
        MeteredEvent::TurnEnded {
            status: end.status,
            reason: end.reason,
            calls: end.tool_count,
            took: end.at.since(self.turn.setup().created),
        }
    }

    pub(super) fn call_noted(&self, call: CallRef, end: &CallEnd, at: Timestamp) -> MeteredEvent {
        let outcome = match end.reason {
            Some(reason) => reason.as_str(),
            None if end.cached => "cached",
            None => "completed",
        };
        let began = self.calls_began.get(&call).copied();
        MeteredEvent::Call {
            of: self
                .turn
                .tool_of(call)
                .map_or(CallOf::UNKNOWN, |tool| class_of(tool)),
            outcome,
            took: began.map(|began| at.since(began)),
        }
    }

    pub(super) fn count(&self, noted: Vec<MeteredEvent>) {
        let metrics = &self.inner.metrics;
        for noted in noted {
            match noted {
                MeteredEvent::Attempt {
                    upstream,
                    outcome,
                    took,
                } => metrics.attempt_ended(upstream.as_deref(), &outcome, took),
                MeteredEvent::Span(span) => {
                    if let Some(telemetry) = &self.inner.telemetry {
                        telemetry.give(span);
                    }
                }
                MeteredEvent::Call { of, outcome, took } => metrics.call_ended(of, outcome, took),
                MeteredEvent::TurnEnded {
                    status,
                    reason,
                    calls,
                    took,
                } => {
                    self.log_end(status, reason, (calls, took));
                    metrics.turn_ended(status, reason);
                    metrics.turn_took(self.turn.setup().streamed, took);
                }
            }
        }
    }

    /// Logs a line for each turn, and nothing of what was said in it. The model's name is the
    /// client's to choose, so it is quoted and cut.
    fn log_end(
        &self,
        status: TurnStatus,
        reason: Option<TurnReason>,
        (calls, took): (u32, Duration),
    ) {
        if !self.inner.config.log_turns {
            return;
        }
        let setup = self.turn.setup();
        let model: String = setup.model.chars().take(MODEL_LOGGED_CHARS_MAX).collect();
        tracing::info!(
            turn.id = %self.fence.turn,
            organization = &*self.work.logged.organization,
            key = &*self.work.logged.key,
            ?model,
            upstream = self.metering.upstream.as_deref(),
            status = status.as_str(),
            reason = reason.map(TurnReason::as_str),
            streamed = setup.streamed,
            attempts = self.metering.attempts,
            calls,
            first_ms = self.metering.first_shown.map(milliseconds),
            duration_ms = milliseconds(took),
            "a turn ended"
        );
    }

    /// Measures the first thing that the client sees, once.
    pub(super) fn note_shown(&mut self, events: &[LogEvent]) {
        let is_seen = |event: &LogEvent| {
            matches!(
                event,
                LogEvent::Delta(_) | LogEvent::ClientCall(_) | LogEvent::ApprovalAsked { .. }
            )
        };
        if self.metering.first_shown.is_some() || !events.iter().any(is_seen) {
            return;
        }
        let setup = self.turn.setup();
        let after = self.inner.env.now().since(setup.created);
        self.inner.metrics.first_event(setup.streamed, after);
        self.metering.first_shown = Some(after);
    }
}

/// Longest name of a model in the log, in characters; real ones are shorter.
const MODEL_LOGGED_CHARS_MAX: usize = 64;

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn class_of(tool: &Tool) -> CallOf {
    CallOf {
        kind: match tool.kind {
            ToolKind::TimeNow => "time_now",
            ToolKind::Calculate => "calculate",
            ToolKind::ApiRequest(_) => "api_request",
            ToolKind::Probe(_) => "probe",
        },
        effect: tool.policy.effect.as_str(),
    }
}
