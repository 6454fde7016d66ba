//! An HTTP/1.1 connection in use.
//!
//! It is driven by the request that uses it, not by a task of its own: then a request that is
//! dropped takes its connection with it, and what was written before and during a use cannot be
//! mixed up. It has no buffer while nothing arrives.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use ureq_proto::Error;
use ureq_proto::client::state::{RecvBody, RecvResponse};
use ureq_proto::client::{Call, RecvBodyResult, RecvResponseResult, SendRequestResult};

use super::connect::ConnectedStream;
use super::interim::InterimResponses;
use super::tls_fault::TlsFault;

/// Longest head of an answer, in bytes. It has at most 128 headers, the parser's own limit.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest line that frames a part of a body, a trailer among them, in bytes.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// An HTTP/1.1 connection, used by one request at a time.
pub(super) struct HttpConnection {
    stream: ConnectedStream,
    sending: Sending,
    /// Bytes of this use that the connection has taken.
    ///
    /// Counted above TLS, whose own messages are no part of a request.
    written: u64,
    /// Bytes that were read and are not understood yet, since the message goes on.
    held: Vec<u8>,
    answer: Answer,
    /// The other side broke TLS off, as it does behind a handshake that it did not like.
    tls_fault: Option<TlsFault>,
}

/// Progress of sending the request.
enum Sending {
    Nothing,
    Request(Chain<Bytes, Bytes>),
    /// The request was taken, but may wait in TLS.
    Flush,
    Failed,
}

enum Answer {
    /// The body is being received.
    Comes(Box<Call<RecvBody>>),
    /// The answer has no body, or all of it has come.
    Over { may_go_on: bool },
    /// The answer broke off, as far as it was understood.
    Broken,
}

/// Reasons for which an answer, or the rest of it, is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeFailure {
    /// The head, or the interim answers before it, are too large.
    HeadTooLarge,
    /// The other side sent something that is not HTTP.
    NotHttp,
    /// The connection ended, or what came made no sense in the middle of a body.
    Broken,
}

impl HttpConnection {
    /// Makes a connection over a stream, and writes nothing yet.
    pub fn new(stream: ConnectedStream) -> Self {
        Self {
            stream,
            sending: Sending::Nothing,
            written: 0,
            held: Vec::new(),
            answer: Answer::Over { may_go_on: true },
            tls_fault: None,
        }
    }

    /// The reason for which the other side broke TLS off, if it did and said so. With TLS 1.3 a
    /// server looks at the client's certificate only when the handshake is over for the client.
    pub fn tls_fault(&self) -> Option<TlsFault> {
        self.tls_fault
    }

    /// Whether anything was written since this use began.
    pub fn has_sent(&self) -> bool {
        self.written > 0
    }

    /// Sends a request and waits for the answer's head.
    ///
    /// An answer may come before the request was sent whole; the rest is sent while it is read.
    ///
    /// # Cancel safety
    /// A connection whose request was given up must not be used again.
    pub async fn ask(&mut self, request: Request<Bytes>) -> Result<Response<()>, ExchangeFailure> {
        if !self.is_free().await {
            return Err(ExchangeFailure::Broken);
        }
        let mut call = receiving(request.method()).ok_or(ExchangeFailure::NotHttp)?;
        self.sending = Sending::request(request);
        self.answer = Answer::Over { may_go_on: false };
        let mut interim = InterimResponses::default();
        // Where the last look for the head's end came to.
        let mut searched = 0;
        loop {
            let arrived = poll_fn(|cx| self.poll_hold(cx)).await;
            let is_end = matches!(arrived, Ok(0) | Err(_));
            // What speaks no HTTP is known by its first words.
            while is_end || searched == 0 || ends_a_head(&self.held, searched) {
                let (used, head) = match continued(&self.held) {
                    Some(used) => (used, None),
                    None => call.try_response(&self.held, false).map_err(kind_of)?,
                };
                self.held.drain(..used);
                searched = 0;
                if used > HEAD_BYTES_MAX {
                    return Err(ExchangeFailure::HeadTooLarge);
                }
                if let Some(head) = head {
                    self.answer = Answer::begins(call);
                    return Ok(head);
                }
                if used == 0 {
                    break;
                }
                interim.add(used);
                if interim.is_too_much() {
                    return Err(ExchangeFailure::HeadTooLarge);
                }
            }
            if self.held.len() > HEAD_BYTES_MAX {
                return Err(ExchangeFailure::HeadTooLarge);
            }
            if is_end {
                return Err(ExchangeFailure::Broken);
            }
            searched = self.held.len();
        }
    }

