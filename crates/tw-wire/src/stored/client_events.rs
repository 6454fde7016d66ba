//! Log events as clients are told them: `GET /v1/turns/{id}/events`.
//!
//! Each is one JSON object whose `type` is also the name of its server-sent event. Foreign JSON
//! and text are spliced in as they came. What is shown of calls is what the model was given;
//! arguments and full results are in the turn's record. Whoever is asked for an approval sees the arguments.

use tw_core::call::{CallEnd, CallReason};
use tw_core::event::{LogEvent, TurnEnd};
use tw_core::json::{Json, Literal};
use tw_core::model::{AnswerDelta, CallDelta, TokenUsage};
use tw_core::native::NativeFields;
use tw_core::turn_status::TurnReason;

use super::events::{finish_word, form_word, json_string, optional_string};

/// The event's name.
pub fn name(event: &LogEvent) -> &'static str {
    match event {
        LogEvent::Start { .. } => "start",
        LogEvent::Round { .. } => "round",
        LogEvent::BlockEnd(_) => "block_end",
        LogEvent::Native { .. } => "native",
        LogEvent::Delta(_) => "delta",
        LogEvent::ClientCall(_) => "client_call",
        LogEvent::Extra { .. } => "extra",
        LogEvent::Progress { .. } => "progress",
        LogEvent::CallStarted { .. } => "call_started",
        LogEvent::ApprovalAsked { .. } => "approval_asked",
        LogEvent::CallEnded { .. } => "call_ended",
        LogEvent::CallDetached { .. } => "call_detached",
        LogEvent::Finish { .. } => "finish",
        LogEvent::Usage(_) => "usage",
        LogEvent::End(_) => "end",
    }
}

/// Adds the event's JSON to `out`.
pub fn write(event: &LogEvent, out: &mut String) {
    out.push_str("{\"type\":\"");
    out.push_str(name(event));
    out.push('"');
    match event {
        LogEvent::Start { model, created_s } => {
            field(out, "model", &json_string(model));
            field(out, "created_s", &created_s.to_string());
        }
        LogEvent::Round { round, format } => {
            number(out, "round", *round);
            field(out, "format", &json_string(format.as_str()));
        }
        LogEvent::BlockEnd(end) => {
            number(out, "choice", end.choice);
            if let Some(signature) = &end.signature {
                literal(out, "signature", signature);
            }
            if let Some(native) = &end.native {
                field(out, "value", native.json.as_str());
            }
        }
        LogEvent::Native { choice, part } => {
            number(out, "choice", *choice);
            field(out, "format", &json_string(part.format.as_str()));
            field(out, "value", part.json.as_str());
        }
        LogEvent::Delta(delta) => write_delta(delta, out),
        LogEvent::ClientCall(piece) => write_piece(piece, out),
        LogEvent::Extra { key, value } | LogEvent::Progress { key, value } => {
            field(out, "key", &json_string(key));
            field(out, "value", value.as_str());
        }
        LogEvent::CallStarted {
            call,
            id,
            name,
            approves,
            ..
        } => {
            field(out, "id", &json_string(&id.to_string()));
            number(out, "round", call.round);
            number(out, "position", call.position);
            field(out, "name", &json_string(name));
            if let Some(asked) = approves {
                field(out, "approves", &json_string(&asked.to_string()));
            }
        }
        LogEvent::ApprovalAsked {
            call,
            id,
            name,
            arguments,
        } => {
            field(out, "id", &json_string(&id.to_string()));
            number(out, "round", call.round);
            number(out, "position", call.position);
            field(out, "name", &json_string(name));
            literal(out, "arguments", arguments);
        }
        LogEvent::CallEnded { call, id, end } => {
            field(out, "id", &json_string(&id.to_string()));
            number(out, "round", call.round);
            number(out, "position", call.position);
            write_call_end(end, out);
        }
        LogEvent::CallDetached { call, id, told } => {
            field(out, "id", &json_string(&id.to_string()));
            number(out, "round", call.round);
            number(out, "position", call.position);
            field(out, "shown", &json_string(told));
        }
        LogEvent::Finish { choice, reason } => {
            number(out, "choice", *choice);
            field(out, "reason", &format!("\"{}\"", finish_word(*reason)));
        }
        LogEvent::Usage(usage) => write_usage(usage, out),
        LogEvent::End(end) => write_end(end, out),
    }
    out.push('}');
}

