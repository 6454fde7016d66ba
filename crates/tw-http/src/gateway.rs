//! The way of a request for a model's answer, by whatever surface it comes: the key, room, the body, the turn, and the
//! turn's log as that surface's client reads it.

pub(crate) mod counting;
mod streaming;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use tw_core::event::{EffectRan, LogEvent};
use tw_core::fault::TurnFault;
use tw_core::id::TurnId;
use tw_core::json::shared::SharedText;
use tw_core::request::ModelInput;
use tw_core::tenant::{KeyScope, ToolsMode};
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};
use tw_runtime::accept::{ConversationAddedTo, TryMark, TurnRequest, TurnTaken};
use tw_runtime::auth::Principal;
use tw_runtime::chain::ChainHistory;
use tw_runtime::conversation_items::ConversationHistory;
use tw_wire::client_error::fault_of;
use tw_wire::client_request::body_text;
use tw_wire::format::{ClientRequest, Projection, WholeFold, WireFormat};

use crate::access::{self, NAME_BYTES_MAX, named};
use crate::answer_body::{HandoverNote, WholeBody, json};
use crate::error::ApiError;
use crate::error::no_room::put_standing;
use crate::kept;
use crate::request_body::{read_body, refused};
use crate::sealed;
use crate::server::{AppState, RequestId};

pub(crate) const TURN_HEADER: HeaderName = HeaderName::from_static("turnwright-turn");
const CONVERSATION_HEADER: HeaderName = HeaderName::from_static("turnwright-conversation");
const MEMORY_HEADER: HeaderName = HeaderName::from_static("turnwright-memory");
const REPAIRED_HEADER: HeaderName = HeaderName::from_static("turnwright-repaired");
const CHANGED_HEADER: HeaderName = HeaderName::from_static("turnwright-changed");
/// Request header that says how the key's tools go with those of the request.
const TOOLS_HEADER: &str = "turnwright-tools";
/// Answer header with those names of added tools that stand in the request's own list, too.
const TOOLS_SHARED_HEADER: HeaderName = HeaderName::from_static("turnwright-tools-shared");
/// Answer header with the names of tools that are not offered since their calls need an approval, which clients of the
/// surface cannot be asked for.
const TOOLS_LEFT_OUT_HEADER: HeaderName = HeaderName::from_static("turnwright-tools-left-out");
const ON_LEAVE_HEADER: &str = "turnwright-on-leave";
const IDEMPOTENCY_HEADER: &str = "idempotency-key";
/// Header by which the official clients mark a request that they send again.
const RETRY_COUNT_HEADER: &str = "x-stainless-retry-count";

/// Headers that mean one request and not all of a connection.
pub(crate) const PER_REQUEST_HEADERS: [&str; 2] = [IDEMPOTENCY_HEADER, RETRY_COUNT_HEADER];

/// A surface by which models are asked.
#[derive(Debug)]
pub(crate) struct ModelSurface {
    /// The name in the record.
    pub(crate) surface: Surface,
    /// The format of requests, answers and errors.
    pub(crate) format: WireFormat,
}

/// Answers a request that came by `surface`.
pub(crate) async fn answer(
    surface: &ModelSurface,
    surfaces: &AppState,
    id: &RequestId,
    request: Request,
) -> Response {
    let of = RequestOrigin {
        surface,
        surfaces,
        id,
    };
    match try_answer(&of, request).await {
        Ok(response) => response,
        Err(error) => error.render_in(surface.format, Some(id)),
    }
}

/// Where a request came in.
pub(crate) struct RequestOrigin<'a> {
    pub(crate) surface: &'a ModelSurface,
    pub(crate) surfaces: &'a AppState,
    pub(crate) id: &'a RequestId,
}

