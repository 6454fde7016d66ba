//! The one client through which every request of a tool leaves.
//!
//! A URL is parsed once; its host is looked up, every address of the answer is judged, and only
//! those addresses are connected to (the design, section 9), from here or through the operator's
//! proxy (`tool_route`). Redirects are answers, proxies of the environment are ignored, there are
//! no cookies, and nothing is decompressed. Upstreams from the operator's own config do not come
//! through here.
//!
//! The rules about places are in `guard`, those about addresses in `address`.

pub mod failure;

pub mod host_port;
pub mod outgoing;
pub mod proxy;
pub mod resolve;
pub mod route;
pub mod tls;
pub mod tls_fault;
pub mod tool_certificate;
pub mod tool_route;

pub mod connect_error;

pub(crate) mod target;

mod address;
mod guard;

pub(crate) mod upstream_client;

mod connect;
mod http_connection;
mod interim;
mod pool;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use rustls::RootCertStore;
use sha2::{Digest, Sha256};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout_at};

use connect_error::ConnectError;
use failure::{FailureKind, SendFailure, WaitPhase};
use guard::AddressGuard;
use host_port::{AllowedDestination, HostPort};
use http_connection::{ExchangeFailure, HttpConnection};
use pool::{ConnectionPool, PoolKey};
use proxy::place;
use resolve::Resolver;
use target::RequestTarget;
use tool_certificate::{ToolCertificate, ToolConnectors};
use tool_route::{ToolProxy, ToolRoute};

/// Parts and settings of an [`EgressClient`].
#[derive(Debug)]
pub struct ClientOptions {
    pub resolver: Resolver,
    /// Destinations that are private, or that speak `http`, by organization.
    pub allowed: Vec<AllowedDestination>,
    /// Listeners of ours and the database: never reached, whatever is allowed.
    pub denied: Vec<HostPort>,
    /// Certificate authorities whose servers are trusted: [`web_roots`], and the operator's own.
    pub trusted_roots: RootCertStore,
    /// Certificates that are shown to servers which want to know who asks.
    pub certificates: Vec<ToolCertificate>,
    pub proxy: Option<ToolProxy>,
    pub pool: PoolOptions,
    /// Limit, in bytes, to which an answer is read on after its cap, to be counted.
    pub read_bytes_max: u64,
}

/// Limits of the connections that wait to be used again.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    pub idle_kept: Duration,
    /// Time for which a connection is kept for [`ConnectionReuse::Brief`].
    pub idle_kept_brief: Duration,
    /// Time for which a connection must have been seen to stay open before
    /// [`ConnectionReuse::Brief`] trusts its destination.
    pub idle_proven: Duration,
    pub connections_max: usize,
}

impl PoolOptions {
    /// The defaults: at most 256 connections, kept for 30 s; a brief one under 2 s (the design,
    /// section 3), and only where one has stayed open that long.
    pub fn defaults() -> Self {
        Self {
            idle_kept: Duration::from_secs(30),
            idle_kept_brief: Duration::from_secs(2),
            idle_proven: Duration::from_secs(2),
            connections_max: 256,
        }
    }
}

/// [`ClientOptions::read_bytes_max`] unless the operator says otherwise: 64 MiB.
pub const READ_BYTES_MAX_DEFAULT: u64 = 64 * 1024 * 1024;

/// A request of a tool.
#[derive(Clone)]
pub struct OutgoingRequest {
    /// Method of the request: GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.
    pub method: Method,
    pub url: String,
    /// Headers without `Host` and without those between neighbours; see [`outgoing::check_header`].
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    pub timeouts: RequestTimeouts,
    /// Bytes of the answer's body that are kept.
    pub response_bytes_max: usize,
}

/// Leaves out the URL, the headers and the body, which may hold a secret.
impl fmt::Debug for OutgoingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingRequest")
            .field("method", &self.method)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Time limits of the parts of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTimeouts {
    /// Limit of look-up, TCP and TLS together.
    pub connect: Duration,
    /// Limit from the connection until the answer's head.
    pub first_byte: Duration,
    /// Limit between two reads of the answer.
    pub idle: Duration,
    /// Limit of the whole request.
    pub total: Duration,
}

/// Idle connections that a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionReuse {
    Pooled,
    /// Connections used a moment ago, to a destination that keeps its connections longer than that;
    /// for calls that must not be repeated: the other side may close one while we write.
    Brief,
    /// No idle connection: a new one is made.
    Fresh,
}

