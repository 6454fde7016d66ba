//! Health checks: whether the process lives, and whether it can do its work.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;

use crate::answer_body::json;
use crate::error::ApiError;
use crate::server::{AppState, RequestId};

pub(crate) async fn alive() -> Response {
    ok()
}

/// Says whether the server is ready: the database takes writes, and it has a lease on one that others use, too; no
/// upstream is asked.
pub(crate) async fn ready(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
) -> Response {
    if surfaces.runtime().is_refusing() || surfaces.runtime().is_leaving() {
        return ApiError::unavailable("The server is shutting down.").render(Some(&id));
    }
    if !surfaces.runtime().may_drive() {
        return ApiError::unavailable("The lease on the database is over.").render(Some(&id));
    }
    if surfaces.runtime().is_disk_full() {
        return ApiError::unavailable("The disk of the database is full.").render(Some(&id));
    }
    match surfaces.runtime().check_store().await {
        Ok(()) => ok(),
        Err(error) => {
            let _ = ApiError::internal(&error, &id);
            ApiError::unavailable("The database does not take writes.").render(Some(&id))
        }
    }
}

fn ok() -> Response {
    json(r#"{"status":"ok"}"#)
}
