//! One request, one oddity.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tw_egress::client::failure::{FailureKind, SendFailure, WaitPhase};
use tw_egress::client::outgoing::check_header;
use tw_egress::client::{
    ClientOptions, ConnectionReuse, EgressClient, OutgoingRequest, ReceivedAnswer,
};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::super::{Trap, allowing, get, post};
use super::{Raw, read_request, reset};

async fn send(
    client: &EgressClient,
    request: OutgoingRequest,
) -> Result<ReceivedAnswer, SendFailure> {
    client
        .send(request, "default", ConnectionReuse::Brief)
        .await
}

fn client_of(listener: &Listener) -> EgressClient {
    let url = listener.url("");
    EgressClient::new(allowing(url.trim_start_matches("http://")))
}

#[track_caller]
fn assert_failed(sent: Result<ReceivedAnswer, SendFailure>, kind: FailureKind, was_sent: bool) {
    let failure = sent.unwrap_err();
    assert_eq!((failure.kind, failure.sent), (kind, was_sent));
}

#[tokio::test]
async fn an_answer_comes_with_status_headers_and_body() {
    let reply = ListenerReply::status(418, r#"{"a":1}"#).with_header("x-trace", "7");
    let listener = Listener::in_turn(vec![reply]).await.unwrap();
    let mut request = post(&listener.url("/pay?to=%7Bx%7D#part"));
    request.headers = vec![("X-Key".to_owned(), "wert".to_owned())];
    let received = send(&client_of(&listener), request).await.unwrap();
    assert_eq!(
        (received.status, received.bytes, received.cut),
        (418, 7, false)
    );
    assert_eq!(received.body, br#"{"a":1}"#);
    assert_eq!(received.headers["x-trace"], "7");
    let asked = &listener.asked()[0];
    assert_eq!(
        (asked.method.as_str(), asked.target.as_str()),
        ("POST", "/pay?to=%7Bx%7D")
    );
    assert_eq!(asked.body, "pay");
    assert_eq!(asked.header("x-key"), "wert");
    assert_eq!(asked.header("accept-encoding"), "identity");
    assert_eq!(asked.header("content-length"), "3");
    assert!(asked.header("user-agent").starts_with("turnwright/"));
}

#[tokio::test]
async fn a_refused_connection_has_sent_nothing() {
    let address = Trap::new().address();
    let client = EgressClient::new(allowing(&address.to_string()));
    let sent = send(&client, post(&format!("http://{address}/"))).await;
    assert_failed(sent, FailureKind::Connect, false);
}

#[tokio::test]
async fn a_reset_before_the_request_is_read_has_sent() {
    let raw = Raw::start(|stream| async move {
        stream.peek(&mut [0]).await.unwrap();
        reset(stream);
    })
    .await;
    assert_failed(
        send(&raw.client(), post(&raw.url())).await,
        FailureKind::Reset,
        true,
    );
}

#[tokio::test]
async fn a_reset_after_the_request_was_read_has_sent() {
    let raw = Raw::start(|mut stream| async move {
        read_request(&mut stream).await;
        reset(stream);
    })
    .await;
    assert_failed(
        send(&raw.client(), post(&raw.url())).await,
        FailureKind::Reset,
        true,
    );
}

#[tokio::test]
async fn a_polite_close_without_an_answer_has_sent() {
    let listener = Listener::in_turn(vec![ListenerReply::hang_up()])
        .await
        .unwrap();
    let sent = send(&client_of(&listener), post(&listener.url("/"))).await;
    assert_failed(sent, FailureKind::Reset, true);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_reset() {
    let whole = ReplyPiece::Bytes(Bytes::from_static(b"{\"half\":"));
    let cut = ListenerReply::pieces("application/json", vec![whole, ReplyPiece::Cut]);
    let listener = Listener::in_turn(vec![cut]).await.unwrap();
    let sent = send(&client_of(&listener), get(&listener.url("/"))).await;
    assert_failed(sent, FailureKind::Reset, true);
}

#[tokio::test]
async fn a_listener_that_hangs_is_left() {
    let reply = ListenerReply::pieces("text/plain", vec![ReplyPiece::HeadGate("never")]);
    let listener = Listener::in_turn(vec![reply]).await.unwrap();
    let mut request = post(&listener.url("/"));
    request.timeouts.first_byte = Duration::from_millis(60);
    let sent = send(&client_of(&listener), request).await;
    assert_failed(sent, FailureKind::TimedOut(WaitPhase::FirstByte), true);
    // Nobody waits any more: the connection is closed.
    listener.abandoned_times(1).await;
}

#[tokio::test]
async fn an_answer_that_stops_is_left() {
    let start = ReplyPiece::Bytes(Bytes::from_static(b"x"));
    let reply = ListenerReply::pieces("text/plain", vec![start, ReplyPiece::Silence]);
    let listener = Listener::in_turn(vec![reply]).await.unwrap();
    let mut request = get(&listener.url("/"));
    request.timeouts.idle = Duration::from_millis(60);
    let sent = send(&client_of(&listener), request).await;
    assert_failed(sent, FailureKind::TimedOut(WaitPhase::Idle), true);
}

#[tokio::test]
async fn an_answer_that_drips_ends_at_the_total() {
    let drip = [
        ReplyPiece::Bytes(Bytes::from_static(b"x")),
        ReplyPiece::Wait(Duration::from_millis(10)),
    ];
    let drips = drip.iter().cycle().take(10_000).cloned().collect();
    let listener = Listener::in_turn(vec![ListenerReply::pieces("text/plain", drips)])
        .await
        .unwrap();
    let mut request = get(&listener.url("/"));
    request.timeouts.total = Duration::from_millis(150);
    let sent = send(&client_of(&listener), request).await;
    assert_failed(sent, FailureKind::TimedOut(WaitPhase::Total), true);
}

#[tokio::test]
async fn a_head_that_drips_ends_too() {
    let raw = Raw::start(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await.unwrap();
        let mut drips = tokio::time::interval(Duration::from_millis(10));
        while stream.write_all(b"y").await.is_ok() {
            drips.tick().await;
        }
    })
    .await;
    let mut request = get(&raw.url());
    request.timeouts.first_byte = Duration::from_millis(80);
    let sent = send(&raw.client(), request).await;
    assert_failed(sent, FailureKind::TimedOut(WaitPhase::FirstByte), true);
}

#[tokio::test]
async fn a_long_answer_is_cut_and_counted() {
    let megabyte = ReplyPiece::Bytes(Bytes::from(vec![b'x'; 1_000_000]));
    let reply = ListenerReply::pieces("text/plain", vec![megabyte; 50]);
    let listener = Listener::in_turn(vec![reply]).await.unwrap();
    let mut request = get(&listener.url("/"));
    request.response_bytes_max = 1000;
    let received = send(&client_of(&listener), request).await.unwrap();
    assert_eq!((received.bytes, received.body.len()), (50_000_000, 1000));
    assert!(received.cut);
}

#[tokio::test]
async fn the_digest_is_of_all_that_was_read() {
    let pieces = vec![ReplyPiece::Bytes(Bytes::from(vec![7; 3000])); 3];
    let listener = Listener::in_turn(vec![ListenerReply::pieces("image/png", pieces)])
        .await
        .unwrap();
    let whole: [u8; 32] = Sha256::digest(vec![7; 9000]).into();
    let whole: String = whole.iter().map(|byte| format!("{byte:02x}")).collect();
    for kept in [0, 1, 3000, 3001, 8999, 9000, 10_000] {
        let mut request = get(&listener.url("/"));
        request.response_bytes_max = kept;
        let received = send(&client_of(&listener), request).await.unwrap();
        assert_eq!(received.sha256(), whole, "{kept} kept");
        assert_eq!(received.cut, kept < 9000);
        assert_eq!(received.body.len(), kept.min(9000));
    }
}

#[tokio::test]
async fn an_endless_answer_is_read_to_a_limit() {
    let raw = Raw::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 10_000]).await.is_ok() {}
    })
    .await;
    let client = EgressClient::new(ClientOptions {
        read_bytes_max: 100_000,
        ..allowing(&raw.address.to_string())
    });
    let mut request = get(&raw.url());
    request.response_bytes_max = 10;
    let received = send(&client, request).await.unwrap();
    assert_eq!(received.body, b"xxxxxxxxxx");
    assert!(received.cut);
    assert!(
        (100_000..300_000).contains(&received.bytes),
        "{}",
        received.bytes
    );
}

