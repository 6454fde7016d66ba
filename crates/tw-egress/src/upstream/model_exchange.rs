//! A model request, from sending it to the end of its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::request::Builder;
use http::{HeaderMap, Method, Request, Response};
use tw_core::model::{ModelEvent, ReportedError};
use tw_core::request::ToolNames;
use tw_core::turn::{ModelFailure, ModelFailureKind};
use tw_wire::format::{AnswerDecoder, WireFormat};
use tw_wire::passed_headers::PassedHeaders;
use tw_wire::sse::EMPTY_BYTES_MIN;
use tw_wire::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};
use tw_wire::upstream_answer::{DecodeError, EMPTY_BYTES_MAX_DEFAULT, StreamLimits};

use super::content_encoding::Unpacker;
use super::first_bytes::{BodyStart, begins};
use super::masked_errors::mask_errors;
use super::scripted_body::ScriptedBody;
use super::{Upstream, UpstreamConnections, UpstreamKind, request_target};
use crate::client::connect_error::ConnectError;
use crate::client::upstream_client::{Address, DirectFailure, UpstreamExchange};
use crate::exchange::retry_after;
use crate::idle_timer::IdleTimer;
use crate::part_downloads::TurnDownloads;

/// A model request that is under way.
pub struct ModelExchange {
    state: State,
    idle: Duration,
    answer_bytes_max: usize,
    streamed: bool,
    offered: ToolNames,
    upstream: Arc<Upstream>,
    /// Details of the failure that are for the operator, and not for the client.
    aside: Option<String>,
}

/// The model request as it is sent to an upstream.
#[derive(Debug)]
pub struct SentModelRequest {
    /// The upstream's own name of the model, as in the body.
    pub model: String,
    pub body: Vec<u8>,
    pub streamed: bool,
    /// The names of the tools that the body offers.
    pub offered: ToolNames,
    /// Headers of the client's for upstreams of some formats.
    pub passed: PassedHeaders,
    /// The span of the request, for the upstream's part of the trace.
    pub trace: Option<TraceContext>,
    /// Set where contents take the place of the addresses that the body names.
    pub downloads: Option<TurnDownloads>,
}

/// Progress after one call of [`ModelExchange::next`].
#[derive(Debug, PartialEq)]
pub enum ModelProgress {
    /// Events were added; there may be more.
    More,
    /// The answer is over, whether it was whole or not.
    Ended,
    Failed(ModelFailure),
}

enum State {
    Sending(Sending),
    /// The head has come.
    Reading(Box<Reading>),
    Failed(ModelFailure),
    Over,
}

/// The failure of a request that got no answer.
#[derive(Debug)]
pub struct Unanswered {
    pub failure: ModelFailure,
    /// Details for the operator, as [`ModelExchange::take_aside`] gives them.
    pub aside: Option<String>,
}

impl From<ModelFailure> for Unanswered {
    fn from(failure: ModelFailure) -> Self {
        Self {
            failure,
            aside: None,
        }
    }
}

struct Answer {
    headers: HeaderMap,
    status: u16,
    body: Body,
}

enum Body {
    Http(Box<UpstreamExchange>),
    Scripted(ScriptedBody),
}

struct Reading {
    body: Incoming,
    idle: IdleTimer,
    format: WireFormat,
    form: Form,
    /// The body's end was read ahead.
    over: Option<Over>,
}

struct Silence;

enum Over {
    Whole,
    Failed(ReadFault),
}

/// Reasons for which no more of a body can be read.
#[derive(Clone, Copy, Debug)]
enum ReadFault {
    Broken,
    Packed,
}

/// A body without the compression that it may have come with.
struct Incoming {
    body: Body,
    unpacker: Unpacker,
    has_ended: bool,
}

