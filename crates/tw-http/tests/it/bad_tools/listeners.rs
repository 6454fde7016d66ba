//! Where the tools are.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tw_core::tool::{EffectClass, Tool, ToolKind};
use tw_egress::client::host_port::AllowedDestination;
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest, ReplyPiece};

use super::cases::{
    Behaviour, Case, Class, FAILURE, FOUND, GZIP, HALF, IMAGE, MEGABYTE, MEGABYTES, NOT_UTF8,
    SERVED, WITH_NUL, deep_json,
};
use crate::app::probe;
use crate::tools::lab::{allowed, definition, place};

/// The time of a tool that hangs, and of its look-up.
const HANGING_MAX: Duration = Duration::from_millis(500);
/// The time of all others: none is meant to run out of it, on however slow a machine.
const PATIENT_MAX: Duration = Duration::from_secs(60);
/// Between two bytes of a tool that drips, and how many there are: far less than that time, and
/// far more.
const DROP_EVERY: Duration = Duration::from_millis(50);
const DROPS: usize = 200;
/// A gate that nobody opens.
const NEVER: &str = "never";

pub struct ToolListeners {
    pub listener: Listener,
    rude: SocketAddr,
    /// Bound, so that nobody else gets the port, and not listening.
    closed: TcpSocket,
}

impl ToolListeners {
    pub async fn listen() -> Self {
        let closed = TcpSocket::new_v4().unwrap();
        closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self {
            listener: Listener::start(answers()).await.unwrap(),
            rude: listen_rudely().await,
            closed,
        }
    }

    /// The case as a tool that comes with the program.
    pub fn probe(&self, case: &Case) -> Tool {
        let mut tool = probe(&case.name(), case.class.effect(), self.url(case));
        tool.policy.timeout = timeout(case);
        if let ToolKind::Probe(probe) = &mut tool.kind {
            probe.panics = case.behaviour == Behaviour::Panics;
        }
        tool
    }

    /// The case as a definition, which sends what a probe would.
    pub fn definition(&self, case: &Case) -> Value {
        let (effect, url) = (case.class.effect(), self.url(case));
        let timeout_ms = u64::try_from(timeout(case).as_millis()).unwrap();
        let mut members = json!({
            "method": "POST",
            "parameters": { "of": { "mode": "ai" } },
            "policy": { "effect": effect.as_str(), "timeout_ms": timeout_ms, "backoff_ms": 0 },
        });
        if effect == EffectClass::Queryable {
            let url = format!("{url}?reference={{{{reference}}}}");
            members["look_up"] = json!({ "url": url, "absent": [404] });
        }
        definition(&case.name(), &url, members)
    }

    fn url(&self, case: &Case) -> String {
        let path = format!("/{}", case.name());
        match case.behaviour {
            Behaviour::RefusesConnections => self.at(self.closed.local_addr().unwrap(), &path),
            Behaviour::HangsUpBeforeReading => self.at(self.rude, &path),
            _ => self.listener.url(&path),
        }
    }

    /// All places, as an operator allows them.
    pub fn allowed(&self) -> Vec<AllowedDestination> {
        let closed = self.closed.local_addr().unwrap();
        let places = [
            self.rude.to_string(),
            closed.to_string(),
            place(&self.listener),
        ];
        places.iter().map(|place| allowed(place)).collect()
    }

    fn at(&self, address: SocketAddr, path: &str) -> String {
        format!("http://{address}{path}")
    }

    /// What would tell the model where tools are.
    pub fn places(&self) -> [String; 4] {
        let own = self.listener.url("");
        [
            "127.0.0.1".to_owned(),
            port(&own),
            port(&self.rude.to_string()),
            port(&self.closed.local_addr().unwrap().to_string()),
        ]
    }
}

/// `:PORT`
fn port(address: &str) -> String {
    address[address.rfind(':').unwrap()..].to_owned()
}

fn timeout(case: &Case) -> Duration {
    let hangs = matches!(
        case.behaviour,
        Behaviour::Hangs | Behaviour::HangsInMidAnswer | Behaviour::Drips
    );
    if hangs { HANGING_MAX } else { PATIENT_MAX }
}

/// Answers by what is asked, and by how often the same was asked before.
fn answers() -> impl Fn(&ReceivedRequest) -> ListenerReply + Send + Sync + 'static {
    let asked_before = Mutex::new(HashMap::<Bytes, u32>::new());
    move |asked| {
        let mut all = asked_before.lock().unwrap();
        let times = all.entry(asked.body.clone()).or_default();
        *times += 1;
        answer(asked, *times)
    }
}

