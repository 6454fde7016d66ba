//! A connection to vetted addresses, and the count of what is written to it.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::{FailureKind, Phase};
use super::guard::Guard;
use super::interim::Interim;
use super::target::{Host, Scheme, Target};

/// Addresses of one name that are tried, in the order of the answer.
const ADDRESSES_TRIED_MAX: usize = 4;

/// Bytes in clear, over TCP or TLS.
#[derive(Debug)]
pub(super) struct Stream {
    inner: Inner,
    written: Written,
    wary: Wary,
    interim: Interim,
}

#[derive(Debug)]
pub(super) enum Inner {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Bytes in clear that a connection has taken from us since it was made.
///
/// Counted above TLS, whose own messages are no part of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Written(Arc<AtomicU64>);

impl Written {
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, wrote: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = wrote {
            self.0.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

/// Whether reads ask the kernel itself what there is.
///
/// The runtime hears of a close when it next looks at all sockets; a connection can be put away
/// and taken up again before that.
#[derive(Clone, Debug, Default)]
pub(super) struct Wary(Arc<AtomicBool>);

impl Wary {
    pub fn set(&self, wary: bool) {
        self.0.store(wary, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Looks the host up, judges its addresses and connects to one of them.
///
/// # Errors
/// [`FailureKind::TimedOut`] at `deadline`; those of [`Guard::addresses`];
/// [`FailureKind::Connect`] and [`FailureKind::Tls`].
pub(super) async fn open(
    guard: &Guard,
    tls: &TlsConnector,
    target: &Target,
    organization: &str,
    deadline: Instant,
) -> Result<Stream, FailureKind> {
    let opening = async {
        let addresses = guard.addresses(target, organization).await?;
        let tcp = connect(&addresses, deadline).await?;
        let (local, peer) = match (tcp.local_addr(), tcp.peer_addr()) {
            (Ok(local), Ok(peer)) => (local, peer),
            (Err(_), _) | (_, Err(_)) => return Err(FailureKind::Connect),
        };
        if !guard.may_use(local, peer) {
            return Err(FailureKind::TargetNotAllowed);
        }
        // A request is written at once; waiting for more only delays it.
        tcp.set_nodelay(true).map_err(|_| FailureKind::Connect)?;
        let inner = match target.scheme {
            Scheme::Http => Inner::Plain(tcp),
            Scheme::Https => {
                let name = server_name(&target.host)?;
                let stream = tls.connect(name, tcp).await;
                Inner::Tls(Box::new(stream.map_err(|_| FailureKind::Tls)?))
            }
        };
        Ok(Stream::new(inner))
    };
    timeout_at(deadline, opening)
        .await
        .unwrap_or(Err(FailureKind::TimedOut(Phase::Connect)))
}

async fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, FailureKind> {
    let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
    let mut failure = FailureKind::Connect;
    for (index, address) in addresses.iter().take(tried).enumerate() {
        // An address that swallows packets leaves time for the others.
        let now = Instant::now();
        let left = u32::try_from(tried - index).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(now) / left;
        failure = match timeout_at(now + share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(_)) => FailureKind::Connect,
            Err(_elapsed) => FailureKind::TimedOut(Phase::Connect),
        };
    }
    Err(failure)
}

pub(super) fn server_name(host: &Host) -> Result<ServerName<'static>, FailureKind> {
    match host {
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| FailureKind::Tls),
        Host::Address(address) => Ok(ServerName::from(*address)),
    }
}

impl Stream {
    pub fn new(inner: Inner) -> Self {
        Self {
            inner,
            written: Written::default(),
            wary: Wary::default(),
            interim: Interim::default(),
        }
    }

    pub fn written(&self) -> Written {
        self.written.clone()
    }

    pub fn wary(&self) -> Wary {
        self.wary.clone()
    }

    pub fn interim(&self) -> Interim {
        self.interim.clone()
    }

    /// Whether the kernel holds nothing for us, not even an end.
    fn is_silent(&self) -> bool {
        let tcp = match &self.inner {
            Inner::Plain(tcp) => tcp,
            Inner::Tls(tls) => tls.get_ref().0,
        };
        // The socket does not block.
        rustix::net::recv(tcp, &mut [0], RecvFlags::PEEK) == Err(Errno::WOULDBLOCK)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if stream.interim.is_too_much() {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let read = match &mut stream.inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Inner::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        };
        if read.is_pending() && stream.wary.is_set() && !stream.is_silent() {
            // Whatever it is, nobody asked for it: the connection has no further use.
            return Poll::Ready(Ok(()));
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        let wrote = match &mut stream.inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Inner::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        };
        stream.written.add(&wrote);
        wrote
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        let wrote = match &mut stream.inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Inner::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        };
        stream.written.add(&wrote);
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        match &self.inner {
            Inner::Plain(tcp) => tcp.is_write_vectored(),
            Inner::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Inner::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().inner {
            Inner::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Inner::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
