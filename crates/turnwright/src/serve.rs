//! `turnwright serve`

use std::fs::{File, TryLockError};
use std::future::Future;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;
use tw_egress::env::Env;
use tw_http::metrics;
use tw_http::server::{AppState, SurfaceOptions, router};
use tw_runtime::metrics::{ConnectionMetrics, DroppedLogLines};
use tw_runtime::runtime::{Runtime, RuntimeConfig};
use tw_store::store::Store;

use crate::cli::ServeArgs;
use crate::config::{ServerSettings, Settings};
use crate::database::{DATABASE, DatabasePlace};
use crate::handover::{self, HandoverSocket, OfferedSockets, is_wanted};
use crate::listen::{self, ConnectionLimits, ServingListener};
use crate::log_queue::{LogGuard, LogQueue};
use crate::{data_folder, printed};

pub const LOCK: &str = "lock";

pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let dropped = DroppedLogLines::default();
    // What the client of NATS has to say is said in `tw_egress::nats`, once.
    let _log = log_to_stderr("info,async_nats=off", dropped.clone())?;
    let settings = Settings::load(&args)?;
    let mut config = settings.runtime()?;
    let options = settings.surfaces()?;
    config.log_lines_dropped = dropped;
    let env = Env::system();
    let data = settings.server.data.clone();
    let place = DatabasePlace::of(&args.store, &settings, &data)?;
    config.nats = settings.nats(&place)?;
    let mut stop = pin!(stop_signal()?);
    check_descriptors(settings.server.connections_max());
    // Taking over makes the lock file of a folder that has none.
    let found = DataFound::look(&data);
    let given = Given::find(&args, &settings).await?;
    let _lock = if given.is_some() {
        tokio::select! {
            locked = lock_when_free(&data) => locked?,
            () = &mut stop => return Ok(()),
        }
    } else {
        lock(&data)?
    };
    let store = place.open_with(settings.store(env.now())).await?;
    match &place {
        DatabasePlace::Folder(folder) => found.tell(folder),
        DatabasePlace::Server(server) => tracing::info!(%server, "the record is on a server"),
    }
    let Given {
        listener,
        metrics,
        on_stop,
    } = match given {
        Some(given) => given,
        None => Given {
            listener: listen::bind(settings.server.listen).await?,
            metrics: None,
            on_stop: StopReason::Quit,
        },
    };
    let metrics = match (metrics, settings.server.metrics_listen) {
        (None, Some(address)) => Some(listen::bind(address).await?),
        (metrics, _) => metrics,
    };
    // Only now the ports are certain.
    let mut own = vec![listener.local_addr()?];
    let mut sockets = vec![listener.as_fd().try_clone_to_owned()?];
    if let Some(metrics) = &metrics {
        own.push(metrics.local_addr()?);
        sockets.push(metrics.as_fd().try_clone_to_owned()?);
        tracing::info!("metrics on http://{}/metrics", metrics.local_addr()?);
    }
    config.tool_client = settings.tool_client(&own)?;
    let door = HandoverSocket::open(&data)?;
    let upstreams: Vec<&str> = config.upstreams.iter().map(|known| &*known.name).collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        data = %data.display(),
        upstreams = upstreams.join(","),
        "starting"
    );
    let limits = settings.connections();
    let mut server = ListeningServer::start(config, store, env, listener, options, limits)?;
    server.metrics = metrics;
    server.unready = settings.server.unready();
    let joined = server.runtime.join(settings.server.lease()).await;
    joined.with_context(|| format!("opening {place}"))?;
    printed::say(format_args!("listening on http://{}\n", server.address));
    if settings.server.check_upstreams {
        server.runtime.look_at_upstreams();
    }
    let stopped = async move {
        tokio::select! {
            () = stop => on_stop,
            () = door.given_away(&sockets) => StopReason::HandOver,
        }
    };
    server.until(stopped).await;
    Ok(())
}

/// Listening sockets that are there before us, and what a signal means for them then.
struct Given {
    listener: TcpListener,
    metrics: Option<TcpListener>,
    on_stop: StopReason,
}

impl Given {
    async fn find(args: &ServeArgs, settings: &Settings) -> anyhow::Result<Option<Self>> {
        let given = if let Some(socket) = handover::on_stdin() {
            Self {
                listener: listener_of(socket)?,
                metrics: None,
                // Whoever gave it to us holds it, too.
                on_stop: StopReason::HandOver,
            }
        } else if args.take_over {
            match Self::taken_over(&settings.server).await? {
                Some(given) => given,
                None => return Ok(None),
            }
        } else {
            return Ok(None);
        };
        let address = given.listener.local_addr()?;
        tracing::info!("serving on a socket that was there, {address}");
        Ok(Some(given))
    }

