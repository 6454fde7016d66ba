//! Clients that leave, and clients that read nothing.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::row::BadInputRow;
use super::upstream::text_event;
use crate::app::App;

/// Text of one event of a long stream, in bytes.
const EVENT_TEXT_BYTES: usize = 64 * 1024;
/// Events of a long stream: 12 MB in all, more than the sockets of both sides hold and less than
/// an answer may have.
const EVENTS: usize = 180;
/// What the client that reads nothing gives its socket to hold, in bytes.
const RECEIVE_BUFFER_BYTES: u32 = 4096;
/// Enough for the head of the answer, in bytes.
const HEAD_BYTES_MAX: usize = 4096;

/// An upstream that has much to say.
pub async fn listen_and_stream_on() -> Listener {
    let event = Bytes::from(text_event(&"x".repeat(EVENT_TEXT_BYTES)));
    let mut body = vec![ReplyPiece::Bytes(event); EVENTS];
    body.push(ReplyPiece::Silence);
    let reply = ListenerReply::pieces("text/event-stream", body);
    Listener::in_turn(vec![reply]).await.unwrap()
}

/// Closes the connection after the first text, and returns the turn.
pub async fn leave(row: &BadInputRow, client: &TestClient, upstream: &Listener) -> String {
    let mut open = client
        .open(&row.method, &row.path, &[], row.body())
        .await
        .unwrap();
    open.until(row.upstream.text.as_deref().unwrap()).await;
    let turn = open.header("turnwright-turn").to_owned();
    drop(open);
    upstream.abandoned_times(1).await;
    turn
}

/// Asks, reads nothing until the turn is over, and returns the turn.
pub async fn read_nothing(
    row: &BadInputRow,
    client: &TestClient,
    upstream: &Listener,
    app: &App,
) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES).unwrap();
    let mut stream = socket.connect(client.address).await.unwrap();
    let body = row.body();
    let head = format!(
        "{} {} HTTP/1.1\r\nhost: server\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        row.method,
        row.path,
        client.key.as_deref().unwrap(),
        body.len(),
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&body).await.unwrap();
    upstream.asked_times(1).await;
    // The server gives the upstream's answer up, since there is nobody to give it to.
    upstream.abandoned_times(1).await;
    app.runtime.idle().await;
    turn_in_head(&mut stream).await
}

async fn turn_in_head(stream: &mut tokio::net::TcpStream) -> String {
    let mut read = Vec::new();
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        assert!(read.len() < HEAD_BYTES_MAX);
        read.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(read).unwrap();
    let line = head
        .lines()
        .find_map(|line| line.strip_prefix("turnwright-turn: "));
    line.unwrap().to_owned()
}
