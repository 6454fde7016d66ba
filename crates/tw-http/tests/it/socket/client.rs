//! A client of the WebSocket.

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{self, Message};

use super::RESPONSES;
use crate::app::App;

pub struct Socket(WebSocketStream<TcpStream>);

/// What the server says next.
#[derive(Debug, PartialEq)]
pub enum SocketTold {
    Event(Value),
    /// It closes, with this code.
    Closed(u16),
    /// The connection is gone.
    Gone,
}

impl Socket {
    pub async fn open(app: &App) -> Self {
        Self::open_with(app, &[]).await.unwrap()
    }

    /// A connection with these headers of its opening; else the status and body of the answer.
    pub async fn open_with(app: &App, headers: &[(&str, &str)]) -> Result<Self, (u16, Value)> {
        let address = app.client.address;
        let url = format!("ws://{address}{RESPONSES}");
        let mut request = url.into_client_request().unwrap();
        let key = app.client.key.as_ref();
        let bearer = key.map(|key| ("authorization", format!("Bearer {key}")));
        let given = headers
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        for (name, value) in bearer.into_iter().chain(given) {
            let name = HeaderName::try_from(name).unwrap();
            let value = HeaderValue::try_from(value).unwrap();
            request.headers_mut().insert(name, value);
        }
        let tcp = TcpStream::connect(address).await.unwrap();
        match tokio_tungstenite::client_async(request, tcp).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(tungstenite::Error::Http(answer)) => {
                let body = answer.body().as_deref().unwrap_or_default();
                let body = serde_json::from_slice(body).unwrap_or_default();
                Err((answer.status().as_u16(), body))
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn send(&mut self, message: Message) {
        self.0.send(message).await.unwrap();
    }

    pub async fn say(&mut self, message: &Value) {
        self.send(Message::text(message.to_string())).await;
    }

    pub async fn next(&mut self) -> SocketTold {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => {
                    return SocketTold::Event(serde_json::from_str(&text).unwrap());
                }
                Some(Ok(Message::Close(frame))) => {
                    return SocketTold::Closed(frame.map_or(0, |frame| frame.code.into()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return SocketTold::Gone,
            }
        }
    }

    pub async fn event(&mut self) -> Value {
        match self.next().await {
            SocketTold::Event(event) => event,
            other => panic!("{other:?}"),
        }
    }

    /// The events up to the last one of a response, or to an error.
    pub async fn rest(&mut self) -> Vec<Value> {
        const LAST: [&str; 4] = [
            "error",
            "response.completed",
            "response.failed",
            "response.incomplete",
        ];
        let mut events = Vec::new();
        loop {
            let event = self.event().await;
            let is_last = LAST.contains(&event["type"].as_str().unwrap());
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    pub async fn ask(&mut self, message: &Value) -> Vec<Value> {
        self.say(message).await;
        self.rest().await
    }

    /// The id of the response that a message gets, which is completed.
    pub async fn answered(&mut self, message: &Value) -> String {
        let events = self.ask(message).await;
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.completed", "{last}");
        last["response"]["id"].as_str().unwrap().to_owned()
    }

    /// Status and code of the error that a message gets, and nothing else.
    pub async fn refused(&mut self, message: &Value) -> (u64, String) {
        self.say(message).await;
        self.error().await
    }

    /// Status and code of an error, which comes next.
    pub async fn error(&mut self) -> (u64, String) {
        let event = self.event().await;
        assert_eq!(event["type"], "error", "{event}");
        assert!(event["error"]["message"].is_string(), "{event}");
        let code = event["error"]["code"].as_str().unwrap();
        (event["status"].as_u64().unwrap(), code.to_owned())
    }

    /// Closes, and waits until the server has closed, too.
    pub async fn close(mut self) {
        self.0.close(None).await.unwrap();
        while let Some(Ok(_)) = self.0.next().await {}
    }
}
