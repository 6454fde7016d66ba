//! A turn's log as messages of a WebSocket, while it comes.

use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use tokio::time::Instant;
use tw_core::event::LogEvent;
use tw_core::fault::{FaultClass, TurnFault};
use tw_runtime::accept::{NextAnswerPart, TurnTaken};
use tw_runtime::auth::Principal;
use tw_runtime::chain::ChainHistory;
use tw_runtime::error_chain::ErrorChain;
use tw_runtime::limiter::RoomPermit;
use tw_wire::format::{Projection, StreamFold};
use tw_wire::response_socket::EventLane;
use tw_wire::sse;

use super::{PeerGone, send, tell, tell_on};
use crate::error::ApiError;
use crate::gateway::fault_in;
use crate::server::{AppState, RequestId};

/// How the event begins by which a stream tells an error before its response has failed. Here a client takes an error
/// for the end, and the failed response, which says the same, for that of its next message.
const STREAM_ERROR: &str = "{\"type\":\"error\"";

/// A response that is under way.
pub(super) struct BegunResponse {
    pub taken: TurnTaken,
    pub projection: Projection,
    /// What it continues.
    pub previous: Option<Arc<ChainHistory>>,
    /// Held until its end is on its way.
    pub permit: Option<RoomPermit>,
    pub caller: Principal,
    pub lane: EventLane,
}

/// How a response ended.
pub(super) enum ResponseEnd {
    /// With an answer, or as much of one as a limit allowed.
    Answered(Box<BegunResponse>),
    Failed,
}

/// Tells a response to its end. A client that leaves meanwhile leaves its turn, as one that closes a stream does.
pub(super) async fn tell_response(
    surfaces: &AppState,
    socket: &mut WebSocket,
    begun: BegunResponse,
    id: &RequestId,
) -> Result<ResponseEnd, PeerGone> {
    let keep_alive = surfaces.0.options.keep_alive;
    let mut telling = Telling {
        fold: StreamFold::new(begun.taken.turn, begun.projection.clone()),
        begun,
        ready: Vec::new(),
        is_shown: false,
        show_by: Instant::now() + keep_alive,
        fault: false,
    };
    loop {
        let next = tokio::select! {
            biased;
            // Its room is taken by what is told; what comes is looked at between two parts.
            received = socket.recv() => {
                match received {
                    None | Some(Err(_) | Ok(Message::Close(_))) => return Err(PeerGone),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Text(_) | Message::Binary(_))) => {
                        tell(socket, &ApiError::response_under_way(), id).await?;
                    }
                }
                continue;
            }
            next = telling.begun.taken.answer.next_within(keep_alive) => next,
        };
        match next {
            Ok(NextAnswerPart::Events(events)) => {
                if let Some(error) = telling.take(&events) {
                    tell_on(socket, &telling.begun.lane, &error, id).await?;
                    return Ok(ResponseEnd::Failed);
                }
                let ended = events.iter().any(|event| matches!(event, LogEvent::End(_)));
                if ended {
                    // Whoever sees the end may ask for the next response at once.
                    telling.begun.permit = None;
                }
                telling.send(socket).await?;
                if ended {
                    return Ok(telling.end(surfaces));
                }
            }
            Ok(NextAnswerPart::Silence) => {
                telling.is_shown = true;
                telling.send(socket).await?;
                send(socket, Message::Ping(Bytes::new())).await?;
            }
            Ok(NextAnswerPart::Over) => return telling.break_off(socket, id).await,
            Err(error) => {
                let turn = telling.begun.taken.turn;
                tracing::error!(turn.id = %turn, error = %ErrorChain(&error), "following a turn failed");
                return telling.break_off(socket, id).await;
            }
        }
    }
}

/// Sends events that are all there.
pub(super) async fn tell_events(
    socket: &mut WebSocket,
    events: &[u8],
    lane: &EventLane,
) -> Result<(), PeerGone> {
    for event in sse::written_data(events) {
        send(socket, Message::text(lane.on(event))).await?;
    }
    Ok(())
}

struct Telling {
    begun: BegunResponse,
    fold: StreamFold,
    /// Events that are written and not yet sent.
    ready: Vec<u8>,
    /// The response has begun for its client; before, a fault is an error event alone.
    is_shown: bool,
    show_by: Instant,
    fault: bool,
}

impl Telling {
    /// Writes events. The error is one of a response that has not begun.
    fn take(&mut self, events: &[LogEvent]) -> Option<ApiError> {
        let seen = events.iter().position(|event| self.fold.is_seen(event));
        if let Some(at) = seen.filter(|_| !self.is_shown)
            && let Some((fault, effects)) = fault_in(&events[at])
        {
            return Some(ApiError::of_end(self.begun.taken.turn, &fault, &effects));
        }
        self.is_shown |= seen.is_some() || Instant::now() >= self.show_by;
        for event in events {
            self.fault |= fault_in(event).is_some();
            self.fold.push(event, &mut self.ready);
        }
        None
    }

    async fn send(&mut self, socket: &mut WebSocket) -> Result<(), PeerGone> {
        if !self.is_shown {
            return Ok(());
        }
        let ready = std::mem::take(&mut self.ready);
        let events = sse::written_data(&ready).filter(|event| !event.starts_with(STREAM_ERROR));
        for event in events {
            send(socket, Message::text(self.begun.lane.on(event))).await?;
        }
        Ok(())
    }

    fn end(self, surfaces: &AppState) -> ResponseEnd {
        let turn = self.begun.taken.turn;
        surfaces.runtime().mark_answered(&self.begun.caller, turn);
        if self.fault {
            return ResponseEnd::Failed;
        }
        ResponseEnd::Answered(Box::new(self.begun))
    }

    /// Tells the client that the turn's end does not come.
    async fn break_off(
        mut self,
        socket: &mut WebSocket,
        id: &RequestId,
    ) -> Result<ResponseEnd, PeerGone> {
        if !self.is_shown {
            let error = ApiError::handed_over(self.begun.taken.turn);
            tell_on(socket, &self.begun.lane, &error, id).await?;
            return Ok(ResponseEnd::Failed);
        }
        let fault = TurnFault::new(
            FaultClass::Interrupted,
            "the server stopped before the answer was complete",
        );
        self.fold.break_off(&fault, &mut self.ready);
        self.send(socket).await?;
        Ok(ResponseEnd::Failed)
    }
}
