//! `GET /v1/responses`: responses over a WebSocket, one after the other.
//!
//! Follows the Open Responses document (92c12d9, `x-openresponses-websocket`) and OpenAI's guide "WebSocket mode" (2026):
//! a message of the client asks for a response, whose events come as messages; the newest response of a connection can
//! be continued there, whether or not it is stored, until a continuation of it fails.

pub(crate) mod places;
mod preparing;
mod relay;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use tokio_tungstenite::tungstenite;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tw_core::request::Role;
use tw_core::tenant::KeyScope;
use tw_runtime::accept::TurnRequest;
use tw_runtime::auth::Principal;
use tw_runtime::chain::{ChainHistory, ChainKept, ChainWanted};
use tw_wire::response_socket::{self, CreateMessage, EventLane, SocketWish};

use crate::access;
use crate::error::ApiError;
use crate::gateway::{self, HeldAnswer, PER_REQUEST_HEADERS, RequestGoal, RequestOrigin};
use crate::responses::SURFACE;
use crate::server::{AppState, RequestId};
use places::SocketPlace;
use preparing::PreparedResponse;
use relay::{BegunResponse, ResponseEnd};

/// Longest time in which the other side answers a closing.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Codes of closings: RFC 6455, section 7.4.1.
const CLOSE_NORMAL: u16 = 1000;
const CLOSE_AWAY: u16 = 1001;
const CLOSE_PROTOCOL: u16 = 1002;
const CLOSE_TOO_LARGE: u16 = 1009;

pub(crate) async fn connect(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    headers: HeaderMap,
) -> Response {
    let opened = open(surfaces, &id, upgrade, headers).await;
    opened.unwrap_or_else(|error| error.render_in(SURFACE.format, Some(&id)))
}

async fn open(
    surfaces: AppState,
    id: &RequestId,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    mut headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = access::given_key(&headers, SURFACE.format.key_header())?.to_owned();
    let caller = access::authenticated(&surfaces, &key, Some(KeyScope::Chat), id).await?;
    let upgrade = upgrade.map_err(|_not_one| ApiError::not_upgraded())?;
    if surfaces.0.closing.is_cancelled() {
        return Err(ApiError::unavailable("The server is shutting down."));
    }
    let place = surfaces.0.sockets.take(caller.api_key);
    let place = place.map_err(|none_left| ApiError::no_place(&none_left))?;
    // All requests of the connection have its headers but those that mean one request.
    for name in PER_REQUEST_HEADERS {
        headers.remove(name);
    }
    let bytes_max = surfaces.runtime().request_limits().body_bytes_max;
    let session = SocketSession {
        key,
        headers,
        held: None,
        prepared: None,
        _token: surfaces.0.socket_tasks.token(),
        _place: place,
        surfaces,
    };
    let upgrade = upgrade
        .max_message_size(bytes_max)
        .max_frame_size(bytes_max);
    Ok(upgrade.on_upgrade(move |socket| session.serve(socket)))
}

/// A connection, whose client is asked for its key anew with each message.
struct SocketSession {
    surfaces: AppState,
    key: String,
    /// Those of the request that opened it.
    headers: HeaderMap,
    /// The newest response.
    held: Option<HeldAnswer>,
    /// The newest response, if it is one that was only prepared.
    prepared: Option<PreparedResponse>,
    _place: SocketPlace,
    _token: TaskTrackerToken,
}

/// The other side is not there any more.
struct PeerGone;

impl SocketSession {
    async fn serve(mut self, mut socket: WebSocket) {
        if let Ok(frame) = self.converse(&mut socket).await {
            let closing = socket.send(Message::Close(Some(frame)));
            let _ = tokio::time::timeout(CLOSE_WITHIN, closing).await;
        }
        // Until the other side has closed, too.
        let rest = async { while let Some(Ok(_)) = socket.recv().await {} };
        let _ = tokio::time::timeout(CLOSE_WITHIN, rest).await;
    }

