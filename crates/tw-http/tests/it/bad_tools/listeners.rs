//! Where the tools are.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tw_core::tool::{Tool, ToolKind};
use tw_testkit::listener::{Asked, Listener, Piece, Reply};

use super::cases::{
    Behaviour, Case, Class, FAILURE, FOUND, GZIP, HALF, IMAGE, MEGABYTE, MEGABYTES, NOT_UTF8,
    WITH_NUL, deep_json,
};
use crate::app::probe;

/// The time of a tool that hangs, and of its look-up.
const HANGING_MAX: Duration = Duration::from_millis(500);
/// The time of all others: none is meant to run out of it, on however slow a machine.
const PATIENT_MAX: Duration = Duration::from_secs(60);
/// A gate that nobody opens.
const NEVER: &str = "never";

pub struct Tools {
    pub listener: Listener,
    rude: SocketAddr,
    /// Bound, so that nobody else gets the port, and not listening.
    closed: TcpSocket,
}

impl Tools {
    pub async fn listen() -> Self {
        let closed = TcpSocket::new_v4().unwrap();
        closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self {
            listener: Listener::start(answer).await.unwrap(),
            rude: listen_rudely().await,
            closed,
        }
    }

    pub fn tool(&self, case: &Case) -> Tool {
        let path = format!("/{}", case.name());
        let url = match case.behaviour {
            Behaviour::RefusesConnections => self.at(self.closed.local_addr().unwrap(), &path),
            Behaviour::HangsUpBeforeReading => self.at(self.rude, &path),
            _ => self.listener.url(&path),
        };
        let mut tool = probe(&case.name(), case.class.effect(), url);
        let hangs = matches!(
            case.behaviour,
            Behaviour::Hangs | Behaviour::HangsInMidAnswer
        );
        tool.policy.timeout = if hangs { HANGING_MAX } else { PATIENT_MAX };
        if let ToolKind::Probe(probe) = &mut tool.kind {
            probe.panics = case.behaviour == Behaviour::Panics;
        }
        tool
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

fn answer(asked: &Asked) -> Reply {
    let path = asked.target.split('?').next().unwrap();
    let case = Case::of_name(&path[1..]);
    if asked.method == "GET" {
        return looked_up(case.class);
    }
    match case.behaviour {
        Behaviour::Hangs => Reply::pieces("text/plain", vec![Piece::HeadGate(NEVER)]),
        Behaviour::HangsInMidAnswer => {
            Reply::pieces("application/json", vec![half(), Piece::Silence])
        }
        Behaviour::AnswersFiftyMegabytes => {
            Reply::pieces("text/plain", vec![Piece::Bytes(MEGABYTE); MEGABYTES])
        }
        Behaviour::AnswersInvalidUtf8 => of_bytes("text/plain", NOT_UTF8),
        Behaviour::AnswersNul => of_bytes("text/plain", WITH_NUL.as_bytes()),
        Behaviour::AnswersAnImage => of_bytes("image/png", IMAGE),
        Behaviour::AnswersCompressed => {
            of_bytes("application/json", GZIP).with_header("content-encoding", "gzip")
        }
        Behaviour::AnswersDeepJson => Reply::json(deep_json()),
        Behaviour::AnswersNothing => Reply::json(""),
        Behaviour::Fails => Reply::status(500, FAILURE),
        Behaviour::BreaksOffItsAnswer => {
            Reply::pieces("application/json", vec![half(), Piece::Cut])
        }
        Behaviour::HangsUpAfterReading
        // These are elsewhere, or never sent.
        | Behaviour::HangsUpBeforeReading
        | Behaviour::RefusesConnections
        | Behaviour::Panics => Reply::hang_up(),
    }
}

fn looked_up(class: Class) -> Reply {
    match class {
        Class::QueryableDone => of_bytes("text/plain", FOUND.as_bytes()),
        Class::QueryableAbsent => Reply::status(404, ""),
        // The other classes are never looked up.
        Class::QueryableUnknown | Class::Read | Class::Idempotent | Class::Once => {
            Reply::status(500, "ask later")
        }
    }
}

fn of_bytes(content_type: &str, bytes: &'static [u8]) -> Reply {
    Reply::pieces(content_type, vec![Piece::Bytes(Bytes::from_static(bytes))])
}

fn half() -> Piece {
    Piece::Bytes(Bytes::from_static(HALF.as_bytes()))
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
