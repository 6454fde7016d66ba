//! Calls of a history as upstreams take them: servers that parse their arguments refuse the whole
//! request for one that was cut, and some refuse an empty list of calls.

use serde_json::value::RawValue;

use super::HistoryRepairs;
use crate::json::Literal;
use crate::model::CallForm;
use crate::request::{Block, CallBlock, Message};

/// The name under which arguments that are no object stand in one.
pub const INVALID_ARGUMENTS: &str = "invalid_arguments";

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
    let wrapped = serde_json::json!({ INVALID_ARGUMENTS: text });
    Some(Literal::from_text(&wrapped.to_string()))
}

fn wanted(call: &CallBlock) -> Option<Literal> {
    match call.form {
        CallForm::Function | CallForm::ByName => sendable_arguments(&call.arguments),
        // A custom tool's input is any text.
        CallForm::Custom => None,
    }
}

/// Whether all calls can be sent as they are.
pub(super) fn are_sendable(messages: &[Message]) -> bool {
    let mut calls = messages.iter().flat_map(Message::calls);
    calls.all(|call| wanted(call).is_none())
}

/// Makes the arguments of a history's calls sendable and counts what had to be done.
pub(super) fn mend(messages: &mut [Message], repairs: &mut HistoryRepairs) {
    for message in messages {
        for block in &mut message.blocks {
            let Block::Call(call) = block else {
                continue;
            };
            let Some(arguments) = wanted(call) else {
                continue;
            };
            let is_empty = call.arguments.to_text().trim().is_empty();
            repairs.empty_arguments += u32::from(is_empty);
            repairs.invalid_arguments += u32::from(!is_empty);
            call.arguments = arguments;
            message.is_changed = true;
        }
    }
}

#[cfg(test)]
mod tests;
