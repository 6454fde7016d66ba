//! One server after another on one socket, with clients that notice nothing.

use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;

use crate::process::{ServerProcess, create_key, key_of, serve, serve_at, stderr};

const STREAM: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"},\
                      \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const PLAIN: &str = "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\
                     \"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}";

/// Answers whatever is asked.
async fn upstream() -> Listener {
    let answers = |asked: &tw_testkit::listener::ReceivedRequest| {
        if asked.json()["stream"] == json!(true) {
            ListenerReply::sse(STREAM)
        } else {
            ListenerReply::json(PLAIN)
        }
    };
    Listener::start(answers).await.unwrap()
}

fn ask(streamed: bool) -> Value {
    json!({ "model": "m", "stream": streamed, "messages": [{ "role": "user", "content": "Hi" }] })
}

/// A client that keeps its connection for as long as it may, and repeats nothing.
struct Pooled {
    address: SocketAddr,
    key: String,
    kept: Option<SendRequest<Full<Bytes>>>,
}

impl Pooled {
    /// Sends one request; whatever goes wrong is a failure, also a kept connection that breaks.
    async fn ask(&mut self, streamed: bool) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Debug| format!("{error:?}");
        // A connection that was seen to be closed is not used again.
        let kept = self.kept.take().filter(|kept| !kept.is_closed());
        let mut sender = match kept {
            Some(kept) => kept,
            None => {
                let tcp = TcpStream::connect(self.address)
                    .await
                    .map_err(|e| failed(&e))?;
                let (sender, connection) =
                    handshake(TokioIo::new(tcp)).await.map_err(|e| failed(&e))?;
                tokio::spawn(connection);
                sender
            }
        };
        let request = Request::post("/v1/chat/completions")
            .header("host", self.address.to_string())
            .header("authorization", format!("Bearer {}", self.key))
            .body(Full::new(Bytes::from(ask(streamed).to_string())))
            .unwrap();
        sender.ready().await.map_err(|e| failed(&e))?;
        let response = sender.send_request(request).await.map_err(|e| failed(&e))?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(|e| failed(&e))?.to_bytes();
        let text = String::from_utf8_lossy(&body);
        let is_whole = text.contains("Hello") && (!streamed || text.ends_with("data: [DONE]\n\n"));
        if parts.status != 200 || !is_whole {
            return Err(format!("{}: {text}", parts.status));
        }
        let closes = parts
            .headers
            .get("connection")
            .is_some_and(|v| v == "close");
        self.kept = (!closes).then_some(sender);
        Ok(())
    }
}

/// Counts of requests by what they came to.
#[derive(Clone, Copy, Default)]
struct LoadCounts {
    answered: u32,
    failed: u32,
}

/// Clients that ask all the time, until they are told to stop.
struct Load {
    on: Arc<AtomicBool>,
    counts: watch::Sender<LoadCounts>,
    clients: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

const CLIENTS: usize = 12;

impl Load {
    fn start(address: SocketAddr, key: &str) -> Self {
        let on = Arc::new(AtomicBool::new(true));
        let counts = watch::Sender::<LoadCounts>::default();
        let client = |number: usize| {
            let (on, counts) = (Arc::clone(&on), counts.clone());
            let mut client = Pooled {
                address,
                key: key.to_owned(),
                kept: None,
            };
            async move {
                let mut failures = Vec::new();
                while on.load(Ordering::Relaxed) {
                    match client.ask(number.is_multiple_of(2)).await {
                        Ok(()) => counts.send_modify(|counts| counts.answered += 1),
                        Err(failure) => {
                            failures.push(failure);
                            counts.send_modify(|counts| counts.failed += 1);
                        }
                    }
                }
                failures
            }
        };
        let clients = (0..CLIENTS)
            .map(|number| tokio::spawn(client(number)))
            .collect();
        Self {
            on,
            counts,
            clients,
        }
    }

    /// Waits until as many more were answered, or one has failed, which [`Load::end`] tells.
    async fn answers(&self, more: u32) {
        let mut counts = self.counts.subscribe();
        let wanted = counts.borrow_and_update().answered + more;
        let is_over = |counts: &LoadCounts| counts.answered >= wanted || counts.failed > 0;
        // The sender lives as long as this load.
        let _ = counts.wait_for(is_over).await;
    }

    async fn end(self) -> Vec<String> {
        self.on.store(false, Ordering::Relaxed);
        let mut failures = Vec::new();
        for client in self.clients {
            failures.extend(client.await.unwrap());
        }
        failures
    }
}

/// Each server has a log of its own.
fn log_of(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("server-{number}"))
}

