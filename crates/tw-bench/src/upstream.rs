//! A fake model server, and the HTTP service behind the benched tool, on a thread of its own.
//!
//! `POST /v1/chat/completions` answers as the model's name says (see [`profile::Profile`]); a request with tools whose
//! last message is not a tool's result gets calls of its first tools. `POST /v1/messages` and `POST /v1/responses`
//! stream texts, and nothing else. `POST /tool` is the tool, `POST /tool/broken` one that breaks off. All answers are
//! serialised once and then only written.

mod answers;
pub mod profile;

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::Instant;
use tw_wire::format::WireFormat;

use crate::http::{self, Afterwards};
use crate::spoken::SpokenFormat;
use answers::FakeAnswer;
use profile::Profile;

/// Counts of the requests to each service, and of results in them.
#[derive(Debug, Default)]
pub struct AskedCounts {
    pub model: AtomicU64,
    pub tool: AtomicU64,
    /// Results of calls that stood at the end of a request that was answered by a text.
    pub results: AtomicU64,
    /// Results of calls that stood before these.
    pub earlier_results: AtomicU64,
}

/// A running fake; it ends when this is dropped.
pub struct FakeUpstream {
    pub address: SocketAddr,
    pub asked: Arc<AskedCounts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;
const READ_BYTES: usize = 16 * 1024;

impl FakeUpstream {
    /// Listens on a free port of the loopback interface, on the CPUs of the calling thread.
    ///
    /// # Errors
    /// It cannot listen.
    pub fn start() -> anyhow::Result<Self> {
        let asked = Arc::new(AskedCounts::default());
        let (stop, stopped) = oneshot::channel();
        let (listening, address) = std::sync::mpsc::sync_channel(1);
        let counts = Arc::clone(&asked);
        let thread = std::thread::Builder::new()
            .name("upstream".to_owned())
            .spawn(move || {
                let served = runtime().and_then(|runtime| {
                    let serving = serve(listening.clone(), counts, stopped);
                    LocalSet::new().block_on(&runtime, serving)
                });
                if let Err(error) = served {
                    // If it listens already, nobody takes this.
                    let _ = listening.try_send(Err(error));
                }
            })
            .context("starting the fake model server")?;
        let address = address.recv().context("the fake model server ended")??;
        Ok(Self {
            address,
            asked,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for FakeUpstream {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("tw-bench: the fake model server panicked");
        }
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("a runtime")
}

fn listen() -> anyhow::Result<(TcpListener, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

async fn serve(
    listening: SyncSender<anyhow::Result<SocketAddr>>,
    asked: Arc<AskedCounts>,
    mut stopped: oneshot::Receiver<()>,
) -> anyhow::Result<()> {
    let (listener, address) = listen()?;
    listening.send(Ok(address))?;
    let model = Rc::new(Model {
        asked,
        answers: RefCell::default(),
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => return Ok(()),
        };
        match accepted {
            Ok((tcp, _)) => {
                let model = Rc::clone(&model);
                tokio::task::spawn_local(async move {
                    // A client that goes away in the middle shows as a wrong answer where it matters.
                    if let Err(error) = connection(tcp, &model).await
                        && error.downcast_ref::<std::io::Error>().is_none()
                    {
                        eprintln!("tw-bench: the fake model server: {error:#}");
                    }
                });
            }
            Err(error) => {
                eprintln!("tw-bench: accepting a connection: {error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn connection(mut tcp: TcpStream, model: &Model) -> anyhow::Result<()> {
    tcp.set_nodelay(true)?;
    let mut read = Vec::with_capacity(READ_BYTES);
    loop {
        let head = loop {
            if let Some(head) = http::request(&read)? {
                break head;
            }
            if tcp.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        };
        let end = head.bytes + head.body_bytes;
        while read.len() < end {
            if tcp.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        }
        let answer = model.answer(&head.path, &read[head.bytes..end])?;
        read.drain(..end);
        play(&mut tcp, &answer).await?;
        if [head.afterwards, answer.afterwards].contains(&Afterwards::Close) {
            tcp.shutdown().await?;
            return Ok(());
        }
    }
}

/// Writes an answer part by part, each at its time.
async fn play(tcp: &mut TcpStream, answer: &FakeAnswer) -> anyhow::Result<()> {
    let began = Instant::now() + answer.first;
    if !answer.first.is_zero() {
        tokio::time::sleep_until(began).await;
    }
    let mut from = 0;
    for (index, &to) in (0u32..).zip(&answer.ends) {
        // The first part is the head, and the first delta follows it at once.
        if index > 1 && !answer.pause.is_zero() {
            tokio::time::sleep_until(began + answer.pause * (index - 1)).await;
        }
        tcp.write_all(&answer.bytes[from..to]).await?;
        from = to;
    }
    Ok(())
}

/// The fake model: its answers, and how often they were asked for.
struct Model {
    asked: Arc<AskedCounts>,
    answers: RefCell<HashMap<Question, Rc<FakeAnswer>>>,
}

/// The parts of a request that decide its answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    format: WireFormat,
    model: String,
    form: Form,
    says: Says,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Plain,
    Streamed,
    StreamedWithUsage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Says {
    Text,
    /// Calls these tools.
    Calls(Vec<String>),
}

#[derive(Deserialize)]
struct Request {
    model: String,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: StreamOptions,
    #[serde(default)]
    messages: Vec<Message>,
    #[serde(default)]
    tools: Vec<Tool>,
}

#[derive(Deserialize, Default)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default, rename = "content")]
    _content: IgnoredAny,
}

#[derive(Deserialize)]
struct Tool {
    /// Only chat completions have it.
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
}

impl Model {
    fn answer(&self, path: &str, body: &[u8]) -> anyhow::Result<Rc<FakeAnswer>> {
        match path {
            "/tool" => {
                self.asked.tool.fetch_add(1, Ordering::Relaxed);
                return Ok(Rc::new(answers::of_tool()));
            }
            "/tool/broken" => return Ok(Rc::new(answers::of_broken_tool())),
            _ => {}
        }
        let spoken = SpokenFormat::at(path).with_context(|| format!("no such path: {path}"))?;
        self.asked.model.fetch_add(1, Ordering::Relaxed);
        let (question, results) = question(spoken.format, body)?;
        if question.says == Says::Text {
            self.asked
                .results
                .fetch_add(results.at_end, Ordering::Relaxed);
            self.asked
                .earlier_results
                .fetch_add(results.earlier, Ordering::Relaxed);
        }
        if let Some(known) = self.answers.borrow().get(&question) {
            return Ok(Rc::clone(known));
        }
        let profile = Profile::parse(&question.model)?;
        let answer = Rc::new(answers::of_model(&question, profile));
        let mut answers = self.answers.borrow_mut();
        answers.insert(question, Rc::clone(&answer));
        Ok(answer)
    }
}

/// Results of calls in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Results {
    at_end: u64,
    earlier: u64,
}

impl Results {
    fn of(messages: &[Message]) -> Self {
        let is_result = |message: &&Message| message.role == "tool";
        let in_all = messages.iter().filter(is_result).count() as u64;
        let at_end = messages.iter().rev().take_while(is_result).count() as u64;
        Self {
            at_end,
            earlier: in_all - at_end,
        }
    }
}

fn question(format: WireFormat, body: &[u8]) -> anyhow::Result<(Question, Results)> {
    let request: Request = serde_json::from_slice(body).context("a request's body")?;
    let results = Results::of(&request.messages);
    let calls = Profile::parse(&request.model)?.calls;
    let names: Vec<String> = request
        .tools
        .into_iter()
        .take(calls)
        .map(|tool| tool.function.map(|function| function.name))
        .collect::<Option<_>>()
        .context("a tool without a function")?;
    let says = if names.is_empty() || results.at_end > 0 {
        Says::Text
    } else {
        Says::Calls(names)
    };
    let form = match (request.stream, request.stream_options.include_usage) {
        (false, _) => Form::Plain,
        (true, false) => Form::Streamed,
        (true, true) => Form::StreamedWithUsage,
    };
    let is_chat = format == WireFormat::OpenAiChat;
    ensure!(
        is_chat || (request.stream && says == Says::Text),
        "only chat completions come in one piece, or with calls"
    );
    let question = Question {
        format,
        model: request.model,
        form,
        says,
    };
    Ok((question, results))
}

#[cfg(test)]
mod tests;