enum Form {
    /// A body of which too little is there to tell what it is.
    Undecided {
        read: Vec<u8>,
        /// White space that was passed over, each byte counting as [`EMPTY_BYTES_MIN`].
        blank_bytes: usize,
        says_events: bool,
        offered: ToolNames,
    },
    Stream(Box<AnswerDecoder>),
    Plain {
        read: Vec<u8>,
        offered: ToolNames,
    },
    /// The body of an answer with an HTTP error status.
    Error {
        status: u16,
        content_type: Option<String>,
        retry_after: Option<Duration>,
        should_retry: Option<bool>,
        read: Vec<u8>,
    },
}

/// Most bytes of a stream that are decoded before they are handled. As much waits, several times
/// over, for a client that takes nothing.
const READ_AHEAD_BYTES_MAX: usize = 16 * 1024;
/// Most bytes of an error's body that are read.
pub(super) const ERROR_BYTES_MAX: usize = 64 * 1024;

impl ModelExchange {
    /// Prepares a request; it is sent when [`ModelExchange::next`] or [`ModelExchange::connect`] is polled.
    pub fn new(
        connections: &UpstreamConnections,
        upstream: &Arc<Upstream>,
        mut asked: SentModelRequest,
        serial: u64,
    ) -> Self {
        let streamed = asked.streamed;
        let offered = ToolNames::clone(&asked.offered);
        let sending = match asked.downloads.take() {
            None => sending(connections, upstream, asked, serial),
            Some(downloads) => {
                let (connections, to) = (connections.clone(), Arc::clone(upstream));
                Box::pin(async move {
                    let body = downloads.put_into(asked.body, to.format).await;
                    let body = body.map_err(|error| error.failure())?;
                    let asked = SentModelRequest { body, ..asked };
                    sending(&connections, &to, asked, serial).await
                })
            }
        };
        Self {
            state: State::Sending(sending),
            idle: upstream.timeouts.idle,
            answer_bytes_max: upstream.answer_bytes_max,
            streamed,
            offered,
            upstream: Arc::clone(upstream),
            aside: None,
        }
    }

    /// The cause of the failure that [`ModelExchange::next`] returned, for the operator's log: it
    /// names addresses and settings. `None` if there is no more to say.
    pub fn take_aside(&mut self) -> Option<String> {
        self.aside.take()
    }

    /// Sends the request and waits for the answer's head.
    ///
    /// # Cancel safety
    /// The state is kept; polling may go on later.
    async fn connect(&mut self) {
        if let State::Sending(sending) = &mut self.state {
            let answered = sending.await;
            self.state = match answered {
                Ok(answer) => self.begin_reading(answer),
                Err(Unanswered { failure, aside }) => {
                    self.aside = aside;
                    State::Failed(failure)
                }
            };
        }
    }

    fn begin_reading(&self, answer: Answer) -> State {
        let content_type = answer
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .map(str::to_ascii_lowercase);
        let form = if (200..300).contains(&answer.status) {
            let says_events = content_type
                .as_deref()
                .is_some_and(|says| says.contains("text/event-stream"));
            Form::Undecided {
                read: Vec::new(),
                blank_bytes: 0,
                says_events,
                offered: ToolNames::clone(&self.offered),
            }
        } else {
            Form::Error {
                status: answer.status,
                retry_after: retry_after(&answer.headers),
                should_retry: should_retry(&answer.headers),
                content_type,
                read: Vec::new(),
            }
        };
        State::Reading(Box::new(Reading {
            body: Incoming {
                unpacker: Unpacker::new(&answer.headers, self.answer_bytes_max),
                body: answer.body,
                has_ended: false,
            },
            idle: IdleTimer::new(self.first_patience()),
            format: self.upstream.format,
            form,
            over: None,
        }))
    }

    /// Time limit of the first part of the body. Servers send their head before they have read the
    /// prompt, or behind it.
    fn first_patience(&self) -> Duration {
        let first_byte = self.upstream.timeouts.first_byte;
        first_byte_max(self.streamed, first_byte).max(self.idle)
    }