fn answer(asked: &ReceivedRequest, times: u32) -> ListenerReply {
    let path = asked.target.split('?').next().unwrap();
    let case = Case::of_name(&path[1..]);
    if asked.method == "GET" {
        return looked_up(case.class);
    }
    match case.behaviour {
        Behaviour::Hangs => ListenerReply::pieces("text/plain", vec![ReplyPiece::HeadGate(NEVER)]),
        Behaviour::HangsInMidAnswer => {
            ListenerReply::pieces("application/json", vec![half(), ReplyPiece::Silence])
        }
        Behaviour::AnswersFiftyMegabytes => {
            ListenerReply::pieces("text/plain", vec![ReplyPiece::Bytes(MEGABYTE); MEGABYTES])
        }
        Behaviour::AnswersInvalidUtf8 => of_bytes("text/plain", NOT_UTF8),
        Behaviour::AnswersNul => of_bytes("text/plain", WITH_NUL.as_bytes()),
        Behaviour::AnswersAnImage => of_bytes("image/png", IMAGE),
        Behaviour::AnswersCompressed => {
            of_bytes("application/json", GZIP).with_header("content-encoding", "gzip")
        }
        Behaviour::AnswersDeepJson => ListenerReply::json(deep_json()),
        Behaviour::AnswersNothing => ListenerReply::json(""),
        Behaviour::Drips => ListenerReply::pieces("text/plain", drops()),
        Behaviour::Fails => ListenerReply::status(500, FAILURE),
        Behaviour::Redirects => ListenerReply::status(302, "elsewhere")
            .with_header("location", "http://169.254.169.254/latest/meta-data"),
        Behaviour::IsBehindABadGateway => ListenerReply::status(502, "who knows"),
        Behaviour::IsBusyOnce if times == 1 => {
            ListenerReply::status(429, "busy").with_header("retry-after", "0")
        }
        Behaviour::IsBusyOnce => of_bytes("text/plain", SERVED.as_bytes()),
        Behaviour::BreaksOffItsAnswer => {
            ListenerReply::pieces("application/json", vec![half(), ReplyPiece::Cut])
        }
        Behaviour::HangsUpAfterReading
        // These are elsewhere, or never sent.
        | Behaviour::HangsUpBeforeReading
        | Behaviour::RefusesConnections
        | Behaviour::Panics => ListenerReply::hang_up(),
    }
}

fn looked_up(class: Class) -> ListenerReply {
    match class {
        Class::QueryableDone => of_bytes("text/plain", FOUND.as_bytes()),
        Class::QueryableAbsent => ListenerReply::status(404, ""),
        // The other classes are never looked up.
        Class::QueryableUnknown | Class::Read | Class::Idempotent | Class::Once => {
            ListenerReply::status(500, "ask later")
        }
    }
}

fn of_bytes(content_type: &str, bytes: &'static [u8]) -> ListenerReply {
    ListenerReply::pieces(
        content_type,
        vec![ReplyPiece::Bytes(Bytes::from_static(bytes))],
    )
}

/// A byte now and then, for longer than anybody waits.
fn drops() -> Vec<ReplyPiece> {
    let drop = vec![
        ReplyPiece::Bytes(Bytes::from_static(b"x")),
        ReplyPiece::Wait(DROP_EVERY),
    ];
    vec![drop; DROPS].concat()
}

fn half() -> ReplyPiece {
    ReplyPiece::Bytes(Bytes::from_static(HALF.as_bytes()))
}

/// A listener that answers look-ups, and closes every other connection with its request unread.
async fn listen_rudely() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(treat_rudely(stream));
        }
    });
    address
}

async fn treat_rudely(mut stream: TcpStream) -> std::io::Result<()> {
    const GET: &[u8] = b"GET /";
    let mut method = [0; GET.len()];
    while stream.peek(&mut method).await? < GET.len() {
        stream.readable().await?;
    }
    if method != GET {
        return Ok(());
    }
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(stream.read_u8().await?));
    }
    let name = head[GET.len()..].split('?').next().unwrap_or_default();
    let (status, body) = match Case::of_name(name).class {
        Class::QueryableDone => ("200 OK", FOUND),
        Class::QueryableAbsent => ("404 Not Found", ""),
        Class::QueryableUnknown | Class::Read | Class::Idempotent | Class::Once => {
            ("500 Internal Server Error", "")
        }
    };
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await
}
