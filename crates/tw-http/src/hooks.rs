//! `/hooks/{tool}/{token}`: what tools tell of the jobs that calls have started.

use std::net::{IpAddr, Ipv4Addr};

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{Request, StatusCode};
use serde_json::json;
use tw_runtime::callbacks::{CALLBACK_BYTES_MAX, CallbackRequest};

use crate::error::ApiError;
use crate::request_body::read_body_within;
use crate::server::{AppState, PeerAddress, RequestId};
use crate::tools::respond;

/// A connection of which nobody said where it came from.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Takes a callback. What it did is durable before the answer.
pub(crate) async fn take(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: Result<Path<(String, String)>, PathRejection>,
    request: Request<Body>,
) -> Response {
    let taken = async {
        let (parts, body) = request.into_parts();
        let room = &surfaces.0.callback_bodies;
        let body =
            read_body_within(room, &surfaces, &parts.headers, body, CALLBACK_BYTES_MAX).await?;
        // An address that cannot be read is that of no call.
        let (tool, token) = place.map_or_else(|_| Default::default(), |Path(place)| place);
        let peer = parts.extensions.get::<PeerAddress>();
        let request = CallbackRequest {
            tool: &tool,
            token: &token,
            headers: &parts.headers,
            body: &body,
            peer: peer.map_or(NOWHERE, |peer| peer.0),
        };
        let taken = surfaces.runtime().take_callback(request).await;
        let outcome = taken.map_err(|error| ApiError::of_callback(&error, &id))?;
        Ok(json!({ "object": "callback", "outcome": outcome.as_str() }).to_string())
    };
    respond(taken.await, StatusCode::OK, &id)
}
