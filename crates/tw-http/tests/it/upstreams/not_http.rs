//! Upstreams whose answer is not HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{in_front_of, upstream};
use crate::app::ask;

/// Answers every request with these bytes, and counts them.
async fn answering(bytes: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // The request comes in one piece.
            let read = stream.read(&mut [0; 64 * 1024]).await.unwrap();
            assert!(read > 0);
            count.fetch_add(1, Ordering::SeqCst);
            // Whoever has seen enough may have gone.
            let _ = stream.write_all(bytes.as_bytes()).await;
        }
    });
    (base_url, asked)
}

/// It comes from a wrong address, and asking there again helps nobody.
#[tokio::test]
async fn an_answer_that_is_not_http_is_asked_for_once_and_says_so() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: 1\r\n".repeat(500));
    for bytes in [
        "HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nx : 1\r\ncontent-length: 2\r\n\r\n{}",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        &many,
    ] {
        let (base_url, asked) = answering(bytes.to_owned()).await;
        let app = in_front_of(vec![upstream("main", base_url)]).await;
        let got = app.post(&[], &ask("Hi")).await;
        assert_eq!(got.status, 502, "{bytes:?}");
        let message = got.json()["error"]["message"].to_string();
        assert!(message.contains("not HTTP"), "{bytes:?}: {message}");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{bytes:?}");
    }
}
