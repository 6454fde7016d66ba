//! `GET /v1/responses/{id}`: the response as it is now, or its stream from any place on.

use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use tokio::time::Instant;
use tw_core::event::LogEvent;
use tw_runtime::follow::FollowError;
use tw_runtime::kept_answer::KeptAnswer;
use tw_wire::format::StreamFold;
use url::form_urlencoded;

use super::{SURFACE, found};
use crate::access::{self, NAME_BYTES_MAX, TurnReader};
use crate::answer_body::json;
use crate::error::ApiError;
use crate::events::{EventForm, Following};
use crate::gateway::RequestOrigin;
use crate::server::{AppState, RequestId};
use crate::turns::id_in;

/// Longest wait for an event that a client saw and that is not on the disk yet. Events are written well before it ends.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// Words of `include` that are read.
const INCLUDES_MAX: usize = 64;

/// The query of a reader.
#[derive(Debug, Default)]
struct Query {
    stream: bool,
    /// Number of the last event that was seen.
    after: Option<u64>,
    /// What the response leaves out unless it is asked for.
    include: Vec<String>,
}

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    response: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let of = RequestOrigin {
        surface: &SURFACE,
        surfaces: &surfaces,
        id: &id,
    };
    let shown = try_show(&of, &id_in(response), query.as_deref(), &headers).await;
    shown.unwrap_or_else(|error| error.render_in(SURFACE.format, Some(&id)))
}

async fn try_show(
    of: &RequestOrigin<'_>,
    name: &str,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let reader = access::reader(of.surfaces, headers, None, of.id).await?;
    let query = read_query(query.unwrap_or_default())?;
    let mut answer = found::found(of, &reader, name).await?;
    for what in &query.include {
        answer.context.projection.include(what);
    }
    if query.stream {
        return stream(of, &reader, &answer, query.after).await;
    }
    let fold = found::folded(of, &answer).await?;
    Ok(json(fold.into_body()))
}

fn read_query(query: &str) -> Result<Query, ApiError> {
    const KNOWN: &str = "stream, starting_after, include, include_obfuscation";
    let mut read = Query::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "stream" => {
                read.stream = match &*value {
                    "true" => true,
                    "false" => false,
                    _ => {
                        let message = "stream is 'true' or 'false'.";
                        return Err(ApiError::invalid(Some("stream"), None, message));
                    }
                };
            }
            "starting_after" => {
                let number = value.parse().ok();
                read.after = Some(number.ok_or_else(|| {
                    let message = "starting_after is the sequence_number of an event.";
                    ApiError::invalid(Some("starting_after"), None, message)
                })?);
            }
            "include" | "include[]" if read.include.len() < INCLUDES_MAX => {
                read.include.push(value.into_owned());
            }
            // Streams have no padding.
            "include" | "include[]" | "include_obfuscation" => {}
            other => {
                let name: String = other.chars().take(NAME_BYTES_MAX).collect();
                let message = format!("The parameters of a response are: {KNOWN}.");
                return Err(ApiError::invalid(Some(&name), None, message));
            }
        }
    }
    if read.after.is_some() && !read.stream {
        let message = "starting_after is a place in a stream: it needs stream=true.";
        return Err(ApiError::invalid(Some("starting_after"), None, message));
    }
    Ok(read)
}

/// The events behind number `after`, live and afterwards, byte for byte as they were shown. Leaving stops nothing.
async fn stream(
    of: &RequestOrigin<'_>,
    reader: &TurnReader,
    answer: &KeptAnswer,
    after: Option<u64>,
) -> Result<Response, ApiError> {
    let runtime = of.surfaces.runtime();
    let caller = &reader.caller;
    let place = runtime.open_stream(caller);
    let place = place.map_err(|no_room| ApiError::no_room(&no_room))?;
    let turn = answer.row.id;
    let follower = runtime.follow(caller.organization, turn, None).await;
    let mut follower = follower.map_err(|error| match error {
        FollowError::Lost => ApiError::offset_lost(),
        FollowError::NoTurn => ApiError::no_response(),
        FollowError::Read(error) => ApiError::of_read(&error, of.id),
    })?;
    let mut fold = StreamFold::behind(turn, answer.context.projection.clone(), after);
    let mut ready = Vec::new();
    fold.begin(&mut ready);
    let mut has_ended = false;
    let seen_by = Instant::now() + SEEN_WITHIN;
    while !fold.has_reached() {
        let next = tokio::time::timeout_at(seen_by, follower.next_numbered()).await;
        let next = next.map_err(|_elapsed| ApiError::offset_lost())?;
        let events = next.map_err(|error| ApiError::of_read(&error, of.id))?;
        for numbered in events.ok_or_else(ApiError::offset_lost)? {
            fold.push(&numbered.event, &mut ready);
            has_ended |= matches!(numbered.event, LogEvent::End(_));
        }
    }
    let place = Some(place).filter(|_| !has_ended);
    let following = Following {
        follower,
        form: EventForm::Folded(Box::new(fold)),
        after: 0,
        skip: 0,
        keep_alive: of.surfaces.0.options.keep_alive,
        ready,
        turn,
        ended: false,
        place,
    };
    Ok(following.into_response())
}