async fn try_answer(of: &RequestOrigin<'_>, request: Request) -> Result<Response, ApiError> {
    let RequestOrigin {
        surface,
        surfaces,
        id,
    } = *of;
    let format = surface.format;
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    // A repetition may need no room: it may be answered by what runs already.
    let is_repeated =
        try_mark(headers) == TryMark::Repetition || headers.contains_key(IDEMPOTENCY_HEADER);
    let (caller, body) = admitted(of, headers, body, is_repeated).await?;
    // On the heap and only for their time: the future of the whole request lives until its answer begins, and one that
    // takes as much room as a connection's buffers leaves them memory that was written to, where they need little of it.
    let wanted = read_request(of, headers, &caller, body, RequestGoal::Answer, None);
    let wanted = Box::pin(wanted).await?;
    let streamed = wanted.input.stream;
    let is_background = wanted.projection.is_background();
    let projection = wanted.projection.clone();
    let permit = if streamed {
        let permit = surfaces.runtime().open_stream(&caller);
        Some(permit.map_err(|no_room| ApiError::no_room(&no_room))?)
    } else {
        None
    };
    let taken = Box::pin(surfaces.runtime().take(wanted))
        .await
        .map_err(|refused| ApiError::of_refusal(&refused, id))?;
    let mut headers = headers_of(&taken);
    if let Some(standing) = surfaces.runtime().requests_left(&caller) {
        put_standing(&mut headers, format, &standing);
    }
    let note = HandoverNote {
        runtime: surfaces.runtime().clone(),
        caller,
        turn: taken.turn,
    };
    let mut response = if streamed {
        streaming::stream(surfaces, taken, permit, projection, note, id).await?
    } else if is_background {
        begun(taken.turn, projection, note)
    } else {
        plain(taken, projection, note, id).await?
    };
    response.headers_mut().extend(headers);
    Ok(response)
}

/// Whom a request is from, and its body; one that cannot begin for want of room, unless it is a repetition, is refused
/// before its body is read.
pub(crate) async fn admitted(
    of: &RequestOrigin<'_>,
    headers: &HeaderMap,
    body: Body,
    is_repeated: bool,
) -> Result<(Principal, SharedText), ApiError> {
    let (format, runtime) = (of.surface.format, of.surfaces.runtime());
    let key = access::given_key(headers, format.key_header())?;
    let caller = access::authenticated(of.surfaces, key, Some(KeyScope::Chat), of.id).await?;
    if !is_repeated && let Err(no_room) = runtime.may_begin(&caller) {
        return Err(refused(headers, body, ApiError::no_room(&no_room)).await);
    }
    let bytes_max = runtime.request_limits().body_bytes_max;
    let body = read_body(of.surfaces, headers, body, bytes_max).await?;
    // Held once from here on: the turn, its row and what is read of it have parts of it.
    let body = body_text(body.into()).map_err(|error| ApiError::of_request(&error))?;
    Ok((caller, body))
}

/// What a request is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestGoal {
    Answer,
    /// The count of its tokens.
    Count,
}

/// An answer that its client may continue although it is not stored.
#[derive(Clone, Debug)]
pub(crate) struct HeldAnswer {
    /// The name by which it is continued.
    pub(crate) name: String,
    pub(crate) chain: Arc<ChainHistory>,
}

/// Reads the body of a request, with all that it refers to.
pub(crate) async fn read_request(
    of: &RequestOrigin<'_>,
    headers: &HeaderMap,
    caller: &Principal,
    body: SharedText,
    goal: RequestGoal,
    held: Option<&HeldAnswer>,
) -> Result<TurnRequest, ApiError> {
    let (format, limits) = (of.surface.format, of.surfaces.runtime().request_limits());
    let end_user = access::end_user(of.surfaces, headers)?;
    let body = sealed::opened(of, caller, body).await?;
    let body = kept::with_items(of, caller, end_user.clone(), body).await?;
    let request = match goal {
        RequestGoal::Answer => format.decode_request(&body, limits),
        RequestGoal::Count => format.decode_count(&body, limits),
    };
    let mut request = request.map_err(|error| ApiError::of_request(&error))?;
    check_user(format, &request.input)?;
    let is_kept = request.input.store != Some(false) && caller.record == RecordPolicy::Full;
    request.projection.set_kept(is_kept);
    let is_background = request.projection.is_background();
    if is_background && !is_kept {
        return Err(ApiError::background_unstored());
    }
    let named = end_user.as_deref().or(request.input.user.as_deref());
    let held = held.filter(|held| request.projection.continues() == Some(held.name.as_str()));
    let previous = match held {
        Some(held) => Some(Arc::clone(&held.chain)),
        None => kept::previous(of, caller, named, &request.projection).await?,
    };
    let history = kept::conversation(of, caller, named, &request.projection).await?;
    let mut wanted = turn_request(of, headers, caller.clone(), body, request)?;
    wanted.end_user = end_user;
    wanted.previous = previous;
    if let Some(history) = history {
        add_to_conversation(&mut wanted, history)?;
    }
    if is_background {
        wanted.on_leave = Some(OnLeave::Finish);
    }
    Ok(wanted)
}

