//! `GET /metrics`

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use tw_core::tenant::KeyScope;
use tw_runtime::metrics::Format;
use tw_runtime::runtime::Runtime;

use crate::access;
use crate::server::{AppState, RequestId};

/// Media type that a scraper which reads OpenMetrics asks for.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// The one route of a listener that only operators reach; it asks for no key.
pub fn router(runtime: Runtime) -> Router {
    Router::new()
        .route("/metrics", get(for_all))
        .with_state(runtime)
}

/// Answers on the listener of clients, for keys with the scope `admin`.
pub(crate) async fn for_admins(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
) -> Response {
    match access::caller(&surfaces, &headers, Some(KeyScope::Admin), &id).await {
        Ok(_caller) => text(surfaces.runtime(), &headers),
        Err(error) => error.render(Some(&id)),
    }
}

async fn for_all(State(runtime): State<Runtime>, headers: HeaderMap) -> Response {
    text(&runtime, &headers)
}

fn text(runtime: &Runtime, headers: &HeaderMap) -> Response {
    let asks_for_open = headers
        .get_all(ACCEPT)
        .iter()
        .any(|value| value.to_str().is_ok_and(|text| text.contains(OPEN_METRICS)));
    let (format, content_type) = if asks_for_open {
        let open = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        (Format::OpenMetrics, open)
    } else {
        (
            Format::Prometheus,
            "text/plain; version=0.0.4; charset=utf-8",
        )
    };
    let mut response = Response::new(Body::from(runtime.metrics_text(format)));
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
