//! A turn's record as JSON. Times are integer microseconds since 1970 UTC.

use serde_json::{Map, Value, json};
use tw_core::approval::ApprovalState;
use tw_core::call::{CallReason, CallRunner};
use tw_core::call_file::FileFault;
use tw_core::change::NewMessage;
use tw_core::conversation::ItemSource;
use tw_core::model::TokenUsage;
use tw_core::request::{Block, Role};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_core::turn_policy::{OnLeave, RecordPolicy};
use tw_core::turn_status::TurnReason;
use tw_runtime::files::FileLinks;
use tw_store::read::call_files::FileView;
use tw_store::read::turn::AttemptRow;
use tw_store::read::view::{ApprovalView, CallView, ResultDetail, RoundView, TurnView};

pub(crate) fn render(view: &TurnView, detail: ResultDetail, links: &FileLinks) -> Value {
    let turn = &view.turn;
    json!({
        "id": turn.id.to_string(),
        "object": "turn",
        "status": turn.status.as_str(),
        "reason": turn.reason.map(TurnReason::as_str),
        "model": turn.model,
        "streamed": turn.streamed,
        "on_leave": match turn.on_leave { OnLeave::Stop => "stop", OnLeave::Finish => "finish" },
        "record": match turn.record { RecordPolicy::Full => "full", RecordPolicy::Minimal => "minimal" },
        "conversation": turn.conversation,
        "items_of": turn.item_source.map(ItemSource::as_str),
        "parent": turn.parent.map(|parent| parent.to_string()),
        "memory": turn.memory.as_str(),
        "changed": view.changes.iter().map(|(name, count)| (name.to_owned(), json!(count))).collect::<Map<_, _>>(),
        "user": turn.end_user,
        "request_id": turn.request_id,
        "created_us": turn.created.0,
        "deadline_us": turn.deadline.0,
        "answered_us": micros(turn.answered),
        "ended_us": micros(turn.ended),
        "erased_us": micros(turn.erased),
        "usage": usage(turn.usage.as_ref()),
        "cost_microusd": turn.cost_microusd,
        "tool_count": turn.tool_count,
        "input": view.input.iter().map(message).collect::<Vec<_>>(),
        "rounds": view.rounds.iter().map(|made| round(made, detail, links)).collect::<Vec<_>>(),
    })
}

fn round(round: &RoundView, detail: ResultDetail, links: &FileLinks) -> Value {
    json!({
        "round": round.round,
        "attempts": round.attempts.iter().map(attempt).collect::<Vec<_>>(),
        "messages": round.messages.iter().map(message).collect::<Vec<_>>(),
        "calls": round.calls.iter().map(|made| call_with_files(made, detail, links)).collect::<Vec<_>>(),
    })
}

fn call_with_files(of: &CallView, detail: ResultDetail, links: &FileLinks) -> Value {
    let mut shown = call(of, detail);
    if !of.files.is_empty() {
        let files = of.files.iter().map(|made| file(made, links));
        shown["files"] = files.collect();
    }
    shown
}

fn file(file: &FileView, links: &FileLinks) -> Value {
    let digits =
        |hash: &Vec<u8>| -> String { hash.iter().map(|byte| format!("{byte:02x}")).collect() };
    json!({
        "id": file.id.to_string(),
        "url": file.fault.is_none().then(|| links.fresh(file.id)),
        "content_type": file.content_type,
        "bytes": file.bytes,
        "sha256": file.hash.as_ref().map(digits),
        "fault": file.fault.map(FileFault::as_str),
    })
}

