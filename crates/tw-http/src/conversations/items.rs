//! `GET` and `POST /v1/conversations/{id}/items`, `GET` and `DELETE /v1/conversations/{id}/items/{item}`

use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use http::HeaderMap;
use serde_json::Value;
use tw_core::json::Json;
use tw_core::json::shared::SharedText;
use tw_core::tenant::{KeyScope, TurnOwner};
use tw_core::turn_policy::RecordPolicy;
use tw_runtime::accept::TryMark;
use tw_runtime::conversation_items::{
    AddItemsError, AddTo, FoundItem, ItemsSent, ItemsWanted, hash_of_sent,
};
use tw_runtime::conversations::Deletion;
use tw_store::read::items::{ConversationPath, PathStart, PathTurn};
use tw_wire::conversation_request;

use super::page::{self, PageRequest, listed};
use super::{body_of, found, render, unwritten};
use crate::access::{self, TurnReader};
use crate::answer_body::respond;
use crate::error::ApiError;
use crate::gateway::{RequestOrigin, try_mark};
use crate::kept;
use crate::responses::SURFACE;
use crate::sealed;
use crate::server::{AppState, RequestId};
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
        let wanted = PageRequest::of_items(query.as_deref())?;
        let whose = reader.whose.clone();
        let path = path_of(&surfaces, &reader, whose, id_in(conversation), &id).await?;
        let wanted = ItemsWanted {
            order: wanted.order,
            after: wanted.after,
            items_max: wanted.limit,
            include: wanted.include,
        };
        let runtime = surfaces.runtime();
        let page = runtime.conversation_items(&reader.caller, &path.turns, &wanted);
        let page = page.await.map_err(|error| ApiError::of_read(&error, &id))?;
        let page = page.ok_or_else(page::no_cursor)?;
        Ok(listed(values(&page.items), page.has_more))
    };
    respond(listing.await.map(|body| body.to_string()), &id)
}

pub(crate) async fn create(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    conversation: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let creating = async {
        let headers = &parts.headers;
        let reader = access::reader(&surfaces, headers, Some(KeyScope::Chat), &id).await?;
        if reader.caller.record != RecordPolicy::Full {
            return Err(ApiError::conversation_unstored());
        }
        let include = PageRequest::of_item(query.as_deref())?.include;
        let body = body_of(&surfaces, headers, body).await?;
        let limits = surfaces.runtime().request_limits();
        let items = conversation_request::read_items(&body, limits);
        let items = items.map_err(|error| ApiError::of_request(&error))?;
        let conversation = id_in(conversation);
        let own = own(&reader);
        let path = path_of(&surfaces, &reader, own, conversation.clone(), &id).await?;
        let of = origin(&surfaces, &id);
        let sent = sent(&of, &reader, items, &body).await?;
        let added = add(&of, &reader, sent, conversation, path, try_mark(headers)).await?;
        let items = surfaces.runtime();
        let items = items.items_of(&reader.caller, &added, &include).await;
        let items = items.map_err(|error| ApiError::of_read(&error, &id))?;
        Ok(listed(values(&items), false))
    };
    respond(creating.await.map(|body| body.to_string()), &id)
}

/// Adds items, unless the same request did before and its client did not hear of it.
async fn add(
    of: &RequestOrigin<'_>,
    reader: &TurnReader,
    sent: ItemsSent<'_>,
    conversation: String,
    path: ConversationPath,
    mark: TryMark,
) -> Result<PathTurn, ApiError> {
    let runtime = of.surfaces.runtime();
    let before = match mark {
        TryMark::Repetition => {
            let before = runtime.added_before(&reader.caller, &path, sent.sent_hash);
            before
                .await
                .map_err(|error| ApiError::of_read(&error, of.id))?
        }
        TryMark::None | TryMark::First => None,
    };
    let turn = match before {
        Some(turn) => turn,
        None => {
            let to = AddTo::Known { conversation, path };
            let added = runtime.add_items(sent, to).await;
            added.map_err(|error| not_added(&error, of.id))?.0
        }
    };
    Ok(PathTurn {
        id: turn,
        end_user: None,
        deleted_items: Vec::new(),
    })
}

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: Result<Path<(String, String)>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let showing = async {
        let reader = access::reader(&surfaces, &headers, None, &id).await?;
        let include = PageRequest::of_item(query.as_deref())?.include;
        let (conversation, item) = ids_in(place);
        let item = item_of(&surfaces, &reader, (conversation, &item), &include, &id).await?;
        Ok(item.json.as_str().to_owned())
    };
    respond(showing.await, &id)
}