    /// Adds what comes next to `out`.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: what was read is in the state or in `out`.
    pub async fn next(&mut self, out: &mut Vec<ModelEvent>) -> ModelProgress {
        self.connect().await;
        match &mut self.state {
            State::Reading(reading) => {
                let mut progress = reading.next(out, self.idle, self.answer_bytes_max).await;
                if let ModelProgress::Failed(failure) = &mut progress
                    && let ModelFailureKind::Status(status) = failure.kind
                {
                    self.aside = explain(&self.upstream, status, &reading.form, failure);
                }
                if let Some(key) = self.upstream.kind.api_key() {
                    mask_errors(key, out, &mut progress);
                }
                if progress != ModelProgress::More {
                    let over = std::mem::replace(&mut self.state, State::Over);
                    if let State::Reading(reading) = over
                        && let Body::Http(exchange) = reading.body.body
                    {
                        exchange.give_back();
                    }
                }
                progress
            }
            State::Failed(failure) => {
                let failure = failure.clone();
                self.state = State::Over;
                ModelProgress::Failed(failure)
            }
            State::Sending(_) | State::Over => ModelProgress::Ended,
        }
    }

    /// Gives the connection back for the next request, if the answer's end has arrived.
    pub fn finish(self) {
        if let State::Reading(reading) = self.state
            && let Body::Http(exchange) = reading.body.body
        {
            exchange.give_back();
        }
    }
}

/// A request that is being sent, up to the answer's head.
type Sending = Pin<Box<dyn Future<Output = Result<Answer, Unanswered>> + Send>>;

fn sending(
    connections: &UpstreamConnections,
    upstream: &Arc<Upstream>,
    asked: SentModelRequest,
    serial: u64,
) -> Sending {
    match &upstream.kind {
        UpstreamKind::Http { .. } | UpstreamKind::Azure { .. } => {
            Box::pin(send(connections.clone(), Arc::clone(upstream), asked))
        }
        UpstreamKind::Scripted(script) => {
            let script = Arc::clone(script);
            Box::pin(async move {
                let (status, headers, body) =
                    ScriptedBody::start(&script, &asked.body, serial).await;
                Ok(Answer {
                    headers,
                    status,
                    body: Body::Scripted(body),
                })
            })
        }
    }
}

impl Reading {
    async fn next(
        &mut self,
        out: &mut Vec<ModelEvent>,
        idle: Duration,
        bytes_max: usize,
    ) -> ModelProgress {
        loop {
            let read = match self.over.take() {
                Some(Over::Whole) => return self.end(out),
                Some(Over::Failed(fault)) => return self.failed(fault, out),
                None => tokio::select! {
                    biased;
                    read = self.body.read() => Ok(read),
                    () = self.idle.passed() => Err(Silence),
                },
            };
            let read = match read {
                Ok(read) => read,
                Err(Silence) => {
                    return ModelProgress::Failed(failure(
                        ModelFailureKind::Silent,
                        "the upstream fell silent",
                    ));
                }
            };
            let bytes = match read {
                Some(Ok(bytes)) => bytes,
                Some(Err(fault)) => return self.failed(fault, out),
                None => return self.end(out),
            };
            self.idle.begin_anew(idle);
            let bytes = match self.decide_form(bytes, bytes_max) {
                Ok(bytes) => bytes,
                Err(failed) => return ModelProgress::Failed(failed),
            };
            match &mut self.form {
                Form::Undecided { .. } => {}
                Form::Stream(decoder) => {
                    let before = out.len();
                    let fed = feed_ready(decoder, &mut self.body, bytes, out, &mut self.over);
                    if let Err(error) = fed {
                        return ModelProgress::Failed(nonsense(&error.to_string()));
                    }
                    if out.len() > before {
                        return ModelProgress::More;
                    }
                }
                Form::Plain { read, .. } => {
                    if read.len() + bytes.len() > bytes_max {
                        return ModelProgress::Failed(nonsense(
                            "the upstream's answer is too long",
                        ));
                    }
                    read.extend_from_slice(&bytes);
                }
                Form::Error { read, .. } => {
                    let room = ERROR_BYTES_MAX.saturating_sub(read.len());
                    read.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    if room <= bytes.len() {
                        return self.end(out);
                    }
                }
            }
        }
    }

