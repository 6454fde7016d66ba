//! Requests with a history, as clients of each format write them.

use serde_json::{Value, json};
use tw_wire::format::WireFormat;

use super::rng::Rng;
use super::steps::{Answer, CUSTOM, Call, CallResult, HALF, HistoryStep, NAMES, Part};

const PDF: &str = "data:application/pdf;base64,AAAA";
const SOUND: &str = "AAAA";

/// The text of a request.
pub fn request(format: WireFormat, steps: &[HistoryStep], rng: &mut Rng) -> String {
    let mut body = match format {
        WireFormat::OpenAiChat => chat(steps, rng),
        WireFormat::AnthropicMessages => messages(steps, rng),
        WireFormat::OpenAiResponses => responses(steps, rng),
    };
    body["model"] = json!(rng.pick(&["gpt-5", "claude-sonnet-4-5", "claude-opus-4-6", "other"]));
    if rng.one_in(3) {
        body["temperature"] = json!(0.5);
    }
    if rng.one_in(4) {
        body["stream"] = json!(true);
    }
    let mut text = body.to_string();
    if text.contains(HALF) {
        text = text.replace(HALF, "\\ud83d");
    }
    text
}

/// Some of the settings of a list.
fn settings(body: &mut Value, rng: &mut Rng, all: &[(&str, Value)]) {
    for (name, value) in all {
        if rng.one_in(8) {
            body[*name] = value.clone();
        }
    }
}

fn offers(rng: &mut Rng) -> bool {
    !rng.one_in(4)
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "a": { "type": "integer" } } })
}

fn chat(steps: &[HistoryStep], rng: &mut Rng) -> Value {
    let said = steps.iter().map(|step| match step {
        HistoryStep::System(text) => json!({ "role": rng.pick(&["system", "developer"]), "content": text }),
        HistoryStep::User(parts) => json!({ "role": "user", "content": chat_content(parts) }),
        HistoryStep::Assistant(answer) => chat_answer(answer),
        HistoryStep::Result(result) => json!({
            "role": "tool", "tool_call_id": chat_id(&result.id), "content": chat_content(&texts(&result.content)),
        }),
    });
    let mut body = json!({ "messages": said.collect::<Vec<_>>() });
    if offers(rng) {
        let mut tools: Vec<Value> = NAMES[..2]
            .iter()
            .map(|name| json!({ "type": "function", "function": { "name": name, "parameters": schema() } }))
            .collect();
        tools.push(json!({ "type": "custom", "custom": { "name": CUSTOM } }));
        body["tools"] = json!(tools);
        let choices = [
            ("tool_choice", json!("auto")),
            ("tool_choice", json!("required")),
            ("tool_choice", json!("none")),
            (
                "tool_choice",
                json!({ "type": "function", "function": { "name": "f" } }),
            ),
            (
                "tool_choice",
                json!({ "type": "custom", "custom": { "name": CUSTOM } }),
            ),
            (
                "tool_choice",
                json!({ "type": "allowed_tools", "allowed_tools": { "mode": "required",
                "tools": [{ "type": "function", "function": { "name": "g" } }] } }),
            ),
            ("parallel_tool_calls", json!(false)),
        ];
        settings(&mut body, rng, &choices);
    }
    let more = [
        ("max_completion_tokens", json!(10)),
        ("max_completion_tokens", json!(9000)),
        ("stop", json!(["END", " "])),
        ("seed", json!(1)),
        ("top_p", json!(0.5)),
        ("reasoning_effort", json!("high")),
        ("reasoning_effort", json!("none")),
        ("verbosity", json!("low")),
        ("user", json!("ann")),
        ("response_format", json!({ "type": "json_object" })),
        ("metadata", json!({ "a": "b" })),
        ("service_tier", json!("default")),
    ];
    settings(&mut body, rng, &more);
    body
}

/// The parts of which every format can make a result: this one's are text.
fn texts(parts: &[Part]) -> Vec<Part> {
    let texts = parts.iter().map(|part| match part {
        Part::Text(_) => part.clone(),
        Part::Image(_) | Part::File | Part::Audio | Part::FileId => Part::Text("a part".to_owned()),
    });
    texts.collect()
}

/// The format has no longer ones.
fn chat_id(id: &str) -> String {
    id.chars().take(40).collect()
}

fn chat_content(parts: &[Part]) -> Value {
    match parts {
        [Part::Text(text)] => json!(text),
        parts => parts.iter().map(chat_part).collect(),
    }
}

