//! Requests that are answered by an upstream without a turn.
//!
//! They go by the rules of a turn's model requests: the same upstreams in the same order, the same
//! failures that lead to the next one, the same limits. Nothing of them is remembered, so a
//! repetition is a request of its own; a record of what it came to is written when it is over, and
//! nobody waits for that. A crash loses the records of those that are under way.

mod record;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::task::task_tracker::TaskTrackerToken;
use tw_core::change::AttemptOutcome;
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::turn::{ModelFailure, ModelFailureKind};
use tw_core::upstream_chain::UpstreamChain;
use tw_egress::upstream::relayed_exchange::{RelayedAnswer, RelayedSent, relay};
use tw_egress::upstream::{Unanswered, Upstream};
use tw_wire::format::WireFormat;
use tw_wire::passed_headers::PassedHeaders;
use tw_wire::relayed::body::RelayedBody;

use crate::auth::Principal;
use crate::limiter::{RoomPermit, RoomRefused};
use crate::runtime::{Runtime, RuntimeInner};

use record::RelayRecorder;

/// Longest answer that is passed on, in bytes: ten images of the largest size, as text.
const RELAYED_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// A request to be relayed, read as far as it matters.
#[derive(Debug)]
pub struct RelayRequest {
    pub caller: Principal,
    /// The route that it came in by.
    pub route: &'static str,
    /// Path of the API behind the version, such as `embeddings`.
    pub path: &'static str,
    /// The name by which upstreams are chosen.
    pub model: String,
    pub content_type: HeaderValue,
    pub accept: Option<HeaderValue>,
    /// Body as it came.
    pub bytes: Bytes,
    pub body: RelayedBody,
    /// End user of the header that names one; else the request's own fields count.
    pub end_user: Option<String>,
    pub request_id: String,
}

/// Whose request is relayed, and what is recorded of it.
#[derive(Debug)]
pub(crate) struct RelaySubject {
    pub(crate) caller: Principal,
    pub(crate) route: &'static str,
    pub(crate) model: String,
    pub(crate) end_user: Option<String>,
    pub(crate) request_id: String,
    pub(crate) body_bytes: u64,
    pub(crate) streamed: bool,
}

/// What an upstream is sent.
pub(crate) type SentTo = dyn Fn(&Upstream) -> RelayedSent + Send + Sync;

/// Reasons for which a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum RelayRefused {
    #[error("there is no room for another request")]
    NoRoom(RoomRefused),
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("no upstream serves the model")]
    UnknownModel,
    #[error("no upstream answered")]
    Failed(TurnFault),
}

/// The answer of an upstream, as it comes. Dropping it ends the request there.
pub struct RelayedResponse {
    status: u16,
    format: WireFormat,
    headers: HeaderMap,
    answer: Option<RelayedAnswer>,
    /// First bytes of the body, read with the head.
    first: Option<Bytes>,
    deadline: Instant,
    recorder: RelayRecorder,
    _permit: RoomPermit,
    _stream_permit: Option<RoomPermit>,
    _counted: TaskTrackerToken,
}

impl Runtime {
    /// Sends a request to the upstreams that serve its model, until one of them answers, and
    /// returns when the first bytes of the answer are there.
    ///
    /// # Errors
    /// [`RelayRefused`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the request at the upstream, and is recorded as the client's leaving.
    pub async fn relay(&self, request: RelayRequest) -> Result<RelayedResponse, RelayRefused> {
        let inner = &self.0;
        if self.is_refusing() {
            return Err(RelayRefused::ShuttingDown);
        }
        let upstreams = inner.upstreams_of(&request.model);
        if upstreams.is_empty() {
            return Err(RelayRefused::UnknownModel);
        }
        let subject = RelaySubject {
            caller: request.caller,
            route: request.route,
            model: request.model.clone(),
            end_user: request.end_user.or_else(|| request.body.user.clone()),
            request_id: request.request_id,
            body_bytes: request.bytes.len() as u64,
            streamed: request.body.streamed,
        };
        let sent = move |upstream: &Upstream| {
            let model = upstream.models.sent(&request.model);
            // What names no model is left to the upstream, unless the name has another meaning there.
            let body = if model == request.model {
                request.bytes.clone()
            } else {
                request.body.with_model(&request.bytes, model).into()
            };
            RelayedSent {
                path: request.path,
                model: model.to_owned(),
                content_type: request.content_type.clone(),
                accept: request.accept.clone(),
                passed: PassedHeaders::default(),
                streamed: request.body.streamed,
                body,
            }
        };
        self.relay_to(upstreams, subject, Box::new(sent)).await
    }

