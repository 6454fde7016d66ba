//! Answers of upstreams, as their manifest says and however they are cut.

use serde_json::{Value, json};
use tw_core::model::{Finish, ModelEvent, TokenUsage};
use tw_wire::openai_responses::stream::ResponseDecoder;
use tw_wire::openai_responses::{FORMAT, body};
use tw_wire::upstream_answer::StreamLimits;

use crate::shared::{Recording, recordings};

pub fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<ModelEvent> {
    let (mut decoder, mut out) = (ResponseDecoder::new(&StreamLimits::defaults()), Vec::new());
    for piece in pieces {
        decoder.feed(piece, &mut out).expect("an answer");
    }
    decoder.finish(&mut out).expect("an answer");
    out
}

pub fn of_recording(recording: &Recording) -> Vec<ModelEvent> {
    if recording.is_stream {
        return events([recording.bytes.as_slice()]);
    }
    let mut out = Vec::new();
    body::decode(&recording.bytes, &mut out).expect("an answer");
    out
}

/// An answer put together from its events.
#[derive(Debug, Default)]
struct Built {
    text: String,
    refusal: String,
    reasoning: String,
    calls: Vec<(String, String, String)>,
    natives: Vec<Value>,
    finish: Vec<Finish>,
    usage: Option<TokenUsage>,
    errors: Vec<String>,
    is_done: bool,
}

fn build(events: &[ModelEvent]) -> Built {
    let mut built = Built::default();
    for event in events {
        match event {
            ModelEvent::Delta(delta) => {
                built
                    .text
                    .extend(delta.text.as_ref().map(|text| text.to_text()));
                let rest = delta.rest.as_deref();
                let refusal = rest.and_then(|rest| rest.refusal.as_ref());
                built.refusal.extend(refusal.map(|text| text.to_text()));
                let thought = rest.and_then(|rest| rest.reasoning.as_ref());
                built
                    .reasoning
                    .extend(thought.map(|thought| thought.text.to_text()));
            }
            ModelEvent::Call(piece) => {
                let at = piece.call as usize;
                if built.calls.len() == at {
                    built.calls.push(Default::default());
                }
                let call = &mut built.calls[at];
                call.0.extend(piece.id.as_deref().map(str::to_owned));
                call.1.extend(piece.name.as_deref().map(str::to_owned));
                call.2
                    .extend(piece.arguments.as_ref().map(|text| text.to_text()));
            }
            ModelEvent::Native { part, .. } => {
                assert_eq!(part.format, FORMAT);
                built.natives.push(part.json.to_value());
            }
            ModelEvent::BlockEnd(end) => {
                assert!(end.native.is_some());
            }
            ModelEvent::Finish { reason, .. } => built.finish.push(*reason),
            ModelEvent::Usage(usage) => built.usage = Some((**usage).clone()),
            ModelEvent::Error(error) => built.errors.push(error.message.clone()),
            ModelEvent::Done => built.is_done = true,
            ModelEvent::Start { .. } | ModelEvent::Extra { .. } | ModelEvent::Progress { .. } => {}
        }
    }
    built
}

