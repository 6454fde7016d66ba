//! An exchange: a request and its answer on a connection that is kept.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use super::answer::AnswerProgress;
use crate::http::{self, Chunked, Framing, ResponseHead};

pub struct Connection {
    tcp: TcpStream,
    read: Vec<u8>,
}

const READ_BYTES: usize = 64 * 1024;
/// Size of a narrow receive buffer. The kernel doubles it; what does not fit stays with the server.
const NARROW_BYTES: u32 = 4096;

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

    /// Opens a connection like [`Connection::open`], with little room for what is not read.
    ///
    /// # Errors
    /// Nobody listens.
    pub async fn open_narrow(address: SocketAddr) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(NARROW_BYTES)?;
        let tcp = socket.connect(address).await.context("connecting")?;
        tcp.set_nodelay(true)?;
        Ok(Self {
            tcp,
            read: Vec::new(),
        })
    }

    /// Sends a request and reads its whole answer; `on_read` is told how many events each read ended, and how many
    /// pieces of text have come.
    ///
    /// # Errors
    /// The connection ends, or the answer is not framed as HTTP. Then the connection is of no more use.
    pub async fn exchange(
        &mut self,
        request: &[u8],
        reading: &mut AnswerProgress<'_>,
        mut on_read: impl FnMut(u64, u64, Instant),
    ) -> anyhow::Result<ResponseHead> {
        let mut before = 0;
        self.ask(request, |part, now| match part {
            Part::Data(data) => reading.take(data, now),
            Part::ReadEnds => {
                on_read(reading.events - before, reading.deltas, now);
                before = reading.events;
            }
        })
        .await
    }

    /// Sends a request and returns its answer whole.
    ///
    /// # Errors
    /// As [`Connection::exchange`].
    pub async fn fetch(&mut self, request: &[u8]) -> anyhow::Result<(ResponseHead, Vec<u8>)> {
        let mut body = Vec::new();
        let head = self
            .ask(request, |part, _| match part {
                Part::Data(data) => body.extend_from_slice(data),
                Part::ReadEnds => {}
            })
            .await?;
        Ok((head, body))
    }

    /// Sends a request and reads nothing.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.tcp.write_all(request).await.context("sending")
    }

    async fn ask(
        &mut self,
        request: &[u8],
        mut take: impl FnMut(Part<'_>, Instant),
    ) -> anyhow::Result<ResponseHead> {
        self.send(request).await?;
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
                let used = body.feed(&self.read, |data| take(Part::Data(data), now))?;
                ensure!(used == self.read.len(), "bytes behind the end of an answer");
                take(Part::ReadEnds, now);
                self.read.clear();
            }
            if body.is_whole() {
                return Ok(head);
            }
            if self.fill().await? == 0 {
                ensure!(
                    head.framing == Framing::Close,
                    "closed in the middle of an answer"
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

/// Parts of the reading of an answer's body.
enum Part<'a> {
    Data(&'a [u8]),
    /// End of one read, after all that it brought.
    ReadEnds,
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
