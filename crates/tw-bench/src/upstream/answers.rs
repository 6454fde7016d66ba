//! Answers as the bytes that go over the wire.

mod chat;
mod messages;
mod responses;

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use tw_wire::format::WireFormat;

use super::profile::{AnswerFault, Profile};
use super::{Form, Question};
use crate::http::Afterwards;

/// An answer with its head, cut into the parts that are written one by one.
#[derive(Debug)]
pub struct FakeAnswer {
    pub bytes: Vec<u8>,
    /// Ends of the parts in `bytes`.
    pub ends: Vec<usize>,
    /// Time before the first part.
    pub first: Duration,
    /// Time between two parts.
    pub pause: Duration,
    pub afterwards: Afterwards,
}

const CREATED_S: u32 = 1_700_000_000;
const INPUT_TOKENS: usize = 24;
const TOOL_RESULT: &str = r#"{"temperature_c":21,"sky":"clear"}"#;
const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
    Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";

pub fn of_tool() -> FakeAnswer {
    plain(TOOL_RESULT)
}

pub fn of_model(question: &Question, profile: Profile) -> FakeAnswer {
    let whole = whole(question, profile);
    let answer = match profile.fault {
        None => whole,
        Some(AnswerFault::Cut) => whole.cut(),
        Some(AnswerFault::Status(status)) => with_status(
            status,
            &json!({"error": {"message": "the bench says so", "type": "bench"}}).to_string(),
        ),
    };
    FakeAnswer {
        first: profile.first,
        ..answer
    }
}

fn whole(question: &Question, profile: Profile) -> FakeAnswer {
    match question.form {
        Form::Plain => plain(&chat::completion(question, profile).to_string()),
        Form::Streamed | Form::StreamedWithUsage => streamed(question, profile),
    }
}

/// The answer of the tool that breaks off: no bytes, and the connection closes.
pub fn of_broken_tool() -> FakeAnswer {
    FakeAnswer {
        bytes: Vec::new(),
        ends: Vec::new(),
        first: Duration::ZERO,
        pause: Duration::ZERO,
        afterwards: Afterwards::Close,
    }
}

fn plain(body: &str) -> FakeAnswer {
    with_status(200, body)
}

fn with_status(status: u16, body: &str) -> FakeAnswer {
    let bytes = format!(
        "HTTP/1.1 {status} Bench\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes();
    FakeAnswer {
        ends: vec![bytes.len()],
        bytes,
        first: Duration::ZERO,
        pause: Duration::ZERO,
        afterwards: Afterwards::Keep,
    }
}

/// The events of a stream as they are written.
struct StreamEvents {
    /// Those before the answer's own, which go with the head.
    opening: Vec<String>,
    /// Those of the answer, so many to a write.
    pieces: Vec<String>,
    /// Those behind, in one write.
    closing: Vec<String>,
}

fn streamed(question: &Question, profile: Profile) -> FakeAnswer {
    let events = match question.format {
        WireFormat::OpenAiChat => chat::events(question, profile),
        WireFormat::AnthropicMessages => messages::events(&question.model, profile),
        WireFormat::OpenAiResponses => responses::events(&question.model, profile),
    };
    let mut answer = FakeAnswer {
        bytes: STREAM_HEAD.as_bytes().to_vec(),
        ends: Vec::new(),
        first: Duration::ZERO,
        pause: profile.pause,
        afterwards: Afterwards::Keep,
    };
    answer.part(&events.opening);
    for together in events.pieces.chunks(profile.events_per_write) {
        answer.part(together);
    }
    for event in &events.closing {
        answer.event(event);
    }
    answer.bytes.extend_from_slice(b"0\r\n\r\n");
    answer.end_part();
    answer
}

/// An event without a name.
fn bare(data: impl Display) -> String {
    format!("data: {data}\n\n")
}

/// An event that is named as its type is.
fn named(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\n{}", bare(data))
}

impl FakeAnswer {
    /// Adds events that are written at once.
    fn part(&mut self, events: &[String]) {
        for event in events {
            self.event(event);
        }
        self.end_part();
    }

    /// Adds an event as a chunk of its own.
    fn event(&mut self, event: &str) {
        // Writing to memory does not fail.
        let _ = write!(self.bytes, "{:x}\r\n{event}\r\n", event.len());
    }

    /// Cuts the answer after its first half, behind which the connection closes.
    fn cut(mut self) -> Self {
        self.bytes.truncate(self.bytes.len() / 2);
        self.ends.retain(|end| *end < self.bytes.len());
        self.ends.push(self.bytes.len());
        self.afterwards = Afterwards::Close;
        self
    }

    fn end_part(&mut self) {
        self.ends.push(self.bytes.len());
    }
}
