//! Connections: their number, the time for which they may dawdle, and their ends.

mod peer;
mod stall;

use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use futures_util::FutureExt;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tw_http::server::PeerAddress;
use tw_runtime::metrics::ConnectionMetrics;

use peer::PeerConnection;
use stall::StallGuardedStream;

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Most connections at once; one more is closed at once, so that those that are there are served.
    pub connections_max: usize,
    /// Time for a request's head to arrive, and for a connection to lie idle between requests.
    pub head_timeout: Duration,
    /// Time for a peer to take something of what waits for it.
    pub write_stall_max: Duration,
}

/// Wait after a failed accept (too many open files), in which others may leave.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(100);
/// Connections that may wait to be accepted, as they do while one server takes over from another.
/// Linux cuts it to `net.core.somaxconn`, 4096 unless set.
const BACKLOG_CONNECTIONS: u32 = 4096;

/// Takes an address; connections wait until they are served.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = || {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        // Connections of a server before that are still closing do not count.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG_CONNECTIONS)
    };
    bound().with_context(|| format!("listening on {address}"))
}

/// A listener and the connections that came by it.
pub struct ServingListener {
    routes: Router,
    limits: ConnectionLimits,
    counts: ConnectionMetrics,
    places: Arc<Semaphore>,
    connections: TaskTracker,
    closing: CancellationToken,
}

/// Bytes of a connection that are held in memory: of an answer that its client does not take, and
/// of a request's head, which may be as much longer as arrives with one read. A longer one is
/// answered with 431.
const BUFFER_BYTES_MAX: usize = 16 * 1024;

/// Bytes of an answer that wait in the kernel without being on their way. Without a limit they are
/// some megabytes of each client that does not read, and as much is asked of the upstream and
/// recorded.
const UNSENT_BYTES_MAX: u32 = 32 * 1024;

impl ServingListener {
    pub fn new(routes: Router, limits: ConnectionLimits, counts: ConnectionMetrics) -> Self {
        let places = limits.connections_max.min(Semaphore::MAX_PERMITS);
        Self {
            routes,
            limits,
            counts,
            places: Arc::new(Semaphore::new(places)),
            connections: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Accepts connections until `stop` ends, and returns its output.
    pub async fn accept_until<T>(
        &self,
        listener: &TcpListener,
        stop: impl Future<Output = T>,
    ) -> T {
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                stopped = &mut stop => return stopped,
            };
            match accepted {
                Ok((tcp, peer)) => self.serve(tcp, peer.ip()),
                Err(error) => {
                    tracing::warn!(error = %error, "accepting a connection failed");
                    tokio::time::sleep(AFTER_FAILED_ACCEPT).await;
                }
            }
        }
    }

    /// Waits until the last connection is closed, for at most `span`.
    pub async fn all_closed_within(&self, span: Duration) {
        self.connections.close();
        // Whoever needs them closed closes them next.
        let _ = tokio::time::timeout(span, self.connections.wait()).await;
    }

    /// Closes idle connections now and the others behind the answers that are under way; the
    /// future ends with the last one.
    pub fn close(self) -> impl Future<Output = ()> {
        self.closing.cancel();
        self.connections.close();
        async move { self.connections.wait().await }
    }

    fn serve(&self, tcp: TcpStream, peer: IpAddr) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.counts.refused.inc();
            tracing::debug!("a connection beyond the limit is closed");
            return;
        };
        self.counts.accepted.inc();
        self.counts.open.inc();
        let open = self.counts.open.clone();
        let mut connection = connection(tcp, peer, self.routes.clone(), self.limits);
        let mut closing = Box::pin(self.closing.clone().cancelled_owned());
        let mut is_closing = false;
        let connection = poll_fn(move |context| {
            if !is_closing && closing.as_mut().poll(context).is_ready() {
                is_closing = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            Pin::new(&mut connection).poll(context)
        });
        // How a connection ends is told by the requests on it: one that broke is a client that left. An async block
        // that awaits a future it was given has room for it twice.
        self.connections.spawn(connection.map(move |_ended| {
            drop(place);
            open.dec();
        }));
    }
}

/// The routes, as the other side of one connection sees them.
#[derive(Clone)]
struct PeerRoutes {
    routes: TowerToHyperService<Router>,
    peer: IpAddr,
}

impl Service<Request<Incoming>> for PeerRoutes {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(PeerAddress(self.peer));
        self.routes.call(request)
    }
}

fn connection(
    tcp: TcpStream,
    peer: IpAddr,
    routes: Router,
    limits: ConnectionLimits,
) -> http1::UpgradeableConnection<TokioIo<StallGuardedStream<PeerConnection>>, PeerRoutes> {
    // Small chunks of a stream must not wait for one another.
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::debug!(error = %error, "a connection without nodelay");
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(&tcp).set_tcp_notsent_lowat(UNSENT_BYTES_MAX) {
        tracing::debug!(error = %error, "a connection without a limit of what waits unsent");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(
            TokioIo::new(StallGuardedStream::new(
                PeerConnection::new(tcp),
                limits.write_stall_max,
            )),
            PeerRoutes {
                routes: TowerToHyperService::new(routes),
                peer,
            },
        )
        .with_upgrades()
}
