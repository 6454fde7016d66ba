//! A connection to vetted addresses.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::{FailureKind, WaitPhase};
use super::guard::AddressGuard;
use super::target::{Host, RequestTarget, Scheme};

/// Addresses of one name that are tried, in the order of the answer.
const ADDRESSES_TRIED_MAX: usize = 4;

/// Bytes in clear, over TCP or TLS.
#[derive(Debug)]
pub(super) enum ConnectedStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Looks the host up, judges its addresses and connects to one of them.
///
/// # Errors
/// [`FailureKind::TimedOut`] at `deadline`; those of [`AddressGuard::addresses`];
/// [`FailureKind::Connect`] and [`FailureKind::Tls`].
pub(super) async fn open(
    guard: &AddressGuard,
    tls: &TlsConnector,
    target: &RequestTarget,
    organization: &str,
    deadline: Instant,
) -> Result<ConnectedStream, FailureKind> {
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
        Ok(match target.scheme {
            Scheme::Http => ConnectedStream::Plain(tcp),
            Scheme::Https => {
                let name = server_name(&target.host)?;
                let stream = tls.connect(name, tcp).await;
                ConnectedStream::Tls(Box::new(stream.map_err(|_| FailureKind::Tls)?))
            }
        })
    };
    timeout_at(deadline, opening)
        .await
        .unwrap_or(Err(FailureKind::TimedOut(WaitPhase::Connect)))
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
            Err(_elapsed) => FailureKind::TimedOut(WaitPhase::Connect),
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

impl ConnectedStream {
    /// Whether the kernel holds nothing for us, not even an end.
    pub fn is_silent(&self) -> bool {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        };
        // The socket does not block.
        rustix::net::recv(tcp, &mut [0], RecvFlags::PEEK) == Err(Errno::WOULDBLOCK)
    }
}

impl AsyncRead for ConnectedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for ConnectedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(tcp) => tcp.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
