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

use super::connect_error::ConnectError;
use super::guard::{AddressGuard, not_allowed};
use super::proxy::place;
use super::target::{Host, RequestTarget, Scheme};
use super::tls_fault::TlsFault;

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
/// [`ConnectError`]; nothing takes longer than until `deadline`.
pub(super) async fn open(
    guard: &AddressGuard,
    tls: &TlsConnector,
    target: &RequestTarget,
    organization: &str,
    deadline: Instant,
) -> Result<ConnectedStream, ConnectError> {
    let vetted = timeout_at(deadline, guard.addresses(target, organization)).await;
    let addresses = vetted.unwrap_or_else(|_elapsed| {
        Err(ConnectError::LookUpTimedOut {
            host: target.host.to_string(),
        })
    })?;
    let (tcp, local, peer) = connect(target, &addresses, deadline).await?;
    if !guard.may_use(local, peer) {
        return Err(not_allowed(target, peer.ip()));
    }
    match target.scheme {
        Scheme::Http => Ok(ConnectedStream::Plain(tcp)),
        Scheme::Https => secure(tls, tcp, target, deadline).await,
    }
}

/// Connects to one of the addresses, and says from where to where.
async fn connect(
    target: &RequestTarget,
    addresses: &[SocketAddr],
    deadline: Instant,
) -> Result<(TcpStream, SocketAddr, SocketAddr), ConnectError> {
    let place = || place(&target.host, target.port);
    let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
    let mut failure = ConnectError::TimedOut { place: place() };
    for (index, address) in addresses.iter().take(tried).enumerate() {
        // An address that swallows packets leaves time for the others.
        let now = Instant::now();
        let left = u32::try_from(tried - index).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(now) / left;
        let connected = timeout_at(now + share, TcpStream::connect(address)).await;
        failure = match connected.map(|connected| connected.and_then(at_once)) {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(source)) => ConnectError::Refused {
                place: place(),
                source,
            },
            Err(_elapsed) => ConnectError::TimedOut { place: place() },
        };
    }
    Err(failure)
}

fn at_once(tcp: TcpStream) -> io::Result<(TcpStream, SocketAddr, SocketAddr)> {
    // A request is written at once; waiting for more only delays it.
    tcp.set_nodelay(true)?;
    let (local, peer) = (tcp.local_addr()?, tcp.peer_addr()?);
    Ok((tcp, local, peer))
}

/// Makes a connection secure, for the name that the URL has.
///
/// # Errors
/// [`ConnectError::Tls`] and [`ConnectError::TlsTimedOut`].
pub(super) async fn secure(
    tls: &TlsConnector,
    tcp: TcpStream,
    target: &RequestTarget,
    deadline: Instant,
) -> Result<ConnectedStream, ConnectError> {
    let place = || place(&target.host, target.port);
    let fault = |fault, source| ConnectError::Tls {
        place: place(),
        fault,
        source,
    };
    let name = server_name(&target.host)
        .ok_or_else(|| fault(TlsFault::WrongName, io::ErrorKind::InvalidInput.into()))?;
    match timeout_at(deadline, tls.connect(name, tcp)).await {
        Ok(Ok(stream)) => Ok(ConnectedStream::Tls(Box::new(stream))),
        Ok(Err(source)) => Err(fault(TlsFault::of_handshake(&source), source)),
        Err(_elapsed) => Err(ConnectError::TlsTimedOut { place: place() }),
    }
}

fn server_name(host: &Host) -> Option<ServerName<'static>> {
    match host {
        Host::Name(name) => ServerName::try_from(name.clone()).ok(),
        Host::Address(address) => Some(ServerName::from(*address)),
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