/// An answer to a tool's request, whatever its status; a redirect is one too.
#[derive(Clone, Debug)]
pub struct ReceivedAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    /// Body as it came, at most [`OutgoingRequest::response_bytes_max`]; still encoded if the headers say so.
    pub body: Vec<u8>,
    /// Length of the body as far as it was read, at most about [`ClientOptions::read_bytes_max`].
    pub bytes: u64,
    /// The body is longer than what is kept.
    pub cut: bool,
    /// SHA-256 of all that was read of the body, when that is more than what is kept.
    digest: Option<[u8; 32]>,
}

/// Sends the requests of tools.
///
/// Cheap to clone; clones share their idle connections.
#[derive(Clone)]
pub struct EgressClient {
    shared: Arc<Shared>,
}

struct Shared {
    guard: AddressGuard,
    connectors: ToolConnectors,
    proxy: Option<ToolProxy>,
    pool: ConnectionPool,
    read_bytes_max: u64,
}

/// The authorities that browsers trust, as of the build.
pub fn web_roots() -> RootCertStore {
    RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    }
}

impl EgressClient {
    pub fn new(options: ClientOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                guard: AddressGuard {
                    allowed: options.allowed,
                    denied: options.denied,
                    resolver: options.resolver,
                },
                connectors: ToolConnectors::new(&options.trusted_roots, options.certificates),
                proxy: options.proxy,
                pool: ConnectionPool::new(options.pool),
                read_bytes_max: options.read_bytes_max,
            }),
        }
    }

    /// Judges a URL as far as that is possible without a look-up, for when a tool is saved.
    ///
    /// # Errors
    /// [`FailureKind::BadUrl`], [`FailureKind::NotHttps`] or [`FailureKind::TargetNotAllowed`].
    pub fn check_url(&self, url: &str, organization: &str) -> Result<(), SendFailure> {
        let target = self.shared.guard.target(url, organization);
        target
            .map(|_| ())
            .map_err(|kind| SendFailure::unsent(kind, None))
    }

    /// Connects to the proxy of tools, if there is one, and returns its `HOST:PORT`; nothing is
    /// asked of it.
    ///
    /// # Errors
    /// [`ConnectError::Proxy`].
    pub async fn try_proxy(&self, timeout: Duration) -> Option<Result<String, ConnectError>> {
        let proxy = &self.shared.proxy.as_ref()?.proxy;
        let reached = route::to_proxy(proxy, Instant::now() + timeout).await;
        Some(reached.map(|_| proxy.place()))
    }

    /// Sends a request, once, and reads its answer.
    ///
    /// # Errors
    /// Says how it failed, and whether anything of the request was written.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; what was sent stays sent.
    pub async fn send(
        &self,
        request: OutgoingRequest,
        organization: &str,
        reuse: ConnectionReuse,
    ) -> Result<ReceivedAnswer, SendFailure> {
        let shared = &self.shared;
        let clock = Clock::start(request.timeouts.clone());
        let kept_max = request.response_bytes_max;
        let target = shared.target(&request.url, organization)?;
        let place = || place(&target.host, target.port);
        let request = outgoing::request(request, &target)
            .map_err(|kind| SendFailure::unsent(kind, Some(&place())))?;
        let key = PoolKey::new(organization, &target);
        let (mut live, is_new) = match shared.pool.take(&key, reuse).await {
            Some(live) => (live, false),
            None => {
                let (deadline, phase) = clock.limit(WaitPhase::Connect);
                let route = ToolRoute {
                    guard: &shared.guard,
                    proxy: shared.proxy.as_ref(),
                    tls: shared.connectors.of(&target, organization),
                    organization,
                };
                let stream = route.open(&target, deadline).await.map_err(|error| {
                    let kind = match error.kind() {
                        FailureKind::TimedOut(_) => FailureKind::TimedOut(phase),
                        kind => kind,
                    };
                    SendFailure::unconnected(&error, kind)
                })?;
                (HttpConnection::new(stream), true)
            }
        };
        let mut has_head = false;
        let answered = async {
            let (deadline, phase) = clock.limit(WaitPhase::FirstByte);
            let head = timeout_at(deadline, live.ask(request)).await;
            let head = head.map_err(|_elapsed| FailureKind::TimedOut(phase))?;
            let head = head.map_err(kind_of)?;
            has_head = true;
            shared.read(head, &mut live, &clock, kept_max).await
        };
        match answered.await {
            Ok((received, Ended::Whole)) => {
                shared.pool.put(key, live, reuse).await;
                Ok(received)
            }
            Ok((received, Ended::LeftOff)) => Ok(received),
            Err(kind) => {
                if !is_new && kind == FailureKind::Reset {
                    shared.pool.distrust(&key);
                }
                Err(match live.tls_fault() {
                    Some(fault) if kind == FailureKind::Reset && !has_head => {
                        let error = ConnectError::broken_off(place(), fault);
                        SendFailure {
                            sent: live.has_sent() && !fault.is_of_our_certificate(),
                            ..SendFailure::unconnected(&error, error.kind())
                        }
                    }
                    Some(_) | None => SendFailure {
                        sent: live.has_sent(),
                        ..SendFailure::unsent(kind, Some(&place()))
                    },
                })
            }
        }
    }
}

