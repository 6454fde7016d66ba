//! `/api/{slug}/users/{name}`: the end of what an end user left, by those whose key has the scope `admin`.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tw_core::tenant::KeyScope;
use tw_runtime::forgetting::Forgotten;

use crate::conversations::unwritten;
use crate::error::ApiError;
use crate::server::{AppState, RequestId};
use crate::tools::{member, respond};

type SlugAndUser = Result<Path<(String, String)>, PathRejection>;

pub(crate) async fn erase(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndUser,
    headers: HeaderMap,
) -> Response {
    let erased = async {
        let Path((slug, name)) = place.map_err(|_| ApiError::no_end_user())?;
        let caller = member(&surfaces, &headers, slug, KeyScope::Admin, &id).await?;
        let forgotten = surfaces.runtime().forget_end_user(&caller, &name).await;
        match forgotten.map_err(|error| unwritten(&error, &id))? {
            Forgotten::As(kept_as) => Ok(json!({
                "object": "end_user.erased", "erased": true, "kept_as": kept_as,
            })
            .to_string()),
            Forgotten::NotFound => Err(ApiError::no_end_user()),
        }
    };
    respond(erased.await, StatusCode::OK, &id)
}
