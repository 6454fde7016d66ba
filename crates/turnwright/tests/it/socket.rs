//! A WebSocket of a real server, through the connections that the server makes of its sockets.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use crate::process::{ServerProcess, create_key, key_of, serve};

const STREAM: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"},\
                      \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
/// Far more than an end takes.
const END_MAX: Duration = Duration::from_secs(60);

async fn open(server: &ServerProcess, key: &str) -> WebSocketStream<TcpStream> {
    let address = server.client.address;
    let url = format!("ws://{address}/v1/responses");
    let mut request = url.into_client_request().unwrap();
    let bearer = HeaderValue::try_from(format!("Bearer {key}")).unwrap();
    request.headers_mut().insert("authorization", bearer);
    let tcp = TcpStream::connect(address).await.unwrap();
    tokio_tungstenite::client_async(request, tcp)
        .await
        .unwrap()
        .0
}

/// Types of events until the connection is closed, and the code of that.
async fn rest(socket: &mut WebSocketStream<TcpStream>) -> (Vec<String>, u16) {
    let mut types = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Text(text) => {
                let event: Value = serde_json::from_str(&text).unwrap();
                types.push(event["type"].as_str().unwrap().to_owned());
            }
            Message::Close(frame) => return (types, frame.unwrap().code.into()),
            _ => {}
        }
    }
    panic!("it was not closed: {types:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_closes_its_websockets_behind_their_responses() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let gated = vec![ReplyPiece::HeadGate("go"), ReplyPiece::Bytes(STREAM.into())];
    let reply = ListenerReply::pieces("text/event-stream", gated);
    let upstream = Listener::in_turn(vec![reply]).await.unwrap();
    let mut server = ServerProcess::start(serve(&data, &upstream), &data);
    let key = key_of(&create_key(&data, &[]));
    let mut idle = open(&server, &key).await;
    let mut busy = open(&server, &key).await;
    let message = json!({ "type": "response.create", "model": "m", "input": "Hi" });
    let message = Message::text(message.to_string());
    busy.send(message).await.unwrap();
    upstream.asked_times(1).await;
    server.terminate();
    assert_eq!(rest(&mut idle).await, (Vec::new(), 1001));
    upstream.open("go");
    let (types, code) = rest(&mut busy).await;
    assert_eq!(types.first().map(String::as_str), Some("response.created"));
    assert_eq!(types.last().map(String::as_str), Some("response.completed"));
    assert_eq!(code, 1001);
    let ended = tokio::task::spawn_blocking(move || server.end());
    let ended = tokio::time::timeout(END_MAX, ended).await.unwrap();
    assert_eq!(ended.unwrap().0, Some(0));
}
