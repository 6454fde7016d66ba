//! A stream of OpenAI's Responses, as recorded answers have it, but for the end mark, which the Open Responses document
//! asks for.

use serde_json::{Value, json};

use super::super::profile::{Profile, word};
use super::{CREATED_S, INPUT_TOKENS, StreamEvents, bare, named};

const ID: &str = "resp_bench";
const MESSAGE_ID: &str = "msg_bench0011223344556677889900aabbccddeeff001122334455";
const ITEM_ADDED: &str = "response.output_item.added";

/// Counts the events of a stream.
#[derive(Default)]
struct EventCount(u32);

/// The beginnings of the response, of its message and of the message's part; the deltas; the ends of all three.
pub fn events(model: &str, profile: Profile) -> StreamEvents {
    let mut count = EventCount::default();
    let text = profile.text();
    let part = |text: &str| json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
    let item = |status: &str, content: &[Value]| json!({"id": MESSAGE_ID, "type": "message", "status": status, "content": content, "role": "assistant"});
    let done = item("completed", &[part(&text)]);
    let of_part = |more: Value| {
        joined(
            json!({"item_id": MESSAGE_ID, "output_index": 0, "content_index": 0}),
            more,
        )
    };
    let begun = json!({"response": response(model, "in_progress", &[], Value::Null)});
    let opening = vec![
        count.event("response.created", begun.clone()),
        count.event("response.in_progress", begun),
        count.event(
            ITEM_ADDED,
            json!({"output_index": 0, "item": item("in_progress", &[])}),
        ),
        count.event(
            "response.content_part.added",
            of_part(json!({"part": part("")})),
        ),
    ];
    let delta = |index| of_part(json!({"delta": word(index), "logprobs": []}));
    let pieces = (0..profile.deltas)
        .map(|index| count.event("response.output_text.delta", delta(index)))
        .collect();
    let whole = response(
        model,
        "completed",
        std::slice::from_ref(&done),
        usage(profile.deltas),
    );
    let closing = vec![
        count.event(
            "response.output_text.done",
            of_part(json!({"text": text, "logprobs": []})),
        ),
        count.event(
            "response.content_part.done",
            of_part(json!({"part": part(&text)})),
        ),
        count.event(
            "response.output_item.done",
            json!({"output_index": 0, "item": done}),
        ),
        count.event("response.completed", json!({"response": whole})),
        bare("[DONE]"),
    ];
    StreamEvents {
        opening,
        pieces,
        closing,
    }
}

fn response(model: &str, status: &str, output: &[Value], usage: Value) -> Value {
    json!({
        "id": ID, "object": "response", "created_at": CREATED_S, "status": status, "background": false,
        "error": null, "incomplete_details": null, "instructions": null, "max_output_tokens": null,
        "max_tool_calls": null, "model": model, "output": output, "parallel_tool_calls": true,
        "previous_response_id": null, "reasoning": {"effort": null, "summary": null}, "service_tier": "default",
        "store": false, "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled",
        "usage": usage, "user": null, "metadata": {}
    })
}

fn usage(tokens: usize) -> Value {
    json!({
        "input_tokens": INPUT_TOKENS, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": tokens,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": INPUT_TOKENS + tokens
    })
}

impl EventCount {
    fn event(&mut self, kind: &str, fields: Value) -> String {
        let head = json!({"type": kind, "sequence_number": self.0});
        self.0 += 1;
        named(&joined(head, fields))
    }
}

/// The fields of two objects.
fn joined(mut fields: Value, more: Value) -> Value {
    if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
        fields.extend(more);
    }
    fields
}
