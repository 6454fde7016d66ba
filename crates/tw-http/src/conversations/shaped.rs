//! `GET /v1/conversations/{id}/messages` and `POST /v1/conversations/{id}/rows`: what was said, as rows of a shape.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use http::HeaderMap;
use tw_core::shape::Shape;
use tw_core::tenant::KeyScope;
use tw_core::turn_policy::RecordPolicy;
use tw_runtime::accept::TryMark;
use tw_runtime::conversation_items::hash_of_sent;
use tw_runtime::conversation_messages::{ShapedPage, ShapedPageWanted};
use tw_runtime::conversation_rows::{AppendRowsError, RowsSent, is_conversation_name};
use tw_wire::shapes::ShapeRow;
use tw_wire::shapes::rows::read_rows;

use super::body_of;
use super::items::not_added;
use super::page::{self, PageRequest, listed};
use crate::access;
use crate::answer_body::respond;
use crate::error::ApiError;
use crate::gateway::try_mark;
use crate::server::{AppState, RequestId};
use crate::tools::parameter;
use crate::turns::id_in;

pub(crate) async fn list(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    conversation: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let listing = async {
        let reader = access::reader(&surfaces, &headers, None, &id).await?;
        let wanted = PageRequest::of_messages(query.as_deref())?;
        let wanted = ShapedPageWanted {
            shape: shape_in(query.as_deref())?,
            order: wanted.order,
            after: wanted.after,
            rows_max: wanted.limit,
        };
        let runtime = surfaces.runtime();
        let conversation = id_in(conversation);
        let found = runtime.shaped_messages(&reader.caller, &conversation, reader.whose, &wanted);
        match found
            .await
            .map_err(|error| ApiError::of_read(&error, &id))?
        {
            ShapedPage::NoConversation => Err(ApiError::no_conversation()),
            ShapedPage::NoCursor => Err(page::no_cursor()),
            ShapedPage::Page(page) => Ok(listed_rows(&page.items, page.has_more)),
        }
    };
    respond(listing.await, &id)
}

/// Appends rows to a conversation, which is made if nobody has one of this name.
pub(crate) async fn append(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    conversation: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let appending = async {
        let headers = &parts.headers;
        let reader = access::reader(&surfaces, headers, Some(KeyScope::Chat), &id).await?;
        if reader.caller.record != RecordPolicy::Full {
            return Err(ApiError::conversation_unstored());
        }
        PageRequest::of_rows(query.as_deref())?;
        let shape = shape_in(query.as_deref())?;
        let conversation = id_in(conversation);
        if !is_conversation_name(&conversation) {
            return Err(ApiError::no_conversation());
        }
        let body = body_of(&surfaces, headers, body).await?;
        let runtime = surfaces.runtime();
        let rows = read_rows(shape, &body, runtime.request_limits());
        let sent = RowsSent {
            caller: &reader.caller,
            end_user: reader.whose.end_user.clone(),
            shape,
            rows: rows.map_err(|error| ApiError::of_request(&error))?,
            sent_hash: hash_of_sent(&body),
            is_repetition: matches!(try_mark(headers), TryMark::Repetition),
            queued: None,
            request_id: id.0.clone(),
        };
        let added = runtime.append_rows(sent, &conversation).await;
        let added = added.map_err(|error| match error {
            AppendRowsError::Refused(error) => ApiError::of_request(&error),
            AppendRowsError::NotAdded(error) => not_added(&error, &id),
            AppendRowsError::NotSeen => ApiError::no_conversation(),
            AppendRowsError::Read(error) => ApiError::of_read(&error, &id),
        })?;
        Ok(listed_rows(&added, false))
    };
    respond(appending.await, &id)
}

/// The shape that a query names; OpenAI's unless it names one.
fn shape_in(query: Option<&str>) -> Result<Shape, ApiError> {
    let Some(word) = parameter(query, "shape") else {
        return Ok(Shape::OpenAi);
    };
    Shape::parse(&word).ok_or_else(|| {
        let words: Vec<&str> = Shape::ALL.into_iter().map(Shape::as_str).collect();
        let message = format!("shape is one of: {}.", words.join(", "));
        ApiError::invalid(Some("shape"), None, message)
    })
}

/// A list of rows, each as its shape wrote it.
fn listed_rows(rows: &[ShapeRow], has_more: bool) -> String {
    let ids = rows.iter().map(|row| serde_json::json!({ "id": row.id }));
    let mut list = listed(ids.collect(), has_more);
    list["data"] = serde_json::json!([]);
    let list = list.to_string();
    let data: Vec<&str> = rows.iter().map(|row| row.json.as_str()).collect();
    // The rows stand as they were written: their numbers keep all digits.
    match list.strip_suffix("[]}") {
        Some(before) => format!("{before}[{}]}}", data.join(",")),
        None => list,
    }
}
