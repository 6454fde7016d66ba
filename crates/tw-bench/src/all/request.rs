//! Requests as bytes. The chat's is some 200 bytes of JSON, as the reference measurement has it; the others say the same.

use serde_json::{Value, json};
use tw_wire::format::WireFormat;

use crate::load::answer::ExpectedForm;
use crate::spoken::SpokenFormat;

const SYSTEM: &str = "You are a helpful assistant.";
const QUESTION: &str = "What is the weather like in Reykjavik today?";
/// Messages has no request without it; more than any answer here has.
const TOKENS_MAX: u32 = 32_000;

/// Asks a model for an answer of this form; a turn's events are those of a chat.
pub fn ask(form: ExpectedForm, model: &str, key: &str) -> Vec<u8> {
    let format = match form {
        ExpectedForm::Plain => {
            let body = json!({"model": model, "stream": false, "messages": messages()});
            return post(&body, key);
        }
        ExpectedForm::Stream(format) => format,
        ExpectedForm::Events => WireFormat::OpenAiChat,
    };
    post_to(format, &streamed(format, model), key)
}

fn streamed(format: WireFormat, model: &str) -> Value {
    let question = json!([{"role": "user", "content": QUESTION}]);
    match format {
        WireFormat::OpenAiChat => json!({
            "model": model, "stream": true, "messages": messages(), "stream_options": {"include_usage": true}
        }),
        WireFormat::AnthropicMessages => json!({
            "model": model, "stream": true, "max_tokens": TOKENS_MAX, "system": SYSTEM, "messages": question
        }),
        WireFormat::OpenAiResponses => json!({
            "model": model, "stream": true, "instructions": SYSTEM, "input": question
        }),
    }
}

/// Messages of a chat that has no others.
pub fn messages() -> Vec<Value> {
    vec![
        json!({"role": "system", "content": SYSTEM}),
        json!({"role": "user", "content": QUESTION}),
    ]
}

/// A request for a chat completion with this body.
pub fn post(body: &Value, key: &str) -> Vec<u8> {
    post_to(WireFormat::OpenAiChat, body, key)
}

fn post_to(format: WireFormat, body: &Value, key: &str) -> Vec<u8> {
    let (path, body) = (SpokenFormat::of(format).path(), body.to_string());
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nAuthorization: Bearer {key}\r\n\
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
