//! `GET /v1/calls`: calls by the id that their upstream gave them, and those that failed.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use serde_json::json;
use tw_core::id::CallId;
use tw_store::read::found_calls::CallsWanted;
use tw_store::read::view::ResultDetail;

use crate::access;
use crate::answer_body::respond;
use crate::conversations::page::{PageRequest, listed, no_cursor};
use crate::error::ApiError;
use crate::render_turn;
use crate::server::{AppState, RequestId};
use crate::tools::parameter;

pub(crate) async fn list(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let listing = async {
        let reader = access::reader(&surfaces, &headers, None, &id).await?;
        let page = PageRequest::of_calls(query.as_deref())?;
        let wanted = wanted(query.as_deref())?;
        let after = match page.after.as_deref() {
            None => None,
            Some(after) => Some(CallId::parse(after).ok_or_else(no_cursor)?),
        };
        let store = surfaces.runtime().store();
        let organization = reader.caller.organization;
        let found = store.found_calls(organization, reader.whose, wanted, after, page.limit);
        let found = found
            .await
            .map_err(|error| ApiError::of_read(&error, &id))?;
        let mut found = found.ok_or_else(no_cursor)?;
        let mut masker = surfaces.runtime().call_masker(organization);
        for found in &mut found.items {
            let masked = masker.mask_call(&mut found.call).await;
            masked.map_err(|error| ApiError::of_read(&error, &id))?;
        }
        let data = found.items.iter().map(|found| {
            let mut shown = render_turn::call(&found.call, ResultDetail::Shown);
            shown["turn"] = json!(found.turn.to_string());
            shown["conversation"] = json!(found.conversation);
            shown
        });
        Ok(listed(data.collect(), found.has_more))
    };
    respond(listing.await.map(|body| body.to_string()), &id)
}

fn wanted(query: Option<&str>) -> Result<CallsWanted, ApiError> {
    let status = parameter(query, "status");
    match (parameter(query, "tool_call_id"), status.as_deref()) {
        (Some(name), None) => Ok(CallsWanted::Named(name)),
        (None, Some("failed")) => Ok(CallsWanted::Failed),
        (None, Some(_)) => Err(ApiError::invalid(
            Some("status"),
            None,
            "status is 'failed'.",
        )),
        (None, None) | (Some(_), Some(_)) => Err(ApiError::invalid(
            Some("tool_call_id"),
            None,
            "Say which calls: either tool_call_id, or status=failed.",
        )),
    }
}
