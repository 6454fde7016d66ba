//! The routes that go to an upstream as they are: embeddings, completions, moderations, reranking,
//! images and audio.
//!
//! A body is read whole before it is sent on, within the limits of all bodies. Only then can
//! another upstream be asked when one fails, and only then is the model of a form known: the
//! official Node client writes the file before it. Answers go through as they come.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tw_core::fault::TurnFault;
use tw_core::tenant::KeyScope;
use tw_runtime::relay::{RelayRequest, RelayedResponse};
use tw_wire::client_error::ClientError;
use tw_wire::relayed::body::read;
use tw_wire::sse;

use crate::access::{self, NAME_BYTES_MAX};
use crate::error::no_room::put_standing;
use crate::error::{ApiError, FORMAT_DEFAULT};
use crate::request_body::{read_body, refused};
use crate::server::{AppState, RequestId};

/// A route whose requests are relayed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RelayedRoute {
    pub(crate) route: &'static str,
    /// Name of the operation in the document of routes.
    pub(crate) id: &'static str,
    pub(crate) gives_sound: bool,
    /// Path of the API behind the version, for upstreams.
    path: &'static str,
    /// The model that the API takes where a request names none.
    default_model: Option<&'static str>,
}

/// Routes that are relayed. In OpenAI's API reference of 2026 moderations and images need no model;
/// the default that it names is what an upstream is chosen by.
pub(crate) const RELAYED_ROUTES: [RelayedRoute; 10] = [
    RelayedRoute::new("/v1/embeddings", "embeddings", "createEmbedding"),
    RelayedRoute::new("/v1/completions", "completions", "createCompletion"),
    RelayedRoute::new("/v1/moderations", "moderations", "createModeration")
        .with("omni-moderation-latest"),
    RelayedRoute::new("/v1/rerank", "rerank", "createRerank"),
    RelayedRoute::new(
        "/v1/images/generations",
        "images/generations",
        "createImage",
    )
    .with("dall-e-2"),
    RelayedRoute::new("/v1/images/edits", "images/edits", "createImageEdit").with("dall-e-2"),
    RelayedRoute::new(
        "/v1/images/variations",
        "images/variations",
        "createImageVariation",
    )
    .with("dall-e-2"),
    RelayedRoute::new("/v1/audio/speech", "audio/speech", "createSpeech").giving_sound(),
    RelayedRoute::new(
        "/v1/audio/transcriptions",
        "audio/transcriptions",
        "createTranscription",
    ),
    RelayedRoute::new(
        "/v1/audio/translations",
        "audio/translations",
        "createTranslation",
    ),
];

impl RelayedRoute {
    const fn new(route: &'static str, path: &'static str, id: &'static str) -> Self {
        Self {
            route,
            id,
            gives_sound: false,
            path,
            default_model: None,
        }
    }

    const fn giving_sound(mut self) -> Self {
        self.gives_sound = true;
        self
    }

    const fn with(mut self, model: &'static str) -> Self {
        self.default_model = Some(model);
        self
    }
}

pub(crate) async fn create(
    route: &'static RelayedRoute,
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    request: axum::extract::Request,
) -> Response {
    match answer(route, &surfaces, &id, request).await {
        Ok(response) => response,
        Err(error) => error.render(Some(&id)),
    }
}

async fn answer(
    route: &'static RelayedRoute,
    surfaces: &AppState,
    id: &RequestId,
    request: axum::extract::Request,
) -> Result<Response, ApiError> {
    let runtime = surfaces.runtime();
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let caller = access::caller(surfaces, headers, Some(KeyScope::Chat), id).await?;
    if let Err(no_room) = runtime.may_begin(&caller) {
        return Err(refused(headers, body, ApiError::no_room(&no_room)).await);
    }
    let end_user = access::end_user(surfaces, headers)?;
    let bytes_max = runtime.request_limits().body_bytes_max;
    let bytes = read_body(surfaces, headers, body, bytes_max).await?;
    let content_type =
        one_value(headers, &CONTENT_TYPE)?.unwrap_or(HeaderValue::from_static("application/json"));
    let body = read(content_type.to_str().ok(), &bytes).map_err(|e| ApiError::of_request(&e))?;
    if body
        .user
        .as_ref()
        .is_some_and(|user| user.len() > NAME_BYTES_MAX)
    {
        let message = format!("The user's name is longer than {NAME_BYTES_MAX} bytes.");
        return Err(ApiError::invalid(Some("user"), None, message));
    }
    let (model, is_default) = match (&body.model, route.default_model) {
        (Some(model), _) => (model.clone(), false),
        (None, Some(model)) => (model.to_owned(), true),
        (None, None) => return Err(ApiError::no_model_named()),
    };
    let relayed = runtime
        .relay(RelayRequest {
            caller: caller.clone(),
            route: route.route,
            path: route.path,
            model: model.clone(),
            content_type,
            accept: one_value(headers, &ACCEPT)?,
            bytes,
            body,
            end_user,
            request_id: id.0.clone(),
        })
        .await;
    let relayed = relayed.map_err(|refused| {
        let default = is_default.then_some(&*model);
        ApiError::of_relay_refusal(&refused, default)
    })?;
    let mut response = response_of(relayed, id);
    if let Some(standing) = runtime.requests_left(&caller) {
        put_standing(response.headers_mut(), FORMAT_DEFAULT, &standing);
    }
    Ok(response)
}

/// A header that may be there once: of two, readers disagree about which counts.
fn one_value(headers: &HeaderMap, name: &HeaderName) -> Result<Option<HeaderValue>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().cloned();
    if *name == CONTENT_TYPE && values.next().is_some() {
        let message = format!("{name} must be there once.");
        return Err(ApiError::invalid(Some(name.as_str()), None, message));
    }
    Ok(first)
}

fn response_of(relayed: RelayedResponse, id: &RequestId) -> Response {
    let (status, headers) = relayed.head();
    let (status, headers) = (status, headers.clone());
    let passing = Box::new(Passing {
        events: relayed.is_event_stream().then(|| id.clone()),
        relayed: Some(relayed),
    });
    let body = Body::from_stream(futures_util::stream::unfold(passing, next_bytes));
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    *response.headers_mut() = headers;
    response
}

/// An answer on its way.
struct Passing {
    relayed: Option<RelayedResponse>,
    /// Id of the request if the answer is a stream of events, which can still say that it broke off.
    events: Option<RequestId>,
}

/// The error of an answer whose rest does not come, so that its connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
struct BrokenOff(String);

async fn next_bytes(mut passing: Box<Passing>) -> Option<(Result<Bytes, BrokenOff>, Box<Passing>)> {
    let next = passing.relayed.as_mut()?.next().await;
    let part = match next {
        Some(Ok(bytes)) => Ok(bytes),
        None => return None,
        Some(Err(fault)) => {
            passing.relayed = None;
            match passing.events.take() {
                Some(id) => Ok(last_event(&fault, &id)),
                None => Err(BrokenOff(fault.message)),
            }
        }
    };
    Some((part, passing))
}

/// The last event of a stream that breaks off, behind the end of the line and the event that broke off.
fn last_event(fault: &TurnFault, id: &RequestId) -> Bytes {
    let mut event = b"\n\n".to_vec();
    let error = ClientError::of_fault(fault);
    sse::write_data(
        &mut event,
        &FORMAT_DEFAULT.render_error(&error, Some(&id.0)),
    );
    event.into()
}