fn write_delta(delta: &AnswerDelta, out: &mut String) {
    number(out, "choice", delta.choice);
    if let Some(text) = &delta.text {
        literal(out, "text", text);
    }
    let Some(rest) = delta.rest.as_deref() else {
        return;
    };
    if let Some(refusal) = &rest.refusal {
        literal(out, "refusal", refusal);
    }
    if let Some(reasoning) = &rest.reasoning {
        literal(out, "reasoning", &reasoning.text);
    }
    if let Some(logprobs) = &rest.logprobs {
        field(out, "logprobs", logprobs.as_str());
    }
    for (name, fields) in [("extra", &rest.extra), ("beside", &rest.beside)] {
        if !fields.is_empty() {
            field(out, name, Json::of_fields(fields).as_str());
        }
    }
}

fn write_piece(piece: &CallDelta, out: &mut String) {
    number(out, "choice", piece.choice);
    number(out, "call", piece.call);
    field(out, "form", &format!("\"{}\"", form_word(piece.form)));
    for (key, value) in [("id", &piece.id), ("name", &piece.name)] {
        if let Some(value) = value {
            field(out, key, &json_string(value));
        }
    }
    if let Some(arguments) = &piece.arguments {
        literal(out, "arguments", arguments);
    }
    if let Some(native) = &piece.native {
        let all: NativeFields = native
            .beside
            .iter()
            .chain(&native.inside)
            .cloned()
            .collect();
        field(out, "extra", Json::of_fields(&all).as_str());
    }
}

/// The upstream's own object, or the sums where several formats were added up.
fn write_usage(usage: &TokenUsage, out: &mut String) {
    if let Some(native) = &usage.native {
        return field(out, "usage", native.json.as_str());
    }
    let sums = [
        ("prompt_tokens", usage.prompt_tokens),
        ("completion_tokens", usage.completion_tokens),
        ("total_tokens", usage.total_tokens),
    ];
    let sums = sums.map(|(name, tokens)| format!("\"{name}\":{tokens}"));
    field(out, "usage", &format!("{{{}}}", sums.join(",")));
}

fn write_call_end(end: &CallEnd, out: &mut String) {
    field(out, "status", &format!("\"{}\"", end.status().as_str()));
    field(
        out,
        "reason",
        &optional_string(end.reason.map(CallReason::as_str)),
    );
    field(out, "is_error", if end.is_error { "true" } else { "false" });
    if end.cached {
        field(out, "cached", "true");
    }
    field(out, "shown", &json_string(&end.shown));
}

fn write_end(end: &TurnEnd, out: &mut String) {
    field(out, "status", &format!("\"{}\"", end.status.as_str()));
    field(
        out,
        "reason",
        &optional_string(end.reason.map(TurnReason::as_str)),
    );
    let error = end.fault.as_ref().map_or_else(
        || "null".to_owned(),
        |fault| {
            format!(
                "{{\"class\":\"{}\",\"message\":{},\"code\":{}}}",
                fault.class.as_str(),
                json_string(&fault.message),
                optional_string(fault.code.as_deref())
            )
        },
    );
    field(out, "error", &error);
}

fn field(out: &mut String, key: &str, json: &str) {
    begin(out, key);
    out.push_str(json);
}

fn number(out: &mut String, key: &str, number: u32) {
    begin(out, key);
    // Indexes, mostly.
    match char::from_digit(number, 10) {
        Some(digit) => out.push(digit),
        None => out.push_str(&number.to_string()),
    }
}

fn literal(out: &mut String, key: &str, literal: &Literal) {
    begin(out, key);
    out.push('"');
    out.push_str(literal.as_str());
    out.push('"');
}

fn begin(out: &mut String, key: &str) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str("\":");
}

#[cfg(test)]
mod tests;
