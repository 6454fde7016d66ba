//! A listener on plain TCP that remembers every byte and answers as it is told.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to one request.
#[derive(Clone)]
pub enum Act {
    /// Answers, and keeps the connection.
    Say(Vec<u8>),
    /// Answers and closes, without having said so.
    SayAndClose(Vec<u8>),
    /// Says this at once, and then a byte a second.
    Drip(&'static str),
    /// Says this and then as many times a megabyte of `x`.
    Megabytes(&'static str, usize),
    /// Says the first once, and the second as often as somebody reads it.
    Flood(&'static str, &'static str),
    /// Resets the connection before anything is read.
    ResetUnread,
    Reset,
    Close,
    /// Nothing.
    Hang,
}

impl Act {
    pub fn say(answer: impl Into<Vec<u8>>) -> Self {
        Self::Say(answer.into())
    }

    /// A whole answer with this status line and these headers, each ending a line.
    pub fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len();
        let mut bytes =
            format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n").into_bytes();
        bytes.extend_from_slice(body);
        Self::Say(bytes)
    }

    pub fn json(body: &str) -> Self {
        Self::answer("200 OK", "content-type: application/json\r\n", body)
    }
}

/// Plays for each request the next act; the last one is repeated.
#[derive(Clone)]
pub struct Player {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    acts: Mutex<VecDeque<Act>>,
    heard: watch::Sender<Vec<String>>,
    /// Bytes of floods that the system took.
    flooded: (Mutex<usize>, Condvar),
    connections: Mutex<usize>,
}

impl Player {
    pub async fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            acts: Mutex::new(acts.into_iter().collect()),
            heard: watch::Sender::default(),
            flooded: <(Mutex<usize>, Condvar)>::default(),
            connections: Mutex::default(),
        });
        let all = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *all.connections.lock().unwrap() += 1;
                tokio::spawn(play(stream, Arc::clone(&all)));
            }
        });
        Self { address, shared }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Every request, byte for byte.
    pub fn heard(&self) -> Vec<String> {
        self.shared.heard.borrow().clone()
    }

    /// Waits until a request was heard, which is before anything of its answer is said.
    pub async fn has_heard(&self) {
        let mut heard = self.shared.heard.subscribe();
        // The sender lives as long as this player.
        let _ = heard.wait_for(|heard| !heard.is_empty()).await;
    }

    /// Keeps the thread until so many bytes of a flood lie before whoever is to read it.
    pub fn wait_for_flood(&self, bytes: usize) {
        let (flooded, grows) = &self.shared.flooded;
        let flooded = flooded.lock().unwrap();
        drop(
            grows
                .wait_while(flooded, |flooded| *flooded < bytes)
                .unwrap(),
        );
    }

    pub fn connections(&self) -> usize {
        *self.shared.connections.lock().unwrap()
    }
}

impl Shared {
    fn next(&self) -> Act {
        let mut acts = self.acts.lock().unwrap();
        if acts.len() > 1 {
            acts.pop_front().unwrap()
        } else {
            acts.front().unwrap().clone()
        }
    }
}

async fn play(mut stream: TcpStream, shared: Arc<Shared>) {
    loop {
        if stream.peek(&mut [0]).await.unwrap_or(0) == 0 {
            return;
        }
        let act = shared.next();
        if matches!(act, Act::ResetUnread) {
            stream.set_zero_linger().unwrap();
            return;
        }
        let Some(request) = read_request(&mut stream).await else {
            return;
        };
        shared.heard.send_modify(|heard| heard.push(request));
        // What the other side does not want to hear any more is what some tests are about.
        match act {
            Act::Say(answer) => {
                let _ = stream.write_all(&answer).await;
            }
            Act::SayAndClose(answer) => {
                let _ = stream.write_all(&answer).await;
                return;
            }
            Act::Drip(start) => {
                let _ = stream.write_all(start.as_bytes()).await;
                let mut seconds = tokio::time::interval(Duration::from_secs(1));
                while stream.write_all(b"x").await.is_ok() {
                    seconds.tick().await;
                }
            }
            Act::Megabytes(start, count) => {
                let _ = stream.write_all(start.as_bytes()).await;
                for _ in 0..count {
                    let _ = stream.write_all(&[b'x'; 1_000_000]).await;
                }
                return;
            }
            Act::Flood(start, again) => {
                let _ = stream.write_all(start.as_bytes()).await;
                let again = again.repeat(10_000);
                while stream.write_all(again.as_bytes()).await.is_ok() {
                    *shared.flooded.0.lock().unwrap() += again.len();
                    shared.flooded.1.notify_all();
                }
                return;
            }
            Act::ResetUnread | Act::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
            Act::Close => return,
            Act::Hang => {
                let _ = stream.read(&mut [0]).await;
            }
        }
    }
}

/// `None` at the end of the connection.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
        let text = std::str::from_utf8(&read).unwrap_or_default();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        if body.len() >= length {
            return Some(text.to_owned());
        }
    }
}