/// Takes an item out of its conversation, and answers with that.
pub(crate) async fn delete(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let deleting = async {
        let reader = access::reader(&surfaces, &headers, Some(KeyScope::Chat), &id).await?;
        let (conversation, item) = ids_in(place);
        let name = conversation.clone();
        let item = item_of(&surfaces, &reader, (conversation, &item), &[], &id).await?;
        let caller = &reader.caller;
        if item.api_key != caller.api_key && !caller.may(KeyScope::Admin) {
            return Err(ApiError::out_of_scope(KeyScope::Admin.as_str()));
        }
        // Read before, since a name whose last turn goes with the item is not seen any more.
        let row = found(&surfaces, &reader, name.clone(), &id).await?;
        let deleted = surfaces.runtime().delete_item(caller, &item).await;
        match deleted.map_err(|error| unwritten(&error, &id))? {
            Deletion::Now => {}
            Deletion::NotFound => return Err(ApiError::no_item()),
        }
        let left = found(&surfaces, &reader, name, &id).await;
        Ok(render(&left.unwrap_or(row)).to_string())
    };
    respond(deleting.await, &id)
}

/// Where requests about items come in: they are in the format of responses.
pub(super) fn origin<'a>(surfaces: &'a AppState, id: &'a RequestId) -> RequestOrigin<'a> {
    RequestOrigin {
        surface: &SURFACE,
        surfaces,
        id,
    }
}

/// Items as they were sent, with those themselves that they refer to.
pub(super) async fn sent<'a>(
    of: &RequestOrigin<'_>,
    reader: &'a TurnReader,
    items: SharedText,
    body: &SharedText,
) -> Result<ItemsSent<'a>, ApiError> {
    let caller = &reader.caller;
    let end_user = reader.whose.end_user.clone();
    let items = sealed::opened(of, caller, items).await?;
    let items = kept::with_items(of, caller, end_user.clone(), items).await?;
    let limits = of.surfaces.runtime().request_limits();
    let read = SURFACE.format.decode_request(&items, limits);
    let read = read.map_err(conversation_request::in_items);
    let read = read.map_err(|error| ApiError::of_request(&error))?;
    Ok(ItemsSent {
        caller,
        end_user,
        body: items,
        input: Arc::new(read.input),
        sent_hash: hash_of_sent(body),
        request_id: of.id.0.clone(),
    })
}

pub(super) fn not_added(error: &AddItemsError, id: &RequestId) -> ApiError {
    match error {
        AddItemsError::Busy => ApiError::conversation_locked(),
        AddItemsError::Gone => ApiError::no_conversation(),
        AddItemsError::Write(error) => unwritten(error, id),
    }
}

/// What the caller itself said in a conversation: who adds to it stands behind that alone.
fn own(reader: &TurnReader) -> TurnOwner {
    TurnOwner {
        api_key: Some(reader.caller.api_key),
        end_user: reader.whose.end_user.clone(),
    }
}

async fn path_of(
    surfaces: &AppState,
    reader: &TurnReader,
    whose: TurnOwner,
    conversation: String,
    id: &RequestId,
) -> Result<ConversationPath, ApiError> {
    let store = surfaces.runtime().store();
    let organization = reader.caller.organization;
    let path = store.conversation_path(organization, conversation, whose, PathStart::Head);
    let path = path.await.map_err(|error| ApiError::of_read(&error, id))?;
    path.ok_or_else(ApiError::no_conversation)
}

async fn item_of(
    surfaces: &AppState,
    reader: &TurnReader,
    (conversation, item): (String, &str),
    include: &[String],
    id: &RequestId,
) -> Result<FoundItem, ApiError> {
    let whose = reader.whose.clone();
    let path = path_of(surfaces, reader, whose, conversation, id).await?;
    let runtime = surfaces.runtime();
    let found = runtime.conversation_item(&reader.caller, &path.turns, item, include);
    let found = found.await.map_err(|error| ApiError::of_read(&error, id))?;
    found.ok_or_else(ApiError::no_item)
}

/// The ids of a path; what cannot be read is nobody's.
fn ids_in(place: Result<Path<(String, String)>, PathRejection>) -> (String, String) {
    place.map(|Path(ids)| ids).unwrap_or_default()
}

fn values(items: &[(String, Json)]) -> Vec<Value> {
    items.iter().map(|(_, item)| item.to_value()).collect()
}
