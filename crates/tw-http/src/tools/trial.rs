//! Looking at a tool before it is used: `…/tools/preview` and `…/tools/{id}/test`.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{Request, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tw_core::json::{Json, depth};
use tw_core::limits::JSON_DEPTH_DEFAULT;
use tw_core::tenant::KeyScope;
use tw_core::variables::Variables;
use tw_runtime::tools::ToolTrial;

use super::{Slug, SlugAndId, member, place_in, render, respond, slug_in, text_of};
use crate::error::ApiError;
use crate::server::{AppState, RequestId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreviewBody {
    tool: Box<RawValue>,
    arguments: Option<Box<RawValue>>,
    metadata: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestBody {
    arguments: Option<Box<RawValue>>,
    metadata: Option<Value>,
    /// Whether the request is only shown; true unless it says otherwise.
    dry: Option<bool>,
}

pub(crate) async fn preview(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    slug: Slug,
    request: Request<Body>,
) -> Response {
    let previewed = async {
        let (parts, body) = request.into_parts();
        let slug = slug_in(slug)?;
        let caller = member(&surfaces, &parts.headers, slug, KeyScope::ToolsWrite, &id).await?;
        let text = text_of(&surfaces, &parts.headers, body).await?;
        let body: PreviewBody = read(&text)?;
        let trial = trial(body.arguments.as_deref(), body.metadata.as_ref())?;
        let runtime = surfaces.runtime();
        let preview = runtime.preview_tool(&caller, body.tool.get(), &trial).await;
        let preview = preview.map_err(|error| ApiError::of_tool(&error, &id))?;
        Ok(render::preview(&preview))
    };
    respond(previewed.await, StatusCode::OK, &id)
}

pub(crate) async fn test(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndId,
    request: Request<Body>,
) -> Response {
    let tested = async {
        let (parts, body) = request.into_parts();
        let (slug, tool) = place_in(place)?;
        let caller = member(&surfaces, &parts.headers, slug, KeyScope::ToolsWrite, &id).await?;
        let tool = tool?;
        let text = text_of(&surfaces, &parts.headers, body).await?;
        let text = if text.trim().is_empty() { "{}" } else { &text };
        let body: TestBody = read(text)?;
        let trial = trial(body.arguments.as_deref(), body.metadata.as_ref())?;
        let runtime = surfaces.runtime();
        let refused = |error| ApiError::of_tool(&error, &id);
        if body.dry.unwrap_or(true) {
            let preview = runtime.test_tool_dry(&caller, tool, &trial).await;
            Ok(render::preview(&preview.map_err(refused)?))
        } else {
            let tested = runtime.test_tool(&caller, tool, &trial).await;
            let (preview, tested) = tested.map_err(refused)?;
            Ok(render::tested(&preview, &tested))
        }
    };
    respond(tested.await, StatusCode::OK, &id)
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ApiError> {
    if depth(text.as_bytes()) > JSON_DEPTH_DEFAULT {
        let message = format!("The body nests deeper than {JSON_DEPTH_DEFAULT} levels.");
        return Err(ApiError::invalid(None, Some("invalid_json"), message));
    }
    serde_json::from_str(text).map_err(|error| {
        let message = format!("The body does not fit: {error}.");
        ApiError::invalid(None, Some("invalid_json"), message)
    })
}

fn trial(arguments: Option<&RawValue>, metadata: Option<&Value>) -> Result<ToolTrial, ApiError> {
    let mut variables = Variables::default();
    let members = match metadata {
        None | Some(Value::Null) => None,
        Some(Value::Object(members)) => Some(members),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return Err(not_text("metadata"));
        }
    };
    for (name, value) in members.into_iter().flatten() {
        let text = value
            .as_str()
            .ok_or_else(|| not_text(&format!("metadata.{name}")))?;
        variables.set(name, text.to_owned());
    }
    Ok(ToolTrial {
        arguments: arguments.map(Json::from_raw),
        metadata: variables,
    })
}

fn not_text(field: &str) -> ApiError {
    ApiError::invalid(
        Some(field),
        None,
        "metadata is an object whose values are strings.",
    )
}
