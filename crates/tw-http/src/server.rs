//! The routes, and what all requests share.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use http::header::CONNECTION;
use http::{HeaderName, HeaderValue, StatusCode};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tw_runtime::runtime::Runtime;

use crate::cors::CorsOrigins;
use crate::error::ApiError;
use crate::routes;
use crate::socket::places::SocketPlaces;
use crate::surface_format;

/// Shared state of the handlers.
#[derive(Clone, Debug)]
pub struct AppState(pub(crate) Arc<SharedState>);

#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) runtime: Runtime,
    pub(crate) options: SurfaceOptions,
    /// Permits for the units of bodies that may be read.
    pub(crate) bodies: Semaphore,
    /// The same for callbacks, whose senders show no key before their bodies are read.
    pub(crate) callback_bodies: Semaphore,
    /// Permits for the units of files that clients are being handed.
    pub(crate) files: Arc<Semaphore>,
    /// Cancelled when every answer is the last one of its connection.
    pub(crate) closing: CancellationToken,
    /// Places for connections that are no longer HTTP's.
    pub(crate) sockets: Arc<SocketPlaces>,
    pub(crate) socket_tasks: TaskTracker,
}

/// Settings of the surfaces.
#[derive(Clone, Debug)]
pub struct SurfaceOptions {
    /// Silence on a stream after which a comment is sent.
    pub keep_alive: Duration,
    /// Longest time for a request's body to arrive.
    pub body_timeout: Duration,
    /// Bytes of all bodies that are being read; what is beyond is refused. At least one body of
    /// the largest size is read whatever this says.
    pub bodies_bytes_max: usize,
    /// Headers that name the end user, one of which a request may bring.
    pub end_user_headers: Vec<HeaderName>,
    /// Origins whose pages in browsers may ask.
    pub cors_origins: CorsOrigins,
    /// Longest time that a WebSocket is open; what it is telling then, it tells to its end.
    pub socket_life: Duration,
    /// WebSockets that are open at once. Each may hold a message of the size of a body, and what it continues.
    pub sockets: SocketLimits,
}

/// Most WebSockets at once.
#[derive(Clone, Copy, Debug)]
pub struct SocketLimits {
    pub all: usize,
    pub of_key: usize,
}

/// Header that names the end user unless the configuration says otherwise.
pub const END_USER_HEADER_DEFAULT: HeaderName = HeaderName::from_static("turnwright-user");
/// Silence after which a comment is sent, by section 12 of the design.
pub const KEEP_ALIVE_DEFAULT: Duration = Duration::from_secs(15);
pub const BODY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// Room for 16 bodies of the largest size.
pub const BODIES_BYTES_DEFAULT: usize = 512 * 1024 * 1024;
/// Bytes of all callbacks that are being read: 64 of the largest size.
const CALLBACK_BODIES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of all files that clients are being handed, which are held in memory: some of the largest size.
const FILES_BYTES_MAX: usize = 512 * 1024 * 1024;
/// WebSockets that are open at once, and those of one key unless the configuration says otherwise: an agent has one for
/// each of its conversations.
pub const SOCKETS_DEFAULT: SocketLimits = SocketLimits {
    all: 512,
    of_key: 128,
};
/// Longest time that a WebSocket is open, as OpenAI's guide "WebSocket mode" (2026) has it.
pub const SOCKET_LIFE_DEFAULT: Duration = Duration::from_secs(3600);
/// The unit in which bytes of bodies are counted.
pub(crate) const BODY_UNIT_BYTES: usize = 4096;

impl SurfaceOptions {
    pub fn defaults() -> Self {
        Self {
            keep_alive: KEEP_ALIVE_DEFAULT,
            body_timeout: BODY_TIMEOUT_DEFAULT,
            bodies_bytes_max: BODIES_BYTES_DEFAULT,
            end_user_headers: vec![END_USER_HEADER_DEFAULT],
            cors_origins: CorsOrigins::None,
            socket_life: SOCKET_LIFE_DEFAULT,
            sockets: SOCKETS_DEFAULT,
        }
    }
}

impl AppState {
    pub fn new(runtime: Runtime, options: SurfaceOptions) -> Self {
        let bytes_max = options
            .bodies_bytes_max
            .max(runtime.request_limits().body_bytes_max);
        let units = (bytes_max / BODY_UNIT_BYTES + 1).min(Semaphore::MAX_PERMITS);
        let sockets = SocketPlaces::new(options.sockets);
        Self(Arc::new(SharedState {
            runtime,
            options,
            bodies: Semaphore::new(units),
            files: Arc::new(Semaphore::new(FILES_BYTES_MAX / BODY_UNIT_BYTES)),
            callback_bodies: Semaphore::new(CALLBACK_BODIES_BYTES_MAX / BODY_UNIT_BYTES),
            closing: CancellationToken::new(),
            sockets,
            socket_tasks: TaskTracker::new(),
        }))
    }

    /// Makes each answer tell its client, from now on, to use another connection next time.
    pub fn close_connections(&self) {
        self.0.closing.cancel();
    }

    /// Waits until the last WebSocket is closed, for at most `span`; they close behind what they are telling.
    pub async fn sockets_closed_within(&self, span: Duration) {
        self.0.socket_tasks.close();
        let _ = tokio::time::timeout(span, self.0.socket_tasks.wait()).await;
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }
}

/// The other side of a request's connection, which whoever listens puts among its extensions.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub IpAddr);

/// The id of a request, in its answer, its errors and the log.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) String);

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The router with all routes.
pub fn router(surfaces: AppState) -> Router {
    let cors = surfaces.0.options.cors_origins.layer();
    let (routes, paths) = routes::all().finish();
    let paths: Arc<[String]> = paths.into();
    let router = routes
        .fallback(move |request| no_route(request, paths))
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(
            surfaces.clone(),
            with_request_id,
        ))
        .with_state(surfaces);
    match cors {
        Some(cors) => router.layer(cors),
        None => router,
    }
}

async fn with_request_id(
    State(surfaces): State<AppState>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let id = format!("req_{}", surfaces.runtime().env().random_id().simple());
    let header = HeaderValue::from_str(&id);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let own_header = surface_format::of(&path, request.headers()).request_id_header();
    request.extensions_mut().insert(RequestId(id.clone()));
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    let route = route.as_ref().map(MatchedPath::as_str);
    // The address of a callback is a secret.
    let path = match route {
        Some(route) if route.contains("{token}") => route,
        Some(_) | None => &path,
    };
    let status = response.status().as_u16();
    surfaces.runtime().metrics().answered(route, status);
    tracing::debug!(
        request.id = id,
        %method,
        path,
        status,
        "answered"
    );
    if let Ok(header) = header {
        if let Some(own) = own_header {
            let own = HeaderName::from_static(own);
            response.headers_mut().insert(own, header.clone());
        }
        response.headers_mut().insert(X_REQUEST_ID, header);
    }
    let is_upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if surfaces.0.closing.is_cancelled() && !is_upgraded {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

async fn no_route(request: Request<Body>, paths: Arc<[String]>) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let (method, path) = (request.method().as_str(), request.uri().path());
    let format = surface_format::of(path, request.headers());
    ApiError::no_route(method, path, &paths).render_in(format, id.as_ref())
}

async fn no_method(request: Request<Body>) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let (method, path) = (request.method().as_str(), request.uri().path());
    let format = surface_format::of(path, request.headers());
    ApiError::no_method(method, path).render_in(format, id.as_ref())
}
