//! Recorded answers are read as their manifest says, however they are cut, and written as they were.

use serde_json::{Value, json};
use tw_core::json::LiteralBuf;
use tw_core::model::{Finish, ModelEvent};
use tw_wire::anthropic_messages::FORMAT;
use tw_wire::anthropic_messages::body::decode_error;
use tw_wire::anthropic_messages::events::RanCalls;

use super::log::{body_events, body_of, events, log, stream_of};
use crate::shared::{Recording, recordings};

const KIND: &str = "anthropic.messages";

fn read(recording: &Recording) -> Vec<ModelEvent> {
    if recording.is_stream {
        events([recording.bytes.as_slice()])
    } else {
        body_events(&recording.bytes)
    }
}

/// What the manifest says of an answer.
#[derive(Debug, PartialEq)]
struct Summary {
    text: String,
    reasoning_chars: u64,
    /// Names and arguments, those that the provider ran among them.
    calls: Vec<(String, String, Value)>,
    finish: Vec<Finish>,
    usage: Value,
}

fn summary(events: &[ModelEvent]) -> Summary {
    let (mut text, mut reasoning) = (LiteralBuf::default(), LiteralBuf::default());
    let mut calls: Vec<(String, String, LiteralBuf)> = Vec::new();
    let mut places = Vec::new();
    let mut finish = Vec::new();
    let mut usage = Value::Null;
    for event in events {
        match event {
            ModelEvent::Delta(delta) => {
                delta.text.iter().for_each(|more| text.push(more));
                let rest = delta.rest.as_deref();
                let thought = rest.and_then(|rest| rest.reasoning.as_ref());
                thought
                    .iter()
                    .for_each(|thought| reasoning.push(&thought.text));
            }
            ModelEvent::Call(piece) => {
                let at = places.iter().position(|call| *call == Some(piece.call));
                let at = at.unwrap_or_else(|| {
                    places.push(Some(piece.call));
                    calls.push(Default::default());
                    calls.len() - 1
                });
                let call = &mut calls[at];
                piece.id.iter().for_each(|id| call.0.push_str(id));
                piece.name.iter().for_each(|name| call.1.push_str(name));
                piece.arguments.iter().for_each(|more| call.2.push(more));
            }
            ModelEvent::Native { part, .. } => {
                let block = part.json.to_value();
                if block["input"].is_object() {
                    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
                    let mut input = LiteralBuf::default();
                    input.push(&tw_core::json::Literal::from_text(
                        &block["input"].to_string(),
                    ));
                    calls.push((text("id"), text("name"), input));
                    places.push(None);
                }
            }
            ModelEvent::Finish { reason, .. } => finish.push(*reason),
            ModelEvent::Usage(told) => {
                usage = told
                    .native
                    .as_ref()
                    .expect("a native usage")
                    .json
                    .to_value();
            }
            ModelEvent::Start { .. }
            | ModelEvent::BlockEnd(_)
            | ModelEvent::Extra { .. }
            | ModelEvent::Progress { .. }
            | ModelEvent::Error(_)
            | ModelEvent::Done => {}
        }
    }
    let calls = calls.into_iter().map(|(id, name, arguments)| {
        let text = arguments.to_text();
        (id, name, arguments_value(&text))
    });
    Summary {
        text: text.to_text(),
        reasoning_chars: reasoning.to_text().chars().count() as u64,
        calls: calls.collect(),
        finish,
        usage,
    }
}

