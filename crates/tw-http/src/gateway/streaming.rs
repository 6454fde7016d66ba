//! A turn's log as a stream, while it comes.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use tw_core::event::LogEvent;
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::TurnId;
use tw_runtime::accept::{NextAnswerPart, TurnAnswer, TurnTaken};
use tw_runtime::error_chain::ErrorChain;
use tw_runtime::limiter::RoomPermit;
use tw_wire::format::{Projection, StreamFold};
use tw_wire::sse;

use super::fault_in;
use crate::answer_body::{HandoverNote, event_stream};
use crate::error::ApiError;
use crate::server::{AppState, RequestId};

/// Bytes, more or less, that are written at once: what is written takes several times the room of
/// what it is made from, and waits when the client is slow.
const PART_BYTES: usize = 16 * 1024;

struct Streaming {
    answer: TurnAnswer,
    fold: StreamFold,
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
pub(super) async fn stream(
    surfaces: &AppState,
    taken: TurnTaken,
    permit: Option<RoomPermit>,
    projection: Projection,
    note: HandoverNote,
    id: &RequestId,
) -> Result<Response, ApiError> {
    // On the heap, since the stream below hands it on with every part.
    let mut streaming = Box::new(Streaming {
        fold: StreamFold::new(taken.turn, projection),
        answer: taken.answer,
        keep_alive: surfaces.0.options.keep_alive,
        waiting: Vec::new().into_iter(),
        ready: Vec::new(),
        ended: false,
        turn: taken.turn,
        note: Some(note),
        permit,
    });
    streaming.fold.begin(&mut streaming.ready);
    if !streaming.ready.is_empty() {
        let body = Body::from_stream(futures_util::stream::unfold(streaming, next_bytes));
        return Ok(event_stream(body));
    }
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
        let seen_before_end = events
            .iter()
            .position(|event| streaming.fold.is_seen(event));
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
            self.fold.push(&event, &mut self.ready);
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
            FaultClass::Interrupted,
            "the server stopped before the answer was complete",
        );
        self.fold.break_off(&fault, &mut self.ready);
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