#[test]
fn recordings_are_read_as_expected() {
    for recording in recordings("openai.responses") {
        let built = build(&of_recording(&recording));
        let (file, expect) = (&recording.file, &recording.expect);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        assert_eq!(built.text, text(&expect["text"]), "text of {file}");
        assert_eq!(built.refusal, text(&expect["refusal"]), "refusal of {file}");
        let calls: Vec<_> = expect["calls"]
            .as_array()
            .expect("an entry lists calls")
            .iter()
            .map(|call| {
                (
                    text(&call["id"]),
                    text(&call["name"]),
                    text(&call["arguments"]),
                )
            })
            .collect();
        let functions: Vec<_> = built.calls.clone();
        if !calls.is_empty() {
            assert_eq!(functions, calls, "calls of {file}");
        }
        // The parts of a summary are kept apart by a blank line.
        let said: usize = built.reasoning.replace("\n\n", "").chars().count();
        let expected = expect["reasoning_chars"].as_u64().unwrap_or_default() as usize;
        let whole = built.reasoning.chars().count();
        // The manifest counts streamed reasoning alone.
        if recording.is_stream {
            assert!(
                (said..=whole).contains(&expected),
                "reasoning of {file}: {whole} {expected}"
            );
        }
        let usage = built.usage.and_then(|usage| usage.native);
        let usage = usage.map_or(Value::Null, |part| part.json.to_value());
        assert_eq!(usage, expect["usage"], "usage of {file}");
        let known = ["message", "reasoning", "function_call", "custom_tool_call"];
        let others: Vec<String> = expect["item_types"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .filter(|kind| !known.contains(&kind.as_str()))
            .collect();
        let natives: Vec<String> = built
            .natives
            .iter()
            .map(|item| text(&item["type"]))
            .collect();
        assert_eq!(natives, others, "items of {file}");
        let has_failed = !built.errors.is_empty();
        let failed = expect["finish"][0] == "response.failed";
        assert_eq!(has_failed, failed, "errors of {file}");
        assert_eq!(built.finish.len(), usize::from(!failed), "finish of {file}");
        assert!(built.is_done, "{file}");
    }
}

/// Bytes between two cuts, where a stream is long; the square of its length is what cutting costs.
const CUT_STEP_BYTES: usize = 13;
const CUT_EVERYWHERE_BYTES_MAX: usize = 5 * 1024;

#[test]
fn recordings_are_read_the_same_however_they_are_cut() {
    for recording in recordings("openai.responses") {
        if !recording.is_stream {
            continue;
        }
        let bytes = recording.bytes.as_slice();
        let whole = events([bytes]);
        assert!(events(bytes.chunks(1)) == whole, "{}", recording.file);
        let step = if bytes.len() > CUT_EVERYWHERE_BYTES_MAX {
            CUT_STEP_BYTES
        } else {
            1
        };
        for cut in (1..bytes.len()).step_by(step) {
            let (head, tail) = bytes.split_at(cut);
            assert!(
                events([head, tail]) == whole,
                "{} cut at {cut}",
                recording.file
            );
        }
    }
}

fn sse(events: &[Value]) -> Vec<u8> {
    let mut out = String::new();
    for event in events {
        out.push_str(&format!("data: {event}\n\n"));
    }
    out.into_bytes()
}

fn item(kind: &str, index: u64, item: Value) -> Value {
    json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item})
}

fn delta(kind: &str, index: u64, delta: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "content_index": 0, "delta": delta})
}

fn end(status: &str, fields: Value) -> Value {
    let mut response = fields;
    response["status"] = status.into();
    json!({"type": format!("response.{status}"), "response": response})
}

/// A name, a stream, its text, the arguments of its calls, its finishes and the number of its errors.
type OddStream = (
    &'static str,
    Vec<Value>,
    &'static str,
    Vec<&'static str>,
    Vec<Finish>,
    usize,
);

