//! `POST /v1/messages` and `POST /v1/messages/count_tokens`

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use tw_core::turn_policy::Surface;
use tw_wire::format::WireFormat;

use crate::gateway::{self, ModelSurface, counting};
use crate::server::{AppState, RequestId};

const SURFACE: ModelSurface = ModelSurface {
    surface: Surface::Messages,
    format: WireFormat::AnthropicMessages,
};

/// The route of counts.
pub(crate) const COUNT_ROUTE: &str = "/v1/messages/count_tokens";

pub(crate) async fn create(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    gateway::answer(&SURFACE, &surfaces, &id, request).await
}

pub(crate) async fn count_tokens(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    counting::count(&SURFACE, COUNT_ROUTE, &surfaces, &id, request).await
}
