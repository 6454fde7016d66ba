//! Answers: what clients of each surface put together, as a message of chat completions.

use serde_json::{Value, json};
use tw_testkit::client::ReadAnswer;
use tw_wire::format::WireFormat;

use super::AS_GIVEN;

/// What a client made of an answer.
#[derive(Debug)]
pub struct SurfaceAnswer {
    /// The message as chat completions has it, beside what the surface gave.
    pub message: Value,
    /// Why it ended, in the words of chat completions; `None` if the answer has no end.
    pub finish: Option<String>,
}

impl SurfaceAnswer {
    /// The calls, as chat completions has them.
    pub fn calls(&self) -> Vec<Value> {
        let calls = self.message["tool_calls"].as_array();
        calls.cloned().unwrap_or_default()
    }
}

/// Whether an answer came as a stream.
pub fn is_stream(got: &ReadAnswer) -> bool {
    got.header("content-type").starts_with("text/event-stream")
}

/// The data of a stream's events; marks that are no JSON are left out.
pub fn events(stream: &str) -> Vec<Value> {
    let data = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok())
        .collect()
}

/// The answer of a request that went well.
#[track_caller]
pub fn read(surface: WireFormat, got: &ReadAnswer) -> SurfaceAnswer {
    assert_eq!(got.status, 200, "{surface:?}: {}", got.text());
    let whole = if is_stream(got) {
        let text = got.text();
        match surface {
            WireFormat::OpenAiChat => chat_of(&text),
            WireFormat::AnthropicMessages => message_of(&events(&text)),
            WireFormat::OpenAiResponses => response_of(&events(&text)),
        }
    } else {
        got.json()
    };
    of_whole(surface, &whole)
}

fn of_whole(surface: WireFormat, whole: &Value) -> SurfaceAnswer {
    let (message, finish) = match surface {
        WireFormat::OpenAiChat => {
            let choice = &whole["choices"][0];
            (choice["message"].clone(), choice["finish_reason"].as_str())
        }
        WireFormat::AnthropicMessages => {
            let finish = whole["stop_reason"].as_str().map(|reason| match reason {
                "end_turn" => "stop",
                "tool_use" => "tool_calls",
                "max_tokens" => "length",
                other => other,
            });
            (given(surface, &whole["content"]), finish)
        }
        WireFormat::OpenAiResponses => {
            let message = given(surface, &whole["output"]);
            let finish = match whole["status"].as_str() {
                Some("completed") if message["tool_calls"].is_array() => Some("tool_calls"),
                Some("completed") => Some("stop"),
                Some("incomplete") => Some("length"),
                _ => None,
            };
            (message, finish)
        }
    };
    SurfaceAnswer {
        message,
        finish: finish.map(str::to_owned),
    }
}

fn given(surface: WireFormat, given: &Value) -> Value {
    let mut message = of_given(surface, given);
    message[AS_GIVEN] = given.clone();
    message
}

/// The message that blocks or items are, as chat completions has it.
pub(super) fn of_given(surface: WireFormat, given: &Value) -> Value {
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    let call = |id: &Value, name: &Value, arguments: String| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    for part in given.as_array().unwrap() {
        match (surface, part["type"].as_str().unwrap()) {
            (WireFormat::AnthropicMessages, "text") => texts.push(part["text"].as_str().unwrap()),
            (WireFormat::AnthropicMessages, "tool_use") => {
                calls.push(call(&part["id"], &part["name"], part["input"].to_string()));
            }
            (WireFormat::OpenAiResponses, "message") => {
                let parts = part["content"].as_array().unwrap().iter();
                texts.extend(parts.map(|part| part["text"].as_str().unwrap()));
            }
            (WireFormat::OpenAiResponses, "function_call") => {
                let arguments = part["arguments"].as_str().unwrap().to_owned();
                calls.push(call(&part["call_id"], &part["name"], arguments));
            }
            _ => {}
        }
    }
    // Chat completions has one text, in which those of several rounds stand so.
    let mut message = json!({ "role": "assistant", "content": texts.join("\n\n") });
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    message
}