async fn ended(mut server: ServerProcess) {
    let ended = tokio::task::spawn_blocking(move || (server.end(), server.log())).await;
    let (end, log) = ended.unwrap();
    assert_eq!(end, (Some(0), String::new()), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_servers_take_over_from_one_another() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = upstream().await;
    let mut server = ServerProcess::start(serve(&data, &upstream), &log_of(folder.path(), 0));
    let address = server.client.address;
    let key = key_of(&create_key(&data, &[]));
    let load = Load::start(address, &key);
    for number in 1..=3 {
        load.answers(100).await;
        let mut command = serve_at(&address.to_string(), &data, &upstream);
        command.arg("--take-over");
        let log = log_of(folder.path(), number);
        let next = tokio::task::spawn_blocking(move || ServerProcess::start(command, &log));
        let next = next.await.unwrap();
        assert_eq!(next.client.address, address);
        ended(server).await;
        server = next;
    }
    load.answers(100).await;
    assert_eq!(load.end().await, Vec::<String>::new());
    server.terminate();
    ended(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_somebody_else_holds_the_socket() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = upstream().await;
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let start = |number| {
        let mut command = serve(&data, &upstream);
        let held: OwnedFd = socket.try_clone().unwrap().into();
        command.stdin(Stdio::from(held));
        let log = log_of(folder.path(), number);
        tokio::task::spawn_blocking(move || ServerProcess::start(command, &log))
    };
    let mut server = start(0).await.unwrap();
    assert_eq!(server.client.address, address);
    let key = key_of(&create_key(&data, &[]));
    let load = Load::start(address, &key);
    for number in 1..=3 {
        load.answers(100).await;
        server.terminate();
        ended(server).await;
        server = start(number).await.unwrap();
    }
    load.answers(100).await;
    assert_eq!(load.end().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_outlives_the_drain_is_told_so_and_the_next_server_serves() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let pieces = vec![
        ReplyPiece::Bytes(
            STREAM
                .split_once("\n\n")
                .unwrap()
                .0
                .replace("\"stop\"", "null")
                .into(),
        ),
        ReplyPiece::Bytes("\n\n".into()),
        ReplyPiece::Gate("never"),
    ];
    let halting = ListenerReply::pieces("text/event-stream", pieces);
    let upstream = Listener::in_turn(vec![halting, ListenerReply::sse(STREAM)])
        .await
        .unwrap();
    let config = folder.path().join("turnwright.toml");
    std::fs::write(&config, "[server]\ndrain_s = 1\n").unwrap();
    let mut command = serve(&data, &upstream);
    command.arg("--config").arg(&config);
    let server = ServerProcess::start(command, &log_of(folder.path(), 0));
    let address = server.client.address;
    let client = TestClient {
        key: Some(key_of(&create_key(&data, &[]))),
        ..server.client.clone()
    };
    let body = ask(true).to_string();
    let open = client.open("POST", "/v1/chat/completions", &[], body).await;
    let mut open = open.unwrap();
    let mut text = open.until("Hello").await;
    let mut command = serve_at(&address.to_string(), &data, &upstream);
    command.arg("--take-over");
    let log = log_of(folder.path(), 1);
    let next = tokio::task::spawn_blocking(move || ServerProcess::start(command, &log));
    text.push_str(&open.read().await.text());
    assert!(text.contains("\"error\""), "{text}");
    assert!(!text.contains("[DONE]"), "{text}");
    let next = next.await.unwrap();
    ended(server).await;
    let got = client.chat(&ask(true)).await.unwrap();
    assert_eq!(got.streamed_text(), "Hello");
    drop(next);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_to_listen_elsewhere_takes_nothing() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = upstream().await;
    let server = ServerProcess::start(serve(&data, &upstream), &log_of(folder.path(), 0));
    let mut command = serve_at("127.0.0.2:0", &data, &upstream);
    command.arg("--take-over");
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert!(said.contains("127.0.0.2:0"), "{said}");
    assert!(said.contains(&server.client.address.to_string()), "{said}");
    let got = server.client.send("GET", "/readyz", &[], "").await.unwrap();
    assert_eq!(got.status, 200);
}

/// The folder's door, as a new server opens it.
fn knock(data: &Path) -> UnixStream {
    let mut door = UnixStream::connect(data.join("handover.sock")).unwrap();
    door.read_exact(&mut [0]).unwrap();
    door
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_server_that_cannot_come_up_leaves_the_old_one_serving() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let database = || rusqlite::Connection::open(data.join("turnwright.db")).unwrap();
    let upstream = upstream().await;
    let server = ServerProcess::start(serve(&data, &upstream), &log_of(folder.path(), 0));
    let address = server.client.address.to_string();
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = occupied.local_addr().unwrap().to_string();
    for (case, says) in [
        ("metrics", &*metrics),
        ("newer", "newer program"),
        ("killed", ""),
    ] {
        let mut command = serve_at(&address, &data, &upstream);
        command.arg("--take-over");
        match case {
            "metrics" => drop(command.args(["--metrics-listen", &metrics])),
            "newer" => {
                let insert = "INSERT INTO migration
                    SELECT max(number) + 1, 'x', checksum, 0, 0 FROM migration";
                database().execute(insert, []).unwrap();
            }
            // It dies before it has taken what it was given.
            _ => drop(knock(&data)),
        }
        if !says.is_empty() {
            let refused = command.output().unwrap();
            assert_eq!(refused.status.code(), Some(1), "{case}");
            assert!(
                stderr(&refused).contains(says),
                "{case}: {}",
                stderr(&refused)
            );
        }
        let got = server.client.send("GET", "/readyz", &[], "").await.unwrap();
        assert_eq!(got.status, 200, "{case}");
    }
    let delete = "DELETE FROM migration WHERE name = 'x'";
    assert_eq!(database().execute(delete, []).unwrap(), 1);
    let mut command = serve_at(&address, &data, &upstream);
    command.arg("--take-over");
    let log = log_of(folder.path(), 1);
    let next = tokio::task::spawn_blocking(move || ServerProcess::start(command, &log));
    let next = next.await.unwrap();
    ended(server).await;
    let got = next.client.send("GET", "/readyz", &[], "").await.unwrap();
    assert_eq!(got.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_of_metrics_is_taken_over_too() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = upstream().await;
    let mut command = serve(&data, &upstream);
    command.args(["--metrics-listen", "127.0.0.1:0"]);
    let mut server = ServerProcess::start(command, &log_of(folder.path(), 0));
    let address = server.client.address.to_string();
    let metrics = metrics_of(&server).await;
    // The second and the third stay there, the fourth shows none.
    for (number, wanted) in [
        (1, Some(metrics.to_string())),
        (2, Some("127.0.0.1:0".into())),
        (3, None),
    ] {
        let mut command = serve_at(&address, &data, &upstream);
        command.arg("--take-over");
        if let Some(wanted) = &wanted {
            command.args(["--metrics-listen", wanted]);
        }
        let log = log_of(folder.path(), number);
        let next = tokio::task::spawn_blocking(move || ServerProcess::start(command, &log));
        let next = next.await.unwrap();
        ended(server).await;
        server = next;
        if wanted.is_some() {
            let client = TestClient {
                address: metrics_of(&server).await,
                key: None,
            };
            assert_eq!(
                client.address, metrics,
                "port 0 is any, and that one is there"
            );
            let got = client.send("GET", "/metrics", &[], "").await.unwrap();
            assert_eq!(got.status, 200);
        }
    }
    assert!(TcpStream::connect(metrics).await.is_err());
}

/// The address at which a server says that it shows metrics; its log may come behind its first answers.
async fn metrics_of(server: &ServerProcess) -> SocketAddr {
    let said = poll_until("the line of metrics", async || {
        let log = server.log();
        let (_, after) = log.split_once("metrics on http://")?;
        let (address, _) = after.split_once("/metrics")?;
        Some(address.to_owned())
    });
    said.await.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn taking_over_from_nobody_is_an_ordinary_start() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = upstream().await;
    for number in 0..2 {
        let mut command = serve(&data, &upstream);
        command.arg("--take-over");
        let mut server = ServerProcess::start(command, &log_of(folder.path(), number));
        let got = server.client.send("GET", "/readyz", &[], "").await.unwrap();
        assert_eq!(got.status, 200);
        // Its door stays behind, and opens to nobody.
        server.kill();
        assert!(data.join("handover.sock").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_may_have_a_path_too_long_for_a_socket() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("d".repeat(200)).join("data");
    let upstream = upstream().await;
    let server = ServerProcess::start(serve(&data, &upstream), &log_of(folder.path(), 0));
    let mut command = serve_at(&server.client.address.to_string(), &data, &upstream);
    command.arg("--take-over");
    let log = log_of(folder.path(), 1);
    let next = tokio::task::spawn_blocking(move || ServerProcess::start(command, &log));
    let next = next.await.unwrap();
    ended(server).await;
    let got = next.client.send("GET", "/readyz", &[], "").await.unwrap();
    assert_eq!(got.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_a_listener_of_their_own() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let upstream = upstream().await;
    let mut command = serve(&data, &upstream);
    command.args(["--metrics-listen", "127.0.0.1:0"]);
    let server = ServerProcess::start(command, &data);
    let client = TestClient {
        address: metrics_of(&server).await,
        key: None,
    };
    let got = client.send("GET", "/metrics", &[], "").await.unwrap();
    assert_eq!(got.status, 200);
    assert!(
        got.text().contains("turnwright_connections_open"),
        "{}",
        got.text()
    );
    let got = client.send("GET", "/v1/turns/x", &[], "").await.unwrap();
    assert_eq!(got.status, 404);
    let got = server
        .client
        .send("GET", "/metrics", &[], "")
        .await
        .unwrap();
    assert_eq!(got.status, 401);
}
