//! Errors as OpenAI writes them: `{"error": {"message", "type", "param", "code"}}`.
//!
//! Known difference: `request_id` stands inside the object where there is one, since a stream has
//! no header left to carry it.

use super::write;
use crate::client_error::{ClientError, ErrorKind};

/// The error's JSON.
pub fn render(error: &ClientError, request_id: Option<&str>) -> Vec<u8> {
    let mut out = b"{\"error\":{".to_vec();
    write::key(&mut out, "message");
    write::string(&mut out, &error.message);
    write::key(&mut out, "type");
    let kind = error.upstream_kind.as_deref();
    write::string(&mut out, kind.unwrap_or_else(|| kind_word(error.kind)));
    for (name, value) in [("param", &error.param), ("code", &error.code)] {
        write::key(&mut out, name);
        match value {
            Some(text) => write::string(&mut out, text),
            None => out.extend_from_slice(b"null"),
        }
    }
    if let Some(id) = request_id {
        write::key(&mut out, "request_id");
        write::string(&mut out, id);
    }
    out.extend_from_slice(b"}}");
    out
}

/// The value of `type`.
fn kind_word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid
        | ErrorKind::Unauthenticated
        | ErrorKind::NotFound
        | ErrorKind::MethodNotAllowed
        | ErrorKind::BodyTimeout
        | ErrorKind::Conflict
        | ErrorKind::Gone
        | ErrorKind::TooLarge
        | ErrorKind::KeyReused
        | ErrorKind::Refused { .. } => "invalid_request_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::EffectsRan => "tool_effects_error",
        ErrorKind::Limited | ErrorKind::UpstreamLimited => "rate_limit_error",
        ErrorKind::QuotaUsedUp => "insufficient_quota",
        ErrorKind::UpstreamFailed | ErrorKind::UpstreamReported | ErrorKind::UpstreamSilent => {
            "upstream_error"
        }
        ErrorKind::Cancelled => "conflict_error",
        ErrorKind::Overloaded
        | ErrorKind::Unavailable
        | ErrorKind::Internal
        | ErrorKind::Deadline
        | ErrorKind::Interrupted => "server_error",
    }
}

#[cfg(test)]
mod tests;
