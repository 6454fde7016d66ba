//! nginx, as far as it is installed.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::process::{self, BenchProcess};
use super::scenarios::MeasuredPeer;
use super::servers::{ApiKeySpread, BenchServer};
use crate::machine::cpus::Cpus;

const NAME: &str = "nginx";
const CONF: &str = include_str!("nginx.conf");
/// Folder in which distributions put programs that are not for everybody's path.
const SYSTEM_PROGRAMS: &str = "/usr/sbin";
const START_MAX: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(20);

/// Finds the program of nginx.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from(SYSTEM_PROGRAMS)])
        .map(|folder| folder.join(NAME))
        .find(|program| program.is_file())
}

/// Starts nginx in front of the upstream; its files are in `folder`.
///
/// # Errors
/// It does not start.
pub fn start(
    program: &Path,
    folder: &Path,
    upstream: SocketAddr,
    cpus: Cpus,
) -> anyhow::Result<BenchServer> {
    std::fs::create_dir_all(folder)?;
    let address = free_address()?;
    let conf = folder.join("nginx.conf");
    process::write(&conf, &settings(address, upstream))?;
    let log = folder.join("output.log");
    let mut command = Command::new(program);
    command
        .arg("-p")
        .arg(folder)
        .arg("-c")
        .arg(&conf)
        .arg("-e")
        .arg(folder.join("error.log"));
    let mut process = BenchProcess::start(NAME, cpus.server, &command, Stdio::null(), &log)?;
    wait_for(address, &mut process).with_context(|| format!("nginx: {}", process::end_of(&log)))?;
    Ok(BenchServer {
        peer: MeasuredPeer::Nginx,
        address,
        keys: ApiKeySpread::none(),
        process: Some(process),
        record: None,
    })
}

fn settings(listen: SocketAddr, upstream: SocketAddr) -> String {
    CONF.replace("@LISTEN@", &listen.to_string())
        .replace("@UPSTREAM@", &upstream.to_string())
}

fn free_address() -> anyhow::Result<SocketAddr> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?)
}

/// Waits until a server listens.
fn wait_for(address: SocketAddr, process: &mut BenchProcess) -> anyhow::Result<()> {
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        ensure!(!process.has_ended(), "it ended");
        if began.elapsed() > START_MAX {
            bail!("nobody listens on {address}");
        }
        std::thread::park_timeout(START_POLL);
    }
    Ok(())
}
