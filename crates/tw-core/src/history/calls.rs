//! Calls of a history as upstreams take them: servers that parse their arguments refuse the whole
//! request for one that was cut, and some refuse an empty list of calls.

use serde_json::value::RawValue;

use super::HistoryRepairs;
use super::ids::member;
use crate::json::tree::JsonTree;
use crate::json::{Json, Literal};
use crate::model::CallForm;
use crate::request::{Block, CallBlock, Message, Role};

/// Arguments as an upstream takes them, where they are not: nothing at all is no arguments, and
/// what is no object is put into one.
pub fn sendable_arguments(written: &Literal) -> Option<Literal> {
    let text = written.to_text();
    if text.trim().is_empty() {
        return Some(Literal::from_text("{}"));
    }
    let is_object =
        serde_json::from_str(&text).is_ok_and(|raw: &RawValue| raw.get().starts_with('{'));
    if is_object {
        return None;
    }
    let wrapped = serde_json::json!({ "invalid_arguments": text });
    Some(Literal::from_text(&wrapped.to_string()))
}

fn wanted(call: &CallBlock) -> Option<Literal> {
    match call.form {
        CallForm::Function | CallForm::Legacy => sendable_arguments(&call.arguments),
        // A custom tool's input is any text.
        CallForm::Custom => None,
    }
}

fn has_empty_list(message: &Message) -> bool {
    let is_candidate = message.role == Role::Assistant && message.calls().next().is_none();
    let raw = message.raw.as_ref().filter(|_| is_candidate);
    raw.is_some_and(|raw| raw.as_str().contains("\"tool_calls\""))
        && without_empty_list(message).is_some()
}

/// Whether all calls can be sent as they are.
pub(super) fn are_sendable(messages: &[Message]) -> bool {
    messages.iter().all(|message| {
        message.calls().all(|call| wanted(call).is_none()) && !has_empty_list(message)
    })
}

/// Puts the calls of a message in order and counts what had to be done.
pub(super) fn mend(messages: &mut [Message], repairs: &mut HistoryRepairs) {
    for message in messages {
        if has_empty_list(message) {
            message.raw = without_empty_list(message);
            repairs.empty_lists += 1;
        }
        let mut changed = Vec::new();
        let mut place = 0;
        for block in &mut message.blocks {
            let Block::Call(call) = block else {
                continue;
            };
            let at = (call.form != CallForm::Legacy).then_some(place);
            place += usize::from(at.is_some());
            let Some(arguments) = wanted(call) else {
                continue;
            };
            let is_empty = call.arguments.to_text().trim().is_empty();
            repairs.empty_arguments += u32::from(is_empty);
            repairs.invalid_arguments += u32::from(!is_empty);
            changed.push((at, arguments.to_text()));
            call.arguments = arguments;
        }
        if !changed.is_empty() {
            let raw = message.raw.take();
            message.raw = raw.and_then(|raw| with_arguments(&raw, changed));
        }
    }
}

fn without_empty_list(message: &Message) -> Option<Json> {
    let mut tree = JsonTree::read(message.raw.as_ref()?)?;
    let JsonTree::Object(members) = &mut tree else {
        return None;
    };
    let before = members.len();
    members.retain(|(name, value)| {
        name != "tool_calls" || !matches!(value, JsonTree::Array(calls) if calls.is_empty())
    });
    (members.len() < before).then(|| tree.to_json())
}

/// The message as written, with other arguments; `None` for the place is the call of the old form.
fn with_arguments(raw: &Json, changed: Vec<(Option<usize>, String)>) -> Option<Json> {
    let mut tree = JsonTree::read(raw)?;
    for (place, arguments) in changed {
        let function = match place {
            Some(place) => {
                let JsonTree::Array(calls) = member(&mut tree, "tool_calls")? else {
                    return None;
                };
                member(calls.get_mut(place)?, "function")?
            }
            None => member(&mut tree, "function_call")?,
        };
        let JsonTree::Object(members) = function else {
            return None;
        };
        let text = JsonTree::Text(arguments);
        match members.iter_mut().find(|(name, _)| name == "arguments") {
            Some((_, have)) => *have = text,
            None => members.push(("arguments".into(), text)),
        }
    }
    Some(tree.to_json())
}

#[cfg(test)]
mod tests;
