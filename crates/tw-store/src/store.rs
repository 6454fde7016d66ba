//! The handle: opening a store, writing to it, and running reads.

pub mod instance;

mod inline;
mod postgres;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rusqlite::Connection;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tw_core::change::{Change, ChangeGroup, Fence, NewTurn, Outcome, TurnChange};
use tw_core::time::Timestamp;

use crate::apply::{GuardRules, StoreApplyError};
use crate::backup;
use crate::blob::WritableGroup;
use crate::connection;
use crate::db_error::DbError;
use crate::figures::WriterFigures;
use crate::migrate::{self, MIGRATIONS, MigrateError};
use crate::read::ReadError;
use crate::read::memory::RecentRecalls;
use crate::session::ReadSession;
use crate::session::postgres::PostgresServer;
use crate::writer::sqlite;
use crate::writer::{WriterJob, WriterWakes};

use inline::InlineStore;
use postgres::PostgresStore;

/// Reads that may run at once.
pub const READERS_DEFAULT: usize = 4;
/// Groups that may wait for the writer; beyond that `apply` waits for room.
pub const QUEUE_JOBS_DEFAULT: usize = 4096;
/// Groups that one transaction may hold. More would save little and make the first one wait.
pub const GROUP_JOBS_DEFAULT: usize = 256;
/// Length from which a content is stored once, beside the texts that hold it.
pub const CONTENT_BYTES_MIN_DEFAULT: usize = 16 * 1024;

/// Options with which a store on disk is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Time that stands in the rows of the migrations that are applied.
    pub now: Timestamp,
    pub readers_max: usize,
    pub queue_jobs_max: usize,
    pub group_jobs_max: usize,
    /// Length from which a content (an image, a file, a sound) is stored once, beside the texts that hold it; 0 leaves
    /// all of them where they stand.
    pub content_bytes_min: usize,
    pub use_of: StoreUse,
}

/// What a store on disk is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreUse {
    /// A transaction changes a few pages at the ends of tables and indexes.
    Serving,
    /// Rows come by the thousand.
    Filling,
}

