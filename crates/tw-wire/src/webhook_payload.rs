//! The body of a webhook that we send.
//!
//! It follows the recommendation of Standard Webhooks: `type`, `timestamp` and `data`. What it tells of is named as in
//! the record of a turn, times included; without contents unless they are there.

use serde_json::{Value, json};
use tw_core::call::CallReason;
use tw_core::time::Timestamp;
use tw_core::turn_status::TurnReason;
use tw_core::webhook::told::{ToldCall, ToldEvent, ToldTurn};

/// The body that tells an organization of this event.
pub fn body(organization: &str, told: &ToldEvent) -> String {
    let mut data = json!({ "organization": organization });
    match (&told.turn, &told.call) {
        (None, _) => {}
        (Some(of), Some(told)) => {
            data["call"] = call(told);
            data["turn"] = place(of);
        }
        (Some(told), None) => data["turn"] = turn(told),
    }
    json!({ "type": told.event.as_str(), "timestamp": told.at.rfc3339(), "data": data }).to_string()
}

/// The turn of a call, which may still run.
fn place(turn: &ToldTurn) -> Value {
    json!({
        "id": turn.id.to_string(),
        "conversation": turn.conversation,
        "user": turn.end_user,
    })
}

fn turn(turn: &ToldTurn) -> Value {
    let mut told = place(turn);
    told["status"] = json!(turn.status.as_str());
    told["reason"] = json!(turn.reason.map(TurnReason::as_str));
    told["model"] = json!(turn.model);
    told["tool_count"] = json!(turn.tool_count);
    told["created_us"] = json!(turn.created.0);
    told["ended_us"] = json!(micros(turn.ended));
    if let Some(answer) = &turn.answer {
        told["answer"] = json!(answer);
    }
    told
}

fn call(call: &ToldCall) -> Value {
    let mut told = json!({
        "id": call.id.to_string(),
        "name": call.tool_name,
        "status": call.status.as_str(),
        "reason": call.reason.map(CallReason::as_str),
        "is_error": call.is_error,
        "created_us": call.created.0,
        "started_us": micros(call.started),
        "ended_us": micros(call.ended),
    });
    if let Some((arguments, shown)) = &call.contents {
        told["arguments"] = json!(arguments);
        told["shown"] = json!(shown);
    }
    told
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(|at| at.0)
}

#[cfg(test)]
mod tests;