    /// The next part of an answer's body; `None` behind its end.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn read(&mut self) -> Option<Result<Bytes, ExchangeFailure>> {
        poll_fn(|cx| self.poll_body(cx)).await
    }

    /// Whether another request may use this connection, which begins that use.
    pub async fn is_free(&mut self) -> bool {
        poll_fn(|cx| Poll::Ready(self.begin_use(cx))).await
    }

    /// Whether a connection that has waited is still free: like [`Self::is_free`], and asks the
    /// kernel, so that a close counts from when it arrived here. The runtime hears of it when it
    /// next looks at all sockets; a connection can be put away and taken up again before that.
    pub async fn is_still_free(&mut self) -> bool {
        self.is_free().await && self.stream.is_silent()
    }

    fn begin_use(&mut self, cx: &mut Context<'_>) -> bool {
        self.written = 0;
        let is_done = matches!(self.answer, Answer::Over { may_go_on: true })
            && matches!(self.sending, Sending::Nothing)
            && self.held.is_empty();
        // Whatever there is, an end too, nobody asked for it.
        let mut space = [MaybeUninit::uninit()];
        is_done
            && self
                .poll_stream(cx, &mut ReadBuf::uninit(&mut space))
                .is_pending()
    }

    /// Reads into `held`; 0 at the end.
    fn poll_hold(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.send_on(cx);
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        let mut arrived = ReadBuf::uninit(&mut space);
        ready!(self.poll_stream(cx, &mut arrived))?;
        self.held.extend_from_slice(arrived.filled());
        Poll::Ready(Ok(arrived.filled().len()))
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ExchangeFailure>>> {
        // What came with the head.
        let held = std::mem::take(&mut self.held);
        if let Some(part) = self.part(&held) {
            return Poll::Ready(Some(Ok(part)));
        }
        loop {
            match self.answer {
                Answer::Comes(_) => {}
                Answer::Over { .. } => return Poll::Ready(None),
                Answer::Broken => return Poll::Ready(Some(Err(ExchangeFailure::Broken))),
            }
            self.send_on(cx);
            let mut space = [MaybeUninit::uninit(); READ_BYTES];
            let mut arrived = ReadBuf::uninit(&mut space);
            let is_end = match ready!(self.poll_stream(cx, &mut arrived)) {
                Ok(()) => arrived.filled().is_empty(),
                Err(_) => return Poll::Ready(Some(Err(ExchangeFailure::Broken))),
            };
            if is_end {
                let broken = self.end_at_close();
                return Poll::Ready(broken.map(Err));
            }
            let part = if self.held.is_empty() {
                self.part(arrived.filled())
            } else {
                let mut held = std::mem::take(&mut self.held);
                held.extend_from_slice(arrived.filled());
                self.part(&held)
            };
            if let Some(part) = part {
                return Poll::Ready(Some(Ok(part)));
            }
        }
    }

    /// The part of the body that is in `input`, if any; bytes that cannot be understood yet are held.
    fn part(&mut self, input: &[u8]) -> Option<Bytes> {
        let Answer::Comes(call) = &mut self.answer else {
            self.held = input.to_vec();
            return None;
        };
        let mut part = vec![0; input.len()];
        let (mut used, mut filled) = (0, 0);
        let mut is_broken = false;
        loop {
            // It stops behind each chunk.
            match call.read(&input[used..], &mut part[filled..]) {
                Ok((0, 0)) => break,
                Ok((more_used, more_filled)) => {
                    used += more_used;
                    filled += more_filled;
                }
                Err(_) => {
                    is_broken = true;
                    break;
                }
            }
        }
        self.held = input[used..].to_vec();
        if is_broken || (!is_whole(call) && self.held.len() > LINE_BYTES_MAX) {
            self.answer = Answer::Broken;
        } else if is_whole(call) {
            self.end();
        }
        part.truncate(filled);
        (filled > 0).then(|| Bytes::from(part))
    }

    /// The body's end has come.
    fn end(&mut self) {
        let over = Answer::Over { may_go_on: false };
        let Answer::Comes(call) = std::mem::replace(&mut self.answer, over) else {
            return;
        };
        let may_go_on = match call.proceed() {
            Some(RecvBodyResult::Redirect(call)) => !call.must_close_connection(),
            Some(RecvBodyResult::Cleanup(call)) => !call.must_close_connection(),
            None => false,
        };
        self.answer = Answer::Over { may_go_on };
    }

    /// The connection was closed, which is the end of some bodies.
    fn end_at_close(&mut self) -> Option<ExchangeFailure> {
        let over = Answer::Over { may_go_on: false };
        let Answer::Comes(call) = std::mem::replace(&mut self.answer, over) else {
            return None;
        };
        // Behind the last chunk nothing of the body is missing.
        let is_end = call.can_proceed() || call.is_ended_chunked();
        (!is_end).then_some(ExchangeFailure::Broken)
    }

    fn poll_stream(
        &mut self,
        cx: &mut Context<'_>,
        arrived: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, arrived);
        if let Poll::Ready(Err(error)) = &read {
            self.tls_fault = TlsFault::of(error);
        }
        if read.is_pending() && matches!(self.sending, Sending::Failed) {
            // What the other side said before it closed has been read.
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        read
    }

    /// Sends what the connection takes now.
    fn send_on(&mut self, cx: &mut Context<'_>) {
        if let Poll::Ready(Err(_)) = self.poll_send(cx) {
            self.sending = Sending::Failed;
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.sending {
                Sending::Nothing | Sending::Failed => return Poll::Ready(Ok(())),
                Sending::Request(left) if left.has_remaining() => {
                    let mut slices = [IoSlice::new(&[]); 2];
                    let count = left.chunks_vectored(&mut slices);
                    let stream = Pin::new(&mut self.stream);
                    let wrote = ready!(stream.poll_write_vectored(cx, &slices[..count]))?;
                    if wrote == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    self.written += wrote as u64;
                    left.advance(wrote);
                }
                Sending::Request(_) => self.sending = Sending::Flush,
                Sending::Flush => {
                    ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
                    self.sending = Sending::Nothing;
                }
            }
        }
    }
}

