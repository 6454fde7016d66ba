//! Connections that wait to be used again, and what is known of the places they lead to.
//!
//! The pool is ours since a shared one hands a connection on before its last user knows, and
//! does not keep organizations apart.
//!
//! A place may close a connection behind its answer without having said so. A request that is
//! written at that moment fails without anybody knowing whether it was read, which costs a call
//! that must not be repeated. So such calls use a connection again only where another one was
//! seen to stay open, for longer than theirs has waited ([`ConnectionReuse::Brief`]); and whatever arrived
//! here by then, a close too, is looked for before anything is written. What is left is a place
//! that keeps its connections, and closes one all the same within the time of one transit: when
//! it stops, mostly.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::http_connection::HttpConnection;
use super::target::{Host, RequestTarget, Scheme};
use super::{ConnectionReuse, PoolOptions};

/// The key of connections that may serve the same requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    /// Slug of the organization: what one may reach says nothing about another.
    organization: String,
    scheme: Scheme,
    host: Host,
    port: u16,
}

impl PoolKey {
    pub fn new(organization: &str, target: &RequestTarget) -> Self {
        Self {
            organization: organization.to_owned(),
            scheme: target.scheme,
            host: target.host.clone(),
            port: target.port,
        }
    }
}

/// Idle connections, by destination.
pub(super) struct ConnectionPool {
    places: Mutex<Places>,
    options: PoolOptions,
}

struct Places {
    by_key: HashMap<PoolKey, Place>,
    /// Number of connections that wait, over all destinations.
    waiting: usize,
    /// Time of the last sweep over all destinations.
    swept: Instant,
}

#[derive(Default)]
struct Place {
    /// Connections that wait; the one that has waited longest comes first.
    idle: Vec<Idle>,
    /// Time when a connection was last seen that had stayed open for long enough.
    proven: Option<Instant>,
}

struct Idle {
    live: HttpConnection,
    since: Instant,
}

/// Time for which a destination is trusted after it was last seen to keep a connection.
const PROVEN_FOR: Duration = Duration::from_secs(600);
/// Time between two sweeps for connections that are too old. There may be many destinations and
/// connections, and somebody waits for every look.
const SWEPT_EVERY: Duration = Duration::from_secs(1);

impl ConnectionPool {
    pub fn new(options: PoolOptions) -> Self {
        let places = Places {
            by_key: HashMap::new(),
            waiting: 0,
            swept: Instant::now(),
        };
        Self {
            places: Mutex::new(places),
            options,
        }
    }

    /// A connection for one more use; `None` when a new one is to be made.
    pub async fn take(&self, key: &PoolKey, reuse: ConnectionReuse) -> Option<HttpConnection> {
        let idle_max = match reuse {
            ConnectionReuse::Fresh => return None,
            ConnectionReuse::Pooled => self.options.idle_kept,
            ConnectionReuse::Brief => {
                self.prove(key).await;
                self.options.idle_kept_brief
            }
        };
        while let Some(mut idle) = self.newest(key, reuse, idle_max) {
            if idle.live.is_still_free().await {
                return Some(idle.live);
            }
            if idle.since.elapsed() < self.options.idle_proven {
                self.distrust(key);
            }
        }
        None
    }

    /// Keeps a connection whose answer was read to the end, if it can be used again.
    pub async fn put(&self, key: PoolKey, mut live: HttpConnection, reuse: ConnectionReuse) {
        if !live.is_free().await {
            return;
        }
        let mut places = self.places();
        let now = Instant::now();
        // Nobody looks at idle connections in between, so old ones leave here.
        if now.duration_since(places.swept) >= SWEPT_EVERY {
            places.sweep(now, self.options.idle_kept);
        }
        if places.waiting >= self.options.connections_max {
            return;
        }
        let place = places.by_key.entry(key).or_default();
        // Where nobody may use it yet, one is enough to see what becomes of it.
        let has_use = match reuse {
            ConnectionReuse::Pooled => true,
            ConnectionReuse::Brief | ConnectionReuse::Fresh => {
                place.is_proven() || place.idle.is_empty()
            }
        };
        if has_use {
            place.idle.push(Idle { live, since: now });
            places.waiting += 1;
        }
    }

    /// Notes that the place closes connections sooner than was thought; those that wait may be
    /// next, and prove nothing.
    pub fn distrust(&self, key: &PoolKey) {
        let mut places = self.places();
        if let Some(place) = places.by_key.remove(key) {
            places.waiting -= place.idle.len();
        }
    }

    /// Looks whether a connection that has waited for long enough is still open.
    async fn prove(&self, key: &PoolKey) {
        let Some(mut oldest) = self.witness(key) else {
            return;
        };
        let is_open = oldest.live.is_still_free().await;
        if is_open {
            let mut places = self.places();
            let place = places.by_key.entry(key.clone()).or_default();
            place.proven = Some(Instant::now());
            place.idle.insert(0, oldest);
            places.waiting += 1;
        }
    }

    /// The connection that has waited longest, if that is long enough and there is need of a proof.
    fn witness(&self, key: &PoolKey) -> Option<Idle> {
        let mut places = self.places();
        let place = places.by_key.get_mut(key)?;
        if place.is_proven() || place.idle.first()?.since.elapsed() < self.options.idle_proven {
            return None;
        }
        let oldest = place.idle.remove(0);
        places.waiting -= 1;
        Some(oldest)
    }

    /// The connection that has waited shortest, and less than `idle_max`.
    fn newest(&self, key: &PoolKey, reuse: ConnectionReuse, idle_max: Duration) -> Option<Idle> {
        let mut places = self.places();
        let place = places.by_key.get_mut(key)?;
        let may_be_used = match reuse {
            ConnectionReuse::Fresh => false,
            ConnectionReuse::Pooled => true,
            ConnectionReuse::Brief => place.is_proven(),
        };
        if !may_be_used || place.idle.last()?.since.elapsed() >= idle_max {
            return None;
        }
        let newest = place.idle.pop()?;
        places.waiting -= 1;
        Some(newest)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// Lets go of what has waited for too long, and forgets places of which nothing is left to know.
    fn sweep(&mut self, now: Instant, idle_kept: Duration) {
        self.by_key.retain(|_, place| {
            let is_old = |idle: &Idle| now.duration_since(idle.since) >= idle_kept;
            let old = place.idle.partition_point(is_old);
            place.idle.drain(..old);
            self.waiting -= old;
            !place.idle.is_empty() || place.is_proven()
        });
        self.swept = now;
    }
}

impl Place {
    fn is_proven(&self) -> bool {
        self.proven.is_some_and(|at| at.elapsed() < PROVEN_FOR)
    }
}