/// The message of a client that keeps nothing of calls that this server ran. Responses shows them; the others do not.
pub fn without_our_calls(mut message: Value) -> Value {
    if let Some(given) = message.get_mut(AS_GIVEN) {
        let parts = given.as_array_mut().unwrap();
        parts.retain(|part| part["type"] != "mcp_call");
    }
    message
}

/// Messages of chat completions, as far as it matters to nobody how they are written: in which parts a text came,
/// and how the white space of arguments stood.
pub fn plain(messages: &[Value]) -> Vec<Value> {
    let messages = messages.iter().map(|message| {
        let mut message = message.clone();
        let fields = message.as_object_mut().unwrap();
        fields.remove(AS_GIVEN);
        let content = fields.remove("content").unwrap_or_default();
        let texts: String = match &content {
            Value::Array(parts) => parts.iter().filter_map(|it| it["text"].as_str()).collect(),
            text => text.as_str().unwrap_or_default().to_owned(),
        };
        // Where a format has blocks, nothing stands between those of two rounds.
        message["content"] = json!(texts.replace("\n\n", ""));
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap();
            call["function"]["arguments"] = arguments.parse().unwrap();
        }
        message
    });
    messages.collect()
}

/// The body that a chat completion's stream stands for.
fn chat_of(stream: &str) -> Value {
    let (mut text, mut calls, mut finish) = (String::new(), Vec::<Value>::new(), Value::Null);
    for chunk in events(stream) {
        let choice = &chunk["choices"][0];
        let delta = &choice["delta"];
        text.push_str(delta["content"].as_str().unwrap_or_default());
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = usize::try_from(piece["index"].as_u64().unwrap()).unwrap();
            let Some(call) = calls.get_mut(at) else {
                let mut call = piece.clone();
                call.as_object_mut().unwrap().remove("index");
                calls.push(call);
                continue;
            };
            assert_eq!(piece.get("id"), None, "an id is sent once");
            let more = piece["function"]["arguments"].as_str().unwrap_or_default();
            let so_far = call["function"]["arguments"].as_str().unwrap();
            call["function"]["arguments"] = json!(format!("{so_far}{more}"));
        }
        if choice["finish_reason"].is_string() {
            finish = choice["finish_reason"].clone();
        }
    }
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    if !stream.ends_with("data: [DONE]\n\n") {
        finish = Value::Null;
    }
    json!({ "choices": [{ "message": message, "finish_reason": finish }] })
}

/// The message that a stream of Messages stands for.
fn message_of(events: &[Value]) -> Value {
    let (mut blocks, mut inputs) = (Vec::<Value>::new(), Vec::<String>::new());
    let (mut reason, mut is_over) = (Value::Null, false);
    for event in events {
        let at = usize::try_from(event["index"].as_u64().unwrap_or_default()).unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(at, blocks.len(), "blocks come one after the other");
                blocks.push(event["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                inputs[at].push_str(delta["partial_json"].as_str().unwrap_or_default());
                for name in ["text", "thinking", "signature"] {
                    if let Some(more) = delta[name].as_str() {
                        let so_far = blocks[at][name].as_str().unwrap_or_default();
                        blocks[at][name] = json!(format!("{so_far}{more}"));
                    }
                }
            }
            "content_block_stop" if !inputs[at].is_empty() => {
                blocks[at]["input"] = serde_json::from_str(&inputs[at]).unwrap();
            }
            "message_delta" => reason = event["delta"]["stop_reason"].clone(),
            "message_stop" => is_over = true,
            _ => {}
        }
    }
    if !is_over {
        reason = Value::Null;
    }
    json!({ "content": blocks, "stop_reason": reason })
}

/// The response that a stream of events stands for.
fn response_of(events: &[Value]) -> Value {
    let kind = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    let done = events
        .iter()
        .filter(|event| kind(event) == "response.output_item.done");
    let output: Vec<Value> = done.map(|event| event["item"].clone()).collect();
    let end = events.iter().rfind(|event| event["response"].is_object());
    let status = end.map(|event| event["response"]["status"].clone());
    json!({ "output": output, "status": status })
}
