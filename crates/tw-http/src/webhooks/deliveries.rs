//! Deliveries of a webhook: looking at them, and sending them again.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use tw_core::id::WebhookId;
use tw_core::tenant::KeyScope;
use tw_core::webhook::{DeliveryState, WebhookEvent};
use tw_runtime::webhooks::{WebhookAdmin, WebhookError};

use super::{SlugAndWebhook, render, webhook_in};
use crate::error::ApiError;
use crate::server::{AppState, RequestId};
use crate::tools::{number, parameter, respond};

/// Deliveries of one page, unless the request says otherwise, and at most.
const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1_000;

type SlugWebhookAndEvent = Result<Path<(String, String, String)>, PathRejection>;

pub(crate) async fn list(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndWebhook,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let listed = async {
        let scope = KeyScope::WebhooksRead;
        let (caller, webhook) = webhook_in(&surfaces, &headers, place, scope, &id).await?;
        let query = query.as_deref();
        let limit = match parameter(query, "limit") {
            None => PAGE_DEFAULT,
            Some(text) => number(&text, "limit")?,
        };
        if limit > PAGE_MAX {
            let message = format!("limit is at most {PAGE_MAX}.");
            return Err(ApiError::invalid(Some("limit"), None, message));
        }
        let state = word(query, "state", DeliveryState::parse)?;
        let event = word(query, "event", WebhookEvent::parse)?;
        let after = parameter(query, "after");
        let webhooks = surfaces.runtime().webhooks(&caller);
        let listed = webhooks.deliveries(webhook, (state, event), after, limit);
        let (rows, has_more) = listed.await.map_err(|error| match error {
            WebhookError::NoDelivery => {
                let message = "No delivery of the webhook has this id.";
                ApiError::invalid(Some("after"), None, message)
            }
            error => ApiError::of_webhook(&error, &id),
        })?;
        Ok(render::deliveries(&rows, has_more))
    };
    respond(listed.await, StatusCode::OK, &id)
}

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugWebhookAndEvent,
    headers: HeaderMap,
) -> Response {
    let shown = async {
        let (place, event) = place_in(place, &id)?;
        let scope = KeyScope::WebhooksRead;
        let (caller, webhook) = webhook_in(&surfaces, &headers, place, scope, &id).await?;
        told(&surfaces.runtime().webhooks(&caller), webhook, event, &id).await
    };
    respond(shown.await, StatusCode::OK, &id)
}

pub(crate) async fn replay(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugWebhookAndEvent,
    headers: HeaderMap,
) -> Response {
    let replayed = async {
        let (place, event) = place_in(place, &id)?;
        let scope = KeyScope::WebhooksWrite;
        let (caller, webhook) = webhook_in(&surfaces, &headers, place, scope, &id).await?;
        let webhooks = surfaces.runtime().webhooks(&caller);
        let replayed = webhooks.replay(webhook, event.clone()).await;
        replayed.map_err(|error| ApiError::of_webhook(&error, &id))?;
        told(&webhooks, webhook, event, &id).await
    };
    respond(replayed.await, StatusCode::ACCEPTED, &id)
}

pub(crate) async fn replay_dead(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndWebhook,
    headers: HeaderMap,
) -> Response {
    let replayed = async {
        let scope = KeyScope::WebhooksWrite;
        let (caller, webhook) = webhook_in(&surfaces, &headers, place, scope, &id).await?;
        let webhooks = surfaces.runtime().webhooks(&caller);
        let replayed = webhooks.replay_dead(webhook).await;
        let replayed = replayed.map_err(|error| ApiError::of_webhook(&error, &id))?;
        Ok(render::replayed(webhook, replayed))
    };
    respond(replayed.await, StatusCode::ACCEPTED, &id)
}

/// One delivery with its attempts, as JSON.
pub(super) async fn told(
    webhooks: &WebhookAdmin<'_>,
    webhook: WebhookId,
    event: String,
    id: &RequestId,
) -> Result<String, ApiError> {
    let found = webhooks.delivery(webhook, event).await;
    let (row, attempts) = found.map_err(|error| ApiError::of_webhook(&error, id))?;
    Ok(render::delivery_with(&row, &attempts))
}

fn place_in(
    place: SlugWebhookAndEvent,
    id: &RequestId,
) -> Result<(SlugAndWebhook, String), ApiError> {
    let Path((slug, webhook, event)) =
        place.map_err(|_| ApiError::of_webhook(&WebhookError::NoDelivery, id))?;
    Ok((Ok(Path((slug, webhook))), event))
}

fn word<T>(
    query: Option<&str>,
    name: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ApiError> {
    let Some(text) = parameter(query, name) else {
        return Ok(None);
    };
    let unknown = || {
        let message = format!("{name}: there is no such {name}.");
        ApiError::invalid(Some(name), None, message)
    };
    parse(&text).map(Some).ok_or_else(unknown)
}