#[test]
fn odd_streams_are_put_together() {
    let message = json!({"type": "message", "id": "m", "role": "assistant", "content": []});
    let said = |text: &str| {
        json!({"type": "message", "id": "m", "role": "assistant",
               "content": [{"type": "output_text", "text": text, "annotations": []}]})
    };
    let call = |arguments: &str| json!({"type": "function_call", "id": "f", "call_id": "c", "name": "n", "arguments": arguments});
    let done = end("completed", json!({"output": []}));
    let rows: Vec<OddStream> = vec![
        (
            "an item opened inside another one waits",
            vec![
                item("added", 0, message.clone()),
                delta("output_text", 0, "a"),
                item("added", 1, call("")),
                delta("function_call_arguments", 1, "{}"),
                delta("output_text", 0, "b"),
                item("done", 0, said("ab")),
                item("done", 1, call("{}")),
                done.clone(),
            ],
            "ab",
            vec!["{}"],
            vec![Finish::ToolCalls],
            0,
        ),
        (
            "arguments that come with their end alone",
            vec![
                item("added", 0, call("")),
                json!({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{\"a\":1}"}),
                item("done", 0, call("{\"a\":1}")),
                done.clone(),
            ],
            "",
            vec!["{\"a\":1}"],
            vec![Finish::ToolCalls],
            0,
        ),
        (
            "items that come with their ends alone",
            vec![
                item("done", 0, said("hi")),
                item("done", 1, call("{}")),
                done.clone(),
            ],
            "hi",
            vec!["{}"],
            vec![Finish::ToolCalls],
            0,
        ),
        (
            "items that come with the end of the response",
            vec![end(
                "completed",
                json!({"output": [said("hi"), call("{}")]}),
            )],
            "hi",
            vec!["{}"],
            vec![Finish::ToolCalls],
            0,
        ),
        (
            "text without a beginning",
            vec![delta("output_text", 0, "x"), done.clone()],
            "x",
            vec![],
            vec![Finish::Stop],
            0,
        ),
        (
            "a limit",
            vec![
                item("added", 0, call("")),
                delta("function_call_arguments", 0, "{\"a"),
                end(
                    "incomplete",
                    json!({"incomplete_details": {"reason": "max_output_tokens"}}),
                ),
            ],
            "",
            vec!["{\"a"],
            vec![Finish::Length],
            0,
        ),
        (
            "a filter",
            vec![end(
                "incomplete",
                json!({"incomplete_details": {"reason": "content_filter"}}),
            )],
            "",
            vec![],
            vec![Finish::ContentFilter],
            0,
        ),
        (
            "an error at the top",
            vec![
                json!({"type": "error", "code": "server_error", "message": "no", "param": null}),
                end(
                    "failed",
                    json!({"error": {"code": "server_error", "message": "no"}}),
                ),
            ],
            "",
            vec![],
            vec![],
            1,
        ),
        (
            "a response that was stopped there",
            vec![end("cancelled", json!({}))],
            "",
            vec![],
            vec![],
            1,
        ),
    ];
    for (name, stream, text, arguments, finish, errors) in rows {
        let built = build(&events([sse(&stream).as_slice()]));
        assert_eq!(built.text, text, "{name}");
        let called: Vec<&str> = built.calls.iter().map(|call| call.2.as_str()).collect();
        assert_eq!(called, arguments, "{name}");
        assert_eq!(built.finish, finish, "{name}");
        assert_eq!(built.errors.len(), errors, "{name}");
    }
}

#[test]
fn a_character_in_halves_is_whole_again() {
    let stream = concat!(
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"a\\ud83d\"}\n\n",
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"\\ude00b\"}\n\n",
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"\\ud83d\"}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
    );
    assert_eq!(build(&events([stream.as_bytes()])).text, "a😀b\u{fffd}");
}

#[test]
fn hostile_answers_do_no_harm() {
    let rows = [
        "{}",
        "{\"type\":\"response.output_item.done\",\"output_index\":18446744073709551615,\"item\":{}}",
        "{\"type\":\"response.output_item.added\",\"output_index\":-1,\"item\":[]}",
        "{\"type\":\"response.output_item.added\",\"item\":{\"type\":\"message\"}}",
        "{\"type\":\"response.output_text.delta\",\"delta\":{}}",
        "{\"type\":\"response.output_text.delta\",\"delta\":null}",
        "{\"type\":\"response.function_call_arguments.delta\",\"output_index\":7,\"delta\":\"x\"}",
        "{\"type\":\"response.completed\",\"response\":[]}",
        "{\"type\":\"response.completed\",\"response\":{\"output\":[1,null,{}],\"usage\":3,\"error\":7}}",
        "{\"type\":5}",
    ];
    for first in rows {
        for second in rows {
            let stream = format!("data: {first}\n\ndata: {second}\n\n");
            let whole = events([stream.as_bytes()]);
            assert!(events(stream.as_bytes().chunks(1)) == whole);
        }
        let _ = body::decode(first.as_bytes(), &mut Vec::new());
    }
}
