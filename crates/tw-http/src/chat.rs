//! `POST /v1/chat/completions`

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tw_core::event::{EffectRan, LogEvent};
use tw_core::fault::TurnFault;
use tw_core::id::TurnId;
use tw_core::json::shared::SharedText;
use tw_core::request::RequestTools;
use tw_core::tenant::{KeyScope, ToolsMode};
use tw_core::turn_policy::{OnLeave, Surface};
use tw_runtime::accept::{NextAnswerPart, TryMark, TurnAnswer, TurnRequest, TurnTaken};
use tw_runtime::auth::Principal;
use tw_runtime::error_chain::ErrorChain;
use tw_runtime::limiter::RoomPermit;
use tw_wire::openai_chat::chunks::{ChunkOptions, ChunkWriter};
use tw_wire::openai_chat::completion::CompletionBuilder;
use tw_wire::openai_chat::error::{of_fault, render};
use tw_wire::openai_chat::outcome::{ChatDialect, fault_of};
use tw_wire::openai_chat::request::{decode_shared, text_of};
use tw_wire::sse;

use crate::access::{self, NAME_BYTES_MAX, named};
use crate::answer_body::{HandoverNote, WholeBody, event_stream, json};
use crate::error::ApiError;
use crate::error::no_room::put_standing;
use crate::request_body::{read_body, refused};
use crate::server::{AppState, RequestId};

pub(crate) const TURN_HEADER: HeaderName = HeaderName::from_static("turnwright-turn");
const CONVERSATION_HEADER: HeaderName = HeaderName::from_static("turnwright-conversation");
const MEMORY_HEADER: HeaderName = HeaderName::from_static("turnwright-memory");
const REPAIRED_HEADER: HeaderName = HeaderName::from_static("turnwright-repaired");
/// Request header that says how the key's tools go with those of the request.
const TOOLS_HEADER: &str = "turnwright-tools";
/// Answer header with those names of added tools that stand in the request's own list, too.
const TOOLS_SHARED_HEADER: HeaderName = HeaderName::from_static("turnwright-tools-shared");
const ON_LEAVE_HEADER: &str = "turnwright-on-leave";
const IDEMPOTENCY_HEADER: &str = "idempotency-key";
/// Header by which the official clients mark a request that they send again.
const RETRY_COUNT_HEADER: &str = "x-stainless-retry-count";

pub(crate) async fn create(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    request: axum::extract::Request,
) -> Response {
    match answer(&surfaces, &id, request).await {
        Ok(response) => response,
        Err(error) => error.render(Some(&id)),
    }
}

async fn answer(
    surfaces: &AppState,
    id: &RequestId,
    request: axum::extract::Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = access::caller(surfaces, &parts.headers, Some(KeyScope::Chat), id).await?;
    // A repetition may need no room: it may be answered by what runs already.
    if try_mark(&parts.headers) != TryMark::Repetition
        && !parts.headers.contains_key(IDEMPOTENCY_HEADER)
        && let Err(no_room) = surfaces.runtime().may_begin(&caller)
    {
        return Err(refused(&parts.headers, body, ApiError::no_room(&no_room)).await);
    }
    let bytes_max = surfaces.runtime().request_limits().body_bytes_max;
    let body = read_body(surfaces, &parts.headers, body, bytes_max).await?;
    // Held once from here on: the turn, its row and what is read of it have parts of it.
    let body = text_of(body.into()).map_err(|error| ApiError::of_request(&error))?;
    let input = decode_shared(&body, surfaces.runtime().request_limits())
        .map_err(|error| ApiError::of_request(&error))?;
    if input
        .user
        .as_ref()
        .is_some_and(|user| user.len() > NAME_BYTES_MAX)
    {
        let message = format!("The user's name is longer than {NAME_BYTES_MAX} bytes.");
        return Err(ApiError::invalid(Some("user"), None, message));
    }
    let streamed = input.stream;
    let options = ChunkOptions {
        include_usage: input.include_usage,
        dialect: match input.tools {
            RequestTools::Legacy(_) => ChatDialect::Functions,
            RequestTools::Absent | RequestTools::List(_) => ChatDialect::Tools,
        },
    };
    let wanted = turn_request(surfaces, &parts.headers, caller.clone(), body, input, id)?;
    let permit = if streamed {
        let permit = surfaces.runtime().open_stream(&caller);
        Some(permit.map_err(|no_room| ApiError::no_room(&no_room))?)
    } else {
        None
    };
    let taken = surfaces
        .runtime()
        .take(wanted)
        .await
        .map_err(|refused| ApiError::of_refusal(&refused, id))?;
    let mut headers = headers_of(&taken);
    if let Some(standing) = surfaces.runtime().requests_left(&caller) {
        put_standing(&mut headers, &standing);
    }
    let note = HandoverNote {
        runtime: surfaces.runtime().clone(),
        caller,
        turn: taken.turn,
    };
    let mut response = if streamed {
        stream(surfaces, taken, permit, options, note, id).await?
    } else {
        plain(taken, options.dialect, note, id).await?
    };
    response.headers_mut().extend(headers);
    Ok(response)
}