impl StoreOptions {
    pub fn defaults(now: Timestamp) -> Self {
        Self {
            now,
            readers_max: READERS_DEFAULT,
            queue_jobs_max: QUEUE_JOBS_DEFAULT,
            group_jobs_max: GROUP_JOBS_DEFAULT,
            content_bytes_min: CONTENT_BYTES_MIN_DEFAULT,
            use_of: StoreUse::Serving,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("creating {path}")]
    Create {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("opening {path}")]
    Db {
        path: PathBuf,
        #[source]
        source: DbError,
    },
    #[error("opening a database in memory")]
    Memory(#[source] DbError),
    #[error("connecting to the database")]
    Connect(#[source] DbError),
    #[error("preparing the schema")]
    Migrate(#[from] MigrateError),
    #[error("starting the writer's thread")]
    Thread(#[source] std::io::Error),
}

/// The sizes of a store at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSizes {
    /// Groups that wait for the writer.
    pub queue_jobs: usize,
    /// `None` where a server keeps the database.
    pub database_bytes: Option<u64>,
    /// Bytes of the write-ahead log; `None` where a server keeps it.
    pub log_bytes: Option<u64>,
}

/// The path at which SQLite keeps the write-ahead log of a database.
pub fn log_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    PathBuf::from(path)
}

/// Length of a file in bytes; 0 for a file that is not there.
fn bytes_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

/// A handle to the record, cheap to clone. When the last one goes, it waits for what is queued to be written.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    kept: RecentRecalls,
    content_bytes_min: usize,
    wakes: Arc<WriterWakes>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

/// Changes that are ready to be written.
pub struct PreparedChanges(WritableGroup);

enum Inner {
    File(FileStore),
    Inline(InlineStore),
    Postgres(Box<PostgresStore>),
}

struct FileStore {
    path: PathBuf,
    /// `None` only while the store is being dropped.
    jobs: Option<mpsc::Sender<WriterJob>>,
    writer: Option<thread::JoinHandle<()>>,
    readers: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
    readers_max: usize,
    figures: WriterFigures,
}

impl Store {
    /// Opens the database at `path`, making or upgrading it where needed, and starts the writer.
    ///
    /// # Errors
    /// The file cannot be opened, or its schema is not one of ours; see [`MigrateError`].
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self, OpenError> {
        let group_jobs_max = options.group_jobs_max.max(1);
        let figures = WriterFigures::new();
        let counts = figures.clone();
        let wakes = Arc::<WriterWakes>::default();
        let of_writer = Arc::clone(&wakes);
        Self::open_with(path, &options, (figures, wakes), move |conn, queue| {
            sqlite::run(&conn, queue, group_jobs_max, (&counts, &of_writer));
        })
    }

    /// [`Store::open`] with a writer that writes nothing and says of every change that it is done.
    ///
    /// # Errors
    /// As [`Store::open`].
    #[cfg(feature = "null-writer")]
    pub fn open_unwritten(path: &Path, options: StoreOptions) -> Result<Self, OpenError> {
        let figures = WriterFigures::new();
        Self::open_with(path, &options, (figures, Arc::default()), |_conn, queue| {
            crate::null_writer::run(queue);
        })
    }

    fn open_with(
        path: &Path,
        options: &StoreOptions,
        (figures, wakes): (WriterFigures, Arc<WriterWakes>),
        write: impl FnOnce(Connection, mpsc::Receiver<WriterJob>) + Send + 'static,
    ) -> Result<Self, OpenError> {
        create_private(path).map_err(|source| OpenError::Create {
            path: path.to_owned(),
            source,
        })?;
        look_at_history(path)?;
        let failed = |source: rusqlite::Error| OpenError::Db {
            path: path.to_owned(),
            source: source.into(),
        };
        let mut conn = connection::open_writer(path).map_err(failed)?;
        match options.use_of {
            StoreUse::Serving => {}
            StoreUse::Filling => connection::expect_many_rows(&conn).map_err(failed)?,
        }
        migrate::run(&mut conn, MIGRATIONS, options.now)?;
        let (jobs, queue) = mpsc::channel(options.queue_jobs_max.max(1));
        let writer = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || write(conn, queue))
            .map_err(OpenError::Thread)?;
        let readers_max = options.readers_max.max(1);
        Ok(Self {
            inner: Arc::new(Inner::File(FileStore {
                path: path.to_owned(),
                jobs: Some(jobs),
                writer: Some(writer),
                readers: Arc::new(Semaphore::new(readers_max)),
                idle: Mutex::new(Vec::new()),
                readers_max,
                figures,
            })),
            kept: RecentRecalls::new(),
            content_bytes_min: options.content_bytes_min,
            wakes,
        })
    }

    /// Connects to the PostgreSQL database that `url` names, makes or upgrades the schema where needed, and starts the
    /// writers. Without `tls` nothing is encrypted.
    ///
    /// # Errors
    /// The URL is none, the server is not there, or its schema is not one of ours; see [`MigrateError`].
    pub async fn connect(
        url: &str,
        tls: Option<rustls::ClientConfig>,
        options: StoreOptions,
    ) -> Result<Self, OpenError> {
        let server = PostgresServer::of(url, tls).map_err(OpenError::Connect)?;
        let content_bytes_min = options.content_bytes_min;
        let wakes = Arc::<WriterWakes>::default();
        let of_writer = Arc::clone(&wakes);
        let opening = move || PostgresStore::open(server, &options, &of_writer);
        let store = tokio::task::spawn_blocking(opening)
            .await
            .map_err(|error| OpenError::Thread(std::io::Error::other(error)))??;
        let inner = Inner::Postgres(Box::new(store));
        Ok(Self::of(inner, content_bytes_min, wakes))
    }

    /// A store in memory that writes on the caller's thread, for simulation.
    ///
    /// # Errors
    /// SQLite cannot give us memory.
    pub fn in_memory_inline() -> Result<Self, OpenError> {
        Self::inline(GuardRules::STRICT)
    }

    pub(crate) fn inline(rules: GuardRules) -> Result<Self, OpenError> {
        let inner = Inner::Inline(InlineStore::in_memory(rules)?);
        Ok(Self::of(inner, CONTENT_BYTES_MIN_DEFAULT, Arc::default()))
    }

    /// A store on a PostgreSQL server that writes on the caller's thread, for simulation.
    ///
    /// # Errors
    /// As [`Store::connect`].
    pub fn connect_inline(url: &str, options: &StoreOptions) -> Result<Self, OpenError> {
        let server = PostgresServer::of(url, None).map_err(OpenError::Connect)?;
        let inner = Inner::Inline(InlineStore::on_server(server, options)?);
        Ok(Self::of(inner, options.content_bytes_min, Arc::default()))
    }

    fn of(inner: Inner, content_bytes_min: usize, wakes: Arc<WriterWakes>) -> Self {
        Self {
            inner: Arc::new(inner),
            kept: RecentRecalls::new(),
            content_bytes_min,
            wakes,
        }
    }

    /// The cache of recalls that were read lately.
    pub(crate) fn kept(&self) -> &RecentRecalls {
        &self.kept
    }

    /// Writes a new turn, and its first changes, whole or not at all; once this returns outcomes, they are on disk.
    ///
    /// The turn's own outcome comes first. Unless it is `Done`, it is the only one, and nothing was written.
    ///
    /// # Errors
    /// As [`Store::apply`].
    ///
    /// # Cancel safety
    /// As [`Store::apply`].
    pub async fn accept_turn(
        &self,
        new: Box<NewTurn>,
        first: Vec<TurnChange>,
    ) -> Result<Vec<Outcome>, StoreApplyError> {
        self.write(ChangeGroup::Accept(new, first)).await
    }

    /// Writes changes of the turn that the fence names, whole or not at all; once this returns outcomes, they are on
    /// disk.
    ///
    /// Where somebody else has ended a call, `CallEnded` is the only outcome, and nothing was written.
    ///
    /// # Errors
    /// As [`Store::apply`], and `Fenced` where another driver has claimed the turn.
    ///
    /// # Cancel safety
    /// As [`Store::apply`].
    pub async fn apply_to_turn(
        &self,
        fence: Fence,
        changes: Vec<TurnChange>,
    ) -> Result<Vec<Outcome>, StoreApplyError> {
        self.write(ChangeGroup::OfTurn(fence, changes)).await
    }

    /// Writes changes whole or not at all; once this returns outcomes, they are on disk.
    ///
    /// # Errors
    /// See [`StoreApplyError`]; after `Unknown` the caller must look.
    ///
    /// # Cancel safety
    /// A dropped call may still be written.
    pub async fn apply(&self, changes: Vec<Change>) -> Result<Vec<Outcome>, StoreApplyError> {
        self.write(ChangeGroup::Free(changes)).await
    }

    /// Makes changes ready to be written, as far as that takes long and needs no database; until it is done, the caller's
    /// thread has nothing else to do.
    pub fn prepare(&self, changes: Vec<Change>) -> PreparedChanges {
        let group = ChangeGroup::Free(changes);
        PreparedChanges(WritableGroup::new(group, self.content_bytes_min))
    }

    /// [`Store::apply`] of changes that were made ready.
    ///
    /// # Errors
    /// As [`Store::apply`].
    ///
    /// # Cancel safety
    /// As [`Store::apply`].
    pub async fn apply_prepared(
        &self,
        prepared: PreparedChanges,
    ) -> Result<Vec<Outcome>, StoreApplyError> {
        self.write_prepared(prepared.0).await
    }

    async fn write(&self, group: ChangeGroup) -> Result<Vec<Outcome>, StoreApplyError> {
        let content_bytes_min = self.content_bytes_min;
        let group = if WritableGroup::is_long(&group, content_bytes_min) {
            let aside =
                tokio::task::spawn_blocking(move || WritableGroup::new(group, content_bytes_min));
            // Nothing has been written, but only a panic or the runtime's end leads here.
            aside.await.map_err(|_| StoreApplyError::Closed)?
        } else {
            WritableGroup::new(group, content_bytes_min)
        };
        self.write_prepared(group).await
    }

    async fn write_prepared(&self, group: WritableGroup) -> Result<Vec<Outcome>, StoreApplyError> {
        let jobs = match &*self.inner {
            Inner::File(file) => file.jobs.as_ref(),
            Inner::Postgres(postgres) => postgres.queue_for(&group.group),
            Inner::Inline(inline) => return inline.apply(&group, &self.wakes),
        };
        let (reply, answer) = oneshot::channel();
        let jobs = jobs.ok_or(StoreApplyError::Closed)?;
        jobs.send(WriterJob::Apply { group, reply })
            .await
            .map_err(|_| StoreApplyError::Closed)?;
        // The writer takes a job only to answer it; without an answer it died, and with it the knowledge.
        answer
            .await
            .unwrap_or(Err(StoreApplyError::Unknown { source: None }))
    }

    /// Ends when deliveries of webhooks were written since it ended last; it may also end without any.
    ///
    /// # Cancel safety
    /// Nothing is missed.
    pub async fn deliveries_written(&self) {
        self.wakes.deliveries.notified().await;
    }

    /// Ends when something for other servers on the database was written since it ended last; it may also end without.
    ///
    /// # Cancel safety
    /// Nothing is missed.
    pub async fn hint_written(&self) {
        self.wakes.hints.notified().await;
    }

    /// Ends [`Store::deliveries_written`] once.
    pub fn wake_sender(&self) {
        self.wakes.deliveries.notify_one();
    }

    /// Whether another write would wait for room in the queue.
    pub fn is_full(&self) -> bool {
        match &*self.inner {
            Inner::File(file) => file.jobs.as_ref().is_some_and(|jobs| jobs.capacity() == 0),
            Inner::Postgres(postgres) => postgres.is_full(),
            Inner::Inline(_) => false,
        }
    }

    /// The write of a group without waiting, for a store that writes inline.
    ///
    /// # Errors
    /// `NotInline` from a store whose writer is a thread; else see [`StoreApplyError`].
    pub fn apply_inline(&self, group: &ChangeGroup) -> Result<Vec<Outcome>, StoreApplyError> {
        match &*self.inner {
            Inner::File(_) | Inner::Postgres(_) => Err(StoreApplyError::NotInline),
            Inner::Inline(inline) => {
                let group = WritableGroup::new(group.clone(), self.content_bytes_min);
                inline.apply(&group, &self.wakes)
            }
        }
    }

    /// The writer's `PRAGMA synchronous`: 2 is FULL, which every durable promise rests on. It is 2 as well for a
    /// PostgreSQL server that waits for its disk.
    ///
    /// # Errors
    /// The writer has ended, or the database failed.
    pub async fn synchronous(&self) -> Result<i64, ReadError> {
        let jobs = match &*self.inner {
            Inner::File(file) => file.jobs.as_ref(),
            Inner::Postgres(postgres) => postgres.any_queue(),
            Inner::Inline(inline) => return Ok(inline.synchronous()?),
        };
        let (reply, answer) = oneshot::channel();
        let jobs = jobs.ok_or(ReadError::Closed)?;
        jobs.send(WriterJob::Synchronous { reply })
            .await
            .map_err(|_| ReadError::Closed)?;
        Ok(answer.await.map_err(|_| ReadError::Closed)??)
    }

    /// Figures of the writer; `None` for a store that writes inline.
    pub fn writer_figures(&self) -> Option<WriterFigures> {
        match &*self.inner {
            Inner::File(file) => Some(file.figures.clone()),
            Inner::Postgres(postgres) => Some(postgres.figures.clone()),
            Inner::Inline(_) => None,
        }
    }

    /// The present sizes of the store; `None` for a store in memory.
    pub fn sizes(&self) -> Option<StoreSizes> {
        match &*self.inner {
            Inner::File(file) => {
                let jobs = file.jobs.as_ref()?;
                Some(StoreSizes {
                    queue_jobs: jobs.max_capacity() - jobs.capacity(),
                    database_bytes: Some(bytes_of(&file.path)),
                    log_bytes: Some(bytes_of(&log_path(&file.path))),
                })
            }
            Inner::Postgres(postgres) => Some(StoreSizes {
                queue_jobs: postgres.queue_jobs(),
                database_bytes: None,
                log_bytes: None,
            }),
            Inner::Inline(_) => None,
        }
    }

    /// Bytes that are free for us on the disk that holds the database; `None` where that cannot be known.
    pub fn disk_free_bytes(&self) -> Option<u64> {
        let Inner::File(file) = &*self.inner else {
            return None;
        };
        let found = rustix::fs::statvfs(&file.path).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Faults that SQLite finds in the file, references between rows included; empty when it is sound.
    ///
    /// # Errors
    /// The database could not be read at all.
    pub async fn integrity_check(&self) -> Result<Vec<String>, ReadError> {
        self.read(backup::faults_of).await
    }

    /// Runs a read on a connection of its own, or on the only one; it sees one state throughout.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(ReadSession<'_>) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let readers = match &*self.inner {
            Inner::File(file) => &file.readers,
            Inner::Postgres(postgres) => &postgres.readers,
            Inner::Inline(inline) => return inline.read(read),
        };
        let permit = Arc::clone(readers)
            .acquire_owned()
            .await
            .map_err(|_| ReadError::Closed)?;
        let store = self.clone();
        let work = move || {
            // Held by the work and not by the caller, who may go before it ends.
            let _permit = permit;
            store.read_blocking(read)
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| ReadError::Closed)?
    }

    /// [`Store::read`] on the caller's thread, which it blocks; the caller may be a task.
    pub(crate) fn read_now<T: Send>(
        &self,
        read: impl FnOnce(ReadSession<'_>) -> Result<T, ReadError> + Send,
    ) -> Result<T, ReadError> {
        match &*self.inner {
            Inner::File(_) | Inner::Inline(_) => self.read_blocking(read),
            Inner::Postgres(postgres) => inline::elsewhere(|| postgres.read_now(read)),
        }
    }

    /// [`Store::read`] on the caller's thread, which may block.
    fn read_blocking<T: Send>(
        &self,
        read: impl FnOnce(ReadSession<'_>) -> Result<T, ReadError> + Send,
    ) -> Result<T, ReadError> {
        let file = match &*self.inner {
            Inner::File(file) => file,
            Inner::Postgres(postgres) => return postgres.read_now(read),
            Inner::Inline(inline) => return inline.read(read),
        };
        let idle = lock(&file.idle).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => connection::open_reader(&file.path).map_err(DbError::from)?,
        };
        let answer = in_snapshot(&conn, read);
        let mut idle = lock(&file.idle);
        // A connection that is stuck in its transaction would hold the log back for good.
        if conn.is_autocommit() && idle.len() < file.readers_max {
            idle.push(conn);
        }
        answer
    }

    #[cfg(feature = "faults")]
    pub(crate) fn run_on_inline(&self, sql: &str) -> Result<(), DbError> {
        match &*self.inner {
            Inner::File(_) | Inner::Postgres(_) => Err(crate::db_error::Failure::Unsuited.into()),
            Inner::Inline(inline) => inline.run(sql),
        }
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // The writer's connection is the last to close: one that only reads could not remove the log.
        lock(&self.idle).clear();
        self.jobs = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer panicked");
        }
    }
}

/// A thread that panicked while it held a connection left no half-done statement behind: SQLite's own state is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn in_snapshot<T>(
    conn: &Connection,
    read: impl FnOnce(ReadSession<'_>) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    let tx = conn.unchecked_transaction().map_err(DbError::from)?;
    let answer = read(ReadSession::Sqlite(&tx));
    tx.rollback().map_err(DbError::from)?;
    answer
}

/// Refuses a database that is not ours before a setting of it is changed.
fn look_at_history(path: &Path) -> Result<(), OpenError> {
    let is_empty = std::fs::metadata(path).is_ok_and(|found| found.len() == 0);
    if is_empty {
        return Ok(());
    }
    let conn = connection::VisitingReader::enter(path).map_err(|source| OpenError::Db {
        path: path.to_owned(),
        source: source.into(),
    })?;
    migrate::history(&conn, MIGRATIONS)?;
    Ok(())
}

/// The file holds what people said: only its owner may read it. SQLite gives its log the same mode.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

#[cfg(test)]
mod tests;