impl Sending {
    /// Encodes a request. Its URI is a path, or whole for a proxy, and it says no length of its
    /// body, unless that is empty.
    fn request(request: Request<Bytes>) -> Self {
        let (parts, body) = request.into_parts();
        let mut head = Vec::with_capacity(512);
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let place = match (parts.uri.scheme_str(), parts.uri.authority()) {
            (Some(scheme), Some(authority)) => format!("{scheme}://{authority}"),
            (_, None) | (None, _) => String::new(),
        };
        for word in [parts.method.as_str(), " ", &place, path, " HTTP/1.1\r\n"] {
            head.extend_from_slice(word.as_bytes());
        }
        for (name, value) in &parts.headers {
            put_header(&mut head, name.as_str(), value.as_bytes());
        }
        if !body.is_empty() {
            put_header(
                &mut head,
                CONTENT_LENGTH.as_str(),
                body.len().to_string().as_bytes(),
            );
        }
        head.extend_from_slice(b"\r\n");
        Self::Request(Bytes::from(head).chain(body))
    }
}

fn put_header(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

/// The parser of the answer. It has to know of the request whether the answer has a body.
fn receiving(method: &Method) -> Option<Call<RecvResponse>> {
    let method = if *method == Method::HEAD {
        Method::HEAD
    } else {
        Method::GET
    };
    let mut request = Request::new(());
    *request.method_mut() = method;
    let mut call = Call::new(request).ok()?.proceed();
    // The request that is sent is written by `Sending`, which knows more values of headers.
    call.write(&mut [0; 64]).ok()?;
    match call.proceed().ok()?? {
        SendRequestResult::RecvResponse(call) => Some(call),
        SendRequestResult::Await100(_) | SendRequestResult::SendBody(_) => None,
    }
}

impl Answer {
    fn begins(call: Call<RecvResponse>) -> Self {
        match call.proceed() {
            Some(RecvResponseResult::RecvBody(mut call)) => {
                // What is wrong behind a whole chunk does not take that chunk with it.
                call.stop_on_chunk_boundary(true);
                Self::Comes(Box::new(call))
            }
            Some(RecvResponseResult::Redirect(call)) => Self::Over {
                may_go_on: !call.must_close_connection(),
            },
            Some(RecvResponseResult::Cleanup(call)) => Self::Over {
                may_go_on: !call.must_close_connection(),
            },
            None => Self::Over { may_go_on: false },
        }
    }
}

/// Whether the end of a body has come, without the connection's.
fn is_whole(call: &Call<RecvBody>) -> bool {
    call.can_proceed() && call.body_mode() != ureq_proto::BodyMode::CloseDelimited
}

/// Whether an empty line stands in what came, behind what was `searched`.
fn ends_a_head(held: &[u8], searched: usize) -> bool {
    // It may have begun before.
    let fresh = &held[searched.saturating_sub(3)..];
    memmem::find(fresh, b"\n\r\n").is_some() || memmem::find(fresh, b"\n\n").is_some()
}

/// Length of a whole `100 Continue` at the beginning, if there is one. The parser takes none with
/// headers, which some send.
fn continued(held: &[u8]) -> Option<usize> {
    let is_continue = held.starts_with(b"HTTP/1.1 100 ") || held.starts_with(b"HTTP/1.1 100\r");
    let end = is_continue.then(|| memmem::find(held, b"\r\n\r\n"))??;
    Some(end + b"\r\n\r\n".len())
}

fn kind_of(error: Error) -> ExchangeFailure {
    match error {
        Error::HttpParseTooManyHeaders => ExchangeFailure::HeadTooLarge,
        _ => ExchangeFailure::NotHttp,
    }
}

#[cfg(test)]
mod tests;
