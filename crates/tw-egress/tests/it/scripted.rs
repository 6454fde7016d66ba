//! The scripted model: scripts and requests in, bytes out.

mod manual;
mod oddities;
mod refused;
mod rules;
mod streams;

use serde_json::{Value, json};
use tw_egress::scripted::{Script, ScriptedAnswer, ScriptedPiece};

/// The whole body as text; pauses and ends are written as `<wait 5ms>`, `<cut>` and `<silence>`.
fn transcript(answer: &ScriptedAnswer) -> String {
    let mut out = String::new();
    for piece in &answer.body {
        match piece {
            ScriptedPiece::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
            ScriptedPiece::Wait(pause) => out.push_str(&format!("<wait {pause:?}>\n")),
            ScriptedPiece::Cut => out.push_str("<cut>\n"),
            ScriptedPiece::Silence => out.push_str("<silence>\n"),
        }
    }
    out
}

/// The body's bytes without pauses and ends.
fn bytes(answer: &ScriptedAnswer) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in &answer.body {
        if let ScriptedPiece::Bytes(bytes) = piece {
            out.extend_from_slice(bytes);
        }
    }
    out
}

fn header<'a>(answer: &'a ScriptedAnswer, name: &str) -> Option<&'a str> {
    let found = answer.headers.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

fn body_json(answer: &ScriptedAnswer) -> Value {
    serde_json::from_slice(&bytes(answer)).unwrap()
}

/// `choices` of every chunk of a stream, the end marker left out.
fn chunks(answer: &ScriptedAnswer) -> Vec<Value> {
    let text = String::from_utf8(bytes(answer)).unwrap();
    let data = text
        .split_terminator("\n\n")
        .map(|event| event.strip_prefix("data: ").unwrap());
    data.filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn ask(script: &Script, request: &Value) -> ScriptedAnswer {
    script.answer(request.to_string().as_bytes(), 7)
}

/// A request with one user message.
fn user(text: &str) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": text }] })
}

fn streamed(mut request: Value) -> Value {
    request["stream"] = json!(true);
    request
}
