//! Requests: chat completions as clients of other surfaces write them.

use serde_json::{Map, Value, json};
use tw_wire::format::WireFormat;

use super::AS_GIVEN;
use super::read::of_given;

/// The tokens that a client of Messages allows, which it has to say.
const MAX_TOKENS: u32 = 64;

/// A request as a surface's client writes it.
pub fn written(surface: WireFormat, chat: &Value) -> Value {
    let mut body = Map::new();
    for (name, value) in chat.as_object().unwrap() {
        match (surface, name.as_str()) {
            (_, "messages") => {}
            (_, "tools") => {
                let tools = value.as_array().unwrap().iter();
                body.insert(
                    "tools".to_owned(),
                    tools.map(|it| tool(surface, it)).collect(),
                );
            }
            (_, "tool_choice") => {
                body.insert(name.clone(), choice(surface, value));
            }
            (WireFormat::AnthropicMessages, "user") => {
                body.insert("metadata".to_owned(), json!({ "user_id": value }));
            }
            _ => {
                body.insert(name.clone(), value.clone());
            }
        }
    }
    let mut body = Value::Object(body);
    if surface == WireFormat::AnthropicMessages {
        body["max_tokens"] = json!(MAX_TOKENS);
    }
    body[history_field(surface)] = json!([]);
    append(surface, &mut body, chat["messages"].as_array().unwrap());
    body
}

/// Where a request has its messages.
fn history_field(surface: WireFormat) -> &'static str {
    match surface {
        WireFormat::OpenAiChat | WireFormat::AnthropicMessages => "messages",
        WireFormat::OpenAiResponses => "input",
    }
}

/// Puts messages of a chat completion behind those that a surface's request has.
pub fn append(surface: WireFormat, body: &mut Value, messages: &[Value]) {
    for message in messages {
        match surface {
            WireFormat::OpenAiChat => {
                let mut message = message.clone();
                message.as_object_mut().unwrap().remove(AS_GIVEN);
                history(surface, body).push(message);
            }
            WireFormat::AnthropicMessages => append_message(body, message),
            WireFormat::OpenAiResponses => {
                let items = items(message);
                history(surface, body).extend(items);
            }
        }
    }
}

fn history(surface: WireFormat, body: &mut Value) -> &mut Vec<Value> {
    body[history_field(surface)].as_array_mut().unwrap()
}

/// What the surface gave of a message, if nothing in it was changed since.
fn as_given(surface: WireFormat, message: &Value) -> Option<&Vec<Value>> {
    let given = message.get(AS_GIVEN)?;
    let read = of_given(surface, given);
    let same = |name: &str| read.get(name) == message.get(name);
    let is_whole = same("role") && same("content") && same("tool_calls");
    is_whole.then(|| given.as_array().unwrap())
}

/// The texts of a content.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![text],
        Value::Array(parts) => parts
            .iter()
            .map(|it| it["text"].as_str().unwrap())
            .collect(),
        _ => Vec::new(),
    }
}

fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    message["tool_calls"].as_array().into_iter().flatten()
}

fn append_message(body: &mut Value, message: &Value) {
    let content = &message["content"];
    let surface = WireFormat::AnthropicMessages;
    match message["role"].as_str().unwrap() {
        "system" => {
            let before = body["system"]
                .as_str()
                .map(|system| format!("{system}\n\n"));
            let said = texts(content).concat();
            body["system"] = json!(before.unwrap_or_default() + &said);
        }
        "tool" => {
            let result = json!({ "type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content });
            let history = history(surface, body);
            // The results of one round are one message.
            let open = history
                .last_mut()
                .and_then(|last| last["content"].as_array_mut());
            match open.filter(|blocks| blocks[0]["type"] == "tool_result") {
                Some(blocks) => blocks.push(result),
                None => history.push(json!({ "role": "user", "content": [result] })),
            }
        }
        "assistant" => {
            let blocks = match as_given(surface, message) {
                Some(given) => given.clone(),
                None => blocks(message),
            };
            history(surface, body).push(json!({ "role": "assistant", "content": blocks }));
        }
        role => history(surface, body).push(json!({ "role": role, "content": content })),
    }
}

fn blocks(message: &Value) -> Vec<Value> {
    let texts = texts(&message["content"]).into_iter();
    let texts = texts.map(|text| json!({ "type": "text", "text": text }));
    let calls = calls(message).map(|call| {
        let function = &call["function"];
        let input: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        json!({ "type": "tool_use", "id": call["id"], "name": function["name"], "input": input })
    });
    texts.chain(calls).collect()
}

fn items(message: &Value) -> Vec<Value> {
    let content = &message["content"];
    match message["role"].as_str().unwrap() {
        "tool" => vec![
            json!({ "type": "function_call_output", "call_id": message["tool_call_id"], "output": content }),
        ],
        "assistant" => {
            if let Some(given) = as_given(WireFormat::OpenAiResponses, message) {
                return given.clone();
            }
            let said = texts(content).into_iter();
            let said = said.map(|text| {
                let part = json!({ "type": "output_text", "text": text, "annotations": [] });
                json!({ "type": "message", "role": "assistant", "content": [part] })
            });
            let calls = calls(message).map(|call| {
                let function = &call["function"];
                json!({ "type": "function_call", "call_id": call["id"], "name": function["name"],
                    "arguments": function["arguments"] })
            });
            said.chain(calls).collect()
        }
        role => {
            let content = match content {
                Value::Array(parts) => {
                    let parts = parts.iter();
                    let parts = parts.map(|it| json!({ "type": "input_text", "text": it["text"] }));
                    parts.collect()
                }
                text => text.clone(),
            };
            vec![json!({ "role": role, "content": content })]
        }
    }
}

fn tool(surface: WireFormat, chat: &Value) -> Value {
    let function = &chat["function"];
    let schema = function.get("parameters");
    let plain = || json!({ "type": "object" });
    let mut tool = match surface {
        WireFormat::OpenAiChat => return chat.clone(),
        WireFormat::AnthropicMessages => {
            json!({ "input_schema": schema.cloned().unwrap_or_else(plain) })
        }
        WireFormat::OpenAiResponses => {
            json!({ "type": "function", "parameters": schema.cloned().unwrap_or_else(plain), "strict": false })
        }
    };
    for name in ["name", "description"] {
        if let Some(value) = function.get(name) {
            tool[name] = value.clone();
        }
    }
    tool
}

fn choice(surface: WireFormat, chat: &Value) -> Value {
    let named = chat.pointer("/function/name");
    match (surface, named, chat.as_str()) {
        (WireFormat::OpenAiChat, ..) => chat.clone(),
        (WireFormat::AnthropicMessages, Some(name), _) => json!({ "type": "tool", "name": name }),
        (WireFormat::AnthropicMessages, None, Some("required")) => json!({ "type": "any" }),
        (WireFormat::AnthropicMessages, None, word) => json!({ "type": word }),
        (WireFormat::OpenAiResponses, Some(name), _) => json!({ "type": "function", "name": name }),
        (WireFormat::OpenAiResponses, None, _) => chat.clone(),
    }
}
