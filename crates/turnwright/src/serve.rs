//! `turnwright serve`

use std::fs::{File, TryLockError};
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tw_egress::env::Env;
use tw_http::server::{Options, Surfaces, router};
use tw_runtime::runtime::{Config, Runtime};
use tw_store::store::{self, Store};

use crate::cli::ServeArgs;
use crate::config::Settings;
use crate::listen::{self, Limits};

const DATABASE: &str = "turnwright.db";
const LOCK: &str = "lock";

pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    log_to_stderr("info");
    let settings = Settings::load(&args)?;
    let mut config = settings.runtime()?;
    let env = Env::system();
    let data = settings.server.data.clone();
    let _lock = lock(&data)?;
    let store = open_store(&data, &env)?;
    let listener = listen::bind(settings.server.listen).await?;
    // Only now the port is certain.
    config.tool_client = settings.tool_client(listener.local_addr()?)?;
    let (options, limits) = (settings.surfaces(), settings.connections());
    let server = Server::start(config, store, env, listener, options, limits).await?;
    println!("listening on http://{}", server.address);
    server.until(stop_signal()?).await;
    Ok(())
}

/// Logs go to standard error; `RUST_LOG` says how much.
pub fn log_to_stderr(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

/// Opens the database of a data folder, which is made if it does not exist.
pub fn open_store(data: &Path, env: &Env) -> anyhow::Result<Store> {
    std::fs::create_dir_all(data)
        .with_context(|| format!("making the folder {}", data.display()))?;
    let file = data.join(DATABASE);
    Store::open(&file, store::Options::defaults(env.now()))
        .with_context(|| format!("opening {}", file.display()))
}

/// As [`open_store`]; `None` when there is no database, and then none is made.
pub fn open_existing_store(data: &Path, env: &Env) -> anyhow::Result<Option<Store>> {
    if data.join(DATABASE).exists() {
        open_store(data, env).map(Some)
    } else {
        Ok(None)
    }
}

/// One server for each data folder; the lock ends with the process, however it ends.
fn lock(data: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(data)
        .with_context(|| format!("making the folder {}", data.display()))?;
    let path = data.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("another server runs on the folder {}", data.display())
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("locking {}", path.display()))
        }
    }
}

/// A server that listens.
pub struct Server {
    pub address: SocketAddr,
    pub runtime: Runtime,
    listener: TcpListener,
    options: Options,
    limits: Limits,
}

impl Server {
    /// Takes over what an earlier process left, then serves whoever has connected meanwhile.
    pub async fn start(
        config: Config,
        store: Store,
        env: Env,
        listener: TcpListener,
        options: Options,
        limits: Limits,
    ) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let runtime = Runtime::new(config, store, env)?;
        let recovered = runtime
            .recover()
            .await
            .context("taking over unfinished turns")?;
        if recovered > 0 {
            tracing::info!(turns = recovered, "turns of an earlier process go on");
        }
        Ok(Self {
            address,
            runtime,
            listener,
            options,
            limits,
        })
    }

    /// Serves until `stop`, then drains.
    pub async fn until(self, stop: impl Future<Output = ()>) {
        let Self {
            runtime,
            listener,
            options,
            limits,
            ..
        } = self;
        let draining = runtime.clone();
        let stopped = async move {
            stop.await;
            // Connections stay open while turns end, so that their answers arrive.
            draining.shut_down().await;
        };
        let routes = router(Surfaces::new(runtime, options));
        listen::serve(listener, routes, limits, stopped, LAST_BYTES).await;
    }
}

/// After the drain, answers that were handed to connections get this long to leave.
const LAST_BYTES: std::time::Duration = std::time::Duration::from_secs(1);

/// SIGTERM or SIGINT.
pub fn stop_signal() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