/// Puts the request behind what was said in its conversation, to which it is added.
fn add_to_conversation(
    wanted: &mut TurnRequest,
    history: ConversationHistory,
) -> Result<(), ApiError> {
    let name = wanted.projection.conversation().map(str::to_owned);
    if wanted.conversation.is_some() && wanted.conversation != name {
        return Err(ApiError::two_conversations());
    }
    wanted.conversation = name;
    wanted.previous = history.chain.map(Arc::new);
    wanted.added_to = Some(ConversationAddedTo {
        head: history.path.head,
        is_busy: history.path.is_busy,
        end_user: history.end_user,
    });
    Ok(())
}

fn check_user(format: WireFormat, input: &ModelInput) -> Result<(), ApiError> {
    let user = input.user.as_ref();
    if user.is_none_or(|user| user.len() <= NAME_BYTES_MAX) {
        return Ok(());
    }
    let message = format!("The user's name is longer than {NAME_BYTES_MAX} bytes.");
    Err(ApiError::invalid(Some(format.user_field()), None, message))
}

fn turn_request(
    of: &RequestOrigin<'_>,
    headers: &HeaderMap,
    caller: Principal,
    body: SharedText,
    request: ClientRequest,
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
        surface: of.surface.surface,
        body,
        projection: request.projection,
        input: Arc::new(request.input),
        end_user: None,
        previous: None,
        added_to: None,
        conversation: named(headers, CONVERSATION_HEADER.as_str())?,
        on_leave,
        tools_mode,
        idempotency_key: named(headers, IDEMPOTENCY_HEADER)?,
        try_mark: try_mark(headers),
        passed: access::passed(headers)?,
        trace: access::trace(of.surfaces, headers),
        request_id: of.id.0.clone(),
    })
}

/// The count of a client library that counts how often it sends a request.
pub(crate) fn try_mark(headers: &HeaderMap) -> TryMark {
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

pub(crate) fn headers_of(taken: &TurnTaken) -> HeaderMap {
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
    if !taken.changes.is_empty() {
        put(CHANGED_HEADER, &taken.changes.to_string());
    }
    if !taken.names_shared.is_empty() {
        put(TOOLS_SHARED_HEADER, &taken.names_shared.join(", "));
    }
    if !taken.left_out.is_empty() {
        put(TOOLS_LEFT_OUT_HEADER, &taken.left_out.join(", "));
    }
    headers
}

/// The answer as it was when it was accepted: whoever asks for it later sees what came of it.
fn begun(turn: TurnId, projection: Projection, note: HandoverNote) -> Response {
    let fold = WholeFold::new(turn, projection);
    json(Body::new(WholeBody::new(fold.into_body(), note)))
}

async fn plain(
    mut taken: TurnTaken,
    projection: Projection,
    note: HandoverNote,
    id: &RequestId,
) -> Result<Response, ApiError> {
    let body = whole_answer(&mut taken, projection, id).await?;
    Ok(json(Body::new(WholeBody::new(body, note))))
}

/// The body of a turn's answer, once it has ended.
pub(crate) async fn whole_answer(
    taken: &mut TurnTaken,
    projection: Projection,
    id: &RequestId,
) -> Result<Vec<u8>, ApiError> {
    let mut fold = WholeFold::new(taken.turn, projection);
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
            fold.push(event);
            if matches!(event, LogEvent::End(_)) {
                return Ok(fold.into_body());
            }
        }
    }
    Err(ApiError::handed_over(taken.turn))
}

pub(crate) fn fault_in(event: &LogEvent) -> Option<(TurnFault, Vec<EffectRan>)> {
    match event {
        LogEvent::End(end) => fault_of(end).map(|fault| (fault, end.effects.clone())),
        LogEvent::Start { .. }
        | LogEvent::Round { .. }
        | LogEvent::Delta(_)
        | LogEvent::BlockEnd(_)
        | LogEvent::Native { .. }
        | LogEvent::ClientCall(_)
        | LogEvent::Extra { .. }
        | LogEvent::Progress { .. }
        | LogEvent::CallStarted { .. }
        | LogEvent::ApprovalAsked { .. }
        | LogEvent::CallEnded { .. }
        | LogEvent::CallDetached { .. }
        | LogEvent::Finish { .. }
        | LogEvent::Usage(_) => None,
    }
}
