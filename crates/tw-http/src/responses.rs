//! `POST /v1/responses`, and what is kept of a response.

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

use crate::gateway::{self, ModelSurface};
use crate::server::{AppState, RequestId};

const SURFACE: ModelSurface = ModelSurface {
    surface: Surface::Responses,
    format: WireFormat::OpenAiResponses,
};

pub(crate) async fn create(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    gateway::answer(&SURFACE, &surfaces, &id, request).await
}