#[tokio::test]
async fn bytes_come_as_they_are() {
    let bytes = Bytes::from_static(b"\xff\xfe\x00ok\xc3");
    let reply = ListenerReply::pieces("text/plain", vec![ReplyPiece::Bytes(bytes.clone())]);
    let listener = Listener::in_turn(vec![reply]).await.unwrap();
    let received = send(&client_of(&listener), get(&listener.url("/")))
        .await
        .unwrap();
    assert_eq!(received.body, bytes);
}

/// 10 MB of zeros in some 60 KB.
fn gzip_bomb() -> Vec<u8> {
    // One block with fixed codes: a literal zero, then copies of 258 bytes at distance 1.
    let mut bits: Vec<bool> = vec![true, true, false];
    let mut code = |value: u32, width: u32| {
        bits.extend((0..width).rev().map(|bit| value >> bit & 1 == 1));
    };
    code(0x30, 8);
    for _ in 0..38_000 {
        code(0xc5, 8);
        code(0, 5);
    }
    code(0, 7);
    let mut bomb = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    bomb.extend(bits.chunks(8).map(|byte| {
        let set = |(place, &bit): (usize, &bool)| u8::from(bit) << place;
        byte.iter().enumerate().map(set).sum::<u8>()
    }));
    bomb
}