    /// Answers messages until there is a reason to close.
    async fn converse(&mut self, socket: &mut WebSocket) -> Result<CloseFrame, PeerGone> {
        let options = &self.surfaces.0.options;
        let (keep_alive, life) = (options.keep_alive, options.socket_life);
        let mut over = std::pin::pin!(tokio::time::sleep(life));
        let closing = self.surfaces.0.closing.clone();
        loop {
            let received = tokio::select! {
                biased;
                () = closing.cancelled() => {
                    return Ok(frame(CLOSE_AWAY, "the server is going away"));
                }
                () = &mut over => {
                    let error = ApiError::socket_too_old(life.as_secs() / 60);
                    tell(socket, &error, &self.request_id()).await?;
                    return Ok(frame(CLOSE_NORMAL, "the connection is too old"));
                }
                received = tokio::time::timeout(keep_alive, socket.recv()) => received,
            };
            match received {
                Err(_silence) => send(socket, Message::Ping(Bytes::new())).await?,
                Ok(None) => return Err(PeerGone),
                Ok(Some(Err(error))) => return self.unreadable(socket, &error).await,
                Ok(Some(Ok(Message::Text(text)))) => self.answer(socket, text.as_str()).await?,
                Ok(Some(Ok(Message::Binary(_)))) => {
                    tell(socket, &ApiError::not_a_text(), &self.request_id()).await?;
                }
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                Ok(Some(Ok(Message::Close(_)))) => return Err(PeerGone),
            }
        }
    }

    /// Tells why nothing more can be read.
    async fn unreadable(
        &self,
        socket: &mut WebSocket,
        error: &axum::Error,
    ) -> Result<CloseFrame, PeerGone> {
        let source = std::error::Error::source(error);
        let cause = source.and_then(|source| source.downcast_ref::<tungstenite::Error>());
        let (error, code) = match cause {
            Some(tungstenite::Error::Capacity(_)) => {
                let bytes_max = self.surfaces.runtime().request_limits().body_bytes_max;
                (ApiError::too_large(bytes_max), CLOSE_TOO_LARGE)
            }
            Some(tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_)) => {
                (ApiError::not_a_message(), CLOSE_PROTOCOL)
            }
            Some(_) | None => return Err(PeerGone),
        };
        tell(socket, &error, &self.request_id()).await?;
        Ok(frame(code, "the message cannot be read"))
    }

    fn request_id(&self) -> RequestId {
        let id = self.surfaces.runtime().env().random_id();
        RequestId(format!("req_{}", id.simple()))
    }

    /// Answers one message, to the end of its response.
    async fn answer(&mut self, socket: &mut WebSocket, text: &str) -> Result<(), PeerGone> {
        let id = self.request_id();
        let message = match response_socket::read(text) {
            Ok(message) => message,
            Err(error) => return tell(socket, &ApiError::of_request(&error), &id).await,
        };
        let (continues, lane) = (message.continues.clone(), message.lane.clone());
        if message.wants == SocketWish::Preparation {
            return match self.prepare(&id, message).await {
                Ok(prepared) => {
                    relay::tell_events(socket, &prepared.events, &lane).await?;
                    self.held = None;
                    self.prepared = Some(prepared.response);
                    Ok(())
                }
                Err(error) => {
                    tell_on(socket, &lane, &error, &id).await?;
                    self.forget(continues.as_deref());
                    Ok(())
                }
            };
        }
        let end = match self.begin(&id, message).await {
            Ok(begun) => relay::tell_response(&self.surfaces, socket, begun, &id).await?,
            Err(error) => {
                tell_on(socket, &lane, &error, &id).await?;
                ResponseEnd::Failed
            }
        };
        match end {
            ResponseEnd::Answered(begun) => self.hold(&begun).await,
            ResponseEnd::Failed => self.forget(continues.as_deref()),
        }
        Ok(())
    }

    /// Holds no more what a response that failed continued: nobody knows what the failure left of it.
    fn forget(&mut self, continued: Option<&str>) {
        let is_another = |name: &str| Some(name) != continued;
        self.held = self.held.take().filter(|held| is_another(&held.name));
        let prepared = self.prepared.take();
        self.prepared = prepared.filter(|prepared| is_another(&prepared.name));
    }

    async fn begin(
        &self,
        id: &RequestId,
        message: CreateMessage,
    ) -> Result<BegunResponse, ApiError> {
        let of = RequestOrigin {
            surface: &SURFACE,
            surfaces: &self.surfaces,
            id,
        };
        let runtime = self.surfaces.runtime();
        let scope = Some(KeyScope::Chat);
        let caller = access::authenticated(&self.surfaces, &self.key, scope, id).await?;
        let room = runtime.may_begin(&caller);
        room.map_err(|no_room| ApiError::no_room(&no_room))?;
        let lane = message.lane.clone();
        let wanted = self.read(&of, &caller, message).await?;
        let (projection, previous) = (wanted.projection.clone(), wanted.previous.clone());
        let permit = runtime.open_stream(&caller);
        let permit = permit.map_err(|no_room| ApiError::no_room(&no_room))?;
        let taken = runtime.take(wanted).await;
        Ok(BegunResponse {
            taken: taken.map_err(|refused| ApiError::of_refusal(&refused, id))?,
            projection,
            previous,
            permit: Some(permit),
            caller,
            lane,
        })
    }

    /// Reads the request of a message, behind what of this connection it continues.
    async fn read(
        &self,
        of: &RequestOrigin<'_>,
        caller: &Principal,
        message: CreateMessage,
    ) -> Result<TurnRequest, ApiError> {
        let prepared = self.prepared.as_ref();
        let prepared = prepared.filter(|it| message.continues.as_deref() == Some(&*it.name));
        let (body, held) = match prepared {
            Some(prepared) => {
                let bytes_max = self.surfaces.runtime().request_limits().body_bytes_max;
                if prepared.input.bytes() + message.body.as_str().len() > bytes_max {
                    return Err(ApiError::too_large(bytes_max));
                }
                (
                    prepared.input.before(&message.body),
                    prepared.behind.as_ref(),
                )
            }
            None => (message.body, self.held.as_ref()),
        };
        let goal = RequestGoal::Answer;
        let wanted = gateway::read_request(of, &self.headers, caller, body, goal, held).await?;
        check_results(&wanted)?;
        Ok(wanted)
    }

    /// Holds a response, so that it can be continued.
    async fn hold(&mut self, begun: &BegunResponse) {
        self.prepared = None;
        let runtime = self.surfaces.runtime();
        let turn = begun.taken.turn;
        let wanted = ChainWanted {
            caller: &begun.caller,
            end_user: None,
            surface: SURFACE.surface,
            turn,
            kept: ChainKept::Any,
        };
        let chain = match &begun.previous {
            Some(before) => runtime.chain_behind(wanted, before).await,
            None => runtime.chain(wanted).await,
        };
        self.held = match (chain, SURFACE.format.name_of_answer(turn)) {
            (Ok(chain), Some(name)) => Some(HeldAnswer {
                name,
                chain: Arc::new(chain),
            }),
            (Ok(_), None) => None,
            (Err(error), _) => {
                tracing::debug!(turn.id = %turn, error = %error, "a response is not held");
                None
            }
        };
    }
}