    /// Sends what `sent` makes for each of these upstreams, as [`Runtime::relay`] does.
    pub(crate) async fn relay_to(
        &self,
        upstreams: Vec<Arc<Upstream>>,
        subject: RelaySubject,
        sent: Box<SentTo>,
    ) -> Result<RelayedResponse, RelayRefused> {
        let inner = &self.0;
        let stream = if subject.streamed {
            let opened = self.open_stream(&subject.caller);
            Some(opened.map_err(RelayRefused::NoRoom)?)
        } else {
            None
        };
        let permit = inner.limiter.begin(&subject.caller, subject.body_bytes);
        let mut permit = permit.map_err(RelayRefused::NoRoom)?;
        let limits = &inner.config.turn;
        let takes_max = if subject.streamed {
            limits.streamed_max
        } else {
            limits.plain_max
        };
        let mut relaying = Relaying {
            inner,
            upstreams,
            recorder: RelayRecorder::begin(inner, subject),
            deadline: Instant::now() + takes_max,
            sent,
        };
        let (mut answer, first) = relaying.answer().await.map_err(RelayRefused::Failed)?;
        // It is sent once more to nobody.
        permit.release_body();
        Ok(RelayedResponse {
            status: answer.status,
            format: answer.format,
            headers: std::mem::take(&mut answer.headers),
            answer: Some(answer),
            first,
            deadline: relaying.deadline,
            recorder: relaying.recorder,
            _permit: permit,
            _stream_permit: stream,
            _counted: inner.tasks.token(),
        })
    }
}

/// A request whose answer has not begun.
struct Relaying<'a> {
    inner: &'a Arc<RuntimeInner>,
    upstreams: Vec<Arc<Upstream>>,
    sent: Box<SentTo>,
    recorder: RelayRecorder,
    deadline: Instant,
}

impl Relaying<'_> {
    /// Asks the upstreams of the chain, until one of them answers.
    async fn answer(&mut self) -> Result<(RelayedAnswer, Option<Bytes>), TurnFault> {
        let limits = &self.inner.config.turn;
        let mut chain = UpstreamChain::new(self.upstreams.len());
        let mut n = 1;
        loop {
            let upstream = Arc::clone(&self.upstreams[chain.place(n)]);
            self.recorder.asks(&upstream, n);
            let asked = timeout_at(self.deadline, self.attempt(&upstream)).await;
            let failure = match asked {
                Ok(Ok(answered)) => {
                    self.recorder.answers(&answered.0);
                    return Ok(answered);
                }
                Ok(Err(Unanswered { failure, aside })) => {
                    self.recorder.attempt_failed(&failure, aside.as_deref());
                    failure
                }
                Err(_elapsed) => {
                    self.recorder.attempt_ended(&AttemptOutcome::Cancelled);
                    return Err(self.recorder.refuse(too_late()));
                }
            };
            let now = self.inner.env.now();
            chain.note_failure(n, &failure, now, limits.retry_after_max);
            chain.pass_over_hopeless(n + 1);
            let wait = chain.wait_before(n + 1, now, limits.model_backoff);
            let follows = chain.may_follow(&failure, n + 1)
                || (lacks_the_path(&failure) && chain.is_first_of_upstream(n + 1));
            let again = Instant::now() + wait;
            if !follows || n >= limits.model_attempts_max || again >= self.deadline {
                return Err(self.recorder.refuse(failure.fault()));
            }
            if wait > Duration::ZERO {
                sleep_until(again).await;
            }
            n += 1;
        }
    }

    /// Sends the request to an upstream and waits for the first bytes of the body, so that an
    /// answer which breaks off before them is asked for again.
    async fn attempt(
        &self,
        upstream: &Upstream,
    ) -> Result<(RelayedAnswer, Option<Bytes>), Unanswered> {
        let sent = (self.sent)(upstream);
        let mut answer = relay(&self.inner.connections, upstream, sent).await?;
        let first = answer.next().await.transpose()?;
        Ok((answer, first))
    }
}

/// Whether the upstream lacks the path. Unlike chat completions, a path of these is often one that
/// an upstream does not have.
fn lacks_the_path(failure: &ModelFailure) -> bool {
    matches!(failure.kind, ModelFailureKind::Status(404 | 405))
}

fn too_late() -> TurnFault {
    TurnFault::new(FaultClass::Deadline, "the request took longer than it may")
}

impl RelayedResponse {
    /// The upstream's status, and those of its headers that say what the body is.
    pub fn head(&self) -> (u16, &HeaderMap) {
        (self.status, &self.headers)
    }

    /// The format of the upstream that answered.
    pub(crate) fn format(&self) -> WireFormat {
        self.format
    }

    /// Whether the body is a stream of events.
    pub fn is_event_stream(&self) -> bool {
        self.recorder.is_event_stream()
    }

    /// The next bytes of the body; `None` at its end.
    ///
    /// # Errors
    /// When the rest does not come.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Bytes, TurnFault>> {
        let read = match self.first.take() {
            Some(first) => Ok(Some(Ok(first))),
            None => timeout_at(self.deadline, self.answer.as_mut()?.next()).await,
        };
        let fault = match read {
            Ok(Some(Ok(bytes))) => {
                if self.recorder.passes(&bytes) <= RELAYED_BYTES_MAX {
                    return Some(Ok(bytes));
                }
                self.recorder.attempt_ended(&AttemptOutcome::Cancelled);
                let message = "the upstream's answer is too long";
                TurnFault::new(FaultClass::UpstreamFailed, message)
            }
            Ok(Some(Err(failure))) => {
                self.recorder.attempt_failed(&failure, None);
                failure.fault()
            }
            Ok(None) => {
                self.recorder.complete();
                if let Some(answer) = self.answer.take() {
                    answer.give_back();
                }
                return None;
            }
            Err(_elapsed) => {
                self.recorder.attempt_ended(&AttemptOutcome::Cancelled);
                too_late()
            }
        };
        self.answer = None;
        Some(Err(self.recorder.break_off(fault)))
    }
}
