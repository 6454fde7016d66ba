//! A service that keeps every byte of what it is sent.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Listens for as long as the test runs.
pub struct RawListener {
    /// `HOST:PORT`.
    pub place: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl RawListener {
    /// Answers every request with this JSON.
    pub async fn answering(body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            body.len()
        );
        let all = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                if let Some(request) = read_request(&mut stream).await {
                    all.lock().unwrap().push(request);
                    // A caller that has gone is not what this is for.
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        });
        Self { place, heard }
    }

    /// Every request, byte for byte.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// `None` for a connection that ends before its request does.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut read = String::new();
    loop {
        let mut bytes = vec![0; 4096];
        let count = stream
            .read(&mut bytes)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        read.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        let Some((head, body)) = read.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        if body.len() >= length {
            return Some(read);
        }
    }
}
