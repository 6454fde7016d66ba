//! `GET /v1/turns/{id}` and `POST /v1/turns/{id}/cancel`

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use tw_core::change::Scope;
use tw_core::id::TurnId;
use tw_runtime::admin::Caller;
use tw_store::read::view::{Detail, TurnView};

use crate::access;
use crate::error::ApiError;
use crate::render_turn;
use crate::server::{RequestId, Surfaces};

pub(crate) async fn show(
    State(surfaces): State<Surfaces>,
    Extension(id): Extension<RequestId>,
    turn: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let detail = if query.is_some_and(|query| query.split('&').any(|pair| pair == "full=1")) {
        Detail::Full
    } else {
        Detail::Shown
    };
    let turn = id_in(turn);
    let shown = async {
        let caller = access::caller(&surfaces, &headers, None, &id).await?;
        visible(&surfaces, &caller, &turn, detail, &id).await
    };
    respond(shown.await, detail, &id)
}

pub(crate) async fn cancel(
    State(surfaces): State<Surfaces>,
    Extension(id): Extension<RequestId>,
    turn: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let turn = id_in(turn);
    let cancelled = async {
        let caller = access::caller(&surfaces, &headers, Some(Scope::Chat), &id).await?;
        let view = visible(&surfaces, &caller, &turn, Detail::Shown, &id).await?;
        if view.turn.api_key != caller.api_key && !caller.may(Scope::Admin) {
            return Err(ApiError::out_of_scope(Scope::Admin.as_str()));
        }
        if view.turn.status.is_final() {
            return Ok(view);
        }
        if !surfaces.runtime().cancel(view.turn.id) {
            let after = visible(&surfaces, &caller, &turn, Detail::Shown, &id).await?;
            if after.turn.status.is_final() {
                return Ok(after);
            }
            return Err(ApiError::unavailable(
                "The turn is being taken over after a restart; try again.",
            ));
        }
        let ended = surfaces.runtime().wait_for_end(&caller, view.turn.id).await;
        ended.map_err(|error| ApiError::of_read(&error, &id))?;
        visible(&surfaces, &caller, &turn, Detail::Shown, &id).await
    };
    respond(cancelled.await, Detail::Shown, &id)
}

/// The id in a path; one that is no text is an id that nothing has.
pub(crate) fn id_in(path: Result<Path<String>, PathRejection>) -> String {
    path.map(|Path(id)| id).unwrap_or_default()
}

/// A key sees the turns it made, and with `turns:read` those of its organization. Whatever it
/// does not see is not found.
pub(crate) async fn visible(
    surfaces: &Surfaces,
    caller: &Caller,
    turn: &str,
    detail: Detail,
    id: &RequestId,
) -> Result<TurnView, ApiError> {
    let plain = turn.strip_prefix("chatcmpl-").unwrap_or(turn);
    let turn = TurnId::parse(plain).ok_or_else(ApiError::no_turn)?;
    let found = surfaces
        .runtime()
        .store()
        .turn_view(caller.organization, turn, detail)
        .await;
    let found = found.map_err(|error| ApiError::of_read(&error, id))?;
    found
        .filter(|view| view.turn.api_key == caller.api_key || caller.may(Scope::TurnsRead))
        .ok_or_else(ApiError::no_turn)
}

fn respond(view: Result<TurnView, ApiError>, detail: Detail, id: &RequestId) -> Response {
    match view {
        Ok(view) => {
            let mut response = Response::new(Body::from(render_turn::render(&view, detail)));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(error) => error.render(Some(id)),
    }
}
