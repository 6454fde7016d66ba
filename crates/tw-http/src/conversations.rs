//! `GET /v1/conversations`, `GET` and `DELETE /v1/conversations/{id}`, and
//! `GET /v1/conversations/{id}/turns`
//!
//! Lists follow those of the OpenAI API (reference of 2025-10, "List input items" and "Conversations").
//! Known differences: what is seen of a conversation depends on who asks; there are no items but turns.

pub(crate) mod page;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, TurnOwner};
use tw_runtime::conversations::Deletion;
use tw_store::read::conversations::{ConversationRow, ConversationTurns, TurnsWanted};
use tw_store::read::view::ResultDetail;

use crate::access;
use crate::answer_body::respond;
use crate::error::ApiError;
use crate::render_turn;
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
            ConversationTurns::Page(page) => {
                let turns = page.items.iter();
                let data = turns.map(|view| render_turn::render(view, ResultDetail::Shown));
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

fn render(row: &ConversationRow) -> Value {
    json!({
        "id": row.id,
        "object": "conversation",
        "created_at": row.created.0.div_euclid(MICROS_PER_SECOND),
        "metadata": {},
        "turn_count": row.turns,
        "created_us": row.created.0,
        "active_us": row.active.0,
    })
}

const MICROS_PER_SECOND: i64 = 1_000_000;
