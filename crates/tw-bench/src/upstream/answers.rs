//! Answers as the bytes that go over the wire.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::profile::{AnswerFault, Profile, word};
use super::{Form, Question, Says};
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

const ID: &str = "chatcmpl-bench";
const CREATED_S: u32 = 1_700_000_000;
const ARGUMENTS: &str = r#"{"city":"Reykjavik, Iceland"}"#;
/// Bytes in a piece of arguments: model servers send a few letters at a time.
const ARGUMENT_PIECE_BYTES: usize = 9;
const CALL_TOKENS: usize = 20;
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
    let model = &question.model;
    match question.form {
        Form::Plain => plain(&completion(model, &question.says, profile).to_string()),
        Form::Streamed => streamed(model, &question.says, profile, &[]),
        Form::StreamedWithUsage => {
            let usage = json!({"id": ID, "object": "chat.completion.chunk", "created": CREATED_S, "model": model,
                "choices": [], "usage": usage(tokens(&question.says, profile))});
            streamed(model, &question.says, profile, &[usage])
        }
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

fn tokens(says: &Says, profile: Profile) -> usize {
    match says {
        Says::Text => profile.deltas,
        Says::Calls(names) => CALL_TOKENS * names.len(),
    }
}

fn usage(tokens: usize) -> Value {
    json!({
        "prompt_tokens": 24, "completion_tokens": tokens, "total_tokens": 24 + tokens,
        "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}
    })
}

fn completion(model: &str, says: &Says, profile: Profile) -> Value {
    let (message, finish) = match says {
        Says::Text => (
            json!({"role": "assistant", "content": profile.text(), "refusal": null}),
            "stop",
        ),
        Says::Calls(names) => {
            let calls = names.iter().zip(0..).map(|(name, at)| {
                json!({"id": call_id(at), "type": "function", "function": {"name": name, "arguments": ARGUMENTS}})
            });
            let calls: Vec<Value> = calls.collect();
            (
                json!({"role": "assistant", "content": null, "tool_calls": calls, "refusal": null}),
                "tool_calls",
            )
        }
    };
    json!({
        "id": ID, "object": "chat.completion", "created": CREATED_S, "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
        "usage": usage(tokens(says, profile)), "system_fingerprint": "fp_bench"
    })
}

/// The head and the role; the deltas, so many to a write; the finish, what follows it, and the end.
fn streamed(model: &str, says: &Says, profile: Profile, after_finish: &[Value]) -> FakeAnswer {
    let (role, deltas, finish) = match says {
        Says::Text => (
            json!({"role": "assistant", "content": "", "refusal": null}),
            (0..profile.deltas)
                .map(|index| json!({"content": word(index)}))
                .collect(),
            "stop",
        ),
        Says::Calls(names) => (
            json!({"role": "assistant", "content": null, "refusal": null}),
            names
                .iter()
                .zip(0..)
                .flat_map(|(name, at)| call_deltas(name, at))
                .collect::<Vec<Value>>(),
            "tool_calls",
        ),
    };
    let mut answer = FakeAnswer {
        bytes: STREAM_HEAD.as_bytes().to_vec(),
        ends: Vec::new(),
        first: Duration::ZERO,
        pause: profile.pause,
        afterwards: Afterwards::Keep,
    };
    answer.event(&chunk(model, role, None).to_string());
    answer.end_part();
    for together in deltas.chunks(profile.events_per_write) {
        for delta in together {
            answer.event(&chunk(model, delta.clone(), None).to_string());
        }
        answer.end_part();
    }
    answer.event(&chunk(model, json!({}), Some(finish)).to_string());
    for value in after_finish {
        answer.event(&value.to_string());
    }
    answer.event("[DONE]");
    answer.bytes.extend_from_slice(b"0\r\n\r\n");
    answer.end_part();
    answer
}

/// Id of a call, like those of model servers: not the same twice in an answer.
fn call_id(at: usize) -> String {
    format!("call_bench_{at}")
}

fn call_deltas(name: &str, at: usize) -> Vec<Value> {
    let begin = json!({"tool_calls": [{"index": at, "id": call_id(at), "type": "function",
        "function": {"name": name, "arguments": ""}}]});
    let pieces = ARGUMENTS.as_bytes().chunks(ARGUMENT_PIECE_BYTES);
    let pieces = pieces.map(|piece| {
        let piece = String::from_utf8_lossy(piece);
        json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    });
    std::iter::once(begin).chain(pieces).collect()
}

fn chunk(model: &str, delta: Value, finish: Option<&str>) -> Value {
    json!({
        "id": ID, "object": "chat.completion.chunk", "created": CREATED_S, "model": model,
        "system_fingerprint": "fp_bench",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]
    })
}

impl FakeAnswer {
    /// Adds an event as a chunk of its own.
    fn event(&mut self, data: &str) {
        let event = format!("data: {data}\n\n");
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
