//! A connection whose peer is seen to leave also while nobody reads from it.
//!
//! hyper looks for the end of a connection by reading. When bytes stand behind the request that is being served (a line
//! end too many, or the next request), it does not read, and a client that leaves would be served to the end.

use std::future::Future;
use std::io::{ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

pub struct PeerConnection {
    io: Io,
    /// Whether somebody reads: then the end is heard of, and need not be looked for.
    is_read: bool,
}

enum Io {
    Plain(TcpStream),
    /// Shared with the future that ends when the peer has left.
    Watched(Arc<TcpStream>, Pin<Box<dyn Future<Output = ()> + Send>>),
    /// The peer has left, and nothing is read or written any more.
    Left,
}

impl PeerConnection {
    pub fn new(tcp: TcpStream) -> Self {
        Self {
            io: Io::Plain(tcp),
            is_read: false,
        }
    }

    /// Whether the peer has left. Only what is seldom needed makes the connection a shared one: reading from that costs
    /// a system call more.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.io = match std::mem::replace(&mut self.io, Io::Left) {
            Io::Plain(tcp) => {
                let tcp = Arc::new(tcp);
                let left = Box::pin(left(Arc::clone(&tcp)));
                Io::Watched(tcp, left)
            }
            watched => watched,
        };
        if let Io::Watched(_, left) = &mut self.io {
            ready!(left.as_mut().poll(cx));
            self.io = Io::Left;
        }
        Poll::Ready(())
    }
}

/// Ends when the peer has closed its side, or the connection broke.
#[cfg(target_os = "linux")]
async fn left(tcp: Arc<TcpStream>) {
    // Of all that can be waited for, this alone ends with the peer's close and not with what it has sent.
    while let Ok(ready) = tcp.ready(Interest::PRIORITY | Interest::ERROR).await {
        if ready.is_read_closed() || ready.is_error() {
            return;
        }
        // Urgent data, which nobody reads.
        let seen: Result<()> = tcp.try_io(Interest::PRIORITY, || Err(ErrorKind::WouldBlock.into()));
        debug_assert!(seen.is_err());
    }
}

#[cfg(not(target_os = "linux"))]
async fn left(_: Arc<TcpStream>) {
    std::future::pending().await
}

fn has_left<T>() -> Poll<Result<T>> {
    Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
}

impl AsyncRead for PeerConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let read = match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Io::Watched(tcp, _) => poll_read(tcp, cx, buf),
            Io::Left => has_left(),
        };
        self.is_read = read.is_pending();
        read
    }
}

fn poll_read(tcp: &TcpStream, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
    loop {
        ready!(tcp.poll_read_ready(cx))?;
        if let Some(read) = unless_blocked(tcp.try_read_buf(buf)) {
            return Poll::Ready(read.map(|_| ()));
        }
    }
}

fn poll_write(
    tcp: &TcpStream,
    cx: &mut Context<'_>,
    write: impl Fn(&TcpStream) -> Result<usize>,
) -> Poll<Result<usize>> {
    loop {
        ready!(tcp.poll_write_ready(cx))?;
        if let Some(written) = unless_blocked(write(tcp)) {
            return Poll::Ready(written);
        }
    }
}

fn unless_blocked<T>(result: Result<T>) -> Option<Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        result => Some(result),
    }
}

impl AsyncWrite for PeerConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Io::Watched(tcp, _) => poll_write(tcp, cx, |tcp| tcp.try_write(buf)),
            Io::Left => has_left(),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Io::Watched(tcp, _) => poll_write(tcp, cx, |tcp| tcp.try_write_vectored(bufs)),
            Io::Left => has_left(),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Looks for the peer's end. There is nothing to flush; but whoever serves the connection calls
    /// this whenever it has done what it can.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if !self.is_read && self.poll_left(cx).is_ready() {
            return has_left();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Io::Watched(tcp, _) => {
                let shut = socket2::SockRef::from(&**tcp).shutdown(std::net::Shutdown::Write);
                Poll::Ready(match shut {
                    Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
                    shut => shut,
                })
            }
            Io::Left => has_left(),
        }
    }
}

#[cfg(test)]
mod tests;
