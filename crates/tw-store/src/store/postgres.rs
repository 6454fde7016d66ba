//! A store on a PostgreSQL server.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};
use tw_core::change::ChangeGroup;

use super::{OpenError, StoreOptions, lock};
use crate::db_error::DbError;
use crate::figures::WriterFigures;
use crate::migrate;
use crate::read::ReadError;
use crate::session::ReadSession;
use crate::session::postgres::{BEGIN_READ, PgConnection, PostgresServer};
use crate::writer::{WriterJob, WriterWakes, postgres};

/// Connections that write. While one waits for its commit, another one sends.
const WRITERS: usize = 2;
/// A connection that was not used for so long is tried before somebody reads on it.
const IDLE_TRUSTED: Duration = Duration::from_secs(1);

pub struct PostgresStore {
    server: PostgresServer,
    /// Empty only while the store is being dropped.
    jobs: Vec<mpsc::Sender<WriterJob>>,
    writers: Vec<thread::JoinHandle<()>>,
    next: AtomicUsize,
    pub readers: Arc<Semaphore>,
    idle: Mutex<Vec<(PgConnection, Instant)>>,
    readers_max: usize,
    pub figures: WriterFigures,
}

impl PostgresStore {
    /// Connects, makes or upgrades the schema where needed, and starts the writers; blocks.
    ///
    /// # Errors
    /// The server is not there, or its schema is not one of ours.
    pub fn open(
        server: PostgresServer,
        options: &StoreOptions,
        wakes: &Arc<WriterWakes>,
    ) -> Result<Self, OpenError> {
        let conn = server.connect().map_err(OpenError::Connect)?;
        migrate::postgres::run(&conn, options.now)?;
        let figures = WriterFigures::new();
        let group_jobs_max = options.group_jobs_max.max(1);
        let (mut jobs, mut writers) = (Vec::new(), Vec::new());
        let mut first = Some(conn);
        for number in 1..=WRITERS {
            let (sender, queue) = mpsc::channel(options.queue_jobs_max.max(1));
            let conn = match first.take() {
                Some(conn) => conn,
                None => server.connect().map_err(OpenError::Connect)?,
            };
            let (server, figures) = (server.clone(), figures.clone());
            let wakes = Arc::clone(wakes);
            let writer = thread::Builder::new()
                .name(format!("store-writer-{number}"))
                .spawn(move || {
                    postgres::run(server, conn, queue, group_jobs_max, (&figures, &wakes));
                })
                .map_err(OpenError::Thread)?;
            jobs.push(sender);
            writers.push(writer);
        }
        let readers_max = options.readers_max.max(1);
        Ok(Self {
            server,
            jobs,
            writers,
            next: AtomicUsize::new(0),
            readers: Arc::new(Semaphore::new(readers_max)),
            idle: Mutex::new(Vec::new()),
            readers_max,
            figures,
        })
    }

    pub fn server(&self) -> &PostgresServer {
        &self.server
    }

    /// The queue for a group. All that is written to a turn goes the same way, so that it is written in order.
    pub fn queue_for(&self, group: &ChangeGroup) -> Option<&mpsc::Sender<WriterJob>> {
        let turn = match group {
            ChangeGroup::Accept(new, _) => new.id,
            ChangeGroup::OfTurn(fence, _) => fence.turn,
            ChangeGroup::Free(_) => {
                let next = self.next.fetch_add(1, Ordering::Relaxed);
                return self.jobs.get(next % WRITERS);
            }
        };
        let mut hasher = DefaultHasher::new();
        turn.0.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % WRITERS as u64).unwrap_or(0);
        self.jobs.get(at)
    }

    /// A queue whose writer tells of its connection.
    pub fn any_queue(&self) -> Option<&mpsc::Sender<WriterJob>> {
        self.jobs.first()
    }

    pub fn is_full(&self) -> bool {
        self.jobs.iter().any(|jobs| jobs.capacity() == 0)
    }

    pub fn queue_jobs(&self) -> usize {
        let waiting = |jobs: &mpsc::Sender<WriterJob>| jobs.max_capacity() - jobs.capacity();
        self.jobs.iter().map(waiting).sum()
    }

    /// Runs a read in one state of the database, on the caller's thread, which it blocks.
    pub fn read_now<T>(
        &self,
        read: impl FnOnce(ReadSession<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let conn = self.reader()?;
        let answer = read(ReadSession::Postgres(&conn));
        if conn.is_lost() {
            return answer;
        }
        conn.frame("ROLLBACK")?;
        let mut idle = lock(&self.idle);
        if idle.len() < self.readers_max {
            idle.push((conn, Instant::now()));
        }
        answer
    }

    /// A connection whose transaction has begun.
    fn reader(&self) -> Result<PgConnection, DbError> {
        let found = lock(&self.idle).pop();
        if let Some((conn, used)) = found {
            if used.elapsed() < IDLE_TRUSTED {
                conn.send_frame(BEGIN_READ);
                return Ok(conn);
            }
            if conn.frame(BEGIN_READ).is_ok() {
                return Ok(conn);
            }
            // The others are as old.
            lock(&self.idle).clear();
        }
        let conn = self.server.connect()?;
        conn.send_frame(BEGIN_READ);
        Ok(conn)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.jobs.clear();
        for writer in self.writers.drain(..) {
            if writer.join().is_err() {
                tracing::error!("a writer of the store panicked");
            }
        }
    }
}