/// Arguments that are no JSON are the text that they are; nothing at all is an empty object.
fn arguments_value(text: &str) -> Value {
    if text.is_empty() {
        return json!({});
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn expected(expect: &Value) -> Summary {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = expect["calls"].as_array().expect("an entry lists calls");
    let calls = calls.iter().map(|call| {
        let arguments = arguments_value(&text(&call["arguments"]));
        (text(&call["id"]), text(&call["name"]), arguments)
    });
    let words = expect["finish"].as_array().into_iter().flatten();
    let finish = words.filter_map(Value::as_str).map(|word| match word {
        "end_turn" => Finish::Stop,
        "stop_sequence" => Finish::StopSequence,
        "max_tokens" => Finish::Length,
        "tool_use" => Finish::ToolCalls,
        "refusal" => Finish::Refusal,
        other => panic!("{other}"),
    });
    Summary {
        text: text(&expect["text"]),
        reasoning_chars: expect["reasoning_chars"].as_u64().unwrap_or(0),
        calls: calls.collect(),
        finish: finish.collect(),
        usage: expect["usage"].clone(),
    }
}

#[test]
fn recordings_are_read_as_expected() {
    for recording in recordings(KIND) {
        let events = read(&recording);
        let mut expected = expected(&recording.expect);
        let read = summary(&events);
        // Some plain bodies have no count of it in the manifest.
        if !recording.is_stream {
            expected.reasoning_chars = read.reasoning_chars;
        }
        assert_eq!(read, expected, "{}", recording.file);
        assert_eq!(events.last(), Some(&ModelEvent::Done), "{}", recording.file);
    }
}

#[test]
fn errors_have_their_message_and_kind() {
    for recording in recordings("error") {
        if !recording.file.starts_with("anthropic/") {
            continue;
        }
        let error = decode_error(
            recording.http_status,
            Some("application/json"),
            &recording.bytes,
        );
        let expected = &recording.expect["errors"][0];
        assert_eq!(Some(error.message.as_str()), expected["message"].as_str());
        assert_eq!(error.kind.as_deref(), expected["type"].as_str());
        assert!(error.status.is_some(), "{}", recording.file);
    }
}

/// Streams up to this size are cut at every byte; the square of it is what that costs.
const CUT_EVERYWHERE_BYTES_MAX: usize = 4 * 1024;
/// Cuts of a longer one, at regular places.
const CUTS: usize = 200;

#[test]
fn every_cut_gives_the_same_events() {
    for recording in recordings(KIND)
        .iter()
        .filter(|recording| recording.is_stream)
    {
        let bytes = recording.bytes.as_slice();
        let whole = events([bytes]);
        let step = if bytes.len() <= CUT_EVERYWHERE_BYTES_MAX {
            1
        } else {
            (bytes.len() / CUTS) | 1
        };
        for cut in (1..bytes.len()).step_by(step) {
            let (head, tail) = bytes.split_at(cut);
            assert!(events([head, tail]) == whole, "{} at {cut}", recording.file);
        }
        assert!(events(bytes.chunks(1)) == whole, "{}", recording.file);
    }
}

/// The content of an answer, as the official clients put it together from a stream.
fn content_of(stream: &[u8]) -> (Value, Value) {
    let text = std::str::from_utf8(stream).expect("UTF-8");
    let (mut message, mut blocks) = (Value::Null, Vec::<Value>::new());
    let mut inputs: Vec<String> = Vec::new();
    for event in text.split("\n\n").filter(|event| !event.trim().is_empty()) {
        let data = event.lines().find_map(|line| line.strip_prefix("data: "));
        let Some(Ok(data)) = data.map(serde_json::from_str::<Value>) else {
            continue;
        };
        match data["type"].as_str() {
            Some("message_start") => message = data["message"].clone(),
            Some("content_block_start") => {
                assert_eq!(data["index"], blocks.len(), "{event}");
                let mut block = data["content_block"].clone();
                if block["citations"] == json!([]) {
                    block
                        .as_object_mut()
                        .expect("an object")
                        .remove("citations");
                }
                blocks.push(block);
                inputs.push(String::new());
            }
            Some("content_block_delta") => {
                let at = data["index"].as_u64().expect("an index") as usize;
                add(&mut blocks[at], &mut inputs[at], &data["delta"]);
            }
            Some("message_delta") => message["stop_reason"] = data["delta"]["stop_reason"].clone(),
            Some(_) | None => {}
        }
    }
    for (block, input) in blocks.iter_mut().zip(&inputs) {
        if !input.is_empty() {
            block["input"] = arguments_value(input);
        }
    }
    (message["stop_reason"].take(), blocks.into())
}

fn add(block: &mut Value, input: &mut String, delta: &Value) {
    let mut join = |key: &str| {
        let more = delta[key].as_str().expect("a text");
        block[key] = format!("{}{more}", block[key].as_str().unwrap_or_default()).into();
    };
    match delta["type"].as_str().expect("a kind") {
        "text_delta" => join("text"),
        "thinking_delta" => join("thinking"),
        "signature_delta" => join("signature"),
        "input_json_delta" => input.push_str(delta["partial_json"].as_str().expect("a text")),
        "citations_delta" => {
            if !block["citations"].is_array() {
                block["citations"] = json!([]);
            }
            let list = block["citations"].as_array_mut().expect("a list");
            list.push(delta["citation"].clone());
        }
        "compaction_delta" => {
            for key in ["content", "encrypted_content"] {
                block[key] = delta[key].clone();
            }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_recorded_answer_is_written_as_it_was() {
    for recording in recordings(KIND) {
        let log = log(&read(&recording), FORMAT);
        let (stop, content) = if recording.is_stream {
            content_of(&recording.bytes)
        } else {
            let body: Value = serde_json::from_slice(&recording.bytes).expect("JSON");
            (body["stop_reason"].clone(), body["content"].clone())
        };
        let written = content_of(&stream_of(&log, RanCalls::Shown));
        assert_eq!(
            written,
            (stop.clone(), plain(&content)),
            "{}",
            recording.file
        );
        let body: Value = serde_json::from_slice(&body_of(&log, RanCalls::Shown)).expect("JSON");
        // A plain answer has objects only.
        if !recording.file.contains("truncated") {
            assert_eq!(body["content"], plain(&content), "{}", recording.file);
        }
        assert_eq!(body["stop_reason"], stop, "{}", recording.file);
        assert_eq!(
            body["usage"], recording.expect["usage"],
            "{}",
            recording.file
        );
    }
}

/// Content without fields of texts and calls that say nothing.
fn plain(content: &Value) -> Value {
    let mut content = content.clone();
    for block in content.as_array_mut().expect("a list") {
        let is_ours = matches!(block["type"].as_str(), Some("text" | "tool_use"));
        if let (true, Some(fields)) = (is_ours, block.as_object_mut()) {
            fields.retain(|_, value| !value.is_null() && *value != json!([]));
        }
    }
    content
}
