//! `GET` and `POST /v1/conversations`, `GET`, `POST` and `DELETE /v1/conversations/{id}`, its items, and
//! `GET /v1/conversations/{id}/turns`
//!
//! Follows the resources of openai-python 3.3.1 and the reference of the API of 2025-10 ("Conversations").
//! Known differences: what is seen of a conversation depends on who asks; conversations are listed, and their turns.

pub(crate) mod items;
pub(crate) mod page;
pub(crate) mod shaped;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use http::HeaderMap;
use serde_json::{Value, json};
use tw_core::json::Json;
use tw_core::json::shared::SharedText;
use tw_core::tenant::{KeyScope, TurnOwner};
use tw_core::turn_policy::RecordPolicy;
use tw_runtime::conversation_items::AddTo;
use tw_runtime::conversations::Deletion;
use tw_store::apply::StoreApplyError;
use tw_store::read::conversations::{ConversationRow, ConversationTurns, TurnsWanted};
use tw_store::read::view::ResultDetail;
use tw_wire::client_request::body_text;
use tw_wire::conversation_request;

use crate::access::{self, TurnReader};
use crate::answer_body::respond;
use crate::error::ApiError;
use crate::render_turn;
use crate::request_body::read_body;
use crate::server::{AppState, RequestId};
use crate::turns::{id_in, turn_id};
use page::{PageRequest, listed};

pub(crate) async fn list(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let listing = async {
        let reader = access::reader(&surfaces, &headers, None, &id).await?;
        let wanted = PageRequest::of_conversations(query.as_deref())?;
        let store = surfaces.runtime().store();
        let organization = reader.caller.organization;
        let page = store.conversations(organization, reader.whose, wanted.after, wanted.limit);
        let page = page.await.map_err(|error| ApiError::of_read(&error, &id))?;
        let page = page.ok_or_else(page::no_cursor)?;
        let data = page.items.iter().map(render).collect();
        Ok(listed(data, page.has_more))
    };
    respond(listing.await.map(|body| body.to_string()), &id)
}

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    conversation: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let showing = async {
        let reader = access::reader(&surfaces, &headers, None, &id).await?;
        let store = surfaces.runtime().store();
        let organization = reader.caller.organization;
        let found = store.conversation(organization, id_in(conversation), reader.whose);
        let found = found
            .await
            .map_err(|error| ApiError::of_read(&error, &id))?;
        found
            .map(|row| render(&row))
            .ok_or_else(ApiError::no_conversation)
    };
    respond(showing.await.map(|body| body.to_string()), &id)
}

pub(crate) async fn turns(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    conversation: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let listing = async {
        let reader = access::reader(&surfaces, &headers, None, &id).await?;
        let wanted = PageRequest::of_turns(query.as_deref())?;
        let after = match wanted.after.as_deref() {
            None => None,
            Some(after) => Some(turn_id(after).ok_or_else(page::no_cursor)?),
        };
        let wanted = TurnsWanted {
            order: wanted.order,
            after,
            turns_max: wanted.limit,
        };
        let store = surfaces.runtime().store();
        let (organization, conversation) = (reader.caller.organization, id_in(conversation));
        let found = store.conversation_turns(organization, conversation, reader.whose, wanted);
        match found
            .await
            .map_err(|error| ApiError::of_read(&error, &id))?
        {
            ConversationTurns::NoConversation => Err(ApiError::no_conversation()),
            ConversationTurns::NoCursor => Err(page::no_cursor()),
            ConversationTurns::Page(mut page) => {
                let mut masker = surfaces.runtime().call_masker(organization);
                for view in &mut page.items {
                    let masked = masker.mask_turn(view).await;
                    masked.map_err(|error| ApiError::of_read(&error, &id))?;
                }
                let turns = page.items.iter();
                let links = surfaces.runtime().file_links().await;
                let links = links.map_err(|error| ApiError::of_read(&error, &id))?;
                let data = turns.map(|view| render_turn::render(view, ResultDetail::Shown, &links));
                Ok(listed(data.collect(), page.has_more))
            }
        }
    };
    respond(listing.await.map(|body| body.to_string()), &id)
}

pub(crate) async fn delete(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    conversation: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let conversation = id_in(conversation);
    let deleting = async {
        let reader = access::reader(&surfaces, &headers, Some(KeyScope::Chat), &id).await?;
        let caller = &reader.caller;
        let mut whose = reader.whose;
        if !caller.may(KeyScope::Admin) {
            // As with cancelling: what is seen and not one's own is an administrator's.
            let store = surfaces.runtime().store();
            let (seen, key) = (whose.clone(), caller.api_key);
            let shared = store.is_shared(caller.organization, conversation.clone(), seen, key);
            let shared = shared.await;
            if shared.map_err(|error| ApiError::of_read(&error, &id))? {
                return Err(ApiError::out_of_scope(KeyScope::Admin.as_str()));
            }
            whose = TurnOwner {
                api_key: Some(key),
                ..whose
            };
        }
        let runtime = surfaces.runtime();
        let deleted = runtime.delete_conversation(caller, &conversation, whose);
        match deleted.await {
            Ok(Deletion::Now) => Ok(json!({
                "id": conversation,
                "object": "conversation.deleted",
                "deleted": true,
            })),
            Ok(Deletion::NotFound) => Err(ApiError::no_conversation()),
            Err(error) => {
                let _ = ApiError::internal(&error, &id);
                let message = "The conversation may not have been deleted; look and try again.";
                Err(ApiError::unavailable(message))
            }
        }
    };
    respond(deleting.await.map(|body| body.to_string()), &id)
}

