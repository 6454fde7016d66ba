//! The demo's client: plain HTTP to the server in this process.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

pub struct DemoClient {
    address: SocketAddr,
    key: String,
}

/// The part of a stream's head that the demo reads.
pub struct DemoAnswerHead {
    pub turn: Option<String>,
}

impl DemoClient {
    pub fn new(address: SocketAddr, key: String) -> Self {
        Self { address, key }
    }

    /// Posts a request and gives each event's data to `show` as it comes.
    pub async fn stream(
        &self,
        path: &str,
        body: &Value,
        show: fn(&str),
    ) -> anyhow::Result<DemoAnswerHead> {
        let mut response = self
            .send(Method::POST, path, Bytes::from(body.to_string()), &[])
            .await?;
        let answered = answered(&response);
        let mut reader = tw_wire::sse::SseReader::new(tw_core::limits::ANSWER_BYTES_DEFAULT);
        while let Some(frame) = response.body_mut().frame().await {
            let Ok(bytes) = frame.context("reading the stream")?.into_data() else {
                continue;
            };
            reader.push(&bytes);
            while let Some(event) = reader.next_frame()? {
                show(event.data);
            }
        }
        Ok(answered)
    }

    /// Starts a turn that goes on without its client, and leaves with the head of its answer.
    pub async fn start_and_leave(
        &self,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<DemoAnswerHead> {
        let body = Bytes::from(body.to_string());
        let leaves = [("turnwright-on-leave", "finish")];
        let response = self.send(Method::POST, path, body, &leaves).await?;
        Ok(answered(&response))
    }

    /// Reads a turn's log behind `last_id` and gives each event to `show`, until it breaks or the
    /// log ends. Returns the last event's id: where to go on.
    pub async fn follow(
        &self,
        path: &str,
        last_id: Option<&str>,
        mut show: impl FnMut(&Value) -> ControlFlow<()>,
    ) -> anyhow::Result<Option<String>> {
        let place: Vec<(&str, &str)> = last_id
            .map(|id| ("last-event-id", id))
            .into_iter()
            .collect();
        let mut response = self.send(Method::GET, path, Bytes::new(), &place).await?;
        let mut last_id = last_id.map(str::to_owned);
        let mut unread = Vec::new();
        while let Some(frame) = response.body_mut().frame().await {
            let Ok(bytes) = frame.context("reading the log")?.into_data() else {
                continue;
            };
            unread.extend_from_slice(&bytes);
            while let Some(end) = unread.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = unread.drain(..end + 2).collect();
                let event = String::from_utf8(event).context("an event")?;
                let field = |name| event.lines().find_map(|line| line.strip_prefix(name));
                let Some(data) = field("data: ") else {
                    continue;
                };
                last_id = field("id: ").map(str::to_owned).or(last_id);
                if show(&serde_json::from_str(data).context("an event's data")?).is_break() {
                    return Ok(last_id);
                }
            }
        }
        Ok(last_id)
    }

    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let body = self.bytes(path).await?;
        serde_json::from_slice(&body).context("reading a record")
    }

    pub async fn bytes(&self, path: &str) -> anyhow::Result<Bytes> {
        let response = self.send(Method::GET, path, Bytes::new(), &[]).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }

    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        let body = Bytes::from(body.to_string());
        self.send(Method::POST, path, body, &[]).await?;
        Ok(())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Response<Incoming>> {
        let tcp = TcpStream::connect(self.address)
            .await
            .context("connecting to the server")?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, format!("Bearer {}", self.key));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body))?;
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            bail!(
                "the server answered {status}: {}",
                String::from_utf8_lossy(&body)
            );
        }
        Ok(response)
    }
}

fn answered(response: &Response<Incoming>) -> DemoAnswerHead {
    let turn = response.headers().get("turnwright-turn");
    DemoAnswerHead {
        turn: turn.and_then(|turn| turn.to_str().ok()).map(str::to_owned),
    }
}
