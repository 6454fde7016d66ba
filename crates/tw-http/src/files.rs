//! `GET /files/{id}`: files that jobs have made, to whoever has a link that we signed.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use tw_store::system::files::StoredFile;

use crate::error::ApiError;
use crate::server::{AppState, BODY_UNIT_BYTES, RequestId};
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
        Ok(found) => {
            let units = found.content.len() / BODY_UNIT_BYTES + 1;
            let units = u32::try_from(units).unwrap_or(u32::MAX);
            match Arc::clone(&surfaces.0.files).try_acquire_many_owned(units) {
                Ok(room) => answer(found, room),
                Err(_) => respond(Err(ApiError::overloaded()), StatusCode::OK, &id),
            }
        }
        Err(error) => respond(Err(ApiError::of_file(&error, &id)), StatusCode::OK, &id),
    }
}

/// Whatever a tool made, a browser runs nothing of it here.
fn answer(file: StoredFile, room: OwnedSemaphorePermit) -> Response {
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
    let held = HeldFile {
        content: file.content,
        _room: room,
    };
    (headers, Body::from(Bytes::from_owner(held))).into_response()
}

/// A file with the room that it has until the client has taken it.
struct HeldFile {
    content: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for HeldFile {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}