pub(crate) fn call(call: &CallView, detail: ResultDetail) -> Value {
    let end = call.end.as_ref();
    let mut shown = json!({
        "id": call.id.to_string(),
        "position": call.call.position,
        "name": call.tool_name,
        "tool_id": call.tool_version.map(|version| version.tool.to_string()),
        "tool_version": call.tool_version.map(|version| version.number),
        "tool_call_id": call.tool_call_id,
        "runs": call.runs.as_str(),
        "effect": call.effect.map(EffectClass::as_str),
        "arguments": call.arguments,
        "status": call.status.as_str(),
        "reason": reason(call),
        "is_error": end.is_some_and(|end| end.is_error),
        "cached": end.is_some_and(|end| end.cached),
        "shown": end.map(|end| end.shown.as_str()),
        "created_us": call.created.0,
        "started_us": micros(call.started),
        "ended_us": micros(call.ended),
        "cost_microusd": call.cost_microusd,
        "attempts": call.attempts.iter().map(attempt).collect::<Vec<_>>(),
    });
    if let Some(of) = &call.approval {
        shown["approval"] = approval(of);
    }
    if let Some(asked) = call.approves {
        shown["approves"] = json!(asked.to_string());
    }
    if let Some(until) = call.callback_until {
        shown["callback_until_us"] = json!(until.0);
        shown["external_id"] = json!(call.external_id);
        shown["told"] = json!(call.told);
    }
    if call.runs == CallRunner::Client {
        shown["handed_id"] = json!(call.id.handed());
    }
    if detail == ResultDetail::Full {
        shown["result"] = json!(end.and_then(|end| end.result.as_deref()));
    }
    shown
}

/// Why a call failed, or what it waits for.
fn reason(call: &CallView) -> Option<&'static str> {
    let approval = call.approval.as_ref();
    let is_asked = approval.is_some_and(|approval| approval.state == ApprovalState::Asked);
    match &call.end {
        Some(end) => end.reason.map(CallReason::as_str),
        None if is_asked => Some("awaiting_approval"),
        None => call.callback_until.map(|_| "awaiting_callback"),
    }
}

fn approval(of: &ApprovalView) -> Value {
    let answered = of.answered.as_ref();
    json!({
        "status": of.state.as_str(),
        "expires_us": micros(of.until),
        "answered_us": answered.map(|answered| answered.at.0),
        "answered_by": answered.map(|answered| json!({
            "turn": answered.turn.to_string(),
            "key": answered.key_shown,
            "user": answered.end_user,
        })),
    })
}

fn attempt(row: &AttemptRow) -> Value {
    let end = row.end.as_ref();
    json!({
        "n": row.n,
        "upstream": row.upstream,
        "outcome": end.map(|end| end.outcome.as_str()),
        "http_status": end.and_then(|end| end.http_status),
        "usage": usage(end.and_then(|end| end.usage.as_ref())),
        "cost_microusd": end.and_then(|end| end.cost_microusd),
        "started_us": row.started.0,
        "ended_us": end.map(|end| end.at.0),
    })
}

fn message(message: &NewMessage) -> Value {
    let role = match message.role {
        Role::System | Role::Developer => "system",
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    json!({ "role": role, "blocks": message.blocks.iter().map(block).collect::<Vec<_>>() })
}

fn block(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({ "type": "text", "text": text.to_text() }),
        Block::Refusal(text) => json!({ "type": "refusal", "refusal": text.to_text() }),
        Block::Reasoning(reasoning) => {
            json!({ "type": "reasoning", "text": reasoning.text.to_text() })
        }
        Block::Call(call) => json!({
            "type": "call", "id": call.id, "name": call.name, "arguments": call.arguments.to_text(),
        }),
        Block::Result(result) => json!({
            "type": "result", "tool_call_id": result.call_id, "content": content(&result.content),
        }),
        Block::Part(part) => json!({ "type": "part", "part": part.json.to_value() }),
        Block::Native(part) => json!({
            "type": "native", "format": part.format.as_str(), "value": part.json.to_value(),
        }),
    }
}

/// The content of a result: one text is itself.
fn content(blocks: &[Block]) -> Value {
    match blocks {
        [Block::Text(text)] => json!(text.to_text()),
        _ => blocks.iter().map(block).collect(),
    }
}

fn usage(usage: Option<&TokenUsage>) -> Value {
    usage.map_or(Value::Null, |usage| match &usage.native {
        Some(native) => native.json.to_value(),
        // A sum over formats.
        None => json!({
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
        }),
    })
}

fn micros(time: Option<Timestamp>) -> Option<i64> {
    time.map(|time| time.0)
}
