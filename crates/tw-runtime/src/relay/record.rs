//! The record of a relayed request, written when it is over, whoever ends it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;
use tw_core::change::{AttemptOutcome, Change};
use tw_core::fault::TurnFault;
use tw_core::relayed_request::{RelayOutcome, RelayedRequest, RelayedTokens};
use tw_core::time::Timestamp;
use tw_core::turn::ModelFailure;
use tw_egress::upstream::Upstream;
use tw_egress::upstream::relayed_exchange::RelayedAnswer;
use tw_wire::client_error::ClientError;
use tw_wire::relayed::usage::UsageReader;

use super::RelaySubject;
use crate::answered_notes;
use crate::logged_owner::LoggedOwner;
use crate::runtime::RuntimeInner;

/// Recorder of a relayed request; when it is dropped, the record is written.
pub(super) struct RelayRecorder {
    inner: Arc<RuntimeInner>,
    row: RelayedRequest,
    logged: LoggedOwner,
    usage: Option<UsageReader>,
    is_event_stream: bool,
    /// Time when the attempt that is under way began.
    attempt: Option<Timestamp>,
}

impl RelayRecorder {
    pub fn begin(inner: &Arc<RuntimeInner>, subject: RelaySubject) -> Self {
        let now = inner.env.now();
        Self {
            inner: Arc::clone(inner),
            logged: LoggedOwner::of(&subject.caller),
            row: RelayedRequest {
                organization: subject.caller.organization,
                api_key: subject.caller.api_key,
                end_user: subject.end_user,
                path: subject.route,
                model: subject.model,
                upstream: String::new(),
                attempts: 0,
                // Unless something else happens first.
                outcome: RelayOutcome::Cancelled,
                http_status: None,
                tokens: RelayedTokens::default(),
                request_bytes: subject.body_bytes,
                response_bytes: 0,
                request_id: subject.request_id,
                started: now,
                ended: now,
            },
            usage: None,
            is_event_stream: false,
            attempt: None,
        }
    }

    pub fn asks(&mut self, upstream: &Upstream, n: u32) {
        self.row.upstream.clone_from(&upstream.name);
        self.row.attempts = n;
        self.attempt = Some(self.inner.env.now());
    }

    pub fn attempt_ended(&mut self, outcome: &AttemptOutcome) {
        let Some(began) = self.attempt.take() else {
            return;
        };
        let took = self.inner.env.now().since(began);
        let upstream = Some(&*self.row.upstream);
        let metrics = &self.inner.metrics;
        metrics.attempt_ended(upstream, outcome, Some(took));
    }

    /// Notes a failed attempt; `cause` is what the operator may change.
    pub fn attempt_failed(&mut self, failure: &ModelFailure, cause: Option<&str>) {
        self.attempt_ended(&AttemptOutcome::Failed(failure.word().to_owned()));
        let row = &self.row;
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    request.id = row.request_id,
                    upstream = row.upstream,
                    path = row.path,
                    attempt = row.attempts,
                    outcome = failure.word(),
                    http_status = failure.status(),
                    cause,
                    "a relayed request failed"
                )
            };
        }
        // What is wrong with a request is the client's to know.
        if cause.is_none() && matches!(failure.status(), Some(400 | 404 | 413 | 422)) {
            log!(info);
        } else {
            log!(warn);
        }
    }

    /// Notes that no upstream answered; the client gets an error.
    pub fn refuse(&mut self, fault: TurnFault) -> TurnFault {
        self.row.http_status = Some(ClientError::of_fault(&fault).kind.status());
        self.break_off(fault)
    }

    /// Notes that an answer has begun.
    pub fn answers(&mut self, answer: &RelayedAnswer) {
        let content_type = answer.content_type();
        self.row.http_status = Some(answer.status);
        self.is_event_stream = content_type.starts_with("text/event-stream");
        self.usage = Some(UsageReader::new(Some(&content_type)));
    }

    pub fn is_event_stream(&self) -> bool {
        self.is_event_stream
    }

    /// Counts what is passed on, and returns how much that is so far.
    pub fn passes(&mut self, bytes: &Bytes) -> u64 {
        let row = &mut self.row;
        row.response_bytes = row.response_bytes.saturating_add(bytes.len() as u64);
        if let Some(usage) = &mut self.usage {
            usage.feed(bytes);
        }
        row.response_bytes
    }

    pub fn complete(&mut self) {
        self.row.outcome = RelayOutcome::Completed;
        self.attempt_ended(&AttemptOutcome::Ok);
    }

    /// Notes that the rest of an answer does not come.
    pub fn break_off(&mut self, fault: TurnFault) -> TurnFault {
        self.row.outcome = RelayOutcome::Failed;
        fault
    }
}

impl Drop for RelayRecorder {
    fn drop(&mut self) {
        self.attempt_ended(&AttemptOutcome::Cancelled);
        if let Some(usage) = self.usage.take() {
            self.row.tokens = usage.tokens();
        }
        self.row.ended = self.inner.env.now();
        self.inner.metrics.relayed(self.row.outcome);
        if self.inner.config.log_turns {
            log_end(&self.row, &self.logged);
        }
        // A process that ends drops what is left outside of the runtime.
        if Handle::try_current().is_ok() {
            let record = Change::RecordRelayedRequest(Box::new(self.row.clone()));
            answered_notes::add(&self.inner, record);
        }
    }
}

/// Logs the end of a request, without its model: a client may write anything there.
fn log_end(row: &RelayedRequest, owner: &LoggedOwner) {
    tracing::info!(
        request.id = row.request_id,
        organization = &*owner.organization,
        key = &*owner.key,
        path = row.path,
        upstream = row.upstream,
        attempts = row.attempts,
        outcome = row.outcome.as_str(),
        http_status = row.http_status,
        duration_ms = row.ended.since(row.started).as_millis() as u64,
        "a request was relayed"
    );
}
