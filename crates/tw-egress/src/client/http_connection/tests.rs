use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{ExchangeFailure, HttpConnection};
use crate::client::connect::ConnectedStream;

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

fn request() -> Request<Bytes> {
    Request::post("/")
        .header("host", "example.com")
        .body(Bytes::from_static(b"pay"))
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

async fn used_once() -> (HttpConnection, TcpStream) {
    let (near, mut far) = pair().await;
    let mut live = HttpConnection::new(ConnectedStream::Plain(near));
    let (answer, ()) = tokio::join!(live.ask(request()), serve_one(&mut far));
    answer.unwrap();
    while live.read().await.is_some() {}
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

/// What is left of a connection behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Free,
    Used,
}

/// Answers, whether the connection closes behind them, and what they are to come to.
const ANSWERS: [(&str, bool, &str, Left); 13] = [
    (
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        false,
        "hello",
        Left::Free,
    ),
    (
        "HTTP/1.1 200 OK\ncontent-length: 5\n\nhello",
        false,
        "hello",
        Left::Free,
    ),
    (
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        false,
        "",
        Left::Free,
    ),
    ("HTTP/1.1 204 No Content\r\n\r\n", false, "", Left::Free),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n",
        false,
        "hello",
        Left::Free,
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\nz: y\r\n\r\n",
        false,
        "hello",
        Left::Free,
    ),
    (
        "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        false,
        "ok",
        Left::Free,
    ),
    (
        "HTTP/1.1 100 Continue\r\ndate: now\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        false,
        "ok",
        Left::Free,
    ),
    (
        "HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 2\r\n\r\nno",
        false,
        "no",
        Left::Free,
    ),
    (
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        true,
        "ok",
        Left::Used,
    ),
    ("HTTP/1.1 200 OK\r\n\r\nhello", true, "hello", Left::Used),
    (
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        true,
        "ok",
        Left::Used,
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
        true,
        "ok",
        Left::Used,
    ),
];

/// One answer, of which `cut` bytes come by themselves.
async fn answered(
    answer: &str,
    cut: usize,
    closes: bool,
) -> (Result<String, ExchangeFailure>, Left) {
    let (near, mut far) = pair().await;
    let mut live = HttpConnection::new(ConnectedStream::Plain(near));
    let served = async {
        far.read_exact(&mut [0; 4]).await.unwrap();
        far.write_all(&answer.as_bytes()[..cut]).await.unwrap();
        settle().await;
        far.write_all(&answer.as_bytes()[cut..]).await.unwrap();
        if closes {
            far.shutdown().await.unwrap();
        }
    };
    let received = async {
        live.ask(request()).await?;
        let mut body = Vec::new();
        while let Some(part) = live.read().await {
            body.extend_from_slice(&part?);
        }
        Ok(String::from_utf8(body).unwrap())
    };
    let (received, ()) = tokio::join!(received, served);
    let left = if live.is_free().await {
        Left::Free
    } else {
        Left::Used
    };
    (received, left)
}

