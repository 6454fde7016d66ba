//! `GET /v1/turns/{id}/events`: a turn's log, live and afterwards.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use tw_core::event::LogEvent;
use tw_core::id::TurnId;
use tw_runtime::error_chain::ErrorChain;
use tw_runtime::follow::{FollowError, Follower, LogCursor};
use tw_runtime::limiter::RoomPermit;
use tw_store::read::events::NumberedEvent;
use tw_store::read::view::ResultDetail;
use tw_wire::format::{StreamFold, WireFormat};
use tw_wire::sse;
use tw_wire::stored::client_events;

use crate::answer_body::event_stream;
use crate::error::ApiError;
use crate::server::{AppState, RequestId};
use crate::{access, turns};

const LAST_EVENT_ID: &str = "last-event-id";

/// The query of a reader.
struct Query {
    /// The format in which the log is read; `None` for our own.
    format: Option<WireFormat>,
    after: Option<LogCursor>,
    /// Server-sent events of the format that the reader has.
    skip: u64,
}

pub(crate) async fn follow(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    turn: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let turn = turns::id_in(turn);
    match answer(
        &surfaces,
        &id,
        &turn,
        query.as_deref().unwrap_or_default(),
        &headers,
    )
    .await
    {
        Ok(response) => response,
        Err(error) => error.render(Some(&id)),
    }
}

async fn answer(
    surfaces: &AppState,
    id: &RequestId,
    turn: &str,
    query: &str,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let reader = access::reader(surfaces, headers, None, id).await?;
    let turn = turns::visible(surfaces, &reader, turn, ResultDetail::Shown, id)
        .await?
        .turn
        .id;
    let query = read_query(query, headers)?;
    let caller = &reader.caller;
    let place = surfaces.runtime().open_stream(caller);
    let place = place.map_err(|no_room| ApiError::no_room(&no_room))?;
    let follower = surfaces
        .runtime()
        .follow(caller.organization, turn, query.after)
        .await;
    let follower = follower.map_err(|error| match error {
        FollowError::Lost => ApiError::offset_lost(),
        FollowError::NoTurn => ApiError::no_turn(),
        FollowError::Read(error) => ApiError::of_read(&error, id),
    })?;
    let form = if let Some(format) = query.format {
        let store = surfaces.runtime().store();
        let context = store.turn_context(caller.organization, turn).await;
        let context = context
            .map_err(|error| ApiError::of_read(&error, id))?
            .ok_or_else(ApiError::offset_lost)?;
        let projection = context.projection.read_as(format);
        EventForm::Folded(Box::new(StreamFold::new(turn, projection)))
    } else {
        EventForm::Own
    };
    let following = Following {
        follower,
        form,
        after: query.after.map_or(0, |cursor| cursor.number),
        skip: query.skip,
        keep_alive: surfaces.0.options.keep_alive,
        ready: Vec::new(),
        turn,
        ended: false,
        place: Some(place),
    };
    Ok(following.into_response())
}

fn read_query(query: &str, headers: &HeaderMap) -> Result<Query, ApiError> {
    let mut read = Query {
        format: None,
        after: None,
        skip: 0,
    };
    let last = headers
        .get(LAST_EVENT_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|text| !text.is_empty());
    if let Some(text) = last {
        read.after = Some(cursor(LAST_EVENT_ID, text)?);
    }
    for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match (key, value) {
            ("format", OWN) => read.format = None,
            ("format", word) => {
                let format = WireFormat::of_reader_word(word).ok_or_else(no_format)?;
                read.format = Some(format);
            }
            ("after", text) => read.after = Some(cursor("after", text)?),
            (SKIP, text) => read.skip = text.parse().map_err(|_| bad_skip())?,
            _ => {}
        }
    }
    if read.skip > 0 && read.format.is_none() {
        return Err(bad_skip());
    }
    Ok(read)
}

/// The count of a format's events that a reader has, which have no ids there.
const SKIP: &str = "skip";

fn bad_skip() -> ApiError {
    let message = format!(
        "{SKIP} is the number of events that you have of a client's format; in format '{OWN}' each has an id for after."
    );
    ApiError::invalid(Some(SKIP), None, message)
}

/// The word for our own events.
const OWN: &str = "own";

fn no_format() -> ApiError {
    let formats = WireFormat::ALL.map(WireFormat::reader_word).join("' or '");
    let message = format!("format is '{OWN}' or '{formats}'.");
    ApiError::invalid(Some("format"), None, message)
}

fn cursor(param: &str, text: &str) -> Result<LogCursor, ApiError> {
    LogCursor::parse(text).ok_or_else(|| {
        ApiError::invalid(
            Some(param),
            None,
            format!("{param} is the id of an event, such as '1.12'."),
        )
    })
}

/// The form in which a log is read.
pub(crate) enum EventForm {
    Own,
    Folded(Box<StreamFold>),
}

/// A log that is read as it comes.
pub(crate) struct Following {
    pub(crate) follower: Follower,
    pub(crate) form: EventForm,
    /// Number up to which events are folded and not sent.
    pub(crate) after: u64,
    /// Server-sent events that are still not sent.
    pub(crate) skip: u64,
    pub(crate) keep_alive: Duration,
    /// Bytes that are written and not yet sent.
    pub(crate) ready: Vec<u8>,
    pub(crate) turn: TurnId,
    pub(crate) ended: bool,
    /// Permit that is held until the end is on its way.
    pub(crate) place: Option<RoomPermit>,
}

impl Following {
    pub(crate) fn into_response(self) -> Response {
        let body = Body::from_stream(futures_util::stream::unfold(self, next_bytes));
        event_stream(body)
    }

    fn take(&mut self, events: &[NumberedEvent]) {
        for numbered in events {
            let before = self.ready.len();
            match &mut self.form {
                EventForm::Own => write_own(numbered, &mut self.ready),
                EventForm::Folded(fold) => fold.push(&numbered.event, &mut self.ready),
            }
            if numbered.number <= self.after {
                self.ready.truncate(before);
            }
            let mut known = before;
            while self.skip > 0
                && let Some(bytes) = sse::first_event_bytes(&self.ready[known..])
            {
                known += bytes;
                self.skip -= 1;
            }
            self.ready.drain(before..known);
            if matches!(numbered.event, LogEvent::End(_)) {
                self.place = None;
            }
        }
    }
}

fn write_own(numbered: &NumberedEvent, out: &mut Vec<u8>) {
    let mut json = String::new();
    client_events::write(&numbered.event, &mut json);
    let head = format!(
        "id: {}.{}\nevent: {}\n",
        numbered.fence,
        numbered.number,
        client_events::name(&numbered.event)
    );
    out.extend_from_slice(head.as_bytes());
    sse::write_data(out, json.as_bytes());
}

async fn next_bytes(mut following: Following) -> Option<(Result<Bytes, Infallible>, Following)> {
    while following.ready.is_empty() {
        if following.ended {
            return None;
        }
        match tokio::time::timeout(following.keep_alive, following.follower.next_numbered()).await {
            Ok(Ok(Some(events))) => following.take(&events),
            Ok(Ok(None)) => following.ended = true,
            Ok(Err(error)) => {
                tracing::error!(turn.id = %following.turn, error = %ErrorChain(&error), "following a turn failed");
                following.ended = true;
            }
            Err(_elapsed) => following.ready.extend_from_slice(sse::KEEP_ALIVE),
        }
    }
    let bytes = Bytes::from(std::mem::take(&mut following.ready));
    Some((Ok(bytes), following))
}
