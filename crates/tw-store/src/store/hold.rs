//! The right of one server to a database that others reach, too.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{Inner, Store};
use crate::db_error::DbError;
use crate::session::postgres::{PgConnection, PostgresServer};

/// Time between two looks at the connection that holds the lock.
const LOOK: Duration = Duration::from_secs(2);
/// Time within which a server before us that was killed has lost its lock, and pause between two tries.
const TAKEN_MAX: Duration = Duration::from_secs(15);
const TAKEN_PAUSE: Duration = Duration::from_millis(100);

/// The lock of a connection, which ends with it.
const LOCK: &str =
    "SELECT pg_try_advisory_lock(hashtextextended('turnwright server ' || current_schema(), 0))";

#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    #[error("another server runs on the database")]
    Taken,
    #[error("locking the database")]
    Db(#[from] DbError),
    #[error("starting a thread")]
    Thread(#[source] std::io::Error),
}

/// A database that no other server takes while this is there.
pub struct DatabaseHold {
    /// Dropped with this, which ends the thread.
    _stop: SyncSender<()>,
    lost: oneshot::Receiver<()>,
}

impl DatabaseHold {
    /// Returns once another server has the database: the connection was lost, and that one came first.
    pub async fn lost(self) {
        let Self { _stop, lost } = self;
        if lost.await.is_err() {
            // The thread is gone without a word, which it never is while this is there.
            std::future::pending::<()>().await;
        }
    }
}

impl Store {
    /// Takes the database for this process alone; `None` for a store whose folder is locked instead. Waits for a server
    /// that was killed just now.
    ///
    /// # Errors
    /// See [`HoldError`].
    pub async fn hold(&self) -> Result<Option<DatabaseHold>, HoldError> {
        let Inner::Postgres(postgres) = &*self.inner else {
            return Ok(None);
        };
        let server = postgres.server().clone();
        let held = tokio::task::spawn_blocking(move || hold(server));
        let held = held
            .await
            .map_err(|error| HoldError::Thread(std::io::Error::other(error)))?;
        held.map(Some)
    }
}

fn hold(server: PostgresServer) -> Result<DatabaseHold, HoldError> {
    let conn = server.connect()?;
    let (stop, stopped) = sync_channel(1);
    let by = Instant::now() + TAKEN_MAX;
    while !try_lock(&conn)? {
        if Instant::now() >= by {
            return Err(HoldError::Taken);
        }
        wait(&stopped, TAKEN_PAUSE);
    }
    let (told, lost) = oneshot::channel();
    let looking = move || {
        if keep(&server, conn, &stopped) == Kept::Lost {
            // Whoever asked may have gone.
            let _ = told.send(());
        }
    };
    let thread = thread::Builder::new().name("store-hold".to_owned());
    thread.spawn(looking).map_err(HoldError::Thread)?;
    Ok(DatabaseHold { _stop: stop, lost })
}

#[derive(PartialEq, Eq)]
enum Kept {
    /// Until nobody wanted it any more.
    Wanted,
    Lost,
}

/// Looks after the connection, and makes it anew where it is lost.
fn keep(server: &PostgresServer, conn: PgConnection, stopped: &Receiver<()>) -> Kept {
    let mut conn = Some(conn);
    while wait(stopped, LOOK) {
        let there = conn
            .take()
            .filter(|conn| conn.query("SELECT 1", &[]).is_ok());
        conn = match there {
            Some(conn) => Some(conn),
            None => match server.connect() {
                Ok(fresh) => match try_lock(&fresh) {
                    Ok(true) => Some(fresh),
                    Ok(false) => return Kept::Lost,
                    Err(_) => None,
                },
                // Nobody else gets there either, or the writers will say what is wrong.
                Err(_) => None,
            },
        };
    }
    Kept::Wanted
}

/// Whether the connection has the lock now; it ends with the connection.
pub(crate) fn try_lock(conn: &PgConnection) -> Result<bool, DbError> {
    let rows = conn.query(LOCK, &[])?;
    rows.first().map_or(Ok(false), |row| Ok(row.try_get(0)?))
}

/// Whether to go on after the time.
fn wait(stopped: &Receiver<()>, time: Duration) -> bool {
    match stopped.recv_timeout(time) {
        Err(RecvTimeoutError::Timeout) => true,
        Ok(()) | Err(RecvTimeoutError::Disconnected) => false,
    }
}
