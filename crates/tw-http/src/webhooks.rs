//! `/api/{slug}/webhooks…`: where an organization is told of what happened.

mod deliveries;
mod render;

use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, Request, StatusCode};
use serde::Deserialize;
use tw_core::id::WebhookId;
use tw_core::tenant::KeyScope;
use tw_core::webhook::{WebhookContents, WebhookEvent, WebhookSwitch};
use tw_runtime::auth::Principal;
use tw_runtime::webhooks::{OVERLAP_DEFAULT, WebhookError, WebhookPatch, WebhookWanted};

use crate::error::ApiError;
use crate::server::{AppState, RequestId};
use crate::tools::{Slug, member, respond, slug_in, text_of};

pub(crate) use deliveries::{list as list_deliveries, replay, replay_dead, show as show_delivery};

type SlugAndWebhook = Result<Path<(String, String)>, PathRejection>;

/// The body of a webhook that is made.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewWebhookBody {
    url: String,
    #[serde(default)]
    description: String,
    events: Option<Vec<String>>,
    contents: Option<String>,
    secret: Option<String>,
}

/// The body of a change; what is not there stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookPatchBody {
    url: Option<String>,
    description: Option<String>,
    events: Option<Vec<String>>,
    contents: Option<String>,
    enabled: Option<bool>,
}

/// The body of a rotation, which may be empty.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RotateBody {
    secret: Option<String>,
    overlap_s: Option<u64>,
}

pub(crate) async fn list(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    slug: Slug,
    headers: HeaderMap,
) -> Response {
    let listed = async {
        let scope = KeyScope::WebhooksRead;
        let caller = member(&surfaces, &headers, slug_in(slug)?, scope, &id).await?;
        let listed = surfaces.runtime().webhooks(&caller).list().await;
        let webhooks = listed.map_err(|error| ApiError::of_webhook(&error, &id))?;
        Ok(render::list(&webhooks, surfaces.runtime().env().now()))
    };
    respond(listed.await, StatusCode::OK, &id)
}

pub(crate) async fn create(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    slug: Slug,
    request: Request<Body>,
) -> Response {
    let created = async {
        let (parts, body) = request.into_parts();
        let scope = KeyScope::WebhooksWrite;
        let caller = member(&surfaces, &parts.headers, slug_in(slug)?, scope, &id).await?;
        let text = text_of(&surfaces, &parts.headers, body).await?;
        let body: NewWebhookBody = read(&text)?;
        let wanted = WebhookWanted {
            url: body.url,
            description: body.description,
            events: body.events.map(events).transpose()?,
            contents: body
                .contents
                .as_deref()
                .map_or(Ok(WebhookContents::None), contents)?,
            secret: body.secret,
        };
        let made = surfaces.runtime().webhooks(&caller).create(wanted).await;
        let (row, secret) = made.map_err(|error| ApiError::of_webhook(&error, &id))?;
        Ok(render::made(&row, &secret, surfaces.runtime().env().now()))
    };
    respond(created.await, StatusCode::CREATED, &id)
}

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndWebhook,
    headers: HeaderMap,
) -> Response {
    let shown = async {
        let scope = KeyScope::WebhooksRead;
        let (caller, webhook) = webhook_in(&surfaces, &headers, place, scope, &id).await?;
        let found = surfaces.runtime().webhooks(&caller).get(webhook).await;
        let row = found.map_err(|error| ApiError::of_webhook(&error, &id))?;
        Ok(render::webhook(&row, surfaces.runtime().env().now()).to_string())
    };
    respond(shown.await, StatusCode::OK, &id)
}

pub(crate) async fn change(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndWebhook,
    request: Request<Body>,
) -> Response {
    let changed = async {
        let (parts, body) = request.into_parts();
        let scope = KeyScope::WebhooksWrite;
        let (caller, webhook) = webhook_in(&surfaces, &parts.headers, place, scope, &id).await?;
        let text = text_of(&surfaces, &parts.headers, body).await?;
        let body: WebhookPatchBody = read(&text)?;
        let patch = WebhookPatch {
            url: body.url,
            description: body.description,
            events: body.events.map(events).transpose()?,
            contents: body.contents.as_deref().map(contents).transpose()?,
            enabled: body.enabled.map(|enabled| {
                if enabled {
                    WebhookSwitch::Enable
                } else {
                    WebhookSwitch::Disable
                }
            }),
        };
        let runtime = surfaces.runtime();
        let made = runtime.webhooks(&caller).change(webhook, patch).await;
        let row = made.map_err(|error| ApiError::of_webhook(&error, &id))?;
        Ok(render::webhook(&row, runtime.env().now()).to_string())
    };
    respond(changed.await, StatusCode::OK, &id)
}

