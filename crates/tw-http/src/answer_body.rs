//! The bodies of answers, which know when they were handed over whole.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};
use tw_core::id::TurnId;
use tw_runtime::auth::Principal;
use tw_runtime::runtime::Runtime;

use crate::error::ApiError;
use crate::server::RequestId;

/// A response whose body is JSON.
pub(crate) fn json(body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Renders the result of a request, which is JSON either way.
pub(crate) fn respond(body: Result<impl Into<Body>, ApiError>, id: &RequestId) -> Response {
    match body {
        Ok(body) => json(body),
        Err(error) => error.render(Some(id)),
    }
}

/// The response around a stream of server-sent events.
pub(crate) fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx and its like pass it on as it comes.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

/// Notes that a turn's answer was handed over, once.
#[derive(Debug)]
pub(crate) struct HandoverNote {
    pub(crate) runtime: Runtime,
    pub(crate) caller: Principal,
    pub(crate) turn: TurnId,
}

impl HandoverNote {
    pub(crate) fn write(self) {
        self.runtime.mark_answered(&self.caller, self.turn);
    }
}

/// A plain answer.
pub(crate) struct WholeBody {
    bytes: Option<Bytes>,
    note: Option<HandoverNote>,
}

impl WholeBody {
    pub(crate) fn new(bytes: Vec<u8>, note: HandoverNote) -> Self {
        Self {
            bytes: Some(bytes.into()),
            note: Some(note),
        }
    }
}

impl http_body::Body for WholeBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(bytes) = self.bytes.take() else {
            return Poll::Ready(None);
        };
        if let Some(note) = self.note.take() {
            note.write();
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