#[tokio::test]
async fn a_gzip_bomb_is_not_unpacked() {
    let bomb = gzip_bomb();
    let pieces = vec![ReplyPiece::Bytes(Bytes::from(bomb.clone()))];
    let reply =
        ListenerReply::pieces("application/json", pieces).with_header("content-encoding", "gzip");
    let listener = Listener::in_turn(vec![reply]).await.unwrap();
    let received = send(&client_of(&listener), get(&listener.url("/")))
        .await
        .unwrap();
    assert_eq!(received.body, bomb);
    assert_eq!(received.headers["content-encoding"], "gzip");
}

#[tokio::test]
async fn too_many_or_too_long_headers_are_refused() {
    for (headers, expected) in [
        // One more is the length of the body.
        ("x: y\r\n".repeat(127), None),
        ("x: y\r\n".repeat(128), Some(FailureKind::HeadersTooLarge)),
        (format!("x: {}\r\n", "y".repeat(60_000)), None),
        (
            format!("x: {}\r\n", "y".repeat(70_000)),
            Some(FailureKind::HeadersTooLarge),
        ),
        (
            format!("x: {}", "y".repeat(5_000_000)),
            Some(FailureKind::HeadersTooLarge),
        ),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{headers}\r\n");
        let raw = Raw::start(move |mut stream| {
            let answer = answer.clone();
            async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                // Until the other side has seen enough.
                read_request(&mut stream).await;
            }
        })
        .await;
        match (send(&raw.client(), get(&raw.url())).await, expected) {
            (Ok(received), None) => assert_eq!(received.status, 200),
            (Err(failure), Some(kind)) => {
                assert_eq!((failure.kind, failure.sent), (kind, true));
            }
            (sent, _) => panic!("{} bytes of headers: {sent:?}", headers.len()),
        }
    }
}

#[tokio::test]
async fn what_is_not_http_is_said_so() {
    for answer in [
        "SSH-2.0-OpenSSH_9.9\r\n",
        "<html>hello</html>",
        "HTTP/2.0 200 OK\r\n\r\n",
    ] {
        let raw = Raw::start(move |mut stream| async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            read_request(&mut stream).await;
        })
        .await;
        let sent = send(&raw.client(), get(&raw.url())).await;
        assert_failed(sent, FailureKind::NotHttp, true);
    }
}

#[tokio::test]
async fn headers_of_ours_and_broken_ones_are_refused() {
    for (name, value) in [
        ("Host", "localhost"),
        ("content-length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("connection", "upgrade"),
        ("Accept-Encoding", "gzip"),
        ("proxy-authorization", "Basic x"),
        ("keep-alive", "timeout=100"),
        ("x-a", "b\r\nHost: localhost"),
        ("x-a", "b\nc"),
        ("x-a", "b\0c"),
        ("x a", "b"),
        ("x:a", "b"),
        ("", "b"),
        ("x-ä", "b"),
    ] {
        assert_eq!(
            check_header(name, value),
            Err(FailureKind::BadRequest),
            "{name}: {value:?}"
        );
    }
    assert_eq!(check_header("Authorization", "Bearer x"), Ok(()));

    let trap = Trap::new();
    let client = EgressClient::new(allowing(&trap.address().to_string()));
    let url = format!("http://{}/", trap.address());
    let mut request = get(&url);
    request.headers = vec![("x-a".to_owned(), "b\r\nx-c: d".to_owned())];
    assert_failed(send(&client, request).await, FailureKind::BadRequest, false);
    let mut request = get(&url);
    request.headers = vec![("x-a".to_owned(), "b".to_owned()); 65];
    assert_failed(send(&client, request).await, FailureKind::BadRequest, false);
    for method in ["CONNECT", "TRACE", "PROPFIND"] {
        let mut request = get(&url);
        request.method = Method::from_bytes(method.as_bytes()).unwrap();
        assert_failed(send(&client, request).await, FailureKind::BadRequest, false);
    }
    trap.assert_untouched();
}