fn turn_request(
    surfaces: &AppState,
    headers: &HeaderMap,
    caller: Principal,
    body: SharedText,
    input: tw_core::request::ModelInput,
    id: &RequestId,
) -> Result<TurnRequest, ApiError> {
    let on_leave = match named(headers, ON_LEAVE_HEADER)?.as_deref() {
        None => None,
        Some("stop") => Some(OnLeave::Stop),
        Some("finish") => Some(OnLeave::Finish),
        Some(_) => {
            return Err(ApiError::invalid(
                Some(ON_LEAVE_HEADER),
                None,
                "turnwright-on-leave is 'stop' or 'finish'.",
            ));
        }
    };
    let tools_mode = match named(headers, TOOLS_HEADER)? {
        None => None,
        Some(word) => Some(ToolsMode::parse(&word).ok_or_else(|| {
            let message = "turnwright-tools is 'add' or 'replace'.";
            ApiError::invalid(Some(TOOLS_HEADER), None, message)
        })?),
    };
    Ok(TurnRequest {
        caller,
        surface: Surface::ChatCompletions,
        body,
        input: Arc::new(input),
        end_user: access::end_user(surfaces, headers)?,
        conversation: named(headers, CONVERSATION_HEADER.as_str())?,
        on_leave,
        tools_mode,
        idempotency_key: named(headers, IDEMPOTENCY_HEADER)?,
        try_mark: try_mark(headers),
        request_id: id.0.clone(),
    })
}

/// The count of a client library that counts how often it sends a request.
fn try_mark(headers: &HeaderMap) -> TryMark {
    let count = headers
        .get(RETRY_COUNT_HEADER)
        .and_then(|count| count.to_str().ok())
        .map(str::trim)
        .filter(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()));
    match count {
        None => TryMark::None,
        Some(count) if count.bytes().all(|byte| byte == b'0') => TryMark::First,
        Some(_) => TryMark::Repetition,
    }
}

fn headers_of(taken: &TurnTaken) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut put = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    put(TURN_HEADER, &taken.turn.to_string());
    put(CONVERSATION_HEADER, &taken.conversation);
    put(MEMORY_HEADER, taken.memory.as_str());
    if !taken.repairs.is_none() {
        put(REPAIRED_HEADER, &taken.repairs.to_string());
    }
    if !taken.names_shared.is_empty() {
        put(TOOLS_SHARED_HEADER, &taken.names_shared.join(", "));
    }
    headers
}

async fn plain(
    mut taken: TurnTaken,
    dialect: ChatDialect,
    note: HandoverNote,
    id: &RequestId,
) -> Result<Response, ApiError> {
    let mut builder = CompletionBuilder::new(taken.turn, dialect);
    while let Some(events) = taken
        .answer
        .next()
        .await
        .map_err(|error| ApiError::of_read(&error, id))?
    {
        for event in &events {
            if let Some((fault, effects)) = fault_in(event) {
                return Err(ApiError::of_end(taken.turn, &fault, &effects));
            }
            builder.push(event);
            if matches!(event, LogEvent::End(_)) {
                return Ok(json(Body::new(WholeBody::new(builder.into_body(), note))));
            }
        }
    }
    Err(ApiError::handed_over(taken.turn))
}

fn fault_in(event: &LogEvent) -> Option<(TurnFault, Vec<EffectRan>)> {
    match event {
        LogEvent::End(end) => fault_of(end).map(|fault| (fault, end.effects.clone())),
        LogEvent::Start { .. }
        | LogEvent::Round { .. }
        | LogEvent::Delta(_)
        | LogEvent::ClientCall(_)
        | LogEvent::Extra { .. }
        | LogEvent::Progress { .. }
        | LogEvent::CallStarted { .. }
        | LogEvent::CallEnded { .. }
        | LogEvent::Finish { .. }
        | LogEvent::Usage(_) => None,
    }
}

