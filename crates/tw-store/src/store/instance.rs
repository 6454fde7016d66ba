//! The lease of one server on a database that other servers use, too.
//!
//! A lease is a row with a time by the database's clock. Its holder counts from before it asked for it, by its own
//! clock and for less long, so it knows of the end before anybody else does.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::Client;

use super::{Inner, Store, lock};
use crate::db_error::{DbError, Failure};
use crate::session::postgres::{PgConnection, PostgresServer};

/// A lease is renewed so many times in its length.
const RENEWALS_PER_LEASE: u32 = 5;
/// Renewals before its end at which its holder takes it for over.
const RENEWALS_BEFORE_END: u32 = 1;
/// Renewals in whose time one try may be answered: a new connection and a slow disk may take longer than one.
const RENEWALS_PER_TRY: u32 = 2;
/// Time that giving a lease back may take.
const LEAVE_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("taking a lease")]
    Db(#[from] DbError),
    #[error("starting a thread")]
    Thread(#[source] std::io::Error),
}

/// Taken by each server's connection together with the others, and by whoever wants no server there alone.
const SERVE: &str = "SELECT pg_try_advisory_lock_shared(hashtextextended('turnwright server ' || current_schema(), 0))";
const SERVE_NOBODY: &str = "SELECT pg_advisory_lock(hashtextextended('turnwright server ' || current_schema(), 0)) IS NULL";

const HAS_INSTANCES: &str = "SELECT to_regclass('instance') IS NOT NULL";
/// A server whose connection has just ended may still write.
const IS_SERVED: &str = "SELECT EXISTS (SELECT 1 FROM instance WHERE lease_until_us > clock_us())";

/// Keeps servers away from a database for as long as the connection is there; false if one uses it.
///
/// The lock of a connection that has just ended is there until the database has noticed; it is waited for.
pub(crate) fn keep_servers_away(conn: &PgConnection) -> Result<bool, DbError> {
    let ask = |sql| -> Result<bool, DbError> {
        let rows = conn.query(sql, &[])?;
        rows.first().map_or(Ok(false), |row| Ok(row.try_get(0)?))
    };
    let is_served = || -> Result<bool, DbError> { Ok(ask(HAS_INSTANCES)? && ask(IS_SERVED)?) };
    if is_served()? {
        return Ok(false);
    }
    match ask(SERVE_NOBODY) {
        Ok(_) => Ok(!is_served()?),
        Err(error) if error.is_lock_timeout() => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a server knows of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseStanding {
    /// Time from which the lease counts as over, unless it is renewed before.
    pub held_until: Instant,
    /// Servers that have a lease, this one included.
    pub instances: u32,
}

/// A lease that is renewed for as long as this is there.
#[derive(Debug)]
pub struct InstanceLease {
    standing: watch::Receiver<LeaseStanding>,
    hints: Arc<Notify>,
    leave: Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>,
}

impl InstanceLease {
    pub fn standing(&self) -> watch::Receiver<LeaseStanding> {
        self.standing.clone()
    }

    pub fn is_held(&self) -> bool {
        Instant::now() < self.standing.borrow().held_until
    }

    /// Ends when another server may have left something to do; it may also end without, and a hint may get lost.
    ///
    /// # Cancel safety
    /// No hint is lost by it.
    pub async fn hinted(&self) {
        self.hints.notified().await;
    }

    /// Gives the lease back, so that nobody waits for its end.
    pub async fn leave(&self) {
        let leave = lock(&self.leave).take();
        let (done, left) = oneshot::channel();
        if let Some(leave) = leave
            && leave.send(done).is_ok()
        {
            // Who cannot reach the database leaves all the same.
            let _ = timeout(LEAVE_MAX, left).await;
        }
    }
}

impl Store {
    /// Takes a lease under `id` and keeps it; `None` for a store that no other server reaches.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub async fn join(
        &self,
        id: &str,
        lease: Duration,
    ) -> Result<Option<InstanceLease>, JoinError> {
        let Inner::Postgres(postgres) = &*self.inner else {
            return Ok(None);
        };
        let hints = Arc::new(Notify::new());
        let keeper = LeaseKeeper {
            server: postgres.server().clone(),
            id: id.to_owned(),
            lease,
            hints: Arc::clone(&hints),
        };
        let (joined, first) = oneshot::channel();
        let (leave, asked) = oneshot::channel();
        let thread = thread::Builder::new().name("store-lease".to_owned());
        // A thread of its own, so that nothing that is slow here makes the lease end.
        thread
            .spawn(move || keeper.run(joined, asked))
            .map_err(JoinError::Thread)?;
        let standing = first.await.unwrap_or_else(|_| Err(Failure::Lost.into()))?;
        Ok(Some(InstanceLease {
            standing,
            hints,
            leave: Mutex::new(Some(leave)),
        }))
    }
}

struct LeaseKeeper {
    server: PostgresServer,
    id: String,
    lease: Duration,
    hints: Arc<Notify>,
}

type FirstStanding = Result<watch::Receiver<LeaseStanding>, DbError>;

/// Makes the lease, or moves its end, and counts those of the others.
const RENEW: &str = "WITH renewed AS (
        INSERT INTO instance (id, lease_until_us, created_us, updated_us)
        SELECT $1, now_us + $2, now_us, now_us FROM (SELECT clock_us() AS now_us) AS clock
        ON CONFLICT (id) DO UPDATE SET lease_until_us = excluded.lease_until_us, updated_us = excluded.updated_us
        RETURNING 1)
    SELECT (SELECT count(*) FROM renewed)
        + (SELECT count(*) FROM instance WHERE id <> $1 AND lease_until_us > clock_us())";

/// Time for which the row of a server that is gone stays, for whoever asks what there was.
const GONE_KEPT: Duration = Duration::from_secs(3600);
const FORGET: &str = "DELETE FROM instance WHERE lease_until_us < clock_us() - $1";

const LEAVE: &str = "WITH gone AS (DELETE FROM instance WHERE id = $1 RETURNING 1)
    SELECT pg_notify('turnwright', ''), (SELECT count(*) FROM gone)";

impl LeaseKeeper {
    fn run(
        self,
        joined: oneshot::Sender<FirstStanding>,
        leave: oneshot::Receiver<oneshot::Sender<()>>,
    ) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                // Whoever asked may have gone.
                let _ = joined.send(Err(Failure::Runtime(error).into()));
                return;
            }
        };
        runtime.block_on(async {
            let mut link = None;
            match self.renew(&mut link).await {
                Ok(standing) => {
                    let (told, standing) = watch::channel(standing);
                    if joined.send(Ok(standing)).is_ok() {
                        self.keep(link, told, leave).await;
                    }
                }
                Err(error) => {
                    let _ = joined.send(Err(error));
                }
            }
        });
    }

    /// Renews the lease until it is given back, or nobody holds it any more.
    async fn keep(
        &self,
        mut link: Option<Client>,
        told: watch::Sender<LeaseStanding>,
        mut leave: oneshot::Receiver<oneshot::Sender<()>>,
    ) {
        let every = self.lease / RENEWALS_PER_LEASE;
        let mut due = Instant::now() + every;
        let mut fails = false;
        loop {
            tokio::select! {
                asked = &mut leave => {
                    if let (Ok(done), Some(client)) = (asked, link) {
                        // What is not given back ends by itself.
                        let _ = timeout(LEAVE_MAX, client.query(LEAVE, &[&self.id])).await;
                        let _ = done.send(());
                    }
                    return;
                }
                () = sleep_until(due) => {}
            }
            due = Instant::now() + every;
            let renewed = timeout(every * RENEWALS_PER_TRY, self.renew(&mut link)).await;
            let error = match renewed {
                Ok(Ok(standing)) => {
                    told.send_replace(standing);
                    fails = false;
                    continue;
                }
                Ok(Err(error)) => error,
                Err(_elapsed) => Failure::TimedOut.into(),
            };
            link = None;
            if !fails {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "the lease on the database is not renewed");
            }
            fails = true;
        }
    }

    async fn renew(&self, link: &mut Option<Client>) -> Result<LeaseStanding, DbError> {
        let asked = Instant::now();
        let client = match link.take().filter(|client| !client.is_closed()) {
            Some(client) => link.insert(client),
            None => {
                let client = self.server.listen(&self.hints).await?;
                let serves: bool = client.query_one(SERVE, &[]).await?.try_get(0)?;
                if !serves {
                    return Err(Failure::Closed.into());
                }
                client.execute(FORGET, &[&in_us(GONE_KEPT)]).await?;
                link.insert(client)
            }
        };
        let lease_us = in_us(self.lease);
        let row = client.query_one(RENEW, &[&self.id, &lease_us]).await?;
        let instances: i64 = row.try_get(0)?;
        let usable = self.lease / RENEWALS_PER_LEASE * (RENEWALS_PER_LEASE - RENEWALS_BEFORE_END);
        Ok(LeaseStanding {
            held_until: asked + usable,
            instances: u32::try_from(instances).unwrap_or(u32::MAX),
        })
    }
}

fn in_us(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
