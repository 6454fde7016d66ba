//! A chat completion, whole and in chunks.

use serde_json::{Value, json};

use super::super::profile::{Profile, word};
use super::super::{Form, Question, Says};
use super::{CREATED_S, INPUT_TOKENS, StreamEvents, bare};

const ID: &str = "chatcmpl-bench";
const ARGUMENTS: &str = r#"{"city":"Reykjavik, Iceland"}"#;
/// Bytes in a piece of arguments: model servers send a few letters at a time.
const ARGUMENT_PIECE_BYTES: usize = 9;
const CALL_TOKENS: usize = 20;

pub fn completion(question: &Question, profile: Profile) -> Value {
    let Question { model, says, .. } = question;
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

/// The role; the deltas; the finish, the usage if it is asked for, and the end.
pub fn events(question: &Question, profile: Profile) -> StreamEvents {
    let Question { model, says, .. } = question;
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
    let mut closing = vec![bare(chunk(model, json!({}), Some(finish)))];
    if question.form == Form::StreamedWithUsage {
        closing.push(bare(json!({
            "id": ID, "object": "chat.completion.chunk", "created": CREATED_S, "model": model,
            "choices": [], "usage": usage(tokens(says, profile))
        })));
    }
    closing.push(bare("[DONE]"));
    StreamEvents {
        opening: vec![bare(chunk(model, role, None))],
        pieces: deltas
            .into_iter()
            .map(|delta| bare(chunk(model, delta, None)))
            .collect(),
        closing,
    }
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

fn tokens(says: &Says, profile: Profile) -> usize {
    match says {
        Says::Text => profile.deltas,
        Says::Calls(names) => CALL_TOKENS * names.len(),
    }
}

fn usage(tokens: usize) -> Value {
    json!({
        "prompt_tokens": INPUT_TOKENS, "completion_tokens": tokens, "total_tokens": INPUT_TOKENS + tokens,
        "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}
    })
}
