//! Repair of a history into one that an upstream accepts: every call is answered directly after the
//! message that made it, once, and nothing else is an answer.

mod calls;
pub(crate) mod ids;

pub use calls::{INVALID_ARGUMENTS, sendable_arguments};

use std::fmt;

use crate::json::Literal;
use crate::request::{Block, Message, ResultBlock, Role};

/// Repairs of a history, counted by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryRepairs {
    /// Results of calls that no message made; left out.
    pub orphan_results: u32,
    /// Calls without a result; one that says so was added.
    pub missing_results: u32,
    /// Results that stood elsewhere; moved.
    pub moved_results: u32,
    /// Second results of one call; left out.
    pub repeated_results: u32,
    /// Calls that had the id of another one of their message; renamed, with their results.
    pub repeated_ids: u32,
    /// Calls whose arguments were no object; they were put into one.
    pub invalid_arguments: u32,
    /// Calls whose arguments were nothing, not even an empty object.
    pub empty_arguments: u32,
    /// Lists of tools or calls with nothing in them; left out.
    pub empty_lists: u32,
    /// Halves of characters without the other half; replaced by U+FFFD.
    pub half_characters: u32,
    /// Tools of ours that the client described otherwise; our description was used.
    pub tool_schemas: u32,
    /// Differences between the request as written and as the upstream that is asked first takes it.
    pub differences: FeltDifferences,
}

/// Noticeable differences between a request as written and as an upstream gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeltDifferences {
    /// Parts of results that stand in a message of the user instead.
    pub moved_parts: u32,
    /// Results in parts that are one text instead.
    pub joined_results: u32,
    /// Tools that the upstream would refuse.
    pub tools_left_out: u32,
    /// Tools that asked to be strict and cannot be.
    pub not_strict: u32,
}

impl HistoryRepairs {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for HistoryRepairs {
    /// The form of the header: `orphan_result=1, missing_result=2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("orphan_result", self.orphan_results),
            ("missing_result", self.missing_results),
            ("moved_result", self.moved_results),
            ("repeated_result", self.repeated_results),
            ("repeated_id", self.repeated_ids),
            (INVALID_ARGUMENTS, self.invalid_arguments),
            ("empty_arguments", self.empty_arguments),
            ("empty_list", self.empty_lists),
            ("half_character", self.half_characters),
            ("tool_schema", self.tool_schemas),
            ("moved_part", self.differences.moved_parts),
            ("joined_result", self.differences.joined_results),
            ("tool_left_out", self.differences.tools_left_out),
            ("not_strict", self.differences.not_strict),
        ];
        let mut first = true;
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            if !first {
                f.write_str(", ")?;
            }
            first = false;
            write!(f, "{name}={count}")?;
        }
        Ok(())
    }
}

/// The result that the model is given for a call whose result is not in the history.
const MISSING_RESULT: &str = r#"{"error":"the result of this call is not known"}"#;

/// The messages as [`repair`] leaves them, and the repairs; `None` for messages that were in order.
pub fn repaired(messages: &[Message]) -> (Option<Vec<Message>>, HistoryRepairs) {
    let is_right =
        is_in_order(messages) && ids::are_told_apart(messages) && calls::are_sendable(messages);
    if is_right {
        return (None, HistoryRepairs::default());
    }
    let (repaired, repairs) = repair(messages.to_vec());
    (Some(repaired), repairs)
}

/// Puts every result behind its call, tells the calls of a message apart and makes their arguments
/// objects. Messages that were in order stay untouched.
pub fn repair(messages: Vec<Message>) -> (Vec<Message>, HistoryRepairs) {
    let (mut repaired, mut repairs) = put_in_order(messages);
    repairs.repeated_ids = ids::tell_apart(&mut repaired);
    calls::mend(&mut repaired, &mut repairs);
    (repaired, repairs)
}

fn put_in_order(messages: Vec<Message>) -> (Vec<Message>, HistoryRepairs) {
    let mut repairs = HistoryRepairs::default();
    if is_in_order(&messages) {
        return (messages, repairs);
    }
    let mut slots: Vec<Option<Message>> = messages.into_iter().map(Some).collect();
    let mut repaired = Vec::with_capacity(slots.len());
    for at in 0..slots.len() {
        // Results are taken along with the message that made the call.
        if slots[at]
            .as_ref()
            .is_none_or(|message| message.role == Role::Tool)
        {
            continue;
        }
        let Some(message) = slots[at].take() else {
            continue;
        };
        let ids: Vec<String> = message.calls().map(|call| call.id.clone()).collect();
        repaired.push(message);
        let group_end = group_end(&slots, at + 1);
        for id in ids {
            repaired.push(take_result(
                &mut slots,
                at + 1,
                group_end,
                &id,
                &mut repairs,
            ));
        }
    }
    for left in slots.into_iter().flatten() {
        let answered = left.result().is_some_and(|result| {
            repaired.iter().any(|message| {
                message
                    .result()
                    .is_some_and(|kept| kept.call_id == result.call_id)
            })
        });
        if answered {
            repairs.repeated_results += 1;
        } else {
            repairs.orphan_results += 1;
        }
    }
    (repaired, repairs)
}

/// The first place behind `from` that holds no tool message.
fn group_end(slots: &[Option<Message>], from: usize) -> usize {
    let mut at = from;
    while slots.get(at).is_some_and(|slot| {
        slot.as_ref()
            .is_none_or(|message| message.role == Role::Tool)
    }) {
        at += 1;
    }
    at
}

/// The result of a call: the next one with its id, before a later message makes a call with the
/// same id.
fn take_result(
    slots: &mut [Option<Message>],
    from: usize,
    group_end: usize,
    id: &str,
    repairs: &mut HistoryRepairs,
) -> Message {
    for (at, slot) in slots.iter_mut().enumerate().skip(from) {
        let Some(message) = slot else {
            continue;
        };
        if message.calls().any(|call| call.id == id) {
            break;
        }
        if message.result().is_some_and(|result| result.call_id == id)
            && let Some(found) = slot.take()
        {
            repairs.moved_results += u32::from(at >= group_end);
            return found;
        }
    }
    repairs.missing_results += 1;
    missing_result(id)
}

fn missing_result(id: &str) -> Message {
    let result = ResultBlock::of_text(id, Literal::from_text(MISSING_RESULT));
    Message::made(Role::Tool, vec![Block::Result(result)])
}

fn is_in_order(messages: &[Message]) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            let Some(result) = message.result() else {
                return false;
            };
            let Some(at) = open.iter().position(|id| *id == result.call_id) else {
                return false;
            };
            open.swap_remove(at);
            continue;
        }
        if !open.is_empty() {
            return false;
        }
        open.extend(message.calls().map(|call| call.id.as_str()));
    }
    open.is_empty()
}

#[cfg(test)]
mod tests;
