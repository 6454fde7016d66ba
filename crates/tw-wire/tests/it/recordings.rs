//! Recorded answers are read as their manifest says.

use serde_json::Value;
use tw_core::json::LiteralBuf;
use tw_core::model::{AnswerDelta, Finish, ModelEvent};
use tw_wire::openai_chat::body::decode_error;

use crate::answer::{self, BuiltAnswer};
use crate::shared::{Recording, recordings};

#[test]
fn chat_recordings_are_read_as_expected() {
    for recording in recordings("openai.chat.completions") {
        let events = if recording.is_stream {
            answer::events([recording.bytes.as_slice()])
        } else {
            answer::body_events(&recording.bytes)
        };
        let text = text_as_it_came(&events);
        assert_eq!(
            text,
            recording.expect["text"].as_str().unwrap_or_default(),
            "text of {}",
            recording.file
        );
        check(&recording, &answer::whole(&events));
    }
}

/// The manifest has the texts of all choices in the order of their pieces.
fn text_as_it_came(events: &[ModelEvent]) -> String {
    let mut text = LiteralBuf::default();
    for event in events {
        if let ModelEvent::Delta(AnswerDelta {
            text: Some(more), ..
        }) = event
        {
            text.push(more);
        }
    }
    text.to_text()
}

fn check(recording: &Recording, answer: &BuiltAnswer) {
    let (file, expect) = (&recording.file, &recording.expect);
    let refusal: String = answer
        .choices
        .values()
        .map(|choice| choice.refusal.as_str())
        .collect();
    assert_eq!(
        refusal,
        expect["refusal"].as_str().unwrap_or_default(),
        "refusal of {file}"
    );
    check_calls(file, expect, answer);
    check_finishes(file, expect, answer);

    let reasoning_chars = answer
        .choices
        .values()
        .map(|choice| choice.reasoning.chars().count())
        .sum::<usize>();
    if let Some(expected) = expect["reasoning_chars"]
        .as_u64()
        .filter(|&chars| chars > 0)
    {
        assert_eq!(reasoning_chars as u64, expected, "reasoning of {file}");
    }
    let usage = answer.usage.clone().unwrap_or(Value::Null);
    assert_eq!(usage, expect["usage"], "usage of {file}");
    let errors = expect["errors"].as_array().map_or(&[][..], Vec::as_slice);
    let messages: Vec<&str> = answer
        .errors
        .iter()
        .map(|error| error.message.as_str())
        .collect();
    let expected: Vec<&str> = errors
        .iter()
        .filter_map(|error| error["message"].as_str())
        .collect();
    assert_eq!(messages, expected, "errors of {file}");
    assert_eq!(
        Value::from(answer.is_done),
        expect["done_sentinel"],
        "end mark of {file}"
    );
}

fn check_calls(file: &str, expect: &Value, answer: &BuiltAnswer) {
    let was_cut = answer
        .finishes
        .iter()
        .any(|(_, reason)| *reason == Finish::Length);
    let normalize = |arguments: &str| match arguments {
        "" if !was_cut => "{}".to_owned(),
        other => other.to_owned(),
    };
    let calls = answer.choices.values().flat_map(|choice| &choice.calls);
    let calls: Vec<(String, String, String)> = calls
        .map(|call| {
            let (id, name) = (
                call.id.clone().unwrap_or_default(),
                call.name.clone().unwrap_or_default(),
            );
            (id, name, normalize(&call.arguments))
        })
        .collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut expected: Vec<(String, String, String)> = expect["calls"]
        .as_array()
        .expect("an entry lists calls")
        .iter()
        .map(|call| {
            (
                text(&call["id"]),
                text(&call["name"]),
                normalize(&text(&call["arguments"])),
            )
        })
        .collect();
    let old = &expect["function_call"];
    if old.is_object() {
        expected.push((String::new(), text(&old["name"]), text(&old["arguments"])));
    }
    assert_eq!(calls, expected, "calls of {file}");
}

fn check_finishes(file: &str, expect: &Value, answer: &BuiltAnswer) {
    let words: Vec<&str> = expect["finish"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let expected: Vec<Finish> = words
        .iter()
        .map(|word| match *word {
            "length" => Finish::Length,
            "tool_calls" => Finish::ToolCalls,
            "function_call" => Finish::ToolCalls,
            "content_filter" => Finish::ContentFilter,
            _ => Finish::Stop,
        })
        .collect();
    let finishes: Vec<Finish> = answer.finishes.iter().map(|(_, reason)| *reason).collect();
    assert_eq!(finishes.is_empty(), expected.is_empty(), "finish of {file}");
    // A choice finishes once, whatever the upstream repeats.
    assert!(
        answer.finishes.len() <= answer.choices.len().max(1),
        "finish of {file}"
    );
    assert_eq!(finishes, expected[..finishes.len()], "finish of {file}");
}

#[test]
fn error_recordings_have_their_message() {
    for recording in recordings("error") {
        let error = decode_error(
            recording.http_status,
            Some("application/json"),
            &recording.bytes,
        );
        let first = &recording.expect["errors"][0];
        let expected = first["message"]
            .as_str()
            .or(first["detail"].as_str())
            .or(first.as_str());
        assert_eq!(Some(error.message.as_str()), expected, "{}", recording.file);
    }
}
