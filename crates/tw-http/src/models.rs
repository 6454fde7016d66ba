//! `GET /v1/models` and `GET /v1/models/{id}`

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use tw_core::tenant::KeyScope;
use tw_runtime::models::UnlistedUpstream;
use tw_wire::model_list::encode;

use crate::access;
use crate::answer_body::{json, respond};
use crate::error::ApiError;
use crate::server::{AppState, RequestId};

pub(crate) async fn list(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
) -> Response {
    let listed = async {
        access::caller(&surfaces, &headers, Some(KeyScope::Chat), &id).await?;
        let listed = surfaces.runtime().models().await;
        if listed.models.is_empty() && !listed.missing.is_empty() {
            return Err(ApiError::no_list(&listed.missing));
        }
        Ok(listed)
    };
    match listed.await {
        Ok(listed) => {
            let mut response = json(encode(&listed.models));
            if let Some(names) = names(&listed.missing) {
                response.headers_mut().insert(UNLISTED, names);
            }
            response
        }
        Err(error) => error.render(Some(&id)),
    }
}

/// Names the upstreams whose models are not in the list, since they did not give theirs.
const UNLISTED: HeaderName = HeaderName::from_static("turnwright-unlisted-upstreams");

fn names(missing: &[UnlistedUpstream]) -> Option<HeaderValue> {
    if missing.is_empty() {
        return None;
    }
    let names: Vec<&str> = missing.iter().map(|one| one.name.as_str()).collect();
    // A name may have characters that no header takes.
    HeaderValue::from_str(&names.join(", ")).ok()
}

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    model: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let shown = async {
        access::caller(&surfaces, &headers, Some(KeyScope::Chat), &id).await?;
        let Ok(Path(model)) = model else {
            return Err(ApiError::no_model());
        };
        let listed = surfaces.runtime().models().await;
        let none_is_known = listed.models.is_empty() && !listed.missing.is_empty();
        let mut models = listed.models.into_iter();
        let found = models.find(|listed| listed.id == model);
        let found = found.ok_or_else(|| {
            if none_is_known {
                ApiError::no_list(&listed.missing)
            } else {
                ApiError::no_model()
            }
        })?;
        Ok(found.entry.as_str().as_bytes().to_vec())
    };
    respond(shown.await, &id)
}
