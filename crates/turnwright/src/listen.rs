//! Connections: how many, and how long they may dawdle.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// How connections are treated.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once; one more is closed at once, so that those that are there are served.
    pub connections_max: usize,
    /// For a request's head to arrive, and for a connection to lie idle between requests.
    pub head_timeout: Duration,
}

/// After a failed accept (too many open files), others get the time to leave.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(100);

/// Takes an address; connections wait until they are served.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}"))
}

/// Serves until `stop` ends, and then what is under way, for at most `last_bytes`.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
    last_bytes: Duration,
) {
    let mut stop = std::pin::pin!(stop);
    let places = Arc::new(Semaphore::new(
        limits.connections_max.min(Semaphore::MAX_PERMITS),
    ));
    let connections = TaskTracker::new();
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let tcp = match accepted {
            Ok((tcp, _)) => tcp,
            Err(error) => {
                tracing::warn!(error = %error, "accepting a connection failed");
                tokio::time::sleep(AFTER_FAILED_ACCEPT).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::debug!("a connection beyond the limit is closed");
            continue;
        };
        let connection = graceful.watch(connection(tcp, routes.clone(), limits));
        connections.spawn(async move {
            // How a connection ends is told by the requests on it.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    // A connection that stays open now holds nothing of ours.
    let _ = tokio::time::timeout(last_bytes, graceful.shutdown()).await;
}

fn connection(
    tcp: TcpStream,
    routes: Router,
    limits: Limits,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    // Small chunks of a stream must not wait for one another.
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::debug!(error = %error, "a connection without nodelay");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .serve_connection(TokioIo::new(tcp), TowerToHyperService::new(routes))
}