    /// Decides what the body is as soon as enough of it is there, and gives what is to be read.
    fn decide_form(&mut self, bytes: Bytes, bytes_max: usize) -> Result<Bytes, ModelFailure> {
        let Form::Undecided {
            read,
            blank_bytes,
            says_events,
            offered,
        } = &mut self.form
        else {
            return Ok(bytes);
        };
        read.extend_from_slice(&bytes);
        let (begins, from) = begins(read);
        let limits = StreamLimits {
            event_bytes_max: bytes_max,
            empty_bytes_max: EMPTY_BYTES_MAX_DEFAULT,
        };
        let form = match begins {
            // White space alone says nothing and is not kept.
            BodyStart::Unclear => {
                read.drain(..from);
                // As a stream counts its blank lines.
                *blank_bytes = blank_bytes.saturating_add(from.saturating_mul(EMPTY_BYTES_MIN));
                let bytes_max = EMPTY_BYTES_MAX_DEFAULT;
                if *blank_bytes > bytes_max {
                    let error = DecodeError::TooMuchEmpty { bytes_max };
                    return Err(nonsense(&error.to_string()));
                }
                return Ok(Bytes::new());
            }
            BodyStart::WebPage => return Err(nonsense("the upstream answered with a web page")),
            BodyStart::Json => Form::Plain {
                read: Vec::new(),
                offered: ToolNames::clone(offered),
            },
            BodyStart::Other if !*says_events => Form::Plain {
                read: Vec::new(),
                offered: ToolNames::clone(offered),
            },
            BodyStart::EventStream | BodyStart::Other => {
                let offered = ToolNames::clone(offered);
                let decoder = AnswerDecoder::new(self.format, &limits, offered);
                Form::Stream(Box::new(decoder))
            }
        };
        let read = Bytes::from(std::mem::take(read)).slice(from..);
        self.form = form;
        Ok(read)
    }

