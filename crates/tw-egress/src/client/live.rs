//! A connection in use.
//!
//! hyper's connection is driven by the request that uses it, not by a task of its own: then a
//! request that is dropped takes its connection with it, and what was written before and during
//! a use cannot be mixed up.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::ext::on_informational;
use hyper_util::rt::TokioIo;

use super::connect::{Stream, Wary, Written};
use super::interim::Interim;

/// Longest head of an answer, in bytes. It has at most 100 headers, hyper's own limit; to set that would make hyper
/// keep them on the heap.
const HEADERS_BYTES_MAX: usize = 64 * 1024;

type Http1 = Connection<TokioIo<Stream>, Full<Bytes>>;

/// One HTTP/1.1 connection, used by one request at a time.
pub(super) struct Live {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once it has ended.
    connection: Option<Pin<Box<Http1>>>,
    written: Written,
    wary: Wary,
    interim: Interim,
    /// [`Written::bytes`] when this use began.
    written_before: u64,
}

/// Why no head of an answer came.
#[derive(Debug)]
pub(super) enum NoHead {
    /// Too much came before it.
    Interim,
    Broken(hyper::Error),
}

impl Live {
    /// Writes nothing yet.
    pub async fn start(stream: Stream) -> Result<Self, hyper::Error> {
        let written = stream.written();
        let wary = stream.wary();
        let interim = stream.interim();
        let (sender, connection) = Builder::new()
            .max_header_size(HEADERS_BYTES_MAX)
            .max_buf_size(HEADERS_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self {
            sender,
            connection: Some(Box::pin(connection)),
            written,
            wary,
            interim,
            written_before: 0,
        })
    }

    /// Whether anything was written since this use began.
    pub fn has_sent(&self) -> bool {
        self.written.bytes() > self.written_before
    }

    /// Sends a request and waits for the answer's head.
    pub async fn ask(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, NoHead> {
        self.interim.begin();
        let interim = self.interim.clone();
        on_informational(&mut request, move |answer| interim.add(answer.headers()));
        let answer = self.sender.send_request(request);
        let answer = self.drive(answer).await;
        if self.interim.is_too_much() {
            return Err(NoHead::Interim);
        }
        answer.map_err(NoHead::Broken)
    }

    /// The next part of an answer's body.
    pub async fn frame(
        &mut self,
        body: &mut Incoming,
    ) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        self.drive(body.frame()).await
    }

    /// Whether another request may use this connection, which begins that use.
    pub async fn is_free(&mut self) -> bool {
        let is_free = poll_fn(|cx| {
            // Sees whether the other side has closed, or said something nobody asked for.
            self.turn(cx);
            Poll::Ready(matches!(self.sender.poll_ready(cx), Poll::Ready(Ok(()))))
        })
        .await;
        self.written_before = self.written.bytes();
        is_free && self.connection.is_some()
    }

    /// As [`Self::is_free`], of a connection that has waited: asks the kernel, so that a close
    /// counts from when it arrived here.
    pub async fn is_still_free(&mut self) -> bool {
        self.wary.set(true);
        let is_free = self.is_free().await;
        self.wary.set(false);
        is_free
    }

    async fn drive<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            self.turn(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    fn turn(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            // Its error is also that of the request under way.
            && connection.as_mut().poll(cx).is_ready()
        {
            self.connection = None;
        }
    }
}

#[cfg(test)]
mod tests;
