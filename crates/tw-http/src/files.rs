//! `GET /files/{id}`: files that jobs have made, to whoever has a link that we signed.

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use tw_store::system::files::StoredFile;

use crate::error::ApiError;
use crate::server::{AppState, RequestId};
use crate::tools::{parameter, respond};

/// The file of a link.
pub(crate) async fn read(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    place: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Response {
    // A link that cannot be read is that of no file.
    let file = place.map_or_else(|_| String::new(), |Path(file)| file);
    let of = |name: &str| parameter(query.as_deref(), name).unwrap_or_default();
    let (expires, signature) = (of("expires"), of("signature"));
    let found = surfaces.runtime().file(&file, &expires, &signature).await;
    match found {
        Ok(found) => answer(found),
        Err(error) => respond(Err(ApiError::of_file(&error, &id)), StatusCode::OK, &id),
    }
}

/// Whatever a tool made, a browser runs nothing of it here.
fn answer(file: StoredFile) -> Response {
    // It was a header's value when the file came.
    let content_type = HeaderValue::from_str(&file.content_type);
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let headers = [
        (CONTENT_TYPE, content_type),
        (
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; sandbox"),
        ),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CONTENT_DISPOSITION, HeaderValue::from_static("inline")),
        (
            CACHE_CONTROL,
            HeaderValue::from_static("private, max-age=3600"),
        ),
    ];
    (headers, Body::from(file.content)).into_response()
}
