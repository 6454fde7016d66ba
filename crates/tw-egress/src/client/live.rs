//! A connection in use, and those that wait to be used again.
//!
//! hyper's connection is driven by the request that uses it, not by a task of its own: then a
//! request that is dropped takes its connection with it, and what was written before and during
//! a use cannot be mixed up. That is also why the pool is ours: a shared one hands a connection
//! on before the last user knows, and does not keep organizations apart.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::connect::{Stream, Written};
use super::target::{Host, Scheme, Target};

/// Most headers of an answer.
const HEADERS_MAX: usize = 100;
/// Longest head of an answer, in bytes.
const HEADERS_BYTES_MAX: usize = 64 * 1024;

type Http1 = Connection<TokioIo<Stream>, Full<Bytes>>;

/// One HTTP/1.1 connection, used by one request at a time.
pub(super) struct Live {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once it has ended.
    connection: Option<Pin<Box<Http1>>>,
    written: Written,
    /// [`Written::bytes`] when this use began.
    written_before: u64,
}

impl Live {
    /// Writes nothing yet.
    pub async fn start(stream: Stream) -> Result<Self, hyper::Error> {
        let written = stream.written();
        let (sender, connection) = Builder::new()
            .max_headers(HEADERS_MAX)
            .max_header_size(HEADERS_BYTES_MAX)
            .max_buf_size(HEADERS_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self {
            sender,
            connection: Some(Box::pin(connection)),
            written,
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
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let answer = self.sender.send_request(request);
        self.drive(answer).await
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

/// Which requests may share a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// What one organization may reach says nothing about another.
    organization: String,
    scheme: Scheme,
    host: Host,
    port: u16,
}

impl Key {
    pub fn new(organization: &str, target: &Target) -> Self {
        Self {
            organization: organization.to_owned(),
            scheme: target.scheme,
            host: target.host.clone(),
            port: target.port,
        }
    }
}

/// Connections that wait to be used again.
pub(super) struct Pool {
    idle: Mutex<HashMap<Key, Vec<Idle>>>,
    kept: Duration,
    connections_max: usize,
}

struct Idle {
    live: Live,
    since: Instant,
}

impl Pool {
    /// Keeps at most `connections_max`, each for at most `kept`.
    pub fn new(kept: Duration, connections_max: usize) -> Self {
        Self {
            idle: Mutex::default(),
            kept,
            connections_max,
        }
    }

    /// A connection that has waited less than `idle_max` and is still open.
    pub async fn take(&self, key: &Key, idle_max: Duration) -> Option<Live> {
        while let Some(mut live) = self.pop(key, idle_max.min(self.kept)) {
            if live.is_free().await {
                return Some(live);
            }
        }
        None
    }

    /// Keeps a connection whose answer was read to the end, if it can be used again.
    pub async fn put(&self, key: Key, mut live: Live) {
        if !live.is_free().await {
            return;
        }
        let mut all = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody looks at idle connections in between, so old ones leave here.
        all.retain(|_, idle| {
            idle.retain(|idle| idle.since.elapsed() < self.kept);
            !idle.is_empty()
        });
        if all.values().map(Vec::len).sum::<usize>() < self.connections_max {
            all.entry(key).or_default().push(Idle {
                live,
                since: Instant::now(),
            });
        }
    }

    /// The one that has waited shortest.
    fn pop(&self, key: &Key, idle_max: Duration) -> Option<Live> {
        let mut all = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = all.get_mut(key)?;
        if idle.last()?.since.elapsed() >= idle_max {
            return None;
        }
        idle.pop().map(|idle| idle.live)
    }
}

#[cfg(test)]
mod tests;