    /// Takes the sockets over from the server that runs on the folder. Until the last step that one
    /// serves on, so that whatever can fail comes before it.
    async fn taken_over(server: &ServerSettings) -> anyhow::Result<Option<Self>> {
        data_folder::check(&server.data)?;
        let Some(offered) = OfferedSockets::ask(&server.data, server.listen)? else {
            return Ok(None);
        };
        let listener = listener_of(offered.listener)?;
        let metrics = match server.metrics_listen {
            None => None,
            Some(wanted) => Some(match offered.metrics {
                Some(theirs) if is_wanted(theirs.local_addr()?, wanted) => listener_of(theirs)?,
                Some(_) | None => listen::bind(wanted).await?,
            }),
        };
        offered.acceptance.say()?;
        Ok(Some(Self {
            listener,
            metrics,
            on_stop: StopReason::Quit,
        }))
    }
}

/// Contents of a data folder before this process touched it.
struct DataFound {
    database: bool,
    /// Whether a server has run on it.
    lock: bool,
}

impl DataFound {
    fn look(data: &Path) -> Self {
        Self {
            database: data.join(DATABASE).exists(),
            lock: data.join(LOCK).exists(),
        }
    }

    /// Logs that the database is new: one that is made anew where there was one is a loss that somebody should hear of.
    fn tell(&self, data: &Path) {
        let folder = data.display();
        if self.database {
            return;
        }
        if self.lock {
            tracing::warn!(%folder, "the database is gone, and a new one was made; keys and turns are not there any more");
        } else {
            tracing::info!(%folder, "a new database was made");
        }
    }
}

/// Descriptors of a connection: its own, and a turn's to its upstream and some to its tools.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;
/// Descriptors of the database, the log and the listeners.
const DESCRIPTORS_BESIDE: u64 = 64;

/// Raises the limit of open files as far as it may be raised, and says so if that is too little.
fn check_descriptors(connections_max: usize) {
    let wanted = u64::try_from(connections_max)
        .unwrap_or(u64::MAX)
        .saturating_mul(DESCRIPTORS_PER_CONNECTION)
        .saturating_add(DESCRIPTORS_BESIDE);
    let found = getrlimit(Resource::Nofile);
    let (Some(current), maximum) = (found.current, found.maximum) else {
        return;
    };
    if current >= wanted {
        return;
    }
    let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let limit = Rlimit {
        current: Some(raised),
        maximum,
    };
    let open_files = if setrlimit(Resource::Nofile, limit).is_ok() {
        raised
    } else {
        current
    };
    if open_files < wanted {
        tracing::warn!(
            open_files,
            wanted,
            "server.connections_max needs more open files than this process may have: raise LimitNOFILE or ulimit -n, or lower the setting"
        );
    }
}

fn listener_of(socket: std::net::TcpListener) -> std::io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

/// Logs go to standard error, by a queue that holds nobody up; `RUST_LOG` says how much. Panics are logged, too, since
/// the standard hook would wait for whoever reads standard error.
pub fn log_to_stderr(default: &str, dropped: DroppedLogLines) -> anyhow::Result<LogGuard> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let queue = LogQueue::start(std::io::stderr(), dropped).context("starting the log's thread")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(queue.clone())
        .with_ansi(std::io::stderr().is_terminal())
        // They would go to standard error by a way that panics when it is closed.
        .log_internal_errors(false)
        .init();
    std::panic::set_hook(Box::new(|panic| {
        // Its message may hold what a client or a tool said.
        let at = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        tracing::error!(at, "a task panicked");
    }));
    Ok(LogGuard(queue))
}

/// Locks a data folder for one server; the lock ends with the process, however it ends.
fn lock(data: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(data)
        .with_context(|| format!("making the folder {}", data.display()))?;
    match try_lock(data)? {
        Some(locked) => Ok(locked),
        None => bail!("another server runs on the folder {}", data.display()),
    }
}

/// Time between two looks at the lock of a server that drains.
const LOCK_POLL: Duration = Duration::from_millis(10);
/// The longest drain that a server before us may take.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(3600);

/// Waits for the server before us to end.
async fn lock_when_free(data: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(data)
        .with_context(|| format!("making the folder {}", data.display()))?;
    let by = Instant::now() + LOCK_WAIT_MAX;
    while Instant::now() < by {
        if let Some(locked) = try_lock(data)? {
            return Ok(locked);
        }
        tokio::time::sleep(LOCK_POLL).await;
    }
    bail!("the server on the folder {} does not end", data.display())
}

/// Locks a data folder; `None` while another process holds the lock.
pub fn try_lock(data: &Path) -> anyhow::Result<Option<File>> {
    let path = data.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("locking {}", path.display()))
        }
    }
}

