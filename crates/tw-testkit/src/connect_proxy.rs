//! A proxy for tests: it connects every request to one address, or refuses all.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// Reply of the proxy to every request.
#[derive(Clone, Debug)]
pub enum ProxyReply {
    /// Goes on to this address, whatever was asked for.
    Forward(SocketAddr),
    /// Answers with this status.
    Refuse(u16),
}

/// Proxy that listens until the runtime of the test ends.
#[derive(Clone, Debug)]
pub struct ConnectProxy {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ConnectProxy {
    pub async fn start(reply: ProxyReply) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let proxy = Self {
            address: listener.local_addr()?,
            asked: Arc::default(),
        };
        let asked = Arc::clone(&proxy.asked);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (asked, reply) = (Arc::clone(&asked), reply.clone());
                // One that breaks is what some tests are about.
                tokio::spawn(async move {
                    let _ = serve(client, &asked, &reply).await;
                });
            }
        });
        Ok(proxy)
    }

    /// The heads of all requests so far.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(
    mut client: TcpStream,
    asked: &Mutex<Vec<String>>,
    reply: &ProxyReply,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let is_connect = text.starts_with("CONNECT ");
    asked
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(text);
    let place = match reply {
        ProxyReply::Forward(place) => *place,
        ProxyReply::Refuse(status) => {
            let answer = format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n");
            return client.write_all(answer.as_bytes()).await;
        }
    };
    let mut server = TcpStream::connect(place).await?;
    if is_connect {
        client
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .await?;
    } else {
        server.write_all(&head).await?;
    }
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