pub(crate) async fn create(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let creating = async {
        let headers = &parts.headers;
        let reader = access::reader(&surfaces, headers, Some(KeyScope::Chat), &id).await?;
        if reader.caller.record != RecordPolicy::Full {
            return Err(ApiError::conversation_unstored());
        }
        let body = body_of(&surfaces, headers, body).await?;
        let limits = surfaces.runtime().request_limits();
        let wanted = conversation_request::read_new(&body, limits);
        let wanted = wanted.map_err(|error| ApiError::of_request(&error))?;
        let made = match wanted.items {
            Some(items) => {
                let of = items::origin(&surfaces, &id);
                let metadata = wanted.metadata;
                let sent = items::sent(&of, &reader, items, &body).await?;
                let to = AddTo::New { metadata };
                let added = surfaces.runtime().add_items(sent, to).await;
                added.map_err(|error| items::not_added(&error, &id))?.1
            }
            None => {
                let user = reader.whose.end_user.clone();
                let caller = &reader.caller;
                let made = surfaces.runtime();
                let made = made.create_conversation(caller, user, wanted.metadata);
                made.await.map_err(|error| unwritten(&error, &id))?
            }
        };
        found(&surfaces, &reader, made, &id).await
    };
    let created = creating.await;
    respond(created.map(|row| render(&row).to_string()), &id)
}

/// Gives a conversation other metadata.
pub(crate) async fn change(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    conversation: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let changing = async {
        let headers = &parts.headers;
        let reader = access::reader(&surfaces, headers, Some(KeyScope::Chat), &id).await?;
        let body = body_of(&surfaces, headers, body).await?;
        let limits = surfaces.runtime().request_limits();
        let metadata = conversation_request::read_change(&body, limits);
        let metadata = metadata.map_err(|error| ApiError::of_request(&error))?;
        let name = id_in(conversation);
        let row = found(&surfaces, &reader, name.clone(), &id).await?;
        let made = row.made.ok_or_else(ApiError::conversation_unmade)?;
        let caller = &reader.caller;
        if made.api_key != caller.api_key && !caller.may(KeyScope::Admin) {
            return Err(ApiError::out_of_scope(KeyScope::Admin.as_str()));
        }
        let changed = surfaces.runtime();
        let changed = changed.change_conversation(caller, name.clone(), metadata);
        if !changed.await.map_err(|error| unwritten(&error, &id))? {
            return Err(ApiError::no_conversation());
        }
        found(&surfaces, &reader, name, &id).await
    };
    let changed = changing.await;
    respond(changed.map(|row| render(&row).to_string()), &id)
}

/// The body of a request, as text.
async fn body_of(
    surfaces: &AppState,
    headers: &HeaderMap,
    body: Body,
) -> Result<SharedText, ApiError> {
    let bytes_max = surfaces.runtime().request_limits().body_bytes_max;
    let body = read_body(surfaces, headers, body, bytes_max).await?;
    body_text(body.into()).map_err(|error| ApiError::of_request(&error))
}

/// A conversation that the reader sees.
async fn found(
    surfaces: &AppState,
    reader: &TurnReader,
    conversation: String,
    id: &RequestId,
) -> Result<ConversationRow, ApiError> {
    let store = surfaces.runtime().store();
    let organization = reader.caller.organization;
    let found = store.conversation(organization, conversation, reader.whose.clone());
    let found = found.await.map_err(|error| ApiError::of_read(&error, id))?;
    found.ok_or_else(ApiError::no_conversation)
}

/// The error of a change that may not have been written.
pub(crate) fn unwritten(error: &StoreApplyError, id: &RequestId) -> ApiError {
    let _ = ApiError::internal(error, id);
    ApiError::unavailable("The change may not have been recorded; look and try again.")
}

fn render(row: &ConversationRow) -> Value {
    let metadata = row.made.as_ref().map(|made| Json::of_read(&made.metadata));
    let metadata = metadata.map_or_else(|| json!({}), |metadata| metadata.to_value());
    json!({
        "id": row.id,
        "object": "conversation",
        "created_at": row.created.0.div_euclid(MICROS_PER_SECOND),
        "metadata": metadata,
        "turn_count": row.turns,
        "created_us": row.created.0,
        "active_us": row.active.0,
    })
}

const MICROS_PER_SECOND: i64 = 1_000_000;