impl fmt::Debug for EgressClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressClient")
            .field("guard", &self.shared.guard)
            .finish_non_exhaustive()
    }
}

/// Ways in which the reading of an answer ends.
enum Ended {
    Whole,
    /// The answer goes on, but is read no further.
    LeftOff,
}

impl Shared {
    fn target(&self, url: &str, organization: &str) -> Result<RequestTarget, SendFailure> {
        self.guard.target(url, organization).map_err(|kind| {
            let target = RequestTarget::parse(url).ok();
            match target.map(|target| place(&target.host, target.port)) {
                Some(place) if kind == FailureKind::TargetNotAllowed => {
                    let error = ConnectError::PlaceNotAllowed { place };
                    SendFailure::unconnected(&error, kind)
                }
                place => SendFailure::unsent(kind, place.as_deref()),
            }
        })
    }

    async fn read(
        &self,
        head: Response<()>,
        live: &mut HttpConnection,
        clock: &Clock,
        kept_max: usize,
    ) -> Result<(ReceivedAnswer, Ended), FailureKind> {
        let (parts, ()) = head.into_parts();
        let (mut kept, mut bytes, mut hasher) = (Vec::new(), 0u64, None);
        let ended = loop {
            // What is always there would never be waited for: others get their turn here, and
            // the time is looked at.
            consume_budget().await;
            let (deadline, phase) = clock.limit(WaitPhase::Idle);
            if deadline <= Instant::now() {
                return Err(FailureKind::TimedOut(phase));
            }
            let part = timeout_at(deadline, live.read()).await;
            let Some(part) = part.map_err(|_elapsed| FailureKind::TimedOut(phase))? else {
                break Ended::Whole;
            };
            let data = part.map_err(kind_of)?;
            bytes = bytes.saturating_add(data.len() as u64);
            let room = kept_max.saturating_sub(kept.len()).min(data.len());
            if room < data.len() || hasher.is_some() {
                hasher
                    .get_or_insert_with(|| Sha256::new_with_prefix(&kept))
                    .update(&data);
            }
            kept.extend_from_slice(&data[..room]);
            if bytes > self.read_bytes_max {
                break Ended::LeftOff;
            }
        };
        let received = ReceivedAnswer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            // What was left off may be more of it.
            cut: matches!(ended, Ended::LeftOff) || bytes > kept.len() as u64,
            body: kept,
            bytes,
            digest: hasher.map(|hasher| hasher.finalize().into()),
        };
        Ok((received, ended))
    }
}

impl ReceivedAnswer {
    /// Keeps less of the body; the digest stays that of all that was read.
    pub(crate) fn shorten(&mut self, shorten: impl FnOnce(&mut Vec<u8>)) {
        let digest = self.digest.take();
        self.digest = Some(digest.unwrap_or_else(|| Sha256::digest(&self.body).into()));
        shorten(&mut self.body);
        self.cut = true;
    }

    /// SHA-256 of all that was read of the body, in lower-case hexadecimal.
    pub fn sha256(&self) -> String {
        let digest = self
            .digest
            .unwrap_or_else(|| Sha256::digest(&self.body).into());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Longest time for a part of a request, whatever was asked for; so no sum of times overflows.
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Deadlines of one request.
struct Clock {
    timeouts: RequestTimeouts,
    total: Instant,
}

impl Clock {
    fn start(timeouts: RequestTimeouts) -> Self {
        Self {
            total: Instant::now() + timeouts.total.min(TIMEOUT_MAX),
            timeouts,
        }
    }

    /// The deadline of a phase that begins now, and the limit from which it follows.
    fn limit(&self, phase: WaitPhase) -> (Instant, WaitPhase) {
        let at_most = match phase {
            WaitPhase::Connect => self.timeouts.connect,
            WaitPhase::FirstByte => self.timeouts.first_byte,
            WaitPhase::Idle => self.timeouts.idle,
            WaitPhase::Total => self.timeouts.total,
        };
        let ends = Instant::now() + at_most.min(TIMEOUT_MAX);
        if ends < self.total {
            (ends, phase)
        } else {
            (self.total, WaitPhase::Total)
        }
    }
}

fn kind_of(failed: ExchangeFailure) -> FailureKind {
    match failed {
        ExchangeFailure::HeadTooLarge => FailureKind::HeadersTooLarge,
        ExchangeFailure::NotHttp => FailureKind::NotHttp,
        ExchangeFailure::Broken => FailureKind::Reset,
    }
}
