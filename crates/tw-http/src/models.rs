//! `GET /v1/models` and `GET /v1/models/{id}`

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use tw_core::change::Scope;
use tw_wire::openai_chat::models::encode;

use crate::access;
use crate::answer_body::respond;
use crate::error::ApiError;
use crate::server::{RequestId, Surfaces};

pub(crate) async fn list(
    State(surfaces): State<Surfaces>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
) -> Response {
    let listed = async {
        access::caller(&surfaces, &headers, Some(Scope::Chat), &id).await?;
        Ok(encode(&surfaces.runtime().models().await))
    };
    respond(listed.await, &id)
}

pub(crate) async fn show(
    State(surfaces): State<Surfaces>,
    Extension(id): Extension<RequestId>,
    model: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let shown = async {
        access::caller(&surfaces, &headers, Some(Scope::Chat), &id).await?;
        let Ok(Path(model)) = model else {
            return Err(ApiError::no_model());
        };
        let found = surfaces.runtime().model(&model).await;
        let found = found.ok_or_else(ApiError::no_model)?;
        Ok(found.entry.as_str().as_bytes().to_vec())
    };
    respond(shown.await, &id)
}
