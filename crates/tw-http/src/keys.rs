//! `/api/{slug}/keys…`: keys, by those whose key has the scope `admin`.

mod render;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, Request, StatusCode};
use serde::{Deserialize, Deserializer};
use tw_core::id::ApiKeyUuid;
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;
use tw_runtime::admin::KeyWanted;
use tw_runtime::keys::{ALL_TOOLS, KeyChanges, ManageKeyError, UnknownTools, ends_after};

use crate::error::ApiError;
use crate::server::{AppState, RequestId};
use crate::tools::{Slug, member, number, parameter, respond, slug_in, text_of};

/// Keys of one page, unless the request says otherwise, and at most.
const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1_000;

type SlugAndKey = Result<Path<(String, String)>, PathRejection>;

/// The body of a key that is made.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewKeyBody {
    #[serde(default)]
    name: String,
    scopes: Option<Vec<String>>,
    tools: Option<ToolsBody>,
    tools_mode: Option<String>,
    #[serde(default)]
    allow_unknown_tools: bool,
    record: Option<String>,
    memory: Option<String>,
    #[serde(default)]
    limits: LimitsBody,
    expires_days: Option<u32>,
}

/// The body of a change; what is not there stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyChangeBody {
    name: Option<String>,
    tools: Option<ToolsBody>,
    tools_mode: Option<String>,
    #[serde(default)]
    allow_unknown_tools: bool,
    #[serde(default)]
    limits: LimitsBody,
}

/// The tools of a key: `"all"`, `"none"` or names.
#[derive(Deserialize)]
#[serde(untagged)]
enum ToolsBody {
    Word(String),
    Names(Vec<String>),
}

/// Limits of a key, each of which may be null, which leaves it to the configuration.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct LimitsBody {
    #[serde(deserialize_with = "said")]
    requests_per_minute: Option<Option<u32>>,
    #[serde(deserialize_with = "said")]
    concurrency: Option<Option<u32>>,
    #[serde(deserialize_with = "said")]
    streams: Option<Option<u32>>,
}

fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(from).map(Some)
}

pub(crate) async fn list(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    slug: Slug,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let listed = async {
        let caller = member(&surfaces, &headers, slug_in(slug)?, KeyScope::Admin, &id).await?;
        let query = query.as_deref();
        let limit = match parameter(query, "limit") {
            None => PAGE_DEFAULT,
            Some(text) => number(&text, "limit")?,
        };
        if limit > PAGE_MAX {
            let message = format!("limit is at most {PAGE_MAX}.");
            return Err(ApiError::invalid(Some("limit"), None, message));
        }
        let no_key = || ApiError::invalid(Some("after"), None, "after is the id of a key.");
        let after = match parameter(query, "after") {
            None => None,
            Some(text) => Some(ApiKeyUuid::parse(&text).ok_or_else(no_key)?),
        };
        let listed = surfaces.runtime().api_keys(&caller, after, limit).await;
        let (keys, has_more) = listed.map_err(|error| match error {
            ManageKeyError::NotFound => no_key(),
            error => ApiError::of_key(&error, &id),
        })?;
        Ok(render::list(&keys, has_more, now(&surfaces)))
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
        let caller = member(
            &surfaces,
            &parts.headers,
            slug_in(slug)?,
            KeyScope::Admin,
            &id,
        )
        .await?;
        let text = text_of(&surfaces, &parts.headers, body).await?;
        let body: NewKeyBody = read(&text)?;
        let unknown = unknown_tools(body.allow_unknown_tools);
        let wanted = wanted(&surfaces, &caller.organization_slug, body)?;
        let made = surfaces
            .runtime()
            .create_api_key(&caller, wanted, unknown)
            .await;
        let (key, text) = made.map_err(|error| ApiError::of_key(&error, &id))?;
        Ok(render::made(&key, &text, now(&surfaces)))
    };
    respond(created.await, StatusCode::CREATED, &id)
}

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndKey,
    headers: HeaderMap,
) -> Response {
    let shown = async {
        let (slug, key) = place_in(place)?;
        let caller = member(&surfaces, &headers, slug, KeyScope::Admin, &id).await?;
        let found = surfaces.runtime().api_key(&caller, key?).await;
        let key = found.map_err(|error| ApiError::of_key(&error, &id))?;
        Ok(render::key(&key, now(&surfaces)).to_string())
    };
    respond(shown.await, StatusCode::OK, &id)
}

