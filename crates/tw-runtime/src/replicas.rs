//! This process among the others that serve from one database: its lease, its part of the limits, and what others left
//! for it to do.
//!
//! Drivers run under the term of a lease. When it is not renewed in time, all of them are dropped as if the process had
//! died, before another process takes their turns; under the next term they are taken over like any others.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use tw_core::rate::RateLimits;
use tw_store::store::instance::{InstanceLease, JoinError, LeaseStanding};
use tw_store::system;

use crate::callbacks;
use crate::error_chain::ErrorChain;
use crate::replica_messages::{self, ReplicaMessages};
use crate::runtime::{Runtime, RuntimeInner};

/// Time between two looks at what other processes left, which finds what a lost hint would have told.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The other processes on the same database. A process that is alone has no lease and needs none.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    lease: OnceLock<InstanceLease>,
    term: Mutex<CancellationToken>,
    share: Arc<LimitShare>,
    /// The way to the others over NATS, where one is set.
    pub(crate) messages: OnceLock<ReplicaMessages>,
    /// Somebody else's turns may be free, or the lease is held again.
    pub(crate) look: Notify,
    /// Another process may have asked turns of this one to stop.
    stops: Notify,
    /// Another process is gone.
    pub(crate) gone: Notify,
    /// The same, for whoever asks about jobs.
    pub(crate) gone_for_jobs: Notify,
}

impl Replicas {
    /// Whether this process may drive turns now.
    pub(crate) fn may_drive(&self) -> bool {
        self.lease.get().is_none_or(InstanceLease::is_held)
    }

    /// Whether there may be others.
    pub(crate) fn is_joined(&self) -> bool {
        self.lease.get().is_some()
    }

    /// The term under which a driver runs; `None` for a process that is alone.
    pub(crate) fn term(&self) -> Option<CancellationToken> {
        self.is_joined().then(|| self.lock_term().clone())
    }

    pub(crate) fn share(&self) -> Arc<LimitShare> {
        Arc::clone(&self.share)
    }

    /// Waits until the lease is held.
    pub(crate) async fn held(&self) {
        let Some(lease) = self.lease.get() else {
            return;
        };
        let mut standing = lease.standing();
        while !lease.is_held() {
            if standing.changed().await.is_err() {
                // Nobody renews it any more, since the process ends.
                return std::future::pending().await;
            }
        }
    }

    /// Whether there is a connection to NATS.
    pub(crate) fn has_nats(&self) -> bool {
        let messages = self.messages.get();
        messages.is_some_and(ReplicaMessages::is_connected)
    }

    /// Another process may have left something to do.
    pub(crate) fn hinted(&self) {
        self.look.notify_one();
        self.stops.notify_one();
    }

    /// Gives the lease back: others take over what is left at once.
    pub(crate) async fn leave(&self) {
        if let Some(lease) = self.lease.get() {
            lease.leave().await;
        }
        if let Some(messages) = self.messages.get() {
            messages.hint();
            messages.flush().await;
        }
    }

    fn lock_term(&self) -> MutexGuard<'_, CancellationToken> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// This process's part of a limit that holds for all of them: an equal part each, and at least 1.
#[derive(Debug)]
pub(crate) struct LimitShare {
    /// At least 1.
    instances: AtomicU32,
}

impl Default for LimitShare {
    fn default() -> Self {
        Self {
            instances: AtomicU32::new(1),
        }
    }
}

impl LimitShare {
    pub(crate) fn of(&self, limit: u32) -> u32 {
        // 0 is no limit.
        match limit {
            0 => 0,
            limit => (limit / self.instances.load(Ordering::Acquire)).max(1),
        }
    }

    pub(crate) fn of_all(&self, limits: RateLimits) -> RateLimits {
        let of = |limit: Option<u32>| limit.map(|limit| self.of(limit));
        RateLimits {
            requests_per_minute: of(limits.requests_per_minute),
            concurrency_max: of(limits.concurrency_max),
            streams_max: of(limits.streams_max),
        }
    }

