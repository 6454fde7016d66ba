//! `tw-bench server`: the server inside this program, so that its writer can be chosen.
//!
//! It is what `turnwright serve` is made of, with the defaults; no configuration of that leads to another writer.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::TaskTracker;
use tw_core::accepts::Accepts;
use tw_core::model_names::ModelNames;
use tw_egress::client::host_port::{AllowedDestination, ORGANIZATION_DEFAULT};
use tw_egress::client::resolve::{FixedAnswers, Resolver};
use tw_egress::client::{
    ClientOptions, EgressClient, PoolOptions, READ_BYTES_MAX_DEFAULT, web_roots,
};
use tw_egress::env::Env;
use tw_egress::upstream::{Upstream, UpstreamAccess, UpstreamKind, UpstreamTimeouts};
use tw_http::server::{self, AppState, router};
use tw_runtime::runtime::{Runtime, RuntimeConfig};
use tw_store::store::{self, Store};
use tw_wire::format::WireFormat;

#[derive(clap::Args)]
pub struct ServerArgs {
    /// The folder of a database that exists.
    #[arg(long)]
    data: PathBuf,
    /// Address at which the model server and the tools' service listen.
    #[arg(long)]
    upstream: SocketAddr,
    /// Writer of what is to be recorded.
    #[arg(long, value_enum)]
    writer: WriterKind,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterKind {
    /// Written, as always.
    Sqlite,
    /// Said to be done, and written nowhere.
    Null,
}

/// Time-out of a request's head, as `turnwright serve` has it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// Runs the server until SIGTERM; prints one line that says where it listens.
///
/// # Errors
/// The database cannot be opened, or nothing can listen.
pub fn run(args: &ServerArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("a runtime")?;
    runtime.block_on(serve(args))
}

async fn serve(args: &ServerArgs) -> anyhow::Result<()> {
    let env = Env::system();
    let store = open(&args.data, args.writer, &env)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("listening")?;
    let address = listener.local_addr()?;
    let runtime = Runtime::new(config(args.upstream)?, store, env)?;
    let routes = router(AppState::new(
        runtime.clone(),
        server::SurfaceOptions::defaults(),
    ));
    let mut stopped = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    println!("listening on http://{address}");
    let connections = TaskTracker::new();
    loop {
        let (tcp, _) = tokio::select! {
            accepted = listener.accept() => accepted.context("accepting a connection")?,
            _ = stopped.recv() => break,
        };
        let service = TowerToHyperService::new(routes.clone());
        connections.spawn(async move {
            // How a connection ends is told by the requests on it.
            let _ = serve_connection(tcp, service).await;
        });
    }
    runtime.shut_down().await;
    Ok(())
}

async fn serve_connection(
    tcp: TcpStream,
    service: TowerToHyperService<axum::Router>,
) -> anyhow::Result<()> {
    tcp.set_nodelay(true)?;
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(tcp), service)
        .await?;
    Ok(())
}

fn open(data: &Path, writer: WriterKind, env: &Env) -> anyhow::Result<Store> {
    let file = data.join("turnwright.db");
    let options = store::StoreOptions::defaults(env.now());
    let opened = match writer {
        WriterKind::Sqlite => Store::open(&file, options),
        WriterKind::Null => Store::open_unwritten(&file, options),
    };
    opened.with_context(|| format!("opening {}", file.display()))
}

fn config(upstream: SocketAddr) -> anyhow::Result<RuntimeConfig> {
    let model = Upstream {
        name: "bench".to_owned(),
        kind: UpstreamKind::Http {
            base_url: format!("http://{upstream}/v1"),
            api_key: None,
        },
        format: WireFormat::OpenAiChat,
        models: ModelNames::all(),
        timeouts: UpstreamTimeouts::defaults(),
        accepts: Accepts::everything(),
        answer_bytes_max: tw_core::limits::TurnLimits::defaults().answer_bytes_max,
        access: UpstreamAccess::direct(),
    };
    let organizations = Some(vec![ORGANIZATION_DEFAULT.to_owned()]);
    let mut config = RuntimeConfig::with_upstream(model, Vec::new());
    config.tool_client = EgressClient::new(ClientOptions {
        resolver: Resolver::Fixed(FixedAnswers::default()),
        allowed: vec![AllowedDestination::parse(
            &upstream.to_string(),
            organizations,
        )?],
        denied: Vec::new(),
        trusted_roots: web_roots(),
        certificates: Vec::new(),
        proxy: None,
        pool: PoolOptions::defaults(),
        read_bytes_max: READ_BYTES_MAX_DEFAULT,
    });
    Ok(config)
}
