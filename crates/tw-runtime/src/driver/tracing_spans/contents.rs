//! What was said, as spans tell it when they are to: the messages as JSON in the form of the GenAI conventions, without
//! what a tool's definition calls sensitive.

use std::collections::HashMap;

use serde_json::{Value, json};
use tw_core::definition::MaskedCall;
use tw_core::request::{Block, CallBlock, Message, Role};
use tw_core::tool::Tool;
use tw_core::turn::Turn;

use super::definition_of;

/// Most text of one attribute, in bytes; what comes behind is left out.
const TEXT_BYTES_MAX: usize = 32 * 1024;

/// The messages of a request, the last first to be kept.
pub(super) fn history(turn: &Turn, messages: &[Message]) -> String {
    let calls: HashMap<&str, &CallBlock> = messages
        .iter()
        .flat_map(Message::calls)
        .map(|call| (call.id.as_str(), call))
        .collect();
    let mut left = TEXT_BYTES_MAX;
    let mut written: Vec<Value> = Vec::new();
    for message in messages.iter().rev() {
        let role = match message.role {
            Role::System | Role::Developer => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        let parts = parts(turn, &message.blocks, &calls, &mut left);
        written.push(json!({ "role": role, "parts": parts }));
        if left == 0 {
            break;
        }
    }
    written.reverse();
    Value::Array(written).to_string()
}

/// The answer of a round.
pub(super) fn answer(turn: &Turn, blocks: &[Block]) -> String {
    let mut left = TEXT_BYTES_MAX;
    let parts = parts(turn, blocks, &HashMap::new(), &mut left);
    json!([{ "role": "assistant", "parts": parts }]).to_string()
}

/// A call and its result, each cut.
pub(super) fn masked(tool: Option<&Tool>, arguments: &str, shown: &str) -> MaskedCall {
    let masked = masked_whole(tool, arguments, shown);
    let (mut for_arguments, mut for_shown) = (TEXT_BYTES_MAX, TEXT_BYTES_MAX);
    MaskedCall {
        arguments: cut(&masked.arguments, &mut for_arguments),
        shown: cut(&masked.shown, &mut for_shown),
    }
}

fn masked_whole(tool: Option<&Tool>, arguments: &str, shown: &str) -> MaskedCall {
    match tool.and_then(definition_of) {
        Some(definition) => definition.masked_call(arguments, shown),
        None => MaskedCall {
            arguments: arguments.to_owned(),
            shown: shown.to_owned(),
        },
    }
}

fn parts(
    turn: &Turn,
    blocks: &[Block],
    calls: &HashMap<&str, &CallBlock>,
    left: &mut usize,
) -> Vec<Value> {
    let tool = |name: &str| turn.setup().offer.ours().find(|tool| tool.name == name);
    let mut parts = Vec::new();
    for block in blocks {
        parts.push(match block {
            Block::Text(text) | Block::Refusal(text) => {
                json!({ "type": "text", "content": cut(&text.to_text(), left) })
            }
            Block::Reasoning(thought) => {
                json!({ "type": "reasoning", "content": cut(&thought.text.to_text(), left) })
            }
            Block::Call(call) => {
                let of = tool(&call.name).map(AsRef::as_ref);
                let arguments = masked_whole(of, &call.arguments.to_text(), "").arguments;
                let arguments = cut(&arguments, left);
                let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
                json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments })
            }
            Block::Result(result) => {
                let text: String = result.content.iter().filter_map(text_of).collect();
                let text = match calls.get(result.call_id.as_str()) {
                    Some(call) => {
                        let of = tool(&call.name).map(AsRef::as_ref);
                        masked_whole(of, &call.arguments.to_text(), &text).shown
                    }
                    None => text,
                };
                json!({ "type": "tool_call_response", "id": result.call_id, "response": cut(&text, left) })
            }
            Block::Part(_) | Block::Native(_) => continue,
        });
        if *left == 0 {
            break;
        }
    }
    parts
}

fn text_of(block: &Block) -> Option<String> {
    match block {
        Block::Text(text) => Some(text.to_text()),
        Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    }
}

/// As much of the text as there is room for.
fn cut(text: &str, left: &mut usize) -> String {
    let end = text.floor_char_boundary(*left);
    *left = if end < text.len() { 0 } else { *left - end };
    text[..end].to_owned()
}
