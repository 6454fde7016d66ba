//! A NATS server to test with: a process of its own for each test, and a client that hears and says anything.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use async_nats::{Client, Message, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::unconstrained;

use crate::polling::poll_until;

/// Where Debian's package has the program, which not every user finds by name.
const PROGRAMS: [&str; 2] = ["nats-server", "/usr/sbin/nats-server"];
const HOST: &str = "127.0.0.1";

/// A `nats-server`, killed when this is dropped.
#[derive(Debug)]
pub struct NatsServer {
    program: &'static str,
    flags: Vec<String>,
    port: u16,
    child: Option<Child>,
    folder: TempDir,
}

impl NatsServer {
    /// Starts one on a free port, with further flags; `None` where there is no such program and `TURNWRIGHT_REQUIRE` is
    /// not set.
    ///
    /// # Panics
    /// When the program does not start.
    pub async fn start(flags: &[&str]) -> Option<Self> {
        let Some(program) = PROGRAMS.into_iter().find(|program| is_there(program)) else {
            let is_required = std::env::var_os("TURNWRIGHT_REQUIRE").is_some();
            assert!(!is_required, "nats-server is not installed");
            eprintln!("no nats-server, so not tested with it");
            return None;
        };
        let folder = TempDir::new().unwrap();
        let mut server = Self {
            program,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            port: 0,
            child: None,
            folder,
        };
        let ports = server.folder.path().to_owned();
        let child = server.spawn("-1", &ports);
        let file = ports.join(format!("nats-server_{}.ports", child.id()));
        server.child = Some(child);
        server.port = poll_until("the port of the NATS server", async || {
            let told = std::fs::read_to_string(&file).ok()?;
            let told: serde_json::Value = serde_json::from_str(&told).ok()?;
            let url = told["nats"][0].as_str()?;
            url.rsplit_once(':')?.1.parse().ok()
        })
        .await;
        Some(server)
    }

    /// `nats://` and its address, without a user.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    pub fn address(&self) -> String {
        format!("{HOST}:{}", self.port)
    }

    /// Ends it as a power cut would.
    ///
    /// # Panics
    /// When it has ended already.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts it again at the same place.
    pub async fn start_again(&mut self) {
        let port = self.port.to_string();
        let folder = self.folder.path().to_owned();
        self.child = Some(self.spawn(&port, &folder));
        let address = self.address();
        poll_until("the NATS server again", async || {
            TcpStream::connect(&address).await.ok()
        })
        .await;
    }

    /// A client that is connected; a server with users or TLS takes none.
    ///
    /// # Panics
    /// When the server does not take it.
    pub async fn client(&self) -> NatsClient {
        let client = async_nats::connect(self.url()).await.unwrap();
        NatsClient(client)
    }

    fn spawn(&self, port: &str, folder: &Path) -> Child {
        Command::new(self.program)
            .args(["-a", HOST, "-p", port, "--ports_file_dir"])
            .arg(folder)
            .args(&self.flags)
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // One that has ended cannot be killed again.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null());
    command.status().is_ok()
}

/// Whoever may connect.
#[derive(Debug)]
pub struct NatsClient(Client);

impl NatsClient {
    /// Hears everything that is sent from now on.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn hear_all(&self) -> HeardMessages {
        let heard = self.0.subscribe(">").await.unwrap();
        self.0.flush().await.unwrap();
        HeardMessages(heard)
    }

    /// # Panics
    /// When the server refuses it.
    pub async fn say(&self, subject: &str, payload: impl Into<Bytes>) {
        self.0
            .publish(subject.to_owned(), payload.into())
            .await
            .unwrap();
        self.0.flush().await.unwrap();
    }
}

/// What is sent to all subjects.
#[derive(Debug)]
pub struct HeardMessages(Subscriber);

/// Longest time that a test waits for a message.
const HEARD_WITHIN: Duration = Duration::from_secs(60);

impl HeardMessages {
    /// The next subject and payload.
    ///
    /// # Panics
    /// When nothing comes for a minute.
    pub async fn next(&mut self) -> (String, Bytes) {
        let next = tokio::time::timeout(HEARD_WITHIN, self.0.next()).await;
        let Message {
            subject, payload, ..
        } = next.expect("a message").unwrap();
        (subject.to_string(), payload)
    }

    /// All that has arrived.
    pub fn so_far(&mut self) -> Vec<(String, Bytes)> {
        let mut all = Vec::new();
        // However many there are, all are taken.
        while let Some(Some(message)) = unconstrained(self.0.next()).now_or_never() {
            all.push((message.subject.to_string(), message.payload));
        }
        all
    }
}
