use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::PeerConnection;

async fn pair() -> (PeerConnection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (ours, _) = listener.accept().await.unwrap();
    (PeerConnection::new(ours), theirs)
}

/// Flushes until that fails.
async fn kind_of_end(peer: &mut PeerConnection) -> ErrorKind {
    poll_fn(|cx| match Pin::new(&mut *peer).poll_flush(cx) {
        Poll::Ready(Err(error)) => Poll::Ready(error.kind()),
        Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
    })
    .await
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn leaving_is_seen_behind_what_nobody_reads() {
    for resets in [false, true] {
        let (mut ours, mut theirs) = pair().await;
        theirs.write_all(b"unread").await.unwrap();
        ours.flush().await.unwrap();
        if resets {
            theirs.set_zero_linger().unwrap();
        }
        drop(theirs);
        for _ in 0..2 {
            assert_eq!(kind_of_end(&mut ours).await, ErrorKind::ConnectionReset);
        }
    }
}

#[tokio::test]
async fn one_that_is_watched_reads_and_writes_on() {
    const MANY: usize = 4_000_000;
    let (mut ours, mut theirs) = pair().await;
    // From here on it is watched.
    ours.flush().await.unwrap();
    let there = tokio::spawn(async move {
        theirs.write_all(&vec![b'a'; MANY]).await.unwrap();
        let mut back = Vec::new();
        theirs.read_to_end(&mut back).await.unwrap();
        back
    });
    let mut came = vec![0; MANY];
    ours.read_exact(&mut came).await.unwrap();
    assert!(came.iter().all(|byte| *byte == b'a'));
    ours.write_all(&vec![b'b'; MANY]).await.unwrap();
    ours.shutdown().await.unwrap();
    assert_eq!(there.await.unwrap(), vec![b'b'; MANY]);
}
