//! Records of PocketBase: a turn, with its calls as the expanded relation `tool_calls_via_turn`.
//!
//! `prompt` and `answer` are the texts of the turn's user and of its last message; the collections of the application
//! that this follows leave their names open.

use tw_core::call::CallStatus;
use tw_core::request::Role;
use tw_core::time::Timestamp;

use super::ShapeRow;
use super::said::{SaidCall, SaidEntry, SaidTurn};
use super::write::{ObjectWriter, list, quoted, text_of, time, value_of};

pub fn row_of_call(turn: &SaidTurn, call: &SaidCall) -> String {
    let metadata = ObjectWriter::new()
        .json("round", &call.call.round.to_string())
        .text("runs", call.runs.as_str());
    let metadata = match call.cost_microusd {
        Some(cost) => metadata.json("cost_microusd", &cost.to_string()),
        None => metadata,
    };
    let result = call.result.as_deref().or(call.shown.as_deref());
    let result = result.filter(|_| call.status == CallStatus::Completed);
    let error = (call.status == CallStatus::Failed).then(|| {
        let shown = call.shown.as_deref().filter(|shown| !shown.is_empty());
        shown.or(call.reason.map(tw_core::call::CallReason::as_str))
    });
    let arguments = match call.arguments.trim() {
        "" => "{}".to_owned(),
        text => value_of(text),
    };
    ObjectWriter::new()
        .text("id", &call.id.to_string())
        .text("collectionName", "tool_calls")
        .text("turn", &turn.id.to_string())
        .text("tool_name", &call.tool_name)
        .text("tool_call_id", &call.tool_call_id)
        .json("arguments", &arguments)
        .json(
            "result",
            &result.map_or_else(|| "null".to_owned(), value_of),
        )
        .text("status", call.status.as_str())
        .json(
            "error",
            &error.flatten().map_or_else(|| "\"\"".to_owned(), quoted),
        )
        .text(
            "external_id",
            call.external_id.as_deref().unwrap_or_default(),
        )
        .json("metadata", &metadata.end())
        .text("created", &time_of(call.created))
        .text("updated", &time_of(call.updated))
        .end()
}

pub fn row(turn: &SaidTurn) -> ShapeRow {
    let texts = |role: Role| {
        turn.said.iter().filter_map(move |said| match said {
            SaidEntry::Message(message) if message.role == role => Some(text_of(&message.blocks)),
            SaidEntry::Message(_) | SaidEntry::Answer(_) => None,
        })
    };
    let prompt: Vec<String> = texts(Role::User).filter(|text| !text.is_empty()).collect();
    let calls: Vec<String> = turn
        .calls
        .iter()
        .map(|call| row_of_call(turn, call))
        .collect();
    let expand = ObjectWriter::new().json("tool_calls_via_turn", &list(&calls));
    let id = turn.id.to_string();
    let fields = ObjectWriter::new()
        .text("id", &id)
        .text("collectionName", "turns")
        .text("conversation", &turn.conversation)
        .text("prompt", &prompt.join("\n\n"))
        .text(
            "answer",
            &texts(Role::Assistant).next_back().unwrap_or_default(),
        )
        .json(
            "has_tool_calls",
            if calls.is_empty() { "false" } else { "true" },
        )
        .json("tool_count", &calls.len().to_string())
        .text("created", &time_of(turn.created))
        .text("updated", &time_of(turn.updated))
        .json("expand", &expand.end());
    super::write::row(id, fields)
}

/// As PocketBase writes times: with a space, and milliseconds.
fn time_of(at: Timestamp) -> String {
    let written = time(at);
    let (day, rest) = written.split_once('T').unwrap_or((&written, ""));
    let seconds = rest.get(..12).unwrap_or(rest);
    format!("{day} {seconds}Z")
}
