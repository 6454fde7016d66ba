//! A connection, in clear or secure.

use std::io::{self, IoSlice};
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
use super::proxy::place;
use super::target::{Host, RequestTarget};
use super::tls_fault::TlsFault;

/// Bytes in clear, over TCP or TLS.
#[derive(Debug)]
pub(super) enum ConnectedStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
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
