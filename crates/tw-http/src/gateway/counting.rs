//! The way of a request for the count of its tokens, by whatever surface it comes.

use axum::extract::Request;
use axum::response::Response;

use super::{ModelSurface, RequestGoal, RequestOrigin, admitted, read_request};
use crate::answer_body::json;
use crate::error::ApiError;
use crate::error::no_room::put_standing;
use crate::server::{AppState, RequestId};

/// Answers a request for a count that came by this route of a surface.
pub(crate) async fn count(
    surface: &ModelSurface,
    route: &'static str,
    surfaces: &AppState,
    id: &RequestId,
    request: Request,
) -> Response {
    let of = RequestOrigin {
        surface,
        surfaces,
        id,
    };
    match try_count(&of, route, request).await {
        Ok(response) => response,
        Err(error) => error.render_in(surface.format, Some(id)),
    }
}

async fn try_count(
    of: &RequestOrigin<'_>,
    route: &'static str,
    request: Request,
) -> Result<Response, ApiError> {
    let (format, runtime) = (of.surface.format, of.surfaces.runtime());
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let (caller, body) = admitted(of, headers, body, false).await?;
    let wanted = read_request(of, headers, &caller, body, RequestGoal::Count, None).await?;
    let counted = runtime.count_tokens(wanted, route, format).await;
    let counted = counted.map_err(|refused| ApiError::of_count_refusal(&refused, of.id))?;
    let mut response = json(counted);
    if let Some(standing) = runtime.requests_left(&caller) {
        put_standing(response.headers_mut(), format, &standing);
    }
    Ok(response)
}