/// Reasons for which a server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The server ends, and its listening socket with it: whoever comes while it drains is told so.
    Quit,
    /// The server hands over: another process has the socket, and whoever comes now waits for it.
    HandOver,
}

/// A server that listens.
pub struct ListeningServer {
    pub address: SocketAddr,
    pub runtime: Runtime,
    /// Listener on which operators read metrics without a key.
    pub metrics: Option<TcpListener>,
    /// Time for which it serves on, once it is to end, while it says that it is not ready.
    pub unready: Duration,
    listener: TcpListener,
    options: SurfaceOptions,
    limits: ConnectionLimits,
}

impl ListeningServer {
    /// Makes the server. Nobody is served, and nothing of an earlier process is taken over, before
    /// [`ListeningServer::until`].
    pub fn start(
        config: RuntimeConfig,
        store: Store,
        env: Env,
        listener: TcpListener,
        options: SurfaceOptions,
        limits: ConnectionLimits,
    ) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let runtime = Runtime::new(config, store, env)?;
        Ok(Self {
            address,
            runtime,
            metrics: None,
            unready: Duration::ZERO,
            listener,
            options,
            limits,
        })
    }

    /// Serves until `stop`, then drains. What an earlier process left is taken over meanwhile.
    pub async fn until(self, stop: impl Future<Output = StopReason>) {
        let Self {
            runtime,
            metrics,
            unready,
            listener,
            options,
            limits,
            ..
        } = self;
        let metrics = metrics.map(|metrics| {
            let routes = metrics::router(runtime.clone());
            tokio::spawn(async move {
                let serving = ServingListener::new(routes, limits, ConnectionMetrics::default());
                let forever = std::future::pending::<()>();
                serving.accept_until(&metrics, forever).await;
            })
        });
        runtime.recover_meanwhile();
        let surfaces = AppState::new(runtime.clone(), options);
        let counts = runtime.metrics().connections();
        let serving = ServingListener::new(router(surfaces.clone()), limits, counts);
        let stop = async {
            let stopped = stop.await;
            if stopped == StopReason::Quit && !unready.is_zero() {
                runtime.set_leaving();
                tracing::info!(unready_s = unready.as_secs(), "not ready any more");
                tokio::time::sleep(unready).await;
            }
            stopped
        };
        let stopped = serving.accept_until(&listener, stop).await;
        tracing::info!(
            turns = runtime.turns_running(),
            "stopping when these have ended"
        );
        // A client that keeps its connection would find it closed when it sends its next request.
        surfaces.close_connections();
        match stopped {
            StopReason::Quit => {
                // Connections stay open while turns end, so that their answers arrive.
                serving.accept_until(&listener, runtime.shut_down()).await;
                drop(listener);
                let _ = tokio::time::timeout(LAST_BYTES, serving.close()).await;
            }
            StopReason::HandOver => {
                drop(listener);
                drain(serving, &runtime).await;
            }
        }
        surfaces.sockets_closed_within(LAST_BYTES).await;
        if let Some(metrics) = metrics {
            metrics.abort();
        }
        tracing::info!("stopped");
    }
}

/// Serves the connections that are there to their ends. New ones wait for the next process, so
/// that what is taken on here gets less and less; turns are refused only when nobody can ask.
async fn drain(serving: ServingListener, runtime: &Runtime) {
    let began = Instant::now();
    let drain_max = runtime.drain_max();
    serving.all_closed_within(IDLE_MAX.min(drain_max)).await;
    let mut closed = pin!(serving.close());
    let left = drain_max.saturating_sub(began.elapsed());
    let closed_in_time = tokio::time::timeout(left, &mut closed).await.is_ok();
    let left = drain_max.saturating_sub(began.elapsed());
    runtime.shut_down_within(left).await;
    if !closed_in_time {
        // A connection that stays open now holds nothing of ours.
        let _ = tokio::time::timeout(LAST_BYTES, closed).await;
    }
}

/// Time that answers which were handed to connections get, after the drain, to leave.
const LAST_BYTES: Duration = Duration::from_secs(1);
/// Time in which a handover lets open connections bring their next, last request.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// Whether whoever started this process has it ignore SIGHUP, the first bit of the mask.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

/// SIGTERM, SIGINT, or SIGHUP, which comes when the terminal goes away.
pub fn stop_signal() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    // Who starts a server with nohup wants it to stay.
    let mut hang_up = if hang_up_is_ignored() {
        None
    } else {
        Some(signal(SignalKind::hangup()).context("listening for SIGHUP")?)
    };
    let hung_up = async move {
        match &mut hang_up {
            Some(hang_up) => hang_up.recv().await,
            None => std::future::pending().await,
        }
    };
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hung_up => {}
            _ = interrupt.recv() => {}
        }
    })
}
