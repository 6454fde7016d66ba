//! `/api/{slug}/tools…`: tools as data.

mod render;
mod trial;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, Request, StatusCode};
use tw_core::id::ToolId;
use tw_core::tenant::KeyScope;
use tw_runtime::auth::Principal;
use tw_runtime::tools::{StoredTool, ToolError};

use crate::access;
use crate::answer_body::json;
use crate::error::ApiError;
use crate::request_body::read_body;
use crate::server::{AppState, RequestId};

pub(crate) use trial::{preview, test};

/// Largest body of a request here: a definition with its schemas, several times over.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Tools of one page, unless the request says otherwise, and at most.
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;

pub(crate) type Slug = Result<Path<String>, PathRejection>;
type SlugAndId = Result<Path<(String, String)>, PathRejection>;

pub(crate) async fn list(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    slug: Slug,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let listed = async {
        let caller = member(
            &surfaces,
            &headers,
            slug_in(slug)?,
            KeyScope::ToolsRead,
            &id,
        )
        .await?;
        let page = Page::read(query.as_deref())?;
        let listed = surfaces
            .runtime()
            .tools(&caller, page.after, page.limit)
            .await;
        let (tools, more) = listed.map_err(|error| {
            if matches!(error, ToolError::NotFound) {
                let message = "No tool of the list has this id.";
                return ApiError::invalid(Some("after"), None, message);
            }
            ApiError::of_tool(&error, &id)
        })?;
        render::list(&tools, more).ok_or_else(ApiError::damaged_tool)
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
        let slug = slug_in(slug)?;
        let caller = member(&surfaces, &parts.headers, slug, KeyScope::ToolsWrite, &id).await?;
        let text = text_of(&surfaces, &parts.headers, body).await?;
        let made = surfaces.runtime().create_tool(&caller, &text).await;
        told(&made.map_err(|error| ApiError::of_tool(&error, &id))?)
    };
    respond(created.await, StatusCode::CREATED, &id)
}

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndId,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let shown = async {
        let (slug, tool) = place_in(place)?;
        let caller = member(&surfaces, &headers, slug, KeyScope::ToolsRead, &id).await?;
        let version = match parameter(query.as_deref(), "version") {
            None => None,
            Some(text) => Some(number(&text, "version")?),
        };
        let found = surfaces.runtime().tool(&caller, tool?, version).await;
        told(&found.map_err(|error| ApiError::of_tool(&error, &id))?)
    };
    respond(shown.await, StatusCode::OK, &id)
}

pub(crate) async fn change(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndId,
    request: Request<Body>,
) -> Response {
    let changed = async {
        let (parts, body) = request.into_parts();
        let (slug, tool) = place_in(place)?;
        let caller = member(&surfaces, &parts.headers, slug, KeyScope::ToolsWrite, &id).await?;
        let text = text_of(&surfaces, &parts.headers, body).await?;
        let made = surfaces.runtime().change_tool(&caller, tool?, &text).await;
        told(&made.map_err(|error| ApiError::of_tool(&error, &id))?)
    };
    respond(changed.await, StatusCode::OK, &id)
}

pub(crate) async fn delete(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndId,
    headers: HeaderMap,
) -> Response {
    let deleted = async {
        let (slug, tool) = place_in(place)?;
        let caller = member(&surfaces, &headers, slug, KeyScope::ToolsWrite, &id).await?;
        let tool = tool?;
        let gone = surfaces.runtime().delete_tool(&caller, tool).await;
        gone.map_err(|error| ApiError::of_tool(&error, &id))?;
        Ok(render::deleted(tool))
    };
    respond(deleted.await, StatusCode::OK, &id)
}

/// The caller, if the organization in the path is its own; another one is not found.
pub(crate) async fn member(
    surfaces: &AppState,
    headers: &HeaderMap,
    slug: String,
    scope: KeyScope,
    id: &RequestId,
) -> Result<Principal, ApiError> {
    let caller = access::caller(surfaces, headers, None, id).await?;
    if *caller.organization_slug != *slug {
        return Err(ApiError::no_organization());
    }
    if !caller.may(scope) {
        return Err(ApiError::out_of_scope(scope.as_str()));
    }
    Ok(caller)
}

/// The slug in a path; a path that is no text names no organization that there is.
pub(crate) fn slug_in(slug: Slug) -> Result<String, ApiError> {
    slug.map(|Path(slug)| slug)
        .map_err(|_| ApiError::no_organization())
}

/// Reads the path of a tool. The id is judged after the caller, so that strangers learn nothing from it.
fn place_in(place: SlugAndId) -> Result<(String, Result<ToolId, ApiError>), ApiError> {
    let Path((slug, tool)) = place.map_err(|_| ApiError::no_tool())?;
    Ok((slug, ToolId::parse(&tool).ok_or_else(ApiError::no_tool)))
}

pub(crate) async fn text_of(
    surfaces: &AppState,
    headers: &HeaderMap,
    body: Body,
) -> Result<String, ApiError> {
    let bytes = read_body(surfaces, headers, body, BODY_BYTES_MAX).await?;
    String::from_utf8(bytes.into())
        .map_err(|_| ApiError::invalid(None, Some("invalid_json"), "The body is not UTF-8."))
}

fn told(tool: &StoredTool) -> Result<String, ApiError> {
    render::tool(tool).ok_or_else(ApiError::damaged_tool)
}

/// The part of the list that is asked for.
struct Page {
    limit: usize,
    after: Option<ToolId>,
}

impl Page {
    fn read(query: Option<&str>) -> Result<Self, ApiError> {
        let limit = match parameter(query, "limit") {
            None => PAGE_DEFAULT,
            Some(text) => usize::try_from(number(&text, "limit")?).unwrap_or(PAGE_MAX),
        };
        if limit > PAGE_MAX {
            let message = format!("limit is at most {PAGE_MAX}.");
            return Err(ApiError::invalid(Some("limit"), None, message));
        }
        let after = match parameter(query, "after") {
            None => None,
            Some(text) => Some(ToolId::parse(&text).ok_or_else(|| {
                ApiError::invalid(Some("after"), None, "after is the id of a tool.")
            })?),
        };
        Ok(Self { limit, after })
    }
}

/// The last value of a query parameter, decoded.
pub(crate) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    url::form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .filter(|(key, _)| key == name)
        .last()
        .map(|(_, value)| value.into_owned())
}

pub(crate) fn number(text: &str, name: &str) -> Result<u32, ApiError> {
    let read = text.parse().ok().filter(|number| *number > 0);
    read.ok_or_else(|| {
        let message = format!("{name} is a whole number from 1.");
        ApiError::invalid(Some(name), None, message)
    })
}

pub(crate) fn respond(
    answer: Result<String, ApiError>,
    status: StatusCode,
    id: &RequestId,
) -> Response {
    match answer {
        Ok(body) => {
            let mut response = json(body);
            *response.status_mut() = status;
            response
        }
        Err(error) => error.render(Some(id)),
    }
}