fn chat_part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image(url) => {
            json!({ "type": "image_url", "image_url": { "url": url, "detail": "low" } })
        }
        Part::File => json!({ "type": "file", "file": { "filename": "a.pdf", "file_data": PDF } }),
        Part::Audio => {
            json!({ "type": "input_audio", "input_audio": { "data": SOUND, "format": "wav" } })
        }
        Part::FileId => json!({ "type": "file", "file": { "file_id": "file-1" } }),
    }
}

fn chat_answer(answer: &Answer) -> Value {
    let mut message = json!({ "role": "assistant", "content": answer.text });
    if answer.text.is_none() && answer.calls.is_empty() {
        message["content"] = json!("");
    }
    if let Some(reasoning) = &answer.reasoning {
        message["reasoning_content"] = json!(reasoning);
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            if call.is_custom {
                json!({ "id": chat_id(&call.id), "type": "custom", "custom": { "name": call.name, "input": call.arguments } })
            } else {
                json!({ "id": chat_id(&call.id), "type": "function",
                    "function": { "name": call.name, "arguments": call.arguments } })
            }
        });
        message["tool_calls"] = calls.collect();
    }
    message
}

fn responses(steps: &[HistoryStep], rng: &mut Rng) -> Value {
    let mut items = Vec::new();
    for step in steps {
        match step {
            HistoryStep::System(text) => {
                items.push(json!({ "role": rng.pick(&["system", "developer"]), "content": text }));
            }
            HistoryStep::User(parts) => items.push(json!({
                "type": "message", "role": "user", "content": responses_content(parts),
            })),
            HistoryStep::Assistant(answer) => responses_answer(answer, &mut items),
            HistoryStep::Result(result) => items.push(responses_result(result)),
        }
    }
    let mut body = json!({ "input": items });
    if offers(rng) {
        let mut tools: Vec<Value> = NAMES[..2]
            .iter()
            .map(|name| json!({ "type": "function", "name": name, "parameters": schema(), "strict": false }))
            .collect();
        tools.push(json!({ "type": "custom", "name": CUSTOM,
            "format": { "type": "grammar", "syntax": "lark", "definition": "start: /a/" } }));
        body["tools"] = json!(tools);
        let choices = [
            ("tool_choice", json!("auto")),
            ("tool_choice", json!("required")),
            ("tool_choice", json!("none")),
            ("tool_choice", json!({ "type": "function", "name": "f" })),
            ("tool_choice", json!({ "type": "custom", "name": CUSTOM })),
            (
                "tool_choice",
                json!({ "type": "allowed_tools", "mode": "auto",
                "tools": [{ "type": "function", "name": "g" }] }),
            ),
            ("parallel_tool_calls", json!(false)),
        ];
        settings(&mut body, rng, &choices);
    }
    let more = [
        ("instructions", json!("be kind")),
        ("max_output_tokens", json!(9000)),
        ("top_p", json!(0.5)),
        ("reasoning", json!({ "effort": "low", "summary": "auto" })),
        (
            "text",
            json!({ "format": { "type": "json_object" }, "verbosity": "low" }),
        ),
        ("safety_identifier", json!("ann")),
        ("include", json!(["reasoning.encrypted_content"])),
        ("truncation", json!("auto")),
        ("metadata", json!({ "a": "b" })),
        ("store", json!(false)),
        ("prompt_cache_key", json!("k")),
    ];
    settings(&mut body, rng, &more);
    body
}

fn responses_content(parts: &[Part]) -> Value {
    match parts {
        [Part::Text(text)] => json!(text),
        parts => parts.iter().map(responses_part).collect(),
    }
}

fn responses_part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "input_text", "text": text }),
        Part::Image(url) => {
            json!({ "type": "input_image", "image_url": url, "detail": "original" })
        }
        Part::File | Part::Audio => {
            json!({ "type": "input_file", "filename": "a.pdf", "file_data": PDF })
        }
        Part::FileId => json!({ "type": "input_file", "file_id": "file-1" }),
    }
}

