//! `DELETE /v1/responses/{id}`

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use serde_json::json;
use tw_core::tenant::KeyScope;
use tw_runtime::conversations::Deletion;

use super::{SURFACE, found};
use crate::access;
use crate::answer_body;
use crate::error::ApiError;
use crate::gateway::RequestOrigin;
use crate::server::{AppState, RequestId};
use crate::turns::id_in;

pub(crate) async fn delete(
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
    let deleted = try_delete(&of, &id_in(response), &headers).await;
    deleted.unwrap_or_else(|error| error.render_in(SURFACE.format, Some(&id)))
}

async fn try_delete(
    of: &RequestOrigin<'_>,
    name: &str,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let reader = access::reader(of.surfaces, headers, Some(KeyScope::Chat), of.id).await?;
    let answer = found::found(of, &reader, name).await?;
    found::check_change(&reader, &answer)?;
    let runtime = of.surfaces.runtime();
    match runtime.delete_turn(&reader.caller, answer.row.id).await {
        Ok(Deletion::Now) => {
            let deleted = json!({ "id": name, "object": "response", "deleted": true });
            Ok(answer_body::json(deleted.to_string()))
        }
        Ok(Deletion::NotFound) => Err(ApiError::no_response()),
        Err(error) => {
            let _ = ApiError::internal(&error, of.id);
            let message = "The response may not have been deleted; look and try again.";
            Err(ApiError::unavailable(message))
        }
    }
}
