//! `GET /v1/responses/{id}/input_items`
//!
//! Known difference: the items are those of the response's own request, not of the responses before it.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use serde_json::Value;
use tw_core::json::Json;
use tw_store::read::conversations::ListOrder;

use super::{SURFACE, found};
use crate::access;
use crate::answer_body::json;
use crate::conversations::page::{self, PageRequest, listed};
use crate::error::ApiError;
use crate::gateway::RequestOrigin;
use crate::server::{AppState, RequestId};
use crate::turns::id_in;

pub(crate) async fn list(
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
    let shown = try_list(&of, &id_in(response), query.as_deref(), &headers).await;
    shown.unwrap_or_else(|error| error.render_in(SURFACE.format, Some(&id)))
}

async fn try_list(
    of: &RequestOrigin<'_>,
    name: &str,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let reader = access::reader(of.surfaces, headers, None, of.id).await?;
    let wanted = PageRequest::of_items(query)?;
    let answer = found::found(of, &reader, name).await?;
    let items = answer.input_items(of.surfaces.runtime()).await;
    let mut items = items.map_err(|error| ApiError::of_read(&error, of.id))?;
    match wanted.order {
        ListOrder::OldestFirst => {}
        ListOrder::NewestFirst => items.reverse(),
    }
    let (data, has_more) = page_of(&items, &wanted)?;
    Ok(json(listed(data, has_more).to_string()))
}

fn page_of(items: &[(String, Json)], wanted: &PageRequest) -> Result<(Vec<Value>, bool), ApiError> {
    let from = match &wanted.after {
        None => 0,
        Some(after) => {
            let at = items.iter().position(|(id, _)| id == after);
            at.ok_or_else(page::no_cursor)? + 1
        }
    };
    let rest = &items[from..];
    let page = rest.iter().take(wanted.limit);
    let data = page.map(|(_, item)| item.to_value()).collect();
    Ok((data, rest.len() > wanted.limit))
}