    fn set(&self, instances: u32) {
        self.instances.store(instances.max(1), Ordering::Release);
    }
}

impl Runtime {
    /// Joins the others that serve from the same database, where the store has room for others. To be called once,
    /// before anything is served.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub async fn join(&self, lease: Duration) -> Result<(), JoinError> {
        let inner = &self.0;
        let nats = inner.config.nats.clone();
        let Some(lease) = inner.store.join(&inner.boot, lease).await? else {
            if nats.is_some() {
                tracing::warn!("nobody shares a database in a folder, so NATS is not used");
            }
            return Ok(());
        };
        let standing = lease.standing();
        let instances = standing.borrow().instances;
        tracing::info!(
            instances,
            "serving from a database that others may use, too"
        );
        inner.replicas.share.set(instances);
        if inner.replicas.lease.set(lease).is_err() {
            tracing::error!("a process joined twice");
            return Ok(());
        }
        inner.tasks.spawn(keep_terms(Arc::clone(inner), standing));
        inner.tasks.spawn(hear_hints(Arc::clone(inner)));
        inner.tasks.spawn(stop_asked(Arc::clone(inner)));
        if let Some(nats) = nats {
            let messages = replica_messages::run(Arc::clone(inner), nats);
            inner.tasks.spawn(messages);
        }
        Ok(())
    }

    /// Whether this process may drive turns: it has a lease on the database, or needs none.
    pub fn may_drive(&self) -> bool {
        self.0.replicas.may_drive()
    }
}

/// Ends the term when the lease is over, and begins the next one when it is held again.
async fn keep_terms(inner: Arc<RuntimeInner>, mut standing: watch::Receiver<LeaseStanding>) {
    let mut known = standing.borrow().instances;
    let mut over = false;
    loop {
        let now = *standing.borrow_and_update();
        let replicas = &inner.replicas;
        replicas.share.set(now.instances);
        if now.instances < known {
            tracing::info!(instances = now.instances, "another server is gone");
            replicas.look.notify_one();
            replicas.gone.notify_one();
            replicas.gone_for_jobs.notify_one();
        }
        known = now.instances;
        if over && replicas.may_drive() {
            over = false;
            tracing::info!("the lease on the database is held again");
            *replicas.lock_term() = CancellationToken::new();
            replicas.look.notify_one();
        }
        tokio::select! {
            changed = standing.changed() => if changed.is_err() {
                return;
            },
            () = sleep_until(now.held_until), if !over => {
                if !replicas.may_drive() {
                    over = true;
                    let turns = inner.live.count();
                    tracing::error!(turns, "the lease on the database is over; what runs here is dropped");
                    replicas.lock_term().cancel();
                }
            }
            () = nothing_left(&inner) => return,
        }
    }
}

async fn hear_hints(inner: Arc<RuntimeInner>) {
    let Some(lease) = inner.replicas.lease.get() else {
        return;
    };
    loop {
        tokio::select! {
            () = lease.hinted() => inner.replicas.hinted(),
            () = nothing_left(&inner) => return,
        }
    }
}

/// Stops the turns of this process that others were asked to stop, and tells them of calls that others ended.
async fn stop_asked(inner: Arc<RuntimeInner>) {
    loop {
        tokio::select! {
            () = inner.replicas.stops.notified() => {}
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            () = nothing_left(&inner) => return,
        }
        if inner.live.count() == 0 {
            continue;
        }
        match system::turns_asked_to_stop(&inner.store, &inner.boot).await {
            Ok(asked) => {
                let live = asked.into_iter().filter_map(|turn| inner.live.get(turn));
                live.filter(|live| !live.is_stopping())
                    .for_each(|live| live.cancel());
            }
            Err(error) => {
                tracing::warn!(error = %ErrorChain(&error), "looking for turns that are to stop failed");
            }
        }
        if let Err(error) = callbacks::tell_ended(&inner).await {
            tracing::warn!(error = %ErrorChain(&error), "looking for calls that others ended failed");
        }
    }
}

/// Waits until the process ends and drives nothing any more.
pub(crate) async fn nothing_left(inner: &RuntimeInner) {
    inner.refusing.cancelled().await;
    let mut changed = inner.live.changed.subscribe();
    while inner.live.count() > 0 {
        if changed.changed().await.is_err() {
            return;
        }
    }
}

/// Waits until there may be something to take over.
pub(crate) async fn something_may_be_free(inner: &RuntimeInner) {
    tokio::select! {
        () = inner.replicas.look.notified() => {}
        () = tokio::time::sleep(LOOK_INTERVAL) => {}
    }
}

#[cfg(test)]
mod tests;
