//! `POST /v1/responses/{id}/cancel`

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use tw_core::tenant::KeyScope;

use super::{SURFACE, found};
use crate::access;
use crate::answer_body::json;
use crate::error::ApiError;
use crate::gateway::RequestOrigin;
use crate::server::{AppState, RequestId};
use crate::turns::{self, id_in};

pub(crate) async fn cancel(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    response: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let of = RequestOrigin {
        surface: &SURFACE,
        surfaces: &surfaces,
        id: &id,
    };
    let cancelled = try_cancel(&of, &id_in(response), &headers).await;
    cancelled.unwrap_or_else(|error| error.render_in(SURFACE.format, Some(&id)))
}

/// Stops a response and waits for its end. One that has ended stays as it is.
async fn try_cancel(
    of: &RequestOrigin<'_>,
    name: &str,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let reader = access::reader(of.surfaces, headers, Some(KeyScope::Chat), of.id).await?;
    let answer = found::found(of, &reader, name).await?;
    found::check_change(&reader, &answer)?;
    if !answer.context.projection.is_background() {
        let message = "Only a response that was made with 'background' can be cancelled; close the connection of another one.";
        return Err(ApiError::invalid(None, Some("not_in_background"), message));
    }
    if !answer.row.status.is_final() {
        turns::stop(of.surfaces, &reader.caller, answer.row.id, of.id).await?;
    }
    let fold = found::folded(of, &answer).await?;
    Ok(json(fold.into_body()))
}
