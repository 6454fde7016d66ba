//! The way of a request for the count of its tokens, by whatever surface it comes.

use axum::extract::Request;
use axum::response::Response;
use tw_core::tenant::KeyScope;
use tw_wire::client_request::body_text;

use super::{ModelSurface, RequestGoal, RequestOrigin, read_request};
use crate::access;
use crate::answer_body::json;
use crate::error::ApiError;
use crate::error::no_room::put_standing;
use crate::request_body::{read_body, refused};
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
    let key = access::given_key(headers, format.key_header())?;
    let caller = access::authenticated(of.surfaces, key, Some(KeyScope::Chat), of.id).await?;
    if let Err(no_room) = runtime.may_begin(&caller) {
        return Err(refused(headers, body, ApiError::no_room(&no_room)).await);
    }
    let limits = runtime.request_limits();
    let body = read_body(of.surfaces, headers, body, limits.body_bytes_max).await?;
    let body = body_text(body.into()).map_err(|error| ApiError::of_request(&error))?;
    let wanted = read_request(of, headers, &caller, body, RequestGoal::Count, None).await?;
    let counted = runtime.count_tokens(wanted, route, format).await;
    let counted = counted.map_err(|refused| ApiError::of_count_refusal(&refused, of.id))?;
    let mut response = json(counted);
    if let Some(standing) = runtime.requests_left(&caller) {
        put_standing(response.headers_mut(), format, &standing);
    }
    Ok(response)
}