/// Refuses results of calls that neither the request nor what it continues has: a client that is out of step would else
/// get an answer to something else than it thinks.
fn check_results(wanted: &TurnRequest) -> Result<(), ApiError> {
    let Some(previous) = wanted.previous.as_deref() else {
        return Ok(());
    };
    let messages = &wanted.input.messages;
    let results = messages.iter().filter(|message| message.role == Role::Tool);
    for result in results.filter_map(|message| message.result()) {
        let id = result.call_id.as_str();
        let mut calls = messages.iter().flat_map(|message| message.calls());
        if !ChainHistory::has_call(previous, id) && !calls.any(|call| call.id == id) {
            return Err(ApiError::no_such_call(id));
        }
    }
    Ok(())
}

fn frame(code: u16, reason: &'static str) -> CloseFrame {
    CloseFrame {
        code,
        reason: reason.into(),
    }
}

async fn tell(socket: &mut WebSocket, error: &ApiError, id: &RequestId) -> Result<(), PeerGone> {
    tell_on(socket, &EventLane::default(), error, id).await
}

async fn tell_on(
    socket: &mut WebSocket,
    lane: &EventLane,
    error: &ApiError,
    id: &RequestId,
) -> Result<(), PeerGone> {
    let event = error.socket_event(SURFACE.format, id);
    send(socket, Message::text(lane.on(&event))).await
}

async fn send(socket: &mut WebSocket, message: Message) -> Result<(), PeerGone> {
    socket.send(message).await.map_err(|_broken| PeerGone)
}