fn responses_answer(answer: &Answer, items: &mut Vec<Value>) {
    let has_more = answer.text.is_some() || !answer.calls.is_empty();
    if let Some(reasoning) = answer.reasoning.as_ref().filter(|_| has_more) {
        let mut item = json!({ "type": "reasoning",
            "summary": [{ "type": "summary_text", "text": reasoning }] });
        if answer.is_signed {
            item["encrypted_content"] = json!("sealed");
        }
        items.push(item);
    }
    if answer.text.is_some() || answer.calls.is_empty() {
        let text = answer.text.as_deref().unwrap_or_default();
        items.push(json!({ "type": "message", "role": "assistant",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }] }));
    }
    let call = |call: &Call| {
        if call.is_custom {
            json!({ "type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": call.arguments })
        } else {
            json!({ "type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments })
        }
    };
    items.extend(answer.calls.iter().map(call));
}

fn responses_result(result: &CallResult) -> Value {
    let kind = if result.is_custom {
        "custom_tool_call_output"
    } else {
        "function_call_output"
    };
    json!({ "type": kind, "call_id": result.id, "output": responses_content(&result.content) })
}

fn messages(steps: &[HistoryStep], rng: &mut Rng) -> Value {
    let mut system = Vec::new();
    let mut said: Vec<Value> = Vec::new();
    for step in steps {
        match step {
            // The format has no such place in the middle.
            HistoryStep::System(text) => system.push(text.clone()),
            HistoryStep::User(parts) => {
                said.push(json!({ "role": "user", "content": messages_content(parts) }))
            }
            HistoryStep::Assistant(answer) => said.push(messages_answer(answer)),
            HistoryStep::Result(result) => {
                let block = messages_result(result);
                let open = said.last_mut().filter(|last| {
                    last["role"] == "user" && last["content"][0]["type"] == "tool_result"
                });
                match open {
                    Some(last) => last["content"].as_array_mut().unwrap().push(block),
                    None => said.push(json!({ "role": "user", "content": [block] })),
                }
            }
        }
    }
    if said.is_empty() {
        said.push(json!({ "role": "user", "content": "hello" }));
    }
    let mut body = json!({ "max_tokens": 8000, "messages": said });
    let system: Vec<String> = system
        .into_iter()
        .filter(|text| !text.trim().is_empty())
        .collect();
    if !system.is_empty() {
        body["system"] = json!(system.join(" "));
    }
    if offers(rng) {
        let tools = [NAMES[0], NAMES[1], CUSTOM]
            .map(|name| json!({ "name": name, "input_schema": schema() }));
        body["tools"] = json!(tools);
        let choices = [
            (
                "tool_choice",
                json!({ "type": "auto", "disable_parallel_tool_use": true }),
            ),
            ("tool_choice", json!({ "type": "any" })),
            ("tool_choice", json!({ "type": "none" })),
            ("tool_choice", json!({ "type": "tool", "name": "f" })),
        ];
        settings(&mut body, rng, &choices);
    }
    let more = [
        ("stop_sequences", json!(["a", "b", "c", "d", "e"])),
        ("top_k", json!(5)),
        ("metadata", json!({ "user_id": "ann" })),
        ("service_tier", json!("standard_only")),
    ];
    settings(&mut body, rng, &more);
    body
}

fn messages_content(parts: &[Part]) -> Value {
    match parts {
        [Part::Text(text)] => json!(text),
        parts => parts.iter().map(messages_part).collect(),
    }
}

fn messages_part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image(url) => {
            let source = match url.strip_prefix("data:image/png;base64,") {
                Some(data) => json!({ "type": "base64", "media_type": "image/png", "data": data }),
                None => json!({ "type": "url", "url": "https://example.com/a.png" }),
            };
            json!({ "type": "image", "source": source })
        }
        Part::File | Part::Audio => json!({ "type": "document", "title": "a",
            "source": { "type": "text", "media_type": "text/plain", "data": "words" } }),
        Part::FileId => {
            json!({ "type": "document", "source": { "type": "file", "file_id": "file_1" } })
        }
    }
}

fn messages_answer(answer: &Answer) -> Value {
    let mut blocks = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        let signature = if answer.is_signed { "sealed" } else { "" };
        blocks.push(json!({ "type": "thinking", "thinking": reasoning, "signature": signature }));
    }
    if let Some(text) = &answer.text {
        blocks.push(json!({ "type": "text", "text": text }));
    }
    let input = |call: &Call| {
        let input = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
        json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
    };
    blocks.extend(answer.calls.iter().map(input));
    json!({ "role": "assistant", "content": blocks })
}

fn messages_result(result: &CallResult) -> Value {
    let mut block = json!({ "type": "tool_result", "tool_use_id": result.id,
        "content": messages_content(&result.content) });
    if result.is_error {
        block["is_error"] = json!(true);
    }
    block
}