#[tokio::test]
async fn any_cut_of_an_answer_gives_the_same() {
    for (answer, closes, body, left) in ANSWERS {
        for cut in 0..=answer.len() {
            let received = answered(answer, cut, closes).await;
            assert_eq!(
                received,
                (Ok(body.to_owned()), left),
                "{answer:?} cut at {cut}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_that_ends_early_is_broken_wherever_it_ends() {
    for (answer, closes, _, _) in ANSWERS {
        // A body that its connection's end delimits cannot be seen to be cut.
        let delimited = answer.contains("content-length") || answer.contains("chunked");
        let end_of_head = answer.rfind("\n\n").map_or(0, |at| at + 2);
        let end_of_head = answer.rfind("\r\n\r\n").map_or(end_of_head, |at| at + 4);
        let whole = if closes || answer.contains("chunked") {
            // Nothing is missing behind the last chunk's size.
            answer.rfind("0\r\n").map_or(answer.len(), |at| at + 3)
        } else {
            answer.len()
        };
        let broken = if delimited { whole } else { end_of_head };
        for cut in 0..broken.min(answer.len()) {
            let (received, left) = answered(&answer[..cut], cut, true).await;
            assert_eq!(
                (received, left),
                (Err(ExchangeFailure::Broken), Left::Used),
                "{answer:?} ends at {cut}"
            );
        }
    }
}

#[tokio::test]
async fn what_comes_behind_an_answer_makes_the_connection_useless() {
    for (answer, _, body, _) in ANSWERS.iter().filter(|answer| answer.3 == Left::Free) {
        let answer = format!("{answer}HTTP/1.1 200 OK\r\n");
        let received = answered(&answer, 0, false).await;
        assert_eq!(received, (Ok((*body).to_owned()), Left::Used), "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_is_read_while_the_request_is_still_sent() {
    let (near, mut far) = pair().await;
    let mut live = HttpConnection::new(ConnectedStream::Plain(near));
    // More than the kernel takes for a peer that does not read.
    let mut request = request();
    *request.body_mut() = Bytes::from(vec![b'x'; 32 * 1024 * 1024]);
    let served = async {
        far.read_exact(&mut [0; 4]).await.unwrap();
        far.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
            .await
            .unwrap();
    };
    let (answer, ()) = tokio::join!(live.ask(request), served);
    assert_eq!(answer.unwrap().status(), 413);
    assert_eq!(live.read().await.unwrap().unwrap(), "no");
    assert_eq!(live.read().await, None);
    assert!(!live.is_free().await, "the rest of the request is missing");
}

#[tokio::test]
async fn a_request_is_sent_on_while_its_answer_comes() {
    let (near, mut far) = pair().await;
    let mut live = HttpConnection::new(ConnectedStream::Plain(near));
    let sent = 32 * 1024 * 1024;
    let mut request = request();
    *request.body_mut() = Bytes::from(vec![b'x'; sent]);
    let served = async {
        far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
            .await
            .unwrap();
        let mut received = vec![0; 1024 * 1024];
        let mut total = 0;
        while total < sent {
            total += far.read(&mut received).await.unwrap();
        }
        far.write_all(b"ok").await.unwrap();
    };
    let received = async {
        assert_eq!(live.ask(request).await.unwrap().status(), 200);
        assert_eq!(live.read().await.unwrap().unwrap(), "ok");
        assert_eq!(live.read().await, None);
    };
    tokio::join!(received, served);
    assert!(live.is_free().await);
}

#[tokio::test]
async fn what_frames_a_body_is_not_held_without_end() {
    for start in ["0\r\nx: ", "5\r\nhello\r\n0\r\nx: "] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{start}{}",
            "y".repeat(200_000)
        );
        let (received, _) = answered(&answer, 0, false).await;
        assert_eq!(received, Err(ExchangeFailure::Broken), "{start:?}");
    }
}

#[tokio::test]
async fn what_came_before_nonsense_is_read_wherever_it_is_cut() {
    let answer =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\nzz\r\n";
    for cut in 0..=answer.len() {
        let (near, mut far) = pair().await;
        let mut live = HttpConnection::new(ConnectedStream::Plain(near));
        let served = async {
            far.read_exact(&mut [0; 4]).await.unwrap();
            far.write_all(&answer.as_bytes()[..cut]).await.unwrap();
            settle().await;
            far.write_all(&answer.as_bytes()[cut..]).await.unwrap();
        };
        let received = async {
            live.ask(request()).await.unwrap();
            let mut body = Vec::new();
            while let Some(Ok(part)) = live.read().await {
                body.extend_from_slice(&part);
            }
            body
        };
        let (body, ()) = tokio::join!(received, served);
        assert_eq!(body, b"hello", "cut at {cut}");
        // It stays broken.
        assert_eq!(
            live.read().await,
            Some(Err(ExchangeFailure::Broken)),
            "cut at {cut}"
        );
        assert!(!live.is_free().await);
    }
}
