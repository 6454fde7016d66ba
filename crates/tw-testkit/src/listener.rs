//! A real HTTP listener whose replies a test decides, and which remembers its requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A request that the listener received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl ReceivedRequest {
    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or(serde_json::Value::Null)
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

/// A reply of the listener.
#[derive(Clone, Debug)]
pub struct ListenerReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<ReplyPiece>,
}

/// A part of an answer's body.
#[derive(Clone, Debug)]
pub enum ReplyPiece {
    Bytes(Bytes),
    Wait(Duration),
    /// Waits until the test opens the gate of this name.
    Gate(&'static str),
    /// Waits with the answer's head, too, for this gate; stands as the first piece.
    HeadGate(&'static str),
    /// Waits with the answer's head, too, for so long; stands as the first piece.
    HeadWait(Duration),
    /// Breaks the connection.
    Cut,
    /// Sends nothing more and keeps the connection open.
    Silence,
}

impl ListenerReply {
    pub fn json(body: impl Into<String>) -> Self {
        Self::of(
            "application/json",
            vec![ReplyPiece::Bytes(Bytes::from(body.into()))],
        )
    }

    pub fn sse(body: impl Into<Bytes>) -> Self {
        Self::of("text/event-stream", vec![ReplyPiece::Bytes(body.into())])
    }

    pub fn pieces(content_type: &str, body: Vec<ReplyPiece>) -> Self {
        Self::of(content_type, body)
    }

    pub fn status(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            ..Self::json(body)
        }
    }

    /// Closes the connection after the request was read, without an answer.
    pub fn hang_up() -> Self {
        Self {
            status: 0,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn of(content_type: &str, body: Vec<ReplyPiece>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body,
        }
    }
}

type Answers = dyn Fn(&ReceivedRequest) -> ListenerReply + Send + Sync;

struct Shared {
    answers: Box<Answers>,
    asked: Mutex<Vec<ReceivedRequest>>,
    count: watch::Sender<usize>,
    /// Answers whose connection the other side closed before their end.
    abandoned: watch::Sender<usize>,
    gates: watch::Sender<Vec<&'static str>>,
}

/// Listener that ends when it is dropped.
#[derive(Clone)]
pub struct Listener {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: Arc<watch::Sender<()>>,
}

impl Listener {
    /// Answers every request by `answers`.
    pub async fn start(
        answers: impl Fn(&ReceivedRequest) -> ListenerReply + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let tcp = TcpListener::bind("127.0.0.1:0").await?;
        let address = tcp.local_addr()?;
        let shared = Arc::new(Shared {
            answers: Box::new(answers),
            asked: Mutex::default(),
            count: watch::Sender::new(0),
            abandoned: watch::Sender::new(0),
            gates: watch::Sender::new(Vec::new()),
        });
        let (stop, stopped) = watch::channel(());
        tokio::spawn(accept(tcp, Arc::clone(&shared), stopped));
        Ok(Self {
            address,
            shared,
            _stop: Arc::new(stop),
        })
    }

    /// Answers the requests with these, in turn; the last one is repeated.
    pub async fn in_turn(replies: Vec<ListenerReply>) -> std::io::Result<Self> {
        let replies = Mutex::new(VecDeque::from(replies));
        Self::start(move |_| {
            let mut replies = replies.lock().unwrap_or_else(PoisonError::into_inner);
            if replies.len() > 1 {
                replies.pop_front()
            } else {
                replies.front().cloned()
            }
            .unwrap_or_else(ListenerReply::hang_up)
        })
        .await
    }

    /// `http://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<ReceivedRequest> {
        self.shared
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until this many requests have come.
    pub async fn asked_times(&self, times: usize) {
        let mut count = self.shared.count.subscribe();
        // The sender lives as long as this listener.
        let _ = count.wait_for(|count| *count >= times).await;
    }

    /// Waits until this many answers were abandoned by the other side.
    pub async fn abandoned_times(&self, times: usize) {
        let mut abandoned = self.shared.abandoned.subscribe();
        let _ = abandoned.wait_for(|abandoned| *abandoned >= times).await;
    }

    /// Lets answers go on that wait at this gate, now and later.
    pub fn open(&self, gate: &'static str) {
        self.shared.gates.send_modify(|gates| gates.push(gate));
    }
}

async fn accept(tcp: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<()>) {
    loop {
        let accepted = tokio::select! {
            accepted = tcp.accept() => accepted,
            _ = stopped.changed() => return,
        };
        let Ok((stream, _)) = accepted else {
            return;
        };
        let shared = Arc::clone(&shared);
        let mut stopped = stopped.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&shared), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                // A connection that breaks is what many tests are about.
                _ = connection => {}
                _ = stopped.changed() => {}
            }
        });
    }
}

type PieceBody = StreamBody<
    std::pin::Pin<
        Box<dyn futures_util::Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send>,
    >,
>;

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<PieceBody>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map_err(std::io::Error::other)?
        .to_bytes();
    let asked = ReceivedRequest {
        method: parts.method.to_string(),
        target: parts.uri.to_string(),
        headers: parts.headers,
        body,
    };
    let reply = (shared.answers)(&asked);
    {
        let mut all = shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(asked);
        shared.count.send_replace(all.len());
    }
    if reply.status == 0 {
        return Err(std::io::Error::other("hangs up"));
    }
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let mut playing = Playing {
        pieces: reply.body.into(),
        shared,
        whole: false,
    };
    if let Some(&ReplyPiece::HeadGate(name)) = playing.pieces.front() {
        playing.gate(name).await;
        playing.pieces.pop_front();
    }
    if let Some(&ReplyPiece::HeadWait(pause)) = playing.pieces.front() {
        tokio::time::sleep(pause).await;
        playing.pieces.pop_front();
    }
    response
        .body(StreamBody::new(
            Box::pin(futures_util::stream::unfold(playing, next)) as _,
        ))
        .map_err(std::io::Error::other)
}

struct Playing {
    pieces: VecDeque<ReplyPiece>,
    shared: Arc<Shared>,
    whole: bool,
}

impl Playing {
    async fn gate(&self, name: &'static str) {
        let mut gates = self.shared.gates.subscribe();
        let _ = gates.wait_for(|open| open.contains(&name)).await;
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        if !self.whole {
            self.shared
                .abandoned
                .send_modify(|abandoned| *abandoned += 1);
        }
    }
}

async fn next(mut playing: Playing) -> Option<(Result<Frame<Bytes>, std::io::Error>, Playing)> {
    loop {
        let Some(piece) = playing.pieces.pop_front() else {
            playing.whole = true;
            return None;
        };
        match piece {
            ReplyPiece::Bytes(bytes) => return Some((Ok(Frame::data(bytes)), playing)),
            ReplyPiece::Wait(pause) | ReplyPiece::HeadWait(pause) => {
                tokio::time::sleep(pause).await
            }
            ReplyPiece::Gate(name) | ReplyPiece::HeadGate(name) => playing.gate(name).await,
            ReplyPiece::Cut => {
                // What came before it is sent first.
                tokio::task::yield_now().await;
                playing.whole = true;
                return Some((Err(std::io::Error::other("cuts")), playing));
            }
            ReplyPiece::Silence => {
                std::future::pending::<Infallible>().await;
            }
        }
    }
}