pub(crate) async fn delete(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndWebhook,
    headers: HeaderMap,
) -> Response {
    let deleted = async {
        let scope = KeyScope::WebhooksWrite;
        let (caller, webhook) = webhook_in(&surfaces, &headers, place, scope, &id).await?;
        let gone = surfaces.runtime().webhooks(&caller).delete(webhook).await;
        gone.map_err(|error| ApiError::of_webhook(&error, &id))?;
        Ok(render::deleted(webhook))
    };
    respond(deleted.await, StatusCode::OK, &id)
}

pub(crate) async fn rotate(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndWebhook,
    request: Request<Body>,
) -> Response {
    let rotated = async {
        let (parts, body) = request.into_parts();
        let scope = KeyScope::WebhooksWrite;
        let (caller, webhook) = webhook_in(&surfaces, &parts.headers, place, scope, &id).await?;
        let text = text_of(&surfaces, &parts.headers, body).await?;
        let body = if text.is_empty() {
            RotateBody::default()
        } else {
            read(&text)?
        };
        let overlap = body.overlap_s.map_or(OVERLAP_DEFAULT, Duration::from_secs);
        let runtime = surfaces.runtime();
        let webhooks = runtime.webhooks(&caller);
        let rotated = webhooks
            .rotate(webhook, body.secret.as_deref(), overlap)
            .await;
        let (row, secret) = rotated.map_err(|error| ApiError::of_webhook(&error, &id))?;
        Ok(render::made(&row, &secret, runtime.env().now()))
    };
    respond(rotated.await, StatusCode::OK, &id)
}

pub(crate) async fn test(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndWebhook,
    headers: HeaderMap,
) -> Response {
    let tested = async {
        let scope = KeyScope::WebhooksWrite;
        let (caller, webhook) = webhook_in(&surfaces, &headers, place, scope, &id).await?;
        let webhooks = surfaces.runtime().webhooks(&caller);
        let tested = webhooks.test(webhook).await;
        let event = tested.map_err(|error| ApiError::of_webhook(&error, &id))?;
        deliveries::told(&webhooks, webhook, event, &id).await
    };
    respond(tested.await, StatusCode::ACCEPTED, &id)
}

/// The caller and the webhook of a path. The id is judged after the caller, so that strangers learn nothing from it.
async fn webhook_in(
    surfaces: &AppState,
    headers: &HeaderMap,
    place: SlugAndWebhook,
    scope: KeyScope,
    id: &RequestId,
) -> Result<(Principal, WebhookId), ApiError> {
    let none = || ApiError::of_webhook(&WebhookError::NotFound, id);
    let Path((slug, webhook)) = place.map_err(|_| none())?;
    let caller = member(surfaces, headers, slug, scope, id).await?;
    let webhook = WebhookId::parse(&webhook).ok_or_else(none)?;
    Ok((caller, webhook))
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(|error| {
        let message = format!("The body does not fit: {error}.");
        ApiError::invalid(None, Some("invalid_json"), message)
    })
}

fn events(words: Vec<String>) -> Result<Vec<WebhookEvent>, ApiError> {
    let known = |word: &String| {
        WebhookEvent::ALL
            .into_iter()
            .find(|event| event.as_str() == word)
    };
    let read: Option<Vec<_>> = words.iter().map(known).collect();
    read.ok_or_else(|| {
        let known = WebhookEvent::ALL.map(WebhookEvent::as_str).join(", ");
        refused("events", &format!("each is one of {known}"))
    })
}

fn contents(word: &str) -> Result<WebhookContents, ApiError> {
    WebhookContents::parse(word).ok_or_else(|| refused("contents", "'none' or 'full'"))
}

fn refused(field: &str, problem: &str) -> ApiError {
    let message = format!("{field}: {problem}.");
    ApiError::invalid(Some(field), Some("invalid_webhook"), message)
}
