//! `POST /v1/responses` and `POST /v1/responses/input_tokens`, and what is kept of a response.

pub(crate) mod cancel;
pub(crate) mod delete;
pub(crate) mod input_items;
pub(crate) mod show;

mod found;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use tw_core::turn_policy::Surface;
use tw_wire::format::WireFormat;

use crate::gateway::{self, ModelSurface, counting};
use crate::server::{AppState, RequestId};

pub(crate) const SURFACE: ModelSurface = ModelSurface {
    surface: Surface::Responses,
    format: WireFormat::OpenAiResponses,
};

/// The route of counts.
pub(crate) const COUNT_ROUTE: &str = "/v1/responses/input_tokens";

pub(crate) async fn create(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    gateway::answer(&SURFACE, &surfaces, &id, request).await
}

pub(crate) async fn input_tokens(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    counting::count(&SURFACE, COUNT_ROUTE, &surfaces, &id, request).await
}
