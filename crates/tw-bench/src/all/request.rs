//! Requests as bytes. The chat's is some 200 bytes of JSON, as the reference measurement has it.

use serde_json::{Value, json};

use crate::load::answer::ExpectedForm;

/// Asks a model for an answer, streamed if it is to come in chunks.
pub fn chat(form: ExpectedForm, model: &str, key: &str) -> Vec<u8> {
    let mut body = json!({
        "model": model,
        "stream": form == ExpectedForm::Chunks,
        "messages": messages(),
    });
    if form == ExpectedForm::Chunks {
        body["stream_options"] = json!({"include_usage": true});
    }
    post(&body, key)
}

/// Messages of a request that has no others.
pub fn messages() -> Vec<Value> {
    vec![
        json!({"role": "system", "content": "You are a helpful assistant."}),
        json!({"role": "user", "content": "What is the weather like in Reykjavik today?"}),
    ]
}

/// A request for a chat completion with this body.
pub fn post(body: &Value, key: &str) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Asks for the events of a turn.
pub fn events(turn: &str, key: &str) -> Vec<u8> {
    format!(
        "GET /v1/turns/{turn}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nAuthorization: Bearer {key}\r\n\r\n"
    )
    .into_bytes()
}
