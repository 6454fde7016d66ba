//! The demo's client: plain HTTP to the server in this process.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

pub struct Client {
    address: SocketAddr,
    key: String,
}

/// What a stream's head said.
pub struct Answered {
    pub turn: Option<String>,
}

impl Client {
    pub fn new(address: SocketAddr, key: String) -> Self {
        Self { address, key }
    }

    /// Posts a request and gives each event's data to `show` as it comes.
    pub async fn stream(
        &self,
        path: &str,
        body: &Value,
        show: fn(&str),
    ) -> anyhow::Result<Answered> {
        let mut response = self
            .send(Method::POST, path, Bytes::from(body.to_string()))
            .await?;
        let turn = response
            .headers()
            .get("turnwright-turn")
            .and_then(|turn| turn.to_str().ok())
            .map(str::to_owned);
        let mut reader = tw_wire::sse::Reader::new(tw_core::limits::ANSWER_BYTES_DEFAULT);
        while let Some(frame) = response.body_mut().frame().await {
            let Ok(bytes) = frame.context("reading the stream")?.into_data() else {
                continue;
            };
            reader.push(&bytes);
            while let Some(event) = reader.next_frame()? {
                show(event.data);
            }
        }
        Ok(Answered { turn })
    }

    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let response = self.send(Method::GET, path, Bytes::new()).await?;
        let body = response.into_body().collect().await?.to_bytes();
        serde_json::from_slice(&body).context("reading a record")
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Response<Incoming>> {
        let tcp = TcpStream::connect(self.address)
            .await
            .context("connecting to the server")?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, format!("Bearer {}", self.key))
            .body(Full::new(body))?;
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