/// Whether a client of this surface sees something of the event.
fn is_seen(event: &LogEvent) -> bool {
    match event {
        LogEvent::Delta(_)
        | LogEvent::ClientCall(_)
        | LogEvent::Progress { .. }
        | LogEvent::Finish { .. }
        | LogEvent::End(_) => true,
        LogEvent::Start { .. }
        | LogEvent::Round { .. }
        | LogEvent::Extra { .. }
        | LogEvent::CallStarted { .. }
        | LogEvent::CallEnded { .. }
        | LogEvent::Usage(_) => false,
    }
}

/// Bytes, more or less, that are written at once: what is written takes several times the room of
/// what it is made from, and waits when the client is slow.
const PART_BYTES: usize = 16 * 1024;

struct Streaming {
    answer: TurnAnswer,
    writer: ChunkWriter,
    keep_alive: Duration,
    /// Events that came and are not written yet.
    waiting: std::vec::IntoIter<LogEvent>,
    /// Bytes that are written and not yet sent.
    ready: Vec<u8>,
    ended: bool,
    turn: TurnId,
    note: Option<HandoverNote>,
    /// Held until the end is on its way.
    permit: Option<RoomPermit>,
}

/// Answers with a stream, whose head goes out with the first thing to be seen, or when it is time
/// for a keep-alive; until then a fault is an ordinary status.
async fn stream(
    surfaces: &AppState,
    taken: TurnTaken,
    permit: Option<RoomPermit>,
    options: ChunkOptions,
    note: HandoverNote,
    id: &RequestId,
) -> Result<Response, ApiError> {
    // On the heap, since the stream below hands it on with every part.
    let mut streaming = Box::new(Streaming {
        writer: ChunkWriter::new(taken.turn, options),
        answer: taken.answer,
        keep_alive: surfaces.0.options.keep_alive,
        waiting: Vec::new().into_iter(),
        ready: Vec::new(),
        ended: false,
        turn: taken.turn,
        note: Some(note),
        permit,
    });
    let head_by = tokio::time::Instant::now() + streaming.keep_alive;
    loop {
        let Ok(next) = tokio::time::timeout_at(head_by, streaming.answer.next()).await else {
            streaming.ready.extend_from_slice(sse::KEEP_ALIVE);
            break;
        };
        let next = next.map_err(|error| ApiError::of_read(&error, id))?;
        let Some(events) = next else {
            return Err(ApiError::handed_over(streaming.turn));
        };
        let seen_before_end = events.iter().position(is_seen);
        if let Some(at) = seen_before_end
            && let Some((fault, effects)) = fault_in(&events[at])
        {
            return Err(ApiError::of_end(streaming.turn, &fault, &effects));
        }
        streaming.take(events);
        if seen_before_end.is_some() {
            break;
        }
    }
    let body = Body::from_stream(futures_util::stream::unfold(streaming, next_bytes));
    Ok(event_stream(body))
}

impl Streaming {
    fn take(&mut self, events: Vec<LogEvent>) {
        debug_assert_eq!(
            self.waiting.len(),
            0,
            "events come when the last were written"
        );
        self.waiting = events.into_iter();
        self.write();
    }

    fn write(&mut self) {
        while self.ready.len() < PART_BYTES
            && let Some(event) = self.waiting.next()
        {
            self.writer.push(&event, &mut self.ready);
            self.ended |= matches!(event, LogEvent::End(_));
        }
        if self.ended {
            // Whoever sees the end may open the next stream at once.
            self.permit = None;
        }
    }

    /// Tells the client that the stream ends without the turn's end.
    fn break_off(&mut self) {
        self.ended = true;
        self.note = None;
        let fault = TurnFault::new(
            tw_core::fault::FaultClass::Interrupted,
            "the server stopped before the answer was complete",
        );
        sse::write_data(&mut self.ready, &render(&of_fault(&fault), None));
    }
}

async fn next_bytes(
    mut streaming: Box<Streaming>,
) -> Option<(Result<Bytes, Infallible>, Box<Streaming>)> {
    streaming.write();
    while streaming.ready.is_empty() {
        if streaming.ended {
            if let Some(note) = streaming.note.take() {
                note.write();
            }
            return None;
        }
        match streaming.answer.next_within(streaming.keep_alive).await {
            Ok(NextAnswerPart::Events(events)) => streaming.take(events),
            Ok(NextAnswerPart::Over) => streaming.break_off(),
            Ok(NextAnswerPart::Silence) => streaming.ready.extend_from_slice(sse::KEEP_ALIVE),
            Err(error) => {
                tracing::error!(turn.id = %streaming.turn, error = %ErrorChain(&error), "following a turn failed");
                streaming.break_off();
            }
        }
    }
    let bytes = Bytes::from(std::mem::take(&mut streaming.ready));
    Some((Ok(bytes), streaming))
}
