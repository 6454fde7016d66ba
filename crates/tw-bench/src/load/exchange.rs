//! One request and its answer on a connection that is kept.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::answer::Reading;
use crate::http::{self, Chunked, Framing, ResponseHead};

pub struct Connection {
    tcp: TcpStream,
    read: Vec<u8>,
}

const READ_BYTES: usize = 64 * 1024;

impl Connection {
    /// # Errors
    /// Nobody listens.
    pub async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let tcp = TcpStream::connect(address).await.context("connecting")?;
        tcp.set_nodelay(true)?;
        Ok(Self {
            tcp,
            read: Vec::new(),
        })
    }

    /// Sends a request and reads its whole answer; `on_read` is told how many events each read ended.
    ///
    /// # Errors
    /// The connection ends, or the answer is not framed as HTTP. Then the connection is of no more use.
    pub async fn exchange(
        &mut self,
        request: &[u8],
        reading: &mut Reading<'_>,
        mut on_read: impl FnMut(u64, Instant),
    ) -> anyhow::Result<ResponseHead> {
        self.tcp.write_all(request).await.context("sending")?;
        self.read.clear();
        let head = loop {
            if self.fill().await? == 0 {
                bail!("closed before an answer");
            }
            if let Some(head) = http::response(&self.read)? {
                break head;
            }
        };
        self.read.drain(..head.bytes);
        let mut body = Body::new(head.framing);
        loop {
            if !self.read.is_empty() {
                let now = Instant::now();
                let before = reading.events;
                let used = body.feed(&self.read, |data| reading.take(data, now))?;
                ensure!(used == self.read.len(), "bytes behind the end of an answer");
                on_read(reading.events - before, now);
                self.read.clear();
            }
            if body.is_whole() {
                return Ok(head);
            }
            if self.fill().await? == 0 {
                ensure!(
                    head.framing == Framing::Close,
                    "closed in the middle of an answer, after {} events",
                    reading.events
                );
                return Ok(head);
            }
        }
    }

    async fn fill(&mut self) -> anyhow::Result<usize> {
        self.read.reserve(READ_BYTES);
        self.tcp.read_buf(&mut self.read).await.context("reading")
    }
}

enum Body {
    Length(usize),
    Chunked(Chunked),
    Close,
}

impl Body {
    fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(Chunked::new()),
            Framing::Close => Self::Close,
        }
    }

    fn is_whole(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.is_whole(),
            Self::Close => false,
        }
    }

    fn feed(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        match self {
            Self::Length(left) => {
                let taken = bytes.len().min(*left);
                data(&bytes[..taken]);
                *left -= taken;
                Ok(taken)
            }
            Self::Chunked(chunked) => chunked.feed(bytes, data),
            Self::Close => {
                data(bytes);
                Ok(bytes.len())
            }
        }
    }
}