    /// A broken connection is judged by what came before it. What is no answer then is the
    /// beginning of one, and the request may be made again.
    fn failed(&mut self, fault: ReadFault, out: &mut Vec<ModelEvent>) -> ModelProgress {
        if matches!(fault, ReadFault::Packed) {
            let message = "the upstream's answer is compressed and cannot be unpacked";
            return ModelProgress::Failed(nonsense(message));
        }
        match self.end(out) {
            ModelProgress::Failed(failed) if failed.kind == ModelFailureKind::Nonsense => {
                let message = "the upstream's answer broke off";
                ModelProgress::Failed(failure(ModelFailureKind::Cut, message))
            }
            progress => progress,
        }
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> ModelProgress {
        match &mut self.form {
            Form::Stream(decoder) => match decoder.finish(out) {
                Ok(()) => ModelProgress::Ended,
                // The last event broke off, so the answer did.
                Err(_) => ModelProgress::Ended,
            },
            // Nothing came, or nothing but white space and the beginning of a line. A stream that
            // ends so was cut off before it began.
            Form::Undecided { says_events, .. } => {
                let kind = if *says_events {
                    ModelFailureKind::Cut
                } else {
                    ModelFailureKind::Nonsense
                };
                ModelProgress::Failed(failure(kind, "the upstream's answer is empty"))
            }
            Form::Plain { read, offered } => {
                match self
                    .format
                    .decode_answer(read, ToolNames::clone(offered), out)
                {
                    Ok(()) => ModelProgress::Ended,
                    Err(error) if error.is_of_a_beginning() => {
                        let message = "the upstream's answer broke off";
                        ModelProgress::Failed(failure(ModelFailureKind::Cut, message))
                    }
                    Err(error) => ModelProgress::Failed(nonsense(&error.to_string())),
                }
            }
            Form::Error {
                status,
                content_type,
                retry_after,
                should_retry,
                read,
            } => ModelProgress::Failed(ModelFailure {
                kind: ModelFailureKind::Status(*status),
                error: self
                    .format
                    .decode_error(*status, content_type.as_deref(), read),
                retry_after: *retry_after,
                should_retry: *should_retry,
            }),
        }
    }
}

impl Body {
    /// The next bytes; `None` at the end, `Err` when the connection broke.
    async fn read(&mut self) -> Option<Result<Bytes, ()>> {
        match self {
            Self::Http(exchange) => exchange.read().await,
            Self::Scripted(body) => body.read().await,
        }
    }
}

impl Incoming {
    /// The next bytes, unpacked; with the same cancel safety as [`Body::read`]: what was read is in
    /// the unpacker or given.
    async fn read(&mut self) -> Option<Result<Bytes, ReadFault>> {
        while !self.has_ended {
            let text = match self.body.read().await {
                Some(Ok(bytes)) => self.unpacker.feed(bytes),
                Some(Err(())) => return Some(Err(ReadFault::Broken)),
                None => {
                    self.has_ended = true;
                    self.unpacker.end()
                }
            };
            match text {
                Ok(text) if text.is_empty() => {}
                Ok(text) => return Some(Ok(text)),
                Err(_not_unpacked) => return Some(Err(ReadFault::Packed)),
            }
        }
        None
    }
}

/// Decodes `bytes` and what has arrived behind them, so that events that came together are
/// handled together.
fn feed_ready(
    decoder: &mut AnswerDecoder,
    body: &mut Incoming,
    bytes: Bytes,
    out: &mut Vec<ModelEvent>,
    over: &mut Option<Over>,
) -> Result<(), DecodeError> {
    let mut taken = bytes.len();
    decoder.feed(&bytes, out)?;
    while taken < READ_AHEAD_BYTES_MAX && over.is_none() {
        match body.read().now_or_never() {
            Some(Some(Ok(more))) => {
                taken += more.len();
                decoder.feed(&more, out)?;
            }
            Some(Some(Err(fault))) => *over = Some(Over::Failed(fault)),
            Some(None) => *over = Some(Over::Whole),
            None => break,
        }
    }
    Ok(())
}

/// Time limit that is longer than any turn: its own deadline comes first.
const LONGER_THAN_A_TURN: Duration = Duration::from_secs(7 * 24 * 3600);

/// Time limit of the first byte; the head of a plain answer comes with its end.
pub(super) fn first_byte_max(streamed: bool, first_byte: Duration) -> Duration {
    if streamed {
        first_byte
    } else {
        LONGER_THAN_A_TURN
    }
}

async fn send(
    connections: UpstreamConnections,
    upstream: Arc<Upstream>,
    asked: SentModelRequest,
) -> Result<Answer, Unanswered> {
    let patience = first_byte_max(asked.streamed, upstream.timeouts.first_byte);
    let (address, request) = request_of(&connections, &upstream, asked)?;
    let (head, exchange) = exchange(&connections, &upstream, address, request, patience).await?;
    Ok(Answer {
        status: head.status().as_u16(),
        headers: head.into_parts().0.headers,
        body: Body::Http(Box::new(exchange)),
    })
}

/// Sends a request and waits for the answer's head, with patience for both.
pub(super) async fn exchange(
    connections: &UpstreamConnections,
    upstream: &Upstream,
    address: Arc<Address>,
    request: Request<Bytes>,
    patience: Duration,
) -> Result<(Response<()>, UpstreamExchange), Unanswered> {
    let sending = connections.0.send(
        &upstream.access.route,
        address,
        request,
        upstream.timeouts.connect,
    );
    let sent = tokio::time::timeout(patience, sending).await;
    match sent {
        Ok(Ok(answered)) => Ok(answered),
        Ok(Err(DirectFailure::Connect(error))) => {
            let told = format!("the upstream {}", error.told());
            Err(Unanswered {
                failure: failure(ModelFailureKind::Connect, &told),
                aside: Some(with_causes(&error)),
            })
        }
        Ok(Err(DirectFailure::Reset)) => Err(failure(
            ModelFailureKind::Reset,
            "the upstream closed the connection without an answer",
        )
        .into()),
        Ok(Err(DirectFailure::NotHttp)) => {
            Err(nonsense("the upstream's answer is not HTTP, or its head is too large").into())
        }
        Err(_elapsed) => Err(failure(
            ModelFailureKind::Silent,
            "the upstream did not answer in time",
        )
        .into()),
    }
}

fn with_causes(error: &ConnectError) -> String {
    let text = error.with_causes();
    match error.advice() {
        Some(advice) => format!("{text}; {advice}"),
        None => text,
    }
}

/// Says of a status that comes from a wrong address or key what is to be changed: to the client
/// without the address, and to the operator.
fn explain(
    upstream: &Upstream,
    status: u16,
    form: &Form,
    failure: &mut ModelFailure,
) -> Option<String> {
    let Form::Error {
        content_type, read, ..
    } = form
    else {
        return None;
    };
    let access = &upstream.access;
    let format = upstream.format;
    if format.says_no_such_path(status, content_type.as_deref(), read) {
        let answers = format.answers_shown();
        failure.error.message = format!(
            "the upstream '{}' answered {status}: there are no {answers} at its address; \
             most likely its base URL lacks /v1 (the server's log says more)",
            upstream.name
        );
        let setting = &access.base_url_setting;
        return Some(format!(
            "there are no {answers} at this address: look whether {setting} ends with /v1"
        ));
    }
    explain_refused_key(upstream, status)
}

/// Says of a status that refuses the key which setting it comes from.
pub(super) fn explain_refused_key(upstream: &Upstream, status: u16) -> Option<String> {
    let key = &upstream.access.api_key_setting;
    match status {
        401 | 403 if upstream.kind.api_key().is_some() => {
            Some(format!("the key of {key} was refused"))
        }
        401 | 403 => Some(format!(
            "it wants a key, and none is set: set it with {key}"
        )),
        _ => None,
    }
}

fn request_of(
    connections: &UpstreamConnections,
    upstream: &Upstream,
    asked: SentModelRequest,
) -> Result<(Arc<Address>, Request<Bytes>), ModelFailure> {
    let format = upstream.format;
    let address = request_target::of(connections, upstream, format.path(), &asked.model)?;
    let accept = if asked.streamed {
        "text/event-stream"
    } else {
        "application/json"
    };
    let request = request_target::request(Method::POST, upstream, &asked.passed)?
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, accept)
        .header(ACCEPT_ENCODING, "identity");
    let request = match &asked.trace {
        Some(trace) => traced(request, trace),
        None => request,
    };
    let request = request.body(Bytes::from(asked.body));
    Ok((address, request.map_err(|_| request_target::no_address())?))
}

fn traced(request: Builder, trace: &TraceContext) -> Builder {
    let request = request.header(TRACEPARENT, trace.parent.to_string());
    match trace.state.as_deref() {
        Some(state) => request.header(TRACESTATE, state),
        None => request,
    }
}

pub(super) fn failure(kind: ModelFailureKind, message: &str) -> ModelFailure {
    let error = ReportedError {
        message: message.to_owned(),
        ..ReportedError::default()
    };
    ModelFailure {
        kind,
        error,
        retry_after: None,
        should_retry: None,
    }
}

/// OpenAI's word on whether another try can help, which its own clients obey.
pub(super) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match headers.get("x-should-retry")?.as_bytes() {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

pub(super) fn nonsense(message: &str) -> ModelFailure {
    failure(ModelFailureKind::Nonsense, message)
}
