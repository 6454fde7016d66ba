//! `GET /v1/turns/{id}` and `POST /v1/turns/{id}/cancel`

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use tw_core::id::TurnId;
use tw_core::tenant::KeyScope;
use tw_runtime::auth::Principal;
use tw_store::read::view::{ResultDetail, TurnView};
use tw_wire::format::WireFormat;

use crate::access::{self, TurnReader};
use crate::answer_body::respond;
use crate::error::ApiError;
use crate::render_turn;
use crate::server::{AppState, RequestId};

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    turn: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let detail = if query.is_some_and(|query| query.split('&').any(|pair| pair == "full=1")) {
        ResultDetail::Full
    } else {
        ResultDetail::Shown
    };
    let turn = id_in(turn);
    let shown = async {
        let reader = access::reader(&surfaces, &headers, None, &id).await?;
        visible(&surfaces, &reader, &turn, detail, &id).await
    };
    answer(&surfaces, shown.await, detail, &id).await
}

pub(crate) async fn cancel(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    turn: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let turn = id_in(turn);
    let cancelled = async {
        let reader = access::reader(&surfaces, &headers, Some(KeyScope::Chat), &id).await?;
        let view = visible(&surfaces, &reader, &turn, ResultDetail::Shown, &id).await?;
        let caller = &reader.caller;
        if view.turn.api_key != caller.api_key && !caller.may(KeyScope::Admin) {
            return Err(ApiError::out_of_scope(KeyScope::Admin.as_str()));
        }
        if view.turn.status.is_final() {
            return Ok(view);
        }
        stop(&surfaces, caller, view.turn.id, &id).await?;
        visible(&surfaces, &reader, &turn, ResultDetail::Shown, &id).await
    };
    answer(&surfaces, cancelled.await, ResultDetail::Shown, &id).await
}

/// Stops a turn and waits for its end.
pub(crate) async fn stop(
    surfaces: &AppState,
    caller: &Principal,
    turn: TurnId,
    id: &RequestId,
) -> Result<(), ApiError> {
    let asked = surfaces.runtime().cancel(caller.organization, turn).await;
    asked.map_err(|error| {
        let _ = ApiError::internal(&error, id);
        ApiError::unavailable("The turn may not have been asked to stop; try again.")
    })?;
    let ended = surfaces.runtime().wait_for_end(caller, turn).await;
    ended.map_err(|error| ApiError::of_read(&error, id))
}

/// The id in a path; one that is no text is an id that nothing has.
pub(crate) fn id_in(path: Result<Path<String>, PathRejection>) -> String {
    path.map(|Path(id)| id).unwrap_or_default()
}

/// The turn of an id, if the reader may see it; one that the reader does not see is not found.
pub(crate) async fn visible(
    surfaces: &AppState,
    reader: &TurnReader,
    turn: &str,
    detail: ResultDetail,
    id: &RequestId,
) -> Result<TurnView, ApiError> {
    let turn = turn_id(turn).ok_or_else(ApiError::no_turn)?;
    let found = surfaces
        .runtime()
        .store()
        .turn_view(reader.caller.organization, turn, detail)
        .await;
    let found = found.map_err(|error| ApiError::of_read(&error, id))?;
    let mut view = found
        .filter(|view| reader.sees(&view.turn))
        .ok_or_else(ApiError::no_turn)?;
    let mut masker = surfaces.runtime().call_masker(reader.caller.organization);
    let masked = masker.mask_turn(&mut view).await;
    masked.map_err(|error| ApiError::of_read(&error, id))?;
    Ok(view)
}

/// The turn that an id names, which may be that of its completion or response.
pub(crate) fn turn_id(text: &str) -> Option<TurnId> {
    let of_answer = WireFormat::ALL.into_iter();
    let mut of_answer = of_answer.filter_map(|format| format.turn_of_answer(text));
    let of_completion = || TurnId::parse(text.strip_prefix("chatcmpl-").unwrap_or(text));
    of_answer.next().or_else(of_completion)
}

async fn answer(
    surfaces: &AppState,
    view: Result<TurnView, ApiError>,
    detail: ResultDetail,
    id: &RequestId,
) -> Response {
    let body = async {
        let view = view?;
        let links = surfaces.runtime().file_links().await;
        let links = links.map_err(|error| ApiError::of_read(&error, id))?;
        Ok(render_turn::render(&view, detail, &links).to_string())
    };
    respond(body.await, id)
}
