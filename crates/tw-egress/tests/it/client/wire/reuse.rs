//! Connections that are used again, and by whom.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tw_egress::client::failure::FailureKind;
use tw_egress::client::host_port::AllowedDestination;
use tw_egress::client::{ClientOptions, ConnectionReuse, EgressClient, PoolOptions};

use super::super::{allowing, get, options, post};
use super::{Raw, read_request, reset};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nkeep-alive: timeout=100\r\n\
    set-cookie: a=b\r\n\r\nok";

/// Answers every request, for as long as the other side likes.
async fn keep_answering(mut stream: TcpStream) {
    while let Some(request) = read_request(&mut stream).await {
        assert!(!request.contains("cookie"), "{request}");
        stream.write_all(ANSWER).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let raw = Raw::start(keep_answering).await;
    let client = raw.client();
    for _ in 0..5 {
        let received = client
            .send(get(&raw.url()), "default", ConnectionReuse::Pooled)
            .await
            .unwrap();
        assert_eq!(received.body, b"ok");
    }
    assert_eq!(raw.accepted(), 1);
    for _ in 0..3 {
        client
            .send(get(&raw.url()), "default", ConnectionReuse::Fresh)
            .await
            .unwrap();
    }
    assert_eq!(raw.accepted(), 4);
}

/// Lets everything wait for this long, in no time.
async fn wait(span: Duration) {
    tokio::time::pause();
    tokio::time::advance(span).await;
    tokio::time::resume();
}

async fn pay(raw: &Raw, client: &EgressClient) {
    let paid = client
        .send(post(&raw.url()), "default", ConnectionReuse::Brief)
        .await;
    assert_eq!(paid.unwrap().body, b"ok");
}

#[tokio::test]
async fn a_call_that_must_not_repeat_waits_for_a_place_to_prove_itself() {
    let raw = Raw::start(keep_answering).await;
    let client = raw.client();
    for accepted in 1..=3 {
        pay(&raw, &client).await;
        assert_eq!(
            raw.accepted(),
            accepted,
            "nothing is known of the place yet"
        );
    }
    wait(Duration::from_millis(1900)).await;
    pay(&raw, &client).await;
    assert_eq!(raw.accepted(), 4);
    wait(Duration::from_millis(100)).await;
    // The first one is still open: what has waited for less may be used from now on.
    pay(&raw, &client).await;
    assert_eq!(raw.accepted(), 5);
    for _ in 0..3 {
        pay(&raw, &client).await;
    }
    assert_eq!(raw.accepted(), 5);
    // Not what has waited for as long.
    wait(Duration::from_secs(2)).await;
    pay(&raw, &client).await;
    assert_eq!(raw.accepted(), 6);
}

#[tokio::test]
async fn a_place_that_closes_too_early_is_no_longer_trusted() {
    let close = Arc::new((Notify::new(), Semaphore::new(0)));
    let closing = Arc::clone(&close);
    let raw = Raw::start(move |stream| {
        let closing = Arc::clone(&closing);
        async move {
            let (close, closed) = &*closing;
            tokio::select! {
                () = keep_answering(stream) => {}
                () = close.notified() => {}
            }
            closed.add_permits(1);
        }
    })
    .await;
    let client = raw.client();
    pay(&raw, &client).await;
    wait(Duration::from_secs(2)).await;
    for _ in 0..3 {
        pay(&raw, &client).await;
    }
    assert_eq!(raw.accepted(), 2, "proven");
    close.0.notify_waiters();
    close.1.acquire_many(2).await.unwrap().forget();
    // One is seen to be closed, which is the reason to make a new one for each from now on.
    for accepted in 3..=6 {
        pay(&raw, &client).await;
        assert_eq!(raw.accepted(), accepted);
    }
    wait(Duration::from_secs(2)).await;
    for _ in 0..3 {
        pay(&raw, &client).await;
    }
    assert_eq!(raw.accepted(), 7, "proven anew");
}

#[tokio::test]
async fn a_call_that_must_not_repeat_uses_no_connection_that_has_waited() {
    let raw = Raw::start(keep_answering).await;
    let client = EgressClient::new(ClientOptions {
        pool: PoolOptions {
            // Any wait is too long, although the place is trusted.
            idle_kept_brief: Duration::ZERO,
            idle_proven: Duration::ZERO,
            ..PoolOptions::defaults()
        },
        ..allowing(&raw.address.to_string())
    });
    client
        .send(get(&raw.url()), "default", ConnectionReuse::Pooled)
        .await
        .unwrap();
    client
        .send(post(&raw.url()), "default", ConnectionReuse::Brief)
        .await
        .unwrap();
    assert_eq!(raw.accepted(), 2);
    // What waits is still there for the others.
    client
        .send(get(&raw.url()), "default", ConnectionReuse::Pooled)
        .await
        .unwrap();
    assert_eq!(raw.accepted(), 2);
}

#[tokio::test]
async fn no_more_connections_wait_than_allowed() {
    let raw = Raw::start(keep_answering).await;
    let client = EgressClient::new(ClientOptions {
        pool: PoolOptions {
            connections_max: 0,
            ..PoolOptions::defaults()
        },
        ..allowing(&raw.address.to_string())
    });
    for _ in 0..3 {
        client
            .send(get(&raw.url()), "default", ConnectionReuse::Pooled)
            .await
            .unwrap();
    }
    assert_eq!(raw.accepted(), 3);
}

#[tokio::test]
async fn room_for_a_connection_is_free_again_when_another_leaves() {
    let (first, second) = (
        Raw::start(keep_answering).await,
        Raw::start(keep_answering).await,
    );
    let allow = |raw: &Raw| AllowedDestination::parse(&raw.address.to_string(), None).unwrap();
    let pool = PoolOptions {
        connections_max: 2,
        ..PoolOptions::defaults()
    };
    let kept_for = pool.idle_kept;
    let proven_after = pool.idle_proven;
    let client = EgressClient::new(ClientOptions {
        allowed: vec![allow(&first), allow(&second)],
        pool,
        ..options()
    });
    let ask = async |raw: &Raw| {
        let received = client
            .send(get(&raw.url()), "default", ConnectionReuse::Pooled)
            .await;
        assert_eq!(received.unwrap().body, b"ok");
        raw.accepted()
    };
    for _ in 0..3 {
        assert_eq!(ask(&first).await, 1);
    }
    wait(proven_after).await;
    // The one that has waited shows that others may be used.
    for _ in 0..3 {
        pay(&first, &client).await;
        assert_eq!(first.accepted(), 2);
    }
    assert_eq!(ask(&second).await, 1);
    assert_eq!(ask(&second).await, 2, "there was no room");
    wait(kept_for).await;
    assert_eq!(ask(&second).await, 3);
    assert_eq!(ask(&second).await, 3, "the others have gone");
    assert_eq!(ask(&first).await, 3);
}

#[tokio::test]
async fn organizations_share_no_connection() {
    let raw = Raw::start(keep_answering).await;
    let both = Some(vec!["acme".to_owned(), "other".to_owned()]);
    let client = EgressClient::new(ClientOptions {
        allowed: vec![AllowedDestination::parse(&raw.address.to_string(), both).unwrap()],
        ..options()
    });
    for organization in ["acme", "other", "acme", "other"] {
        client
            .send(get(&raw.url()), organization, ConnectionReuse::Pooled)
            .await
            .unwrap();
    }
    assert_eq!(raw.accepted(), 2);
}

#[tokio::test]
async fn a_connection_reset_on_reuse_has_sent() {
    let raw = Raw::start(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(ANSWER).await.unwrap();
        // The second request is not read, but it was written.
        stream.readable().await.unwrap();
        stream.peek(&mut [0]).await.unwrap();
        reset(stream);
    })
    .await;
    let client = raw.client();
    client
        .send(post(&raw.url()), "default", ConnectionReuse::Pooled)
        .await
        .unwrap();
    let failure = client
        .send(post(&raw.url()), "default", ConnectionReuse::Pooled)
        .await
        .unwrap_err();
    assert_eq!((failure.kind, failure.sent), (FailureKind::Reset, true));
    assert_eq!(raw.accepted(), 1);
}

#[tokio::test]
async fn an_answer_that_closes_is_not_followed_by_another() {
    let raw = Raw::start(|mut stream| async move {
        read_request(&mut stream).await;
        let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
        stream.write_all(answer).await.unwrap();
        // Says it closes, and does not.
        read_request(&mut stream).await;
    })
    .await;
    let client = raw.client();
    for _ in 0..3 {
        client
            .send(post(&raw.url()), "default", ConnectionReuse::Pooled)
            .await
            .unwrap();
    }
    assert_eq!(raw.accepted(), 3);
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_request_is_read() {
    let raw = Raw::start(|mut stream| async move {
        stream.readable().await.unwrap();
        let answer = b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno";
        stream.write_all(answer).await.unwrap();
        read_request(&mut stream).await;
    })
    .await;
    let client = raw.client();
    let mut request = post(&raw.url());
    request.body = vec![b'x'; 20_000_000].into();
    let received = client
        .send(request, "default", ConnectionReuse::Pooled)
        .await
        .unwrap();
    assert_eq!(received.status, 413);
}