pub(crate) async fn change(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndKey,
    request: Request<Body>,
) -> Response {
    let changed = async {
        let (parts, body) = request.into_parts();
        let (slug, key) = place_in(place)?;
        let caller = member(&surfaces, &parts.headers, slug, KeyScope::Admin, &id).await?;
        let key = key?;
        let text = text_of(&surfaces, &parts.headers, body).await?;
        let body: KeyChangeBody = read(&text)?;
        let unknown = unknown_tools(body.allow_unknown_tools);
        let changes = KeyChanges {
            name: body.name,
            tools: body.tools.map(tools).transpose()?,
            tools_mode: body.tools_mode.as_deref().map(tools_mode).transpose()?,
            requests_per_minute: body.limits.requests_per_minute,
            concurrency_max: body.limits.concurrency,
            streams_max: body.limits.streams,
        };
        let runtime = surfaces.runtime();
        let made = runtime.change_api_key(&caller, key, changes, unknown).await;
        let key = made.map_err(|error| ApiError::of_key(&error, &id))?;
        Ok(render::key(&key, now(&surfaces)).to_string())
    };
    respond(changed.await, StatusCode::OK, &id)
}

pub(crate) async fn end(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndKey,
    headers: HeaderMap,
) -> Response {
    let ended = async {
        let (slug, key) = place_in(place)?;
        let caller = member(&surfaces, &headers, slug, KeyScope::Admin, &id).await?;
        let key = key?;
        let ended = surfaces.runtime().end_api_key(&caller, key).await;
        ended.map_err(|error| ApiError::of_key(&error, &id))?;
        Ok(render::ended(key))
    };
    respond(ended.await, StatusCode::OK, &id)
}

fn now(surfaces: &AppState) -> Timestamp {
    surfaces.runtime().env().now()
}

/// Reads the path of a key. The id is judged after the caller, so that strangers learn nothing from it.
fn place_in(place: SlugAndKey) -> Result<(String, Result<ApiKeyUuid, ApiError>), ApiError> {
    let Path((slug, key)) = place.map_err(|_| ApiError::no_key_of_id())?;
    let key = ApiKeyUuid::parse(&key).ok_or_else(ApiError::no_key_of_id);
    Ok((slug, key))
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(|error| {
        let message = format!("The body does not fit: {error}.");
        ApiError::invalid(None, Some("invalid_json"), message)
    })
}

fn unknown_tools(allowed: bool) -> UnknownTools {
    if allowed {
        UnknownTools::Allow
    } else {
        UnknownTools::Refuse
    }
}

fn wanted(
    surfaces: &AppState,
    organization: &str,
    body: NewKeyBody,
) -> Result<KeyWanted, ApiError> {
    let expires = body
        .expires_days
        .map(|days| ends_after(now(surfaces), days))
        .transpose()
        .map_err(|problem| refused("expires_days", &problem))?;
    Ok(KeyWanted {
        organization: organization.to_owned(),
        name: body.name,
        scopes: match body.scopes {
            None => KeyScope::DEFAULT.to_vec(),
            Some(words) => words
                .iter()
                .map(|word| scope(word))
                .collect::<Result<_, _>>()?,
        },
        tools: body.tools.map_or(Ok(ToolGrant::None), tools)?,
        tools_mode: body
            .tools_mode
            .as_deref()
            .map_or(Ok(ToolsMode::Replace), tools_mode)?,
        record: match body.record.as_deref() {
            None | Some("full") => RecordPolicy::Full,
            Some("minimal") => RecordPolicy::Minimal,
            Some(_) => return Err(refused("record", "'full' or 'minimal'")),
        },
        memory: match body.memory.as_deref() {
            None | Some("off") => KeyMemory::Off,
            Some("key") => KeyMemory::Key,
            Some(_) => return Err(refused("memory", "'off' or 'key'")),
        },
        limits: RateLimits {
            requests_per_minute: body.limits.requests_per_minute.flatten(),
            concurrency_max: body.limits.concurrency.flatten(),
            streams_max: body.limits.streams.flatten(),
        },
        expires,
    })
}

fn scope(word: &str) -> Result<KeyScope, ApiError> {
    KeyScope::parse(word).ok_or_else(|| {
        let known = KeyScope::ALL.map(KeyScope::as_str).join(", ");
        refused("scopes", &format!("each is one of {known}"))
    })
}

fn tools(body: ToolsBody) -> Result<ToolGrant, ApiError> {
    match body {
        ToolsBody::Names(names) => Ok(ToolGrant::Named(names)),
        ToolsBody::Word(word) if word == ALL_TOOLS => Ok(ToolGrant::All),
        ToolsBody::Word(word) if word == "none" => Ok(ToolGrant::None),
        ToolsBody::Word(_) => Err(refused("tools", "'all', 'none' or a list of names")),
    }
}

fn tools_mode(word: &str) -> Result<ToolsMode, ApiError> {
    ToolsMode::parse(word).ok_or_else(|| refused("tools_mode", "'replace' or 'add'"))
}

fn refused(field: &str, problem: &str) -> ApiError {
    ApiError::invalid(
        Some(field),
        Some("invalid_key"),
        format!("{field}: {problem}."),
    )
}
