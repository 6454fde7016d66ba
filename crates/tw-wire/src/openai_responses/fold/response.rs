//! The response object: every field that the Open Responses document demands, whatever its value.

use super::output::{Extent, write_item};
use super::{ResponseFold, ResponseStatus};
use crate::openai_chat::write;
use crate::openai_responses::{error, ids, write_usage};

impl ResponseStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Writes the response as it is now.
pub fn write(out: &mut Vec<u8>, fold: &ResponseFold) {
    let options = &fold.options;
    out.push(b'{');
    write::key(out, "id");
    write::quoted(out, &ids::response_id(fold.facts.turn));
    write::key(out, "object");
    write::quoted(out, "response");
    write::key(out, "created_at");
    write::number(out, fold.facts.created_s);
    write::key(out, "status");
    write::quoted(out, fold.status.as_str());
    write::key(out, "completed_at");
    let completed = fold.completed_s;
    match completed.filter(|_| fold.status == ResponseStatus::Completed) {
        Some(at) => write::number(out, at),
        None => null(out),
    }
    write::key(out, "background");
    word(out, options.background);
    write::key(out, "error");
    match &fold.fault {
        Some(fault) => error::write_held(out, fault),
        None => null(out),
    }
    write::key(out, "incomplete_details");
    match fold.incomplete {
        Some(reason) => {
            out.push(b'{');
            write::key(out, "reason");
            write::quoted(out, reason);
            out.push(b'}');
        }
        None => null(out),
    }
    write::key(out, "previous_response_id");
    text(out, options.previous_response_id.as_deref());
    if let Some(conversation) = &options.conversation {
        write::key(out, "conversation");
        out.push(b'{');
        write::key(out, "id");
        write::string(out, conversation);
        out.push(b'}');
    }
    write::key(out, "max_tool_calls");
    match options.max_tool_calls {
        Some(max) => write::number(out, max),
        None => null(out),
    }
    write::key(out, "model");
    write::string(out, &fold.model);
    write::key(out, "output");
    out.push(b'[');
    for item in &fold.items {
        write::separate(out);
        write_item(out, item, Extent::Full);
    }
    out.push(b']');
    write::key(out, "store");
    word(out, fold.facts.store);
    write::key(out, "service_tier");
    match &fold.service_tier {
        Some(tier) => write::raw(out, tier),
        None => write::string(out, options.service_tier.as_deref().unwrap_or("default")),
    }
    write::fields(out, Some(&options.echo));
    write::key(out, "usage");
    match &fold.usage {
        Some(usage) => write_usage(out, usage),
        None => null(out),
    }
    out.push(b'}');
}

fn null(out: &mut Vec<u8>) {
    out.extend_from_slice(b"null");
}

fn word(out: &mut Vec<u8>, word: bool) {
    out.extend_from_slice(if word { b"true" } else { b"false" });
}

fn text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => write::string(out, text),
        None => null(out),
    }
}
