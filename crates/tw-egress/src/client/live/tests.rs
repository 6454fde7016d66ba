use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::Live;
use crate::client::connect::{Inner, Stream};

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (near, far)
}

/// Returns when the runtime has seen everything that happened to sockets before.
async fn settle() {
    let (mut near, mut far) = pair().await;
    far.write_all(b"x").await.unwrap();
    near.read_exact(&mut [0]).await.unwrap();
}

fn request() -> Request<Full<Bytes>> {
    Request::post("/")
        .header("host", "example.com")
        .body(Full::new(Bytes::from_static(b"pay")))
        .unwrap()
}

/// Reads one request and answers it.
async fn serve_one(far: &mut TcpStream) {
    let mut read = Vec::new();
    while !read.ends_with(b"pay") {
        assert_ne!(far.read_buf(&mut read).await.unwrap(), 0);
    }
    far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .await
        .unwrap();
}

async fn used_once() -> (Live, TcpStream) {
    let (near, mut far) = pair().await;
    let mut live = Live::start(Stream::new(Inner::Plain(near))).await.unwrap();
    let (answer, ()) = tokio::join!(live.ask(request()), serve_one(&mut far));
    let mut body = answer.unwrap().into_body();
    while live.frame(&mut body).await.is_some() {}
    assert!(live.has_sent());
    assert!(live.is_free().await);
    assert!(live.is_still_free().await);
    assert!(!live.has_sent(), "a new use begins with nothing sent");
    (live, far)
}

#[tokio::test]
async fn a_connection_closed_before_its_second_use_has_sent_nothing() {
    let (mut live, far) = used_once().await;
    drop(far);
    settle().await;
    // The close came after the pool looked.
    assert!(live.ask(request()).await.is_err());
    assert!(!live.has_sent());
}

#[tokio::test]
async fn a_connection_closed_during_its_second_use_has_sent() {
    let (mut live, mut far) = used_once().await;
    let (answer, ()) = tokio::join!(live.ask(request()), async {
        far.read_exact(&mut [0; 4]).await.unwrap();
        drop(far);
    });
    assert!(answer.is_err());
    assert!(live.has_sent());
}

#[tokio::test]
async fn a_closed_connection_is_not_free() {
    let (mut live, far) = used_once().await;
    drop(far);
    settle().await;
    assert!(!live.is_free().await);
}

#[tokio::test]
async fn a_connection_closed_just_now_is_not_free() {
    let (mut live, far) = used_once().await;
    // The runtime gets no chance to hear of it.
    drop(far);
    assert!(!live.is_still_free().await);
    assert!(!live.has_sent());
}

#[tokio::test]
async fn a_connection_that_speaks_unasked_is_not_free() {
    let (mut live, mut far) = used_once().await;
    far.write_all(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        .await
        .unwrap();
    settle().await;
    assert!(!live.is_free().await);
    assert!(!live.has_sent());
}
