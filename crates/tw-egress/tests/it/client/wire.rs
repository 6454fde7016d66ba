//! What a listener can do to a request, and whether the client knows what was sent.

mod played;
mod reuse;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::allowing;
use tw_egress::client::EgressClient;

/// A listener that does to each connection what the test says.
struct Raw {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Raw {
    async fn start<F, Playing>(play: F) -> Self
    where
        F: Fn(TcpStream) -> Playing + Send + 'static,
        Playing: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(play(stream));
            }
        });
        Self { address, accepted }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn client(&self) -> EgressClient {
        EgressClient::new(allowing(&self.address.to_string()))
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// Reads a request of [`super::post`] or [`super::get`]; `None` at the end of the connection.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&read);
        let is_whole = if text.starts_with("POST") {
            text.ends_with("\r\n\r\npay")
        } else {
            text.ends_with("\r\n\r\n")
        };
        if is_whole {
            return Some(text.into_owned());
        }
    }
}

/// Ends a connection so that the other side sees a reset.
fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}
