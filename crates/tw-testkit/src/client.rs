//! A plain HTTP/1.1 client, one connection for each request.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Client of one server.
#[derive(Clone, Debug)]
pub struct TestClient {
    pub address: SocketAddr,
    pub key: Option<String>,
}

/// An answer whose body is still to be read; dropping it closes the connection.
pub struct OpenAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    body: Incoming,
    connection: JoinHandle<()>,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct ReadAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The connection broke before the body's end.
    pub broken: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("connecting")]
    Connect(#[from] std::io::Error),
    #[error("sending")]
    Http(#[from] hyper::Error),
    #[error("building the request")]
    Build(#[from] http::Error),
}

impl TestClient {
    /// Sends a request and waits for the answer's head.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<OpenAnswer, SendError> {
        let tcp = TcpStream::connect(self.address).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await?;
        let connection = tokio::spawn(async move {
            // The request's own error says what happened.
            let _ = connection.await;
        });
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string());
        if headers.iter().all(|(name, _)| *name != "content-type") {
            request = request.header("content-type", "application/json");
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let guard = AbortOnDrop(Some(connection));
        let response: Response<Incoming> = sender
            .send_request(request.body(Full::new(body.into()))?)
            .await?;
        let (parts, body) = response.into_parts();
        Ok(OpenAnswer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            connection: guard.release(),
        })
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<ReadAnswer, SendError> {
        Ok(self.open(method, path, headers, body).await?.read().await)
    }

    /// Posts a chat completion.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn chat(&self, body: &Value) -> Result<ReadAnswer, SendError> {
        self.send("POST", "/v1/chat/completions", &[], body.to_string())
            .await
    }
}

struct AbortOnDrop(Option<JoinHandle<()>>);

impl AbortOnDrop {
    fn release(mut self) -> JoinHandle<()> {
        self.0.take().unwrap_or_else(|| tokio::spawn(async {}))
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.abort();
        }
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl OpenAnswer {
    /// The next bytes; `None` at the end or when the connection broke.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Ok(bytes) = self.body.frame().await?.ok()?.into_data() {
                return Some(bytes);
            }
        }
    }

    /// Reads until what was read contains `text`, and returns what was read.
    pub async fn until(&mut self, text: &str) -> String {
        let mut read = String::new();
        while !read.contains(text) {
            let Some(bytes) = self.next().await else {
                break;
            };
            read.push_str(&String::from_utf8_lossy(&bytes));
        }
        read
    }

    /// Reads the whole body.
    pub async fn read(mut self) -> ReadAnswer {
        let mut body = Vec::new();
        let mut broken = false;
        while let Some(frame) = self.body.frame().await {
            match frame {
                Ok(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        body.extend_from_slice(&bytes);
                    }
                }
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        ReadAnswer {
            status: self.status,
            headers: self.headers.clone(),
            body: body.into(),
            broken,
        }
    }

    pub fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }
}

impl ReadAnswer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }

    /// The data of each event of a stream.
    pub fn events(&self) -> Vec<String> {
        self.text()
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "))
            .map(str::to_owned)
            .collect()
    }

    /// The text of choice 0 of a chat stream.
    pub fn streamed_text(&self) -> String {
        self.events()
            .iter()
            .filter_map(|data| serde_json::from_str::<Value>(data).ok())
            .filter_map(|chunk| {
                chunk
                    .pointer("/choices/0/delta/content")
                    .and_then(Value::as_str)
                    .map(str::to_owned)
            })
            .collect()
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
